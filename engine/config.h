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
/// Block128: input and grad_output in 1x128, weight in 128x128 blocks, power-of-two scales. Mxfp8: 1x32, E8M0 scales.
/// Both quantize the row copy (fprop of input, dgrad of grad_output) and the column copy apart. Nvfp4: E2M1 in 1x16
/// blocks (weight 16x16), E4M3 block scales, one FP32 scale a tensor.
enum class RecipeKind : uint8_t { Bf16, Delayed, Current, Fixed, Block128, Mxfp8, Nvfp4 };
/// How FP8 products add up. Mixed (Transformer Engine's choice): fast in fprop, promoted in dgrad and wgrad. Fast and
/// Promoted: all three alike, where the hardware offers it; the CPU adds in FP32 under each. Limited14: on the CPU a
/// model of Hopper's partial sums of 14 bits without promotion, on a GPU the same as Fast.
enum class Accumulation : uint8_t { Mixed, Promoted, Fast, Limited14 };
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
    bool stochasticRounding = false;  ///< gradients' FP8 (and FP4) casts
    bool hadamard = false;            ///< nvfp4: both operands of wgrad are turned by a random 16x16 Hadamard matrix
    Accumulation accumulation = Accumulation::Mixed;
    std::vector<PrecisionRule> rules;
    int firstLayersBf16 = 0, lastLayersBf16 = 0;
    bool headFp8 = false;
};

struct OptimizerConfig {
    float learningRate = 5e-3f, beta1 = 0.9f, beta2 = 0.95f, epsilon = 1e-8f, weightDecay = 0.1f, clip = 1.0f;
};

enum class ScheduleKind : uint8_t { Constant, Cosine, Linear };
/// Linear warm-up over `warmup` steps, then constant, or cosine / linear down to finalFraction of the rate at the last
/// step.
struct ScheduleConfig {
    ScheduleKind kind = ScheduleKind::Cosine;
    int warmup = 40;
    float finalFraction = 0.1f;
};

enum class NonfinitePolicy : uint8_t { Skip, Continue, Stop, Pause };

struct ProbeConfig {
    int every = 10;  ///< dear statistics every N steps; 0: never. The cheap set is always on unless `counters` is false
    int histograms = 0;  ///< exponent histograms every N steps, only in probed steps; 0: never
    bool counters = true;
    int shadowEvery = 0;                   ///< products again in higher precision every N steps; 0: never
    std::vector<std::string> shadowMatch;  ///< globs over "h.3.mlp.fc1", "lm_head"; empty: every linear
    bool opChecks = true;                  ///< non-finite counts of every op's output on probed steps
    /// Records kept for the report of a first trouble, and steps looked at in full after it. 0, and no opChecks: no
    /// report.
    int flightSteps = 16;
};

enum class FaultKind : uint8_t {
    OutlierChannel,
    WeightNan,
    FreezeScaleInf,
    NeverUpdate,
    StaleWeight,
    ActivationInf,
    GradientNan
};
const char* faultKindName(
    FaultKind kind);  ///< "outlier_channel", "weight_nan", "freeze_scale_inf", "never_update", ...

/// A fault put in on purpose, for tests and tours; normal runs have none. target: a tensor, "h.2.mlp.fc1/input".
/// - outlier_channel: target the input of attn.qkv, mlp.fc1 or an untied lm_head. From `step` on one channel of that
/// tensor
///   is `value` times as large, and the column of the weight that reads it as many times smaller: the model's function
///   is the same, its casts are not.
/// - weight_nan: element `channel` of the master weight becomes NaN before `step`.
/// - freeze_scale_inf: an Inf becomes the newest closed entry of the amax window before `step` (delayed recipe).
/// - never_update: from `step` on the tensor's delayed scale is never updated.
/// - stale_weight: from `step` on AdamW's new codes of the weight are thrown away (recipes delayed and fixed).
/// - activation_inf: in `step` alone the output of the linear (target "h.2.mlp.fc1/output") gets an Inf in element
/// `channel`
///   of its first row.
/// - gradient_nan: likewise a NaN in what dgrad of the linear writes ("h.2.mlp.fc1/grad_input").
/// never_update and stale_weight end when setPrecision builds the program again.
struct PlantedFault {
    FaultKind kind = FaultKind::OutlierChannel;
    int64_t step = 1;
    std::string target;
    int64_t channel = 0;
    double value = 1000;
};

/// Fusions that can be switched off to measure what they bring: the same results, in more passes over memory.
struct EngineSwitches {
    bool fusedNorm = true;       ///< residual add, norm and cast in one pass
    bool fusedOptimizer = true;  ///< AdamW over all tensors in one pass, with the low-precision copies
};

struct TrainerConfig {
    ModelConfig model;
    PrecisionConfig precision;
    OptimizerConfig optimizer;
    ScheduleConfig schedule;
    ProbeConfig probes;
    std::vector<PlantedFault> faults;  ///< empty in every normal run
    EngineSwitches switches;
    NonfinitePolicy nonfinite = NonfinitePolicy::Skip;
    int64_t steps = 600;
    int batch = 16;        ///< sequences of a micro-batch
    int accumulation = 1;  ///< micro-batches of a step
    int evalBatches = 8;   ///< batches of `batch` windows of one evaluation
    uint64_t seed = 1;
};

}  // namespace mantissa::engine
