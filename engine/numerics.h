// What leaves the engine about tensors: the catalogue, one record a step, the effective precision.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mantissa::engine {

enum class TensorRole : uint8_t { Input, Weight, GradOutput };

/// One quantized (or quantizable) tensor. Order of the catalogue: execution forward (h.0 attn.qkv input, weight, h.0 attn.proj input,
/// ..., lm_head input, weight), then grad_output in the same order of linears.
struct CatalogueEntry {
    std::string layer;   ///< "h.3", "lm_head"
    std::string linear;  ///< "attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2"; "" for lm_head
    TensorRole role = TensorRole::Input;
    std::string format;  ///< "e4m3", "e5m2", or "bf16" when no product reads it in FP8
    std::string recipe;  ///< "delayed", "current", "fixed", "bf16"
    int64_t rows = 0, cols = 0;
};
const char* roleName(TensorRole role);       ///< "input", "weight", "grad_output"
const char* roleShortName(TensorRole role);  ///< "x", "w", "dy"
std::string tensorName(const CatalogueEntry& entry);  ///< "h.3/mlp.fc1/input"; lm_head: "lm_head/head/input"

/// One tensor in one step. counters in the order elements, zeros, underflow, subnormal, over_range, clipped, inf, nan.
struct TensorNumerics {
    float amax = 0;
    float scale = 1;      ///< the scale this step's cast used
    uint64_t counters[8] = {};
    bool dear = false;    ///< the fields below are set
    float minNonZero = 0, mse = 0, sqnrDb = 0, kurtosis = 0;  ///< kurtosis raw: n sum x^4 / (sum x^2)^2
    std::vector<uint32_t> exponents;  ///< empty, or kExponentBins counts (saturated to 32 bits)
};

/// Immutable record of one step, in catalogue order; tensors without an FP8 cast have elements == 0.
struct NumericsRecord {
    int64_t step = 0;
    bool probed = false;
    std::vector<TensorNumerics> tensors;
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
