// What leaves the engine about tensors: the catalogue, one record a step, the effective precision.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mantissa::engine {

enum class TensorRole : uint8_t { Input, Weight, GradOutput };

/// One quantized (or quantizable) tensor. Order of the catalogue: execution forward (h.0 attn.qkv input, weight, h.0
/// attn.proj input,
/// ..., lm_head input, weight), then grad_output in the same order of linears.
struct CatalogueEntry {
    std::string layer;   ///< "h.3", "lm_head"
    std::string linear;  ///< "attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2"; "" for lm_head
    TensorRole role = TensorRole::Input;
    std::string format;  ///< "e4m3", "e5m2", or "bf16" when no product reads it in FP8
    std::string recipe;  ///< "delayed", "current", "fixed", "block128", "mxfp8", "nvfp4", "bf16"
    int64_t rows = 0, cols = 0;
};
const char* roleName(TensorRole role);                ///< "input", "weight", "grad_output"
const char* roleShortName(TensorRole role);           ///< "x", "w", "dy"
std::string tensorName(const CatalogueEntry& entry);  ///< "h.3/mlp.fc1/input"; lm_head: "lm_head/head/input"

/// One tensor in one step. counters in the order elements, zeros, underflow, subnormal, over_range, clipped, inf, nan.
struct TensorNumerics {
    float amax = 0;
    float scale = 1;  ///< the scale this step's cast used; block recipes: the smallest one (of the largest block)
    uint64_t counters[8] = {};
    bool dear = false;                                        ///< the fields below are set
    float minNonZero = 0, mse = 0, sqnrDb = 0, kurtosis = 0;  ///< kurtosis raw: n sum x^4 / (sum x^2)^2
    std::vector<uint32_t> exponents;                          ///< empty, or kExponentBins counts (saturated to 32 bits)
    /// Weights on probed steps: codes in use that differ from a fresh cast of the master weights; 0 in a healthy run.
    uint64_t staleCodes = 0;
};

/// One product again in higher precision: double sums over the operands' plain values, on sampled rows of the output.
/// error = what the product gave - what it should have given.
struct ShadowRow {
    int linear = 0;     ///< in plan order: h.0 attn.qkv 0, attn.proj 1, mlp.fc1 2, mlp.fc2 3, h.1 ..., lm_head last
    int gemm = 0;       ///< 0 fprop, 1 dgrad, 2 wgrad
    double sqnrDb = 0;  ///< 10 log10(sum wanted^2 / sum error^2); +Inf without error
    double relativeError = 0;  ///< sqrt(sum error^2 / sum wanted^2)
    int64_t rows = 0;          ///< rows of the output that were compared
};

inline constexpr uint64_t kNoElement = ~uint64_t{0};

/// Non-finite values in what one op wrote; a row for every op, also where there are none.
struct OpCheck {
    std::string layer;  ///< "h.3"; "lm_head" for head and loss, "embedding", "norm" (the last one)
    /// "sum1" and "sum2" (residual additions before the norms), "norm1", "attn.qkv", "attention", "attn.proj", "norm2",
    /// "mlp.fc1", "gelu", "mlp.fc2", "loss"; "attn.qkv.weight" ... for a parameter (inspections alone); of backward:
    /// the op whose gradient it is, "mlp.fc1" the gradient of its input, "mlp.fc1.weight" that of its weight
    std::string op;
    bool backward = false;
    uint64_t nan = 0, inf = 0;
    uint64_t element =
        kNoElement;  ///< first non-finite element, row-major; kNoElement: none, or counted by a cast alone
};
std::string opName(const OpCheck& check);  ///< "h.3 mlp.fc1 (backward)"

struct NumericsRecord;

/// Why a step was non-finite: found by running its passes again with every output looked at; training state stays.
struct TroubleReport {
    int64_t step = 0;
    OpCheck first;               ///< the first place in order of execution that holds a non-finite value
    std::string tensor;          ///< "h.2.mlp.fc1/weight", "h.2.mlp.fc1/output"
    int64_t row = -1, col = -1;  ///< of the element in that tensor; -1: it is not one of a matrix
    float value = 0;             ///< NaN, or +Inf where only infinities (of either sign) were found
    int micro = 0;               ///< micro-batch it was found in
    std::vector<OpCheck>
        chain;                 ///< the places after it that are non-finite too, up to the loss and back to the weights
    bool reachedLoss = false;  ///< the loss itself is non-finite
    std::string text;          ///< one sentence
    std::vector<std::shared_ptr<const NumericsRecord>> flight;  ///< records of the steps before, oldest first
};

/// Immutable record of one step, in catalogue order; tensors without an FP8 cast have elements == 0.
struct NumericsRecord {
    int64_t step = 0;
    bool probed = false;
    std::vector<TensorNumerics> tensors;
    std::vector<ShadowRow> shadow;  ///< on shadow steps; plan order, fprop, dgrad, wgrad
    std::vector<OpCheck> ops;  ///< in order of execution, on probed steps and on steps after trouble began; else empty
};

/// Scales of a tensor's blocks, row-major: the value of code c in block b is decode(c) / scale. As the row copy is
/// cast; one block for recipes with one scale a tensor.
struct BlockScales {
    int rows = 0, cols = 0;            ///< number of blocks
    int blockRows = 0, blockCols = 0;  ///< size of a block
    std::vector<float> scale, amax;
};

/// One row of the effective precision map, filled in by the matmul call that ran.
struct EffectivePrecision {
    std::string layer, linear, gemm;  ///< gemm: fprop, dgrad, wgrad
    std::string a, b, out;            ///< operand types that ran, "e4m3", "bf16", ...
    std::string recipe;               ///< "delayed", ..., "bf16", "fp32"
    bool native = false;
    std::string algorithm;
};

/// Amax window of one tensor as it is now: oldest closed entry first, then the newest closed one; slot 0 apart.
struct WindowState {
    float scale = 1, scaleInv = 1;
    uint32_t updates = 0, lastChange = 0;
    std::vector<float> history;  ///< length historyLength: slot 0 first, as stored
};

}  // namespace mantissa::engine
