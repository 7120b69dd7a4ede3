// Whole training steps as a user gets them: statistics, clipping and determinism on; precisions interleaved.
#include <fmt/format.h>

#include <memory>

#include "bench.h"
#include "engine/trainer.h"
#include "tests/support/synthetic_tokens.h"

namespace mantissa::bench {

namespace {

struct Variant {
    const char* name;
    engine::PrecisionMode mode;
    engine::RecipeKind recipe;
    bool counters;
    bool everything = false;  ///< dear set, histograms, op checks and shadow products in every step
};
constexpr Variant kVariants[] = {{"fp32", engine::PrecisionMode::Fp32, engine::RecipeKind::Bf16, true},
                                 {"bf16", engine::PrecisionMode::Bf16, engine::RecipeKind::Bf16, true},
                                 {"fp8 delayed", engine::PrecisionMode::Fp8, engine::RecipeKind::Delayed, true},
                                 {"fp8 current", engine::PrecisionMode::Fp8, engine::RecipeKind::Current, true},
                                 {"no counters", engine::PrecisionMode::Fp8, engine::RecipeKind::Delayed, false},
                                 {"all probes", engine::PrecisionMode::Fp8, engine::RecipeKind::Delayed, true, true},
                                 {"block128", engine::PrecisionMode::Fp8, engine::RecipeKind::Block128, true},
                                 {"mxfp8", engine::PrecisionMode::Fp8, engine::RecipeKind::Mxfp8, true},
                                 {"nvfp4", engine::PrecisionMode::Fp8, engine::RecipeKind::Nvfp4, true}};
enum { kFp32, kBf16, kDelayed, kCurrent, kNoCounters, kAllProbes };

struct Preset {
    const char* name;
    engine::ModelConfig model;
    int batch;
};
const Preset kPresets[] = {{"nano", {96, 128, 4, 4, 512, 128, true}, 16},
                           {"minigpt", {96, 768, 12, 4, 3072, 256, true}, 4}};

engine::TrainerConfig configOf(const Preset& preset, const Variant& variant) {
    engine::TrainerConfig config;
    config.model = preset.model;
    config.batch = preset.batch;
    config.precision.mode = variant.mode;
    config.precision.recipe = variant.recipe;
    config.precision.historyLength = 16;
    config.probes.counters = variant.counters;
    config.probes.every = 0;
    config.probes.opChecks = variant.counters;
    if (variant.everything) config.probes.every = config.probes.histograms = config.probes.shadowEvery = 1;
    return config;
}

void presetBench(const Preset& preset, const Options& options, engine::ThreadPool& pool) {
    const double peaks[] = {peakGflops(pool, options.isa, false), peakGflops(pool, options.isa, true)};
    const auto tokens = std::make_shared<test::SyntheticTokens>(preset.model.vocabulary, preset.model.context);
    std::vector<std::unique_ptr<engine::Trainer>> trainers;
    std::vector<engine::StepMetrics> totals(std::size(kVariants));
    std::vector<std::function<void()>> bodies;
    for (size_t i = 0; i < std::size(kVariants); ++i) {
        const engine::DeviceChoice device{"cpu", options.threads, kernels::isaName(options.isa)};
        trainers.push_back(std::make_unique<engine::Trainer>(configOf(preset, kVariants[i]), device, tokens));
        bodies.push_back([&trainers, &totals, i] {
            const engine::StepMetrics step = trainers[i]->step();
            totals[i].seconds += step.seconds;
            for (int phase = 0; phase < 4; ++phase) totals[i].phaseSeconds[phase] += step.phaseSeconds[phase];
        });
    }
    const std::vector<Timing> timings =
        measureInterleaved(bodies, options.seconds * static_cast<double>(bodies.size()));
    const double rows = static_cast<double>(preset.batch) * preset.model.context;
    const double work = rows * engine::Trainer::flopsPerToken(preset.model);
    fmt::print("{}: whole steps of {:.0f} tokens; peak {:.0f} GFLOP/s fp32, {:.0f} bf16\n", preset.name, rows, peaks[0],
               peaks[1]);
    fmt::print("{:<13}{:>9}{:>9}{:>9}{:>10}{:>9}{:>9}  {}\n", "precision", "best ms", "median", "worst", "tokens/s",
               "GFLOP/s", "of peak", "share of products, attention, elementwise, optimizer");
    for (size_t i = 0; i < std::size(kVariants); ++i) {
        const Timing& t = timings[i];
        const double* phases = totals[i].phaseSeconds;
        const double all = totals[i].seconds / 100;
        fmt::print("{:<13}{:>9.2f}{:>9.2f}{:>9.2f}{:>10.0f}{:>9.0f}{:>8.0f}%  {:.0f} {:.0f} {:.0f} {:.0f} %\n",
                   kVariants[i].name, t.best * 1e3, t.median * 1e3, t.worst * 1e3, rows / t.median,
                   work / t.median / 1e9, 100 * work / t.median / 1e9 / peaks[i != kFp32], phases[0] / all,
                   phases[1] / all, phases[2] / all, phases[3] / all);
    }
    const auto ratio = [&timings](int a, int b) {
        return timings[static_cast<size_t>(a)].median / timings[static_cast<size_t>(b)].median;
    };
    fmt::print(
        "medians: fp8 {:.2f} x bf16, {:.2f} x fp32; current {:.2f} x delayed; counters {:+.1f} %; a step with "
        "everything {:.2f} x, so everything at 1 step in 100 {:+.2f} %\n",
        ratio(kDelayed, kBf16), ratio(kDelayed, kFp32), ratio(kCurrent, kDelayed),
        100 * (ratio(kDelayed, kNoCounters) - 1), ratio(kAllProbes, kDelayed), ratio(kAllProbes, kDelayed) - 1);
}

}  // namespace

void stepBench(const Options& options, engine::ThreadPool& pool) {
    for (const Preset& preset : kPresets)
        if (options.model.empty() || options.model == preset.name) presetBench(preset, options, pool);
}

}  // namespace mantissa::bench
