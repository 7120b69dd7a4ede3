// What a training run is, as the engine sees it: plain values, already validated by the run spec.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mantissa::engine {

struct ModelConfig {
    int vocabulary = 96, width = 128, heads = 4, layers = 4, ffn = 512, context = 128;
    bool tiedHead = true;
};

enum class PrecisionMode : uint8_t { Fp32, Tf32, Fp16, Bf16, Fp8 };
enum class Fp8Format : uint8_t { Hybrid, E4m3 };
enum class RecipeKind : uint8_t { Bf16, Delayed, Current, Fixed };
enum class Algorithm : uint8_t { Max, MostRecent };

/// Last matching rule wins. match: glob over "h.3.mlp.fc1" or "lm_head"; gemm: bit 0 fprop, 1 dgrad, 2 wgrad.
struct PrecisionRule {
    std::string match;
    uint8_t gemms = 7;
    RecipeKind recipe = RecipeKind::Bf16;
};

struct PrecisionConfig {
    PrecisionMode mode = PrecisionMode::Fp8;
    Fp8Format format = Fp8Format::Hybrid;
    RecipeKind recipe = RecipeKind::Delayed;
    float scale = 1;  ///< fixed recipe
    int historyLength = 1024;
    Algorithm algorithm = Algorithm::Max;
    int margin = 0;
    bool powerOfTwo = false;
    float amaxEpsilon = 0;
    bool stochasticRounding = false;  ///< gradients' FP8 casts
    std::vector<PrecisionRule> rules;
    int firstLayersBf16 = 0, lastLayersBf16 = 0;
    bool headFp8 = false;
};

struct OptimizerConfig {
    float learningRate = 5e-3f, beta1 = 0.9f, beta2 = 0.95f, epsilon = 1e-8f, weightDecay = 0.1f, clip = 1.0f;
};

enum class ScheduleKind : uint8_t { Constant, Cosine, Linear };
/// Linear warm-up over `warmup` steps, then constant, or cosine / linear down to finalFraction of the rate at the last step.
struct ScheduleConfig {
    ScheduleKind kind = ScheduleKind::Cosine;
    int warmup = 40;
    float finalFraction = 0.1f;
};

enum class NonfinitePolicy : uint8_t { Skip, Continue, Stop, Pause };

struct ProbeConfig {
    int every = 10;      ///< dear statistics every N steps; 0: never. The cheap set is always on unless `counters` is false
    int histograms = 0;  ///< exponent histograms every N steps, only in probed steps; 0: never
    bool counters = true;
};

struct TrainerConfig {
    ModelConfig model;
    PrecisionConfig precision;
    OptimizerConfig optimizer;
    ScheduleConfig schedule;
    ProbeConfig probes;
    NonfinitePolicy nonfinite = NonfinitePolicy::Skip;
    int64_t steps = 600;
    int batch = 16;         ///< sequences of a micro-batch
    int accumulation = 1;   ///< micro-batches of a step
    int evalBatches = 8;    ///< batches of `batch` windows of one evaluation
    uint64_t seed = 1;
};

}  // namespace mantissa::engine
