// Whole training steps as a user gets them: statistics on, clipping on, deterministic. Random tokens, initial weights
// from the seed. Configurations are those of the peers that the figures are compared with.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>

#include "bench.h"
#include "engine/trainer.h"
#include "kernels/device/sensors.h"

namespace mantissa::bench {

namespace {

constexpr int kWords = 50257;
const Configuration kConfigurations[] = {
    {"nano", {96, 128, 4, 4, 512, 128, true}, 16},         {"minigpt4", {96, 768, 12, 4, 3072, 256, true}, 4},
    {"S32", {96, 768, 12, 4, 3072, 256, true}, 32},        {"M32", {kWords, 768, 12, 12, 3072, 1024, true}, 32},
    {"L16", {kWords, 1600, 25, 48, 6400, 1024, true}, 16}, {"X4", {kWords, 4096, 32, 8, 16384, 2048, true}, 4},
};

/// Tokens from a hash of window and place: never zeros, no file.
class HashTokens final : public engine::TokenSource {
  public:
    HashTokens(int vocabulary, int context) : vocabulary_(vocabulary), context_(context) {}
    int64_t trainTokens() const override { return int64_t{1} << 40; }
    int64_t validationTokens() const override { return int64_t{1} << 30; }
    int64_t trainWindows() const override { return trainTokens() / context_; }
    int64_t validationWindows() const override { return validationTokens() / context_; }
    int vocabulary() const override { return vocabulary_; }
    void trainWindow(int64_t index, int32_t* out) const override { fill(static_cast<uint64_t>(index % 8), out); }
    void validationWindow(int64_t index, int32_t* out) const override { fill(~static_cast<uint64_t>(index), out); }
    std::optional<double> entropyRate() const override { return std::nullopt; }
    int64_t replacedCharacters() const override { return 0; }
    std::string description() const override { return "random tokens"; }
    uint64_t bytesInMemory() const override { return 0; }

