#include "experiments/job/auto_precision.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/store/derived.h"

namespace mantissa::experiments {

namespace {

constexpr int kFprop = 1, kDgrad = 2, kWgrad = 4;
/// Products that read a role's tensor.
constexpr uint8_t kReaders[3] = {kFprop | kWgrad, kFprop | kDgrad, kDgrad | kWgrad};
constexpr int kUnderflow = 2, kClipped = 5;
constexpr int kMaxHold = 1 << 20;

std::string gemmText(uint8_t gemms) {
    std::string text;
    const char* names[] = {"fprop", "dgrad", "wgrad"};
    for (int g = 0; g < 3; ++g)
        if (gemms >> g & 1) text += (text.empty() ? "" : " and ") + std::string(names[g]);
    return text;
}

engine::RecipeKind recipeOf(const std::string& name) {
    using engine::RecipeKind;
    for (const RecipeKind kind : {RecipeKind::Delayed, RecipeKind::Current, RecipeKind::Fixed, RecipeKind::Block128,
                                  RecipeKind::Mxfp8, RecipeKind::Nvfp4})
        if (name == recipeKindName(kind)) return kind;
    return RecipeKind::Bf16;
}

}  // namespace

AutoPrecision::AutoPrecision(const AutoPrecisionSpec& spec, const engine::PrecisionConfig& base,
                             const std::vector<engine::CatalogueEntry>& catalogue)
    : spec_(spec), base_(base) {
    for (size_t i = 0; i < catalogue.size(); ++i) {
        const auto& entry = catalogue[i];
        auto found = std::find_if(linears_.begin(), linears_.end(), [&](const Linear& linear) {
            return linear.layer == entry.layer && linear.name == entry.linear;
        });
        if (found == linears_.end()) {
            linears_.push_back({});
            found = linears_.end() - 1;
            found->layer = entry.layer;
            found->name = entry.linear;
            found->recipe = "bf16";
            found->hold = spec.hold;
        }
        found->tensors[static_cast<int>(entry.role)] = static_cast<int>(i);
        if (entry.recipe != "bf16") found->recipe = entry.recipe;
    }
}

const std::string& AutoPrecision::recipeAt(const Linear& linear, int rung) const {
    return rung == 0 ? linear.recipe : spec_.ladder[static_cast<size_t>(rung - 1)];
}

AutoPrecision::Verdict AutoPrecision::judge(const Linear& linear, int role,
                                            const engine::TensorNumerics& numerics) const {
    const double elements = static_cast<double>(numerics.counters[0]);
    if (elements == 0) return {};
    const double underflow = static_cast<double>(numerics.counters[kUnderflow]) / elements;
    const double clipped = static_cast<double>(numerics.counters[kClipped]) / elements;
    if (underflow > spec_.underflow)
        return {true, fmt::format("underflow {:.3g} % (limit {:.3g} %)", underflow * 100, spec_.underflow * 100)};
    if (clipped > spec_.clipped)
        return {true, fmt::format("clipped {:.3g} % (limit {:.3g} %)", clipped * 100, spec_.clipped * 100)};
    if (recipeAt(linear, linear.rung) == "delayed" && numerics.amax > 0 && std::isfinite(numerics.amax)) {
        const bool gradient = role == static_cast<int>(engine::TensorRole::GradOutput);
        const double largest = gradient && base_.format == engine::Fp8Format::Hybrid ? 57344 : 448;
        const double inputs[2] = {numerics.amax, numerics.scale};
        const double staleness = derive(Statistic::Staleness, inputs, largest, base_.margin);
        if (staleness > spec_.staleness)
            return {true, fmt::format("amax {:.3g} × the one the scale was made from (limit {:.3g} ×)", staleness,
                                      spec_.staleness)};
    }
    return {};
}

std::vector<AutoPrecision::Decision> AutoPrecision::observe(const engine::StepMetrics& metrics) {
    std::vector<Decision> out;
    if (!metrics.numerics) return out;
    const auto& record = *metrics.numerics;
    for (size_t index = 0; index < linears_.size(); ++index) {
        Linear& linear = linears_[index];
        if (linear.recipe == "bf16") continue;
        int worst = -1;
        bool anyBad = false;
        std::string evidence[3];
        for (int role = 0; role < 3; ++role) {
            const int tensor = linear.tensors[role];
            if (tensor < 0 || tensor >= static_cast<int>(record.tensors.size())) continue;
            const auto& numerics = record.tensors[static_cast<size_t>(tensor)];
            const Verdict verdict = judge(linear, role, numerics);
            linear.bad[role] = verdict.bad ? linear.bad[role] + 1 : 0;
            anyBad = anyBad || verdict.bad;
            evidence[role] = fmt::format("{} {} for {} steps", engine::roleName(static_cast<engine::TensorRole>(role)),
                                         verdict.evidence, linear.bad[role]);
            if (linear.bad[role] >= spec_.patience && (worst < 0 || linear.bad[role] > linear.bad[worst])) worst = role;
        }
        int product = -1;
        double decibels = 0;
        for (const auto& row : record.shadow) {
            if (spec_.shadowDb <= 0 || row.linear != static_cast<int>(index) || row.gemm > 2) continue;
            const int g = row.gemm;
            const bool bad = row.sqnrDb < spec_.shadowDb && (linear.plain >> g & 1) == 0;
            linear.shadowBad[g] = bad ? linear.shadowBad[g] + 1 : 0;
            anyBad = anyBad || bad;
            if (linear.shadowBad[g] >= std::max(1, spec_.patience / 4) && product < 0)
                product = g, decibels = row.sqnrDb;
        }
        linear.good = anyBad ? 0 : linear.good + 1;
        if (worst >= 0)
            climb(linear, worst, kReaders[worst], evidence[worst], metrics.step, out);
        else if (product >= 0)
            climb(linear, -1, static_cast<uint8_t>(1 << product),
                  fmt::format("{} output SQNR {:.3g} dB (limit {:.3g} dB)",
                              gemmText(static_cast<uint8_t>(1 << product)), decibels, spec_.shadowDb),
                  metrics.step, out);
        else if (linear.rung > 0 && linear.good >= linear.hold)
            stepBack(linear, metrics.step, out);
    }
    return out;
}

void AutoPrecision::climb(Linear& linear, int role, uint8_t gemms, const std::string& evidence, int64_t step,
                          std::vector<Decision>& out) {
    const int last = static_cast<int>(spec_.ladder.size());
    const std::string from = recipeAt(linear, linear.rung);
    // A trial back that failed: the next one waits twice as long.
    if (linear.trialAt >= 0 && step - linear.trialAt <= linear.hold) linear.hold = std::min(kMaxHold, 2 * linear.hold);
    linear.trialAt = -1;
    int rung = std::min(linear.rung + 1, last);
    while (rung < last && recipeAt(linear, rung) == linear.recipe) ++rung;  // its own recipe was tried already
    if (recipeAt(linear, rung) == linear.recipe) return;
    const bool plain = recipeAt(linear, rung) == "bf16";
    if (linear.rung == last && (!plain || (linear.plain & gemms) == gemms)) return;  // nothing safer is left
    linear.rung = rung;
    if (plain) linear.plain |= gemms;
    for (int& count : linear.bad) count = 0;
    for (int& count : linear.shadowBad) count = 0;
    linear.good = 0;
    Decision decision;
    decision.step = step;
    decision.layer = linear.layer;
    decision.linear = linear.name;
    if (role >= 0) decision.tensor = engine::roleName(static_cast<engine::TensorRole>(role));
    decision.gemms = plain ? gemms : 7;
    decision.from = from;
    decision.to = recipeAt(linear, rung);
    decision.text = fmt::format("{} {}{}: {} → {}: {}.", linear.layer, linear.name.empty() ? "head" : linear.name,
                                plain ? " " + gemmText(gemms) : "", from, decision.to, evidence);
    out.push_back(std::move(decision));
}

void AutoPrecision::stepBack(Linear& linear, int64_t step, std::vector<Decision>& out) {
    Decision decision;
    decision.step = step;
    decision.layer = linear.layer;
    decision.linear = linear.name;
    decision.from = recipeAt(linear, linear.rung);
    const int good = linear.good;
    linear.plain = 0;
    do --linear.rung;
    while (linear.rung > 0 && recipeAt(linear, linear.rung) == linear.recipe);
    decision.to = recipeAt(linear, linear.rung);
    decision.text = fmt::format("{} {}: {} → {} on trial: {} steps without trouble.", linear.layer,
                                linear.name.empty() ? "head" : linear.name, decision.from, decision.to, good);
    linear.good = 0;
    linear.trialAt = step;
    out.push_back(std::move(decision));
}

engine::PrecisionConfig AutoPrecision::precision() const {
    engine::PrecisionConfig config = base_;
    for (const Linear& linear : linears_) {
        if (linear.rung == 0) continue;
        const std::string match = linear.name.empty() ? linear.layer : linear.layer + "." + linear.name;
        // Products that stay in FP8 beside BF16 ones keep the safest FP8 recipe that was tried before.
        std::string fp8 = recipeAt(linear, linear.rung);
        for (int rung = linear.rung; fp8 == "bf16" && rung > 0; --rung) fp8 = recipeAt(linear, rung - 1);
        config.rules.push_back({match, 7, recipeOf(fp8)});
        if (linear.plain != 0) config.rules.push_back({match, linear.plain, engine::RecipeKind::Bf16});
    }
    return config;
}

}  // namespace mantissa::experiments
