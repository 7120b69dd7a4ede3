#include "experiments/ladder/ladder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/error.h"

namespace mantissa::experiments {

using engine::PrecisionMode;
using engine::RecipeKind;

const char* const kLadderPhaseNames[kLadderPhases] = {"matmul", "attention", "elementwise", "optimizer", "gap"};

const char* rungStateName(RungState state) {
    switch (state) {
        case RungState::Running:
            return "running";
        case RungState::Measured:
            return "measured";
        case RungState::Failed:
            return "failed";
        case RungState::Stopped:
            return "stopped";
        default:
            return "not_run";
    }
}

namespace {

/// The base without what a measurement does not need: no probes, evaluations or checkpoints between the steps.
RunSpec measured(const LadderRequest& request) {
    RunSpec spec = request.base;
    spec.trainer.steps = request.warmup + request.steps;
    spec.trainer.schedule.warmup = std::min<int>(spec.trainer.schedule.warmup, static_cast<int>(spec.trainer.steps));
    spec.trainer.probes.every = 0;
    spec.evalEvery = 0;
    spec.checkpoint.every = 0;
    return spec;
}

RunSpec with(RunSpec spec, PrecisionMode mode, RecipeKind recipe, engine::EngineSwitches switches) {
    spec.trainer.precision.mode = mode;
    if (mode == PrecisionMode::Fp8) spec.trainer.precision.recipe = recipe;
    spec.trainer.switches = switches;
    return spec;
}

std::string fp8Note(const RunSpec& spec, bool delayed) {
    const auto& precision = spec.trainer.precision;
    std::string note = precision.format == engine::Fp8Format::Hybrid ? "HYBRID" : "E4M3";
    if (!delayed) return note;
    return note + (precision.algorithm == engine::Algorithm::Max ? fmt::format(", max of {}", precision.historyLength)
                                                                 : std::string(", most recent amax"));
}

/// The model at another width: heads as wide as the base's, ffn in the base's proportion.
RunSpec atWidth(RunSpec spec, int width) {
    engine::ModelConfig& model = spec.trainer.model;
    const int headWidth = model.width / model.heads;
    if (width < headWidth || width % headWidth != 0)
        throw Error(ErrorCode::InvalidConfig,
                    fmt::format("width-sweep: {} cannot be cut into heads of {}; allowed: multiples of {}", width,
                                headWidth, headWidth));
    model.ffn = static_cast<int>(static_cast<int64_t>(model.ffn) * width / model.width);
    model.heads = width / headWidth;
    model.width = width;
    return spec;
}

std::vector<RungPlan> widthRungs(const LadderRequest& request) {
    std::vector<RungPlan> rungs;
    for (const int width : request.widths) {
        const RunSpec spec = atWidth(measured(request), width);
        const int before = static_cast<int>(rungs.size());
        rungs.push_back({"bf16", fmt::format("BF16, d {}", width), "", -1, width,
                         with(spec, PrecisionMode::Bf16, RecipeKind::Delayed, {})});
        rungs.push_back({"fp8_delayed", fmt::format("FP8, d {}", width), fp8Note(spec, true), before, width,
                         with(spec, PrecisionMode::Fp8, RecipeKind::Delayed, {})});
    }
    return rungs;
}

}  // namespace

std::vector<RungPlan> ladderRungs(const LadderRequest& request) {
    if (request.mode == LadderMode::Widths) return widthRungs(request);
    const RunSpec spec = measured(request);
    const int width = spec.trainer.model.width;
    const auto fp32 = [&](bool norm, bool optimizer) {
        return with(spec, PrecisionMode::Fp32, RecipeKind::Delayed, {norm, optimizer});
    };
    return {
        {"fp32_unfused", "FP32, unfused AdamW and norm", "a pass over memory for every stage", -1, width,
         fp32(false, false)},
        {"fused_adamw", "+ fused AdamW", "all tensors in one pass", 0, width, fp32(false, true)},
        {"fused_norm", "+ fused norm", "one pass, nothing stored twice", 1, width, fp32(true, true)},
        {"bf16", "+ BF16", "FP32 masters and gradients", 2, width,
         with(spec, PrecisionMode::Bf16, RecipeKind::Delayed, {})},
        {"fp8_delayed", "+ FP8, delayed", fp8Note(spec, true), 3, width,
         with(spec, PrecisionMode::Fp8, RecipeKind::Delayed, {})},
        {"fp8_current", "or FP8, current", fp8Note(spec, false), 3, width,
         with(spec, PrecisionMode::Fp8, RecipeKind::Current, {})},
        {"fp8_block128", "or FP8, block 1×128", "E4M3, weights 128×128", 3, width,
         with(spec, PrecisionMode::Fp8, RecipeKind::Block128, {})},
    };
}

std::vector<int> defaultWidths(const RunSpec& base) {
    const engine::ModelConfig& model = base.trainer.model;
    const int headWidth = model.width / model.heads;
    std::vector<int> widths;
    for (const double factor : {0.5, 1.0, 2.0, 4.0}) {
        const int width = static_cast<int>(model.width * factor) / headWidth * headWidth;
        if (width >= headWidth && (widths.empty() || width > widths.back())) widths.push_back(width);
    }
    return widths;
}

const RungResult* LadderResult::find(const std::string& key, int width) const {
    for (const RungResult& rung : rungs)
        if (rung.key == key && (width == 0 || rung.width == width)) return &rung;
    return nullptr;
}

const RungResult* LadderResult::before(const RungResult& rung) const {
    for (int i = rung.before; i >= 0; i = rungs[static_cast<size_t>(i)].before)
        if (rungs[static_cast<size_t>(i)].state == RungState::Measured) return &rungs[static_cast<size_t>(i)];
    return nullptr;
}

namespace {

/// Three significant digits of a magnitude, no exponent.
std::string threeDigits(double value) {
    const double magnitude = std::fabs(value);
    const int decimals = magnitude >= 100 ? 0 : magnitude >= 10 ? 1 : magnitude >= 1 ? 2 : 3;
    return fmt::format("{:.{}f}", magnitude, decimals);
}

}  // namespace

double noiseMs(const LadderResult& ladder, const RungResult& rung) {
    const RungResult* before = ladder.before(rung);
    if (!before || !before->hasSpread() || !rung.hasSpread()) return std::numeric_limits<double>::infinity();
    const auto squaredError = [](const RungResult& one) {
        const double error = 1.2533 * 1.4826 * one.spreadMs;
        return error * error / static_cast<double>(one.timedSteps);
    };
    return 1.96 * std::sqrt(squaredError(rung) + squaredError(*before));
}

bool told(const LadderResult& ladder, const RungResult& rung) {
    const RungResult* before = ladder.before(rung);
    if (rung.state != RungState::Measured || !before) return true;
    return noiseMs(ladder, rung) <= std::fabs(rung.stepMs - before->stepMs);
}

std::string whatItBrought(const LadderResult& ladder, const RungResult& rung) {
    if (rung.state != RungState::Measured) return "";
    const RungResult* before = ladder.before(rung);
    if (!before) return rung.before < 0 ? "start" : "";
    const double change = rung.stepMs - before->stepMs, ratio = before->stepMs / rung.stepMs;
    std::string text = ratio >= 1.5 || ratio <= 1 / 1.5
                           ? fmt::format("×{}", threeDigits(ratio))
                           : fmt::format("{}{} ms", change < 0 ? "−" : "+", threeDigits(change));
    if (const double noise = noiseMs(ladder, rung); !told(ladder, rung))
        text = std::isfinite(noise) ? fmt::format("time not told (± {} ms)", threeDigits(noise))
                                    : "time not told (one step)";
    const double gib = (static_cast<double>(rung.planBytes) - static_cast<double>(before->planBytes)) / (1 << 30);
    const bool large = std::fabs(gib) >= 0.1;
    const double shown = large ? gib : gib * 1024;
    if (std::fabs(shown) >= 0.05)
        text += fmt::format(", {}{} {}", shown < 0 ? "−" : "+", threeDigits(shown), large ? "GiB" : "MiB");
    return text;
}

namespace {

/// The widths that a sentence holds for: "from d = 64 to 512", or "at d = 64, 256" where others between cannot be told.
std::string whereTold(const std::vector<Crossover::Point>& points) {
    std::string list;
    bool all = true;
    for (const auto& point : points) {
        all = all && point.told;
        if (point.told) list += fmt::format("{}{}", list.empty() ? "" : ", ", point.width);
    }
    return all ? fmt::format("from d = {} to {}", points.front().width, points.back().width) : "at d = " + list;
}

/// Where the points cross, or why they do not, in words; sets width and text.
void findCrossing(Crossover& result) {
    const auto& points = result.points;
    if (points.size() < 2) {
        result.text = "two widths with both precisions are needed";
        return;
    }
    const auto slower = [](const auto& p) { return p.told && p.ratio() < 1; };
    const auto faster = [](const auto& p) { return p.told && p.ratio() >= 1; };
    const bool below = std::any_of(points.begin(), points.end(), slower);
    const bool above = std::any_of(points.begin(), points.end(), faster);
    if (!below && !above) {
        result.text = "which is faster cannot be told at any width";
        return;
    }
    if (!below || !above) {
        result.text = fmt::format("no crossover: FP8 is {} {}", below ? "slower" : "faster", whereTold(points));
        return;
    }
    if (points.back().ratio() < 1) {
        result.text =
            points.back().told ? "no crossover: FP8 is slower at the largest width" : "no crossover can be told";
        return;
    }
    for (size_t i = points.size() - 1; i > 0; --i) {
        const double low = std::log2(points[i - 1].ratio()), high = std::log2(points[i].ratio());
        if (low >= 0) continue;
        const double left = std::log2(points[i - 1].width), right = std::log2(points[i].width);
        result.width = std::exp2(left + (right - left) * -low / (high - low));
        result.text = fmt::format("crosses at d = {:.0f}", *result.width);
        break;
    }
}

}  // namespace

Crossover crossover(const LadderResult& ladder) {
    Crossover result;
    for (const RungResult& rung : ladder.rungs) {
        if (rung.key != "fp8_delayed" || rung.state != RungState::Measured) continue;
        const RungResult* bf16 = ladder.find("bf16", rung.width);
        if (!bf16 || bf16->state != RungState::Measured) continue;
        result.points.push_back({rung.width, bf16->stepMs, rung.stepMs, told(ladder, rung)});
    }
    std::sort(result.points.begin(), result.points.end(),
              [](const auto& a, const auto& b) { return a.width < b.width; });
    findCrossing(result);
    std::string noisy;
    bool anyTold = false;
    for (const auto& point : result.points) {
        anyTold = anyTold || point.told;
        if (!point.told) noisy += fmt::format("{}{}", noisy.empty() ? "" : ", ", point.width);
    }
    if (!noisy.empty() && anyTold && result.points.size() > 1)
        result.text += fmt::format("; which is faster cannot be told at d = {}", noisy);
    return result;
}

std::string ladderCsv(const LadderResult& ladder) {
    std::string text =
        "rung,width,state,native,run,step_ms,step_ms_spread,tokens_per_s,matmul_ms,attention_ms,elementwise_ms,"
        "optimizer_ms,gap_ms,plan_bytes,peak_bytes,mj_per_token,device,warmup,timed_steps\n";
    for (const RungResult& rung : ladder.rungs) {
        const bool measured = rung.state == RungState::Measured;
        const auto value = [&](double number) { return measured ? fmt::format("{}", number) : std::string(); };
        const std::string spread = rung.hasSpread() ? value(rung.spreadMs) : std::string();
        text += fmt::format("{},{},{},{},{},{},{},{}", rung.key, rung.width, rungStateName(rung.state), rung.native,
                            rung.run, value(rung.stepMs), spread, value(rung.tokensPerSecond));
        for (const double phase : rung.phaseMs) text += "," + value(phase);
        text += fmt::format(",{},{},{},{},{},{}\n", measured ? std::to_string(rung.planBytes) : "",
                            measured && rung.peakBytes ? std::to_string(rung.peakBytes) : "",
                            rung.millijoulesPerToken ? fmt::format("{}", *rung.millijoulesPerToken) : "", ladder.device,
                            ladder.warmup, rung.timedSteps);
    }
    return text;
}

}  // namespace mantissa::experiments
