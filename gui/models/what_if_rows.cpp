#include "gui/models/what_if_rows.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "gui/format/numbers.h"
#include "gui/models/alarm_rules.h"

namespace mantissa::gui {

using namespace experiments;

namespace {

QString upper(const std::string& text) {
    return QString::fromStdString(text).toUpper();
}

/// Sets one field; the first error as a sentence, "" when it was taken.
QString set(RunSpec& spec, const char* path, const std::string& value) {
    if (getPath(spec, path) == value) return {};
    const auto errors = setPath(spec, path, value);
    return errors.empty() ? QString() : QString::fromStdString(errors.front().path + ": " + errors.front().message);
}

/// Rules of a spec with one more that gives the linear of `entry` the recipe.
std::string rulesWith(const RunSpec& spec, const engine::CatalogueEntry& entry, const std::string& recipe) {
    nlohmann::json rules = nlohmann::json::parse(getPath(spec, "precision.rules"));
    const std::string match = entry.linear.empty() ? entry.layer : entry.layer + "." + entry.linear;
    // BF16 for the products that read this tensor; an FP8 recipe is one for the whole linear.
    const char* const readers[3][2] = {{"fprop", "wgrad"}, {"fprop", "dgrad"}, {"dgrad", "wgrad"}};
    if (recipe == "bf16")
        for (const char* gemm : readers[int(entry.role)])
            rules.push_back({{"match", match}, {"gemm", gemm}, {"recipe", recipe}});
    else
        rules.push_back({{"match", match}, {"gemm", "all"}, {"recipe", recipe}});
    return rules.dump();
}

}  // namespace

WhatIfReport readWhatIf(RunStore& store, const std::string& id, int tensor, int64_t step, int64_t updates) {
    WhatIfReport report;
    const AmaxSeries series = amaxSeries(store, id, tensor);
    if (series.points.empty()) return report;
    report.tensor = tensor;
    report.recorded = series.recorded;
    report.lastStep = step < 0 ? series.points.back().step : std::min(step, series.points.back().step);
    report.firstStep = std::max(series.points.front().step, report.lastStep - updates + 1);
    report.rows.emplace_back(series.recorded, summarise(recordedReplay(series), report.firstStep, report.lastStep));
    for (const ScalingChoice& choice : usualChoices(series.recorded)) {
        if (choice == series.recorded) continue;
        report.rows.emplace_back(choice, summarise(replay(series, choice), report.firstStep, report.lastStep));
    }
    return report;
}

QString choiceName(const ScalingChoice& choice, const ScalingChoice& recorded) {
    QString name;
    if (choice.recipe == "delayed") {
        name = choice.algorithm == "most_recent" ? QStringLiteral("most recent")
                                                 : QStringLiteral("max of %1").arg(formatCount(choice.historyLength));
        if (choice.margin != recorded.margin) name += QStringLiteral(", margin %1").arg(choice.margin);
    } else if (choice.recipe == "current") {
        name = choice.powerOfTwo ? QStringLiteral("current, 2ⁿ") : QStringLiteral("current scaling");
    } else if (choice.recipe == "fixed") {
        name = QStringLiteral("fixed at %1").arg(formatScale(double(choice.scale)));
    } else if (choice.recipe == "block128") {
        name = QStringLiteral("blocks of 128");
    } else {
        name = upper(choice.recipe);
    }
    const bool hasFormat = choice.recipe != "bf16" && choice.recipe != "nvfp4";
    return hasFormat && choice.format != recorded.format ? name + QStringLiteral(", ") + upper(choice.format) : name;
}

std::optional<RunSpec> withChoice(const RunSpec& spec, const engine::CatalogueEntry& entry,
                                  const ScalingChoice& recorded, const ScalingChoice& choice, QString* why) {
    RunSpec changed = spec;
    *why = QString();
    if (choice == recorded) {
        *why = QStringLiteral("This is the setting in force.");
    } else if (choice.recipe != "bf16" && choice.recipe != "nvfp4" && choice.format != recorded.format) {
        *why = QStringLiteral("The format of a role is one for the whole run: precision.format.");
    } else {
        if (choice.recipe == "delayed") {
            for (const auto& [path, value] :
                 {std::pair("precision.history_length", std::to_string(choice.historyLength)),
                  std::pair("precision.algorithm", "\"" + choice.algorithm + "\""),
                  std::pair("precision.margin", std::to_string(choice.margin))})
                if (why->isEmpty()) *why = set(changed, path, value);
        }
        if (why->isEmpty() && choice.recipe == "current" && choice.powerOfTwo)
            *why = set(changed, "precision.power_of_two", "true");
        if (why->isEmpty() && choice.recipe != recorded.recipe)
            *why = set(changed, "precision.rules", rulesWith(spec, entry, choice.recipe));
        if (why->isEmpty())
            if (const auto errors = validate(changed); !errors.empty())
                *why = QString::fromStdString(errors.front().path + ": " + errors.front().message);
    }
    return why->isEmpty() ? std::optional(changed) : std::nullopt;
}

std::vector<WhatIfRow> whatIfRows(const WhatIfReport& report, const RunSpec& spec,
                                  const engine::CatalogueEntry& entry) {
    std::vector<WhatIfRow> rows;
    const bool gradient = entry.role == engine::TensorRole::GradOutput;
    for (size_t i = 0; i < report.rows.size(); ++i) {
        const auto& [choice, total] = report.rows[i];
        WhatIfRow row;
        row.asItIs = i == 0;
        row.setting = i == 0 ? QStringLiteral("as it is") : choiceName(choice, report.recorded);
        row.underflow = total.underflowShare;
        // Steps that clip by their amax alone, with a share that no histogram tells.
        row.clipped = total.clippedSteps > 0 && total.clippedShare == 0 ? NAN : total.clippedShare;
        if (total.clippedSteps == 0) row.clipped = 0;
        if (total.clippedSteps > 0)
            row.note = total.clippedSteps == 1 ? QStringLiteral("once")
                                               : QStringLiteral("in %1").arg(formatCount(total.clippedSteps));
        const auto level = [](double share) { return share > 0.05 ? 2 : share > 1e-3 ? 1 : 0; };
        const auto token = [](int alarm) { return alarm == 2 ? Token::Bad : alarm ? Token::Warn : Token::Text; };
        row.underflowToken = gradient ? token(level(total.underflowShare)) : Token::Text;
        row.clippedToken = total.clippedSteps >= 3 ? Token::Warn : Token::Text;
        // What takes an alarm away is the row to look for.
        if (i > 0 && row.underflowToken == Token::Text && gradient && level(report.rows[0].second.underflowShare))
            row.underflowToken = Token::Ok;
        if (i > 0 && total.clippedSteps == 0 && report.rows[0].second.clippedSteps >= 3) row.clippedToken = Token::Ok;
        QString why;
        row.usable = i > 0 && withChoice(spec, entry, report.recorded, choice, &why).has_value();
        row.tooltip =
            QStringLiteral("%1: mean over %2 steps, %3 with known shares. Steps in which an element clips: %4.%5%6")
                .arg(QString::fromStdString(choice.text()), formatCount(total.steps), formatCount(total.known),
                     formatCount(total.clippedSteps),
                     total.upperBound ? QStringLiteral(" Underflow is at most this.") : QString(),
                     why.isEmpty() ? QString() : QStringLiteral(" ") + why);
        rows.push_back(row);
    }
    return rows;
}

}  // namespace mantissa::gui