  private:
    void fill(uint64_t window, int32_t* out) const {
        for (int i = 0; i <= context_; ++i) {
            uint64_t x = window * 0x9e3779b97f4a7c15ull + static_cast<uint64_t>(i) * 0xbf58476d1ce4e5b9ull + 1;
            x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
            x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
            out[i] = static_cast<int32_t>((x >> 33) % static_cast<uint64_t>(vocabulary_));
        }
    }
    int vocabulary_, context_;
};

bool setPrecision(const std::string& name, engine::PrecisionConfig& precision) {
    using engine::PrecisionMode;
    using engine::RecipeKind;
    if (const size_t at = name.find("+head"); at != std::string::npos && at + 5 == name.size()) {
        precision.headFp8 = true;
        return setPrecision(name.substr(0, at), precision);
    }
    const struct {
        const char* name;
        PrecisionMode mode;
        RecipeKind recipe;
    } all[] = {{"fp32", PrecisionMode::Fp32, RecipeKind::Bf16},
               {"tf32", PrecisionMode::Tf32, RecipeKind::Bf16},
               {"fp16", PrecisionMode::Fp16, RecipeKind::Bf16},
               {"bf16", PrecisionMode::Bf16, RecipeKind::Bf16},
               {"fp8-delayed", PrecisionMode::Fp8, RecipeKind::Delayed},
               {"fp8-current", PrecisionMode::Fp8, RecipeKind::Current},
               {"fp8-block128", PrecisionMode::Fp8, RecipeKind::Block128}};
    for (const auto& one : all)
        if (name == one.name) {
            precision.mode = one.mode, precision.recipe = one.recipe;
            precision.historyLength = 16;
            return true;
        }
    return false;
}

std::vector<std::string> split(const std::string& list) {
    std::vector<std::string> parts;
    for (size_t at = 0; at <= list.size();) {
        const size_t comma = std::min(list.find(',', at), list.size());
        parts.push_back(list.substr(at, comma - at));
        at = comma + 1;
    }
    return parts;
}

void trainOne(const Options& options, const Configuration& configuration, const std::string& precision) {
    using Clock = std::chrono::steady_clock;
    engine::TrainerConfig config;
    config.model = configuration.model;
    config.batch = configuration.batch;
    config.steps = 1000000;
    config.optimizer.learningRate = 1e-4f;
    config.probes.every = options.probeEvery;
    config.probes.counters = options.statistics;
    if (options.allProbesEvery > 0)
        config.probes.every = config.probes.histograms = config.probes.shadowEvery = options.allProbesEvery;
    if (!options.clip) config.optimizer.clip = 0;
    if (!setPrecision(precision, config.precision))
        throw Error(ErrorCode::InvalidConfig,
                    "precision: \"" + precision +
                        "\"; allowed: fp32, tf32, fp16, bf16, fp8-delayed, fp8-current, fp8-block128; +head after an FP8 one");
    const auto start = Clock::now();
    engine::Trainer trainer(config, {options.device, options.threads, ""},
                            std::make_shared<HashTokens>(config.model.vocabulary, config.model.context));
    const double firstLoss = trainer.step().loss, first = std::chrono::duration<double>(Clock::now() - start).count();
    for (int i = 1; i < 5; ++i) trainer.step(true);
    const auto sensors = trainer.deviceId() == "cpu" ? nullptr : kernels::DeviceSensors::open(0);
    const double joules = sensors ? sensors->read().joules : 0;
    std::vector<double> seconds;
    double phases[4] = {}, total = 0, loss = 0;
    uint64_t losses = 0;  // a hash: the same losses to the last bit
    int phased = 0;
    const size_t least = trainer.deviceId() == "cpu" ? 5 : 20;
    const auto goesOn = [&] {
        if (options.steps > 0) return static_cast<int>(seconds.size()) < options.steps;
        return total < options.seconds || seconds.size() < least;
    };
    while (goesOn()) {
        const engine::StepMetrics metrics = trainer.step(true);
        seconds.push_back(metrics.seconds);
        total += metrics.seconds;
        loss = metrics.loss;
        losses = losses * 0x100000001b3ull ^ std::bit_cast<uint64_t>(metrics.loss);
        if (metrics.phaseSeconds[0] <= 0) continue;
        ++phased;
        for (int i = 0; i < 4; ++i) phases[i] += metrics.phaseSeconds[i];
    }
    const kernels::SensorReading after = sensors ? sensors->read() : kernels::SensorReading{};
    const Timing timing = summarize(seconds);
    const double tokens = static_cast<double>(config.batch) * config.model.context;
    const double flops = engine::Trainer::flopsPerToken(engine::ModelConfig{config.model}) * tokens;
    fmt::print(
        "{:5} {:16} {:8.3f} ms/step ({:.3f} to {:.3f}, n {}), {:10.0f} tokens/s, {:6.1f} TFLOP/s, plan {:6.2f} GiB",
        configuration.name, precision, timing.median * 1e3, timing.best * 1e3, timing.worst * 1e3, seconds.size(),
        tokens / timing.median, flops / timing.median * 1e-12,
        static_cast<double>(trainer.memoryPlan().total()) / (1 << 30));
    if (sensors)
        fmt::print(", {:.2f} GiB in use, {:.3f} mJ/token, {:.0f} W, {} MHz",
                   static_cast<double>(after.memoryUsed) / (1 << 30),
                   (after.joules - joules) * 1e3 / (tokens * static_cast<double>(seconds.size())),
                   (after.joules - joules) / total, after.smMHz);
    fmt::print(", first step {:.2f} s, loss {:.4f} -> {:.4f} ({:016x})\n", first, firstLoss, loss, losses);
    if (phased)
        fmt::print("      matmul {:.3f}, attention {:.3f}, elementwise {:.3f}, optimizer {:.3f} ms\n",
                   phases[0] / phased * 1e3, phases[1] / phased * 1e3, phases[2] / phased * 1e3,
                   phases[3] / phased * 1e3);
    std::fflush(stdout);
}

}  // namespace

std::vector<Configuration> configurationsOf(const Options& options) {
    std::vector<Configuration> configurations;
    for (const std::string& name : split(options.configurations)) {
        const auto found = std::find_if(std::begin(kConfigurations), std::end(kConfigurations),
                                        [&](const Configuration& c) { return name == c.name; });
        if (found == std::end(kConfigurations))
            throw Error(ErrorCode::InvalidConfig,
                        "config: \"" + name + "\"; allowed: nano, minigpt4, S32, M32, L16, X4");
        configurations.push_back(*found);
    }
    return configurations;
}

void trainBench(const Options& options) {
    for (const Configuration& configuration : configurationsOf(options))
        for (const std::string& precision : split(options.precisions)) trainOne(options, configuration, precision);
}

}  // namespace mantissa::bench
