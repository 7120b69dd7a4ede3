#include "gui/models/plan_rules.h"

#include <algorithm>

namespace mantissa::gui {

std::vector<engine::PrecisionRule> toggledRules(std::vector<engine::PrecisionRule> rules, const QStringList& layers,
                                                const QString& linear, int gemm, bool bf16, engine::RecipeKind recipe) {
    const engine::RecipeKind wanted = bf16 ? engine::RecipeKind::Bf16 : recipe;
    const auto bit = static_cast<uint8_t>(1 << gemm);
    for (const QString& layer : layers) {
        const std::string match = (linear.isEmpty() ? layer : layer + QLatin1Char('.') + linear).toStdString();
        for (engine::PrecisionRule& rule : rules)
            if (rule.match == match) rule.gemms &= static_cast<uint8_t>(~bit);
        const auto same = std::find_if(rules.begin(), rules.end(), [&](const engine::PrecisionRule& rule) {
            return rule.match == match && rule.recipe == wanted;
        });
        if (same != rules.end())
            same->gemms |= bit;
        else
            rules.push_back({match, bit, wanted});
    }
    rules.erase(
        std::remove_if(rules.begin(), rules.end(), [](const engine::PrecisionRule& rule) { return rule.gemms == 0; }),
        rules.end());
    return rules;
}

}  // namespace mantissa::gui
