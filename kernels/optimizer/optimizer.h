// Gradient norm, step control and AdamW over all tensors in one pass.
#pragma once

#include <cstdint>

#include "kernels/dtype.h"
#include "kernels/quantize/quantize.h"
#include "kernels/scaling/scaling.h"

namespace mantissa::kernels {

/// Written by the host before every step (one small upload).
struct StepParameters {
    float learningRate = 0;
    float gradientScale = 0;  ///< lossScale / tokens of the step, read by CrossEntropy (set on the device by StepBegin)
    uint32_t tokens = 0;      ///< tokens of the whole step, all micro-batches
    uint32_t stop = 0;        ///< non-zero: the optimizer is skipped
    uint64_t step = 0;        ///< 1-based
    uint64_t seed = 0;
};

/// Lives in device memory from step to step; part of the checkpoint.
struct StepState {
    double beta1Power = 1, beta2Power = 1;  ///< beta^updates, running products
    uint64_t updates = 0;                   ///< optimizer steps applied
    float lossScale = 1;                    ///< FP16: dynamic; else 1
    uint32_t goodSteps = 0;                 ///< FP16: steps since the scale last changed
    uint32_t skippedRunning = 0;            ///< skipped steps in a row
    uint32_t applied = 1;                   ///< whether this step's optimizer runs (finite and not stopped)
    float gradientNorm = 0;                 ///< of this step, before clipping, unscaled
    float clipFactor = 1;                   ///< min(1, clip / norm) / lossScale
    double lossSum = 0;                     ///< sum of this step's losses over all tokens
};

/// parameters->gradientScale = state->lossScale / parameters->tokens; state->lossSum = 0; slots cleared (count of
/// them).
struct StepBegin {
    StepParameters* parameters = nullptr;
    StepState* state = nullptr;
    TensorSlot* slots = nullptr;
    int slotCount = 0;
};

/// partials[i] (double) = sum of squares of block i of 32768 elements of `values` (F32, n).
struct SumSquares {
    int64_t n = 0;
    const float* values = nullptr;
    double* partials = nullptr;  ///< ceil(n / 32768)
};

/// Adds the partials in order, sets gradientNorm, applied, clipFactor, beta powers, updates and, for FP16, the loss
/// scale (x2 after growthInterval good steps, /2 on a non-finite norm, within [1, 2^24]). skipNonFinite: a non-finite
/// loss or norm clears `applied`; else the update goes on.
struct GradientControl {
    int64_t partialCount = 0;
    const double* partials = nullptr;
    StepState* state = nullptr;
    const StepParameters* parameters = nullptr;
    float clip = 0;  ///< 0: no clipping
    float beta1 = 0.9f, beta2 = 0.95f;
    bool skipNonFinite = true;
    bool dynamicLossScale = false;
    int growthInterval = 2000;
};

inline constexpr int64_t kComputeAtOffset = -1, kNoCompute = -2;

/// One tensor of the flat parameter arrays.
struct ParameterTensor {
    int64_t offset = 0;  ///< first element in the flat arrays, a multiple of 64
    int64_t rows = 0, cols = 0;
    uint8_t decay = 0;  ///< weight decay applies (matrices)
    CastTarget cast;    ///< FP8 weights: codes of the new value, BF16-rounded (format None: none); delayed and fixed
                      ///< scaling, or amaxOnly for current scaling
    int64_t computeOffset = kComputeAtOffset;  ///< first element in `compute`, a multiple of 64; kComputeAtOffset:
                                               ///< `offset`; kNoCompute: no copy (its codes are all that is read)
};

/// AdamW (arXiv:1711.05101) over all tensors, one pass, when state->applied:
/// g' = g * clipFactor; m = b1 m + (1-b1) g'; v = b2 v + (1-b2) g'^2; mhat = m / (1 - b1^t); vhat = v / (1 - b2^t);
/// w -= lr * (mhat / (sqrt(vhat) + eps) + decay * w). masters, m, v, gradients: F32 flat arrays of n elements.
/// compute: copies of computeType (BF16 or F16), at each tensor's computeOffset; nullptr in F32 modes.
/// Slots of the weights' casts: when applied (or castOnly) a slot is overwritten, not merged: it is cleared first, for
/// it describes the codes that the next step uses, and stays in force while updates are skipped. When not applied:
/// masters, moments, compute copy, codes and slots of the weights stay untouched.
struct AdamW {
    int64_t n = 0;
    int tensorCount = 0;
    const ParameterTensor* tensors = nullptr;  ///< host array, copied at record time
    float* masters = nullptr;
    float* moment1 = nullptr;
    float* moment2 = nullptr;
    const float* gradients = nullptr;
    void* compute = nullptr;
    DType computeType = DType::None;
    const StepState* state = nullptr;
    const StepParameters* parameters = nullptr;
    float beta1 = 0.9f, beta2 = 0.95f, epsilon = 1e-8f, weightDecay = 0.1f;
    bool castOnly = false;  ///< writes compute copy, codes and slots from the masters as they are, whatever `applied`
                            ///< says; state and parameters are not read (start, load, recipe change)
    bool castWhenApplied = false;  ///< with castOnly: only when state->applied; the last pass of an update written out
};

/// out (n) F32: N(0, std), rounded from a 64-bit integer inverse-CDF table and Philox(seed; stream, index), element by
/// element: the same bits on every backend (Philox4x32-10: Salmon et al., SC 2011).
struct InitNormal {
    int64_t n = 0;
    float* out = nullptr;
    float std = 0.02f;
    uint64_t seed = 0, stream = 0;
};

struct Fill {
    int64_t n = 0;
    float* out = nullptr;
    float value = 0;
};

}  // namespace mantissa::kernels
