// The per-ISA part of the optimizer: spans of the flat parameter arrays.
#pragma once

#include "kernels/device/row_tiles.h"
#include "kernels/optimizer/optimizer.h"
#include "kernels/simd/dispatch.h"

namespace mantissa::kernels {

inline constexpr int64_t kFlatBlock = 32768;  ///< elements of a tile over flat arrays

/// Numbers that are the same for every element of one AdamW call.
struct AdamWScalars {
    float clip, beta1, oneMinusBeta1, beta2, oneMinusBeta2;
    float correction1, correction2;  ///< 1 / (1 - beta^t)
    float learningRate, epsilon, weightDecay;
};

/// op: AdamW or one of its stages; its state and parameters are read.
template <class Op>
AdamWScalars adamWScalars(const Op& op) {
    AdamWScalars k;
    k.clip = op.state->clipFactor;
    k.beta1 = op.beta1;
    k.oneMinusBeta1 = static_cast<float>(1 - static_cast<double>(op.beta1));
    k.beta2 = op.beta2;
    k.oneMinusBeta2 = static_cast<float>(1 - static_cast<double>(op.beta2));
    k.correction1 = static_cast<float>(1 / (1 - op.state->beta1Power));
    k.correction2 = static_cast<float>(1 / (1 - op.state->beta2Power));
    k.learningRate = op.parameters->learningRate;
    k.epsilon = op.epsilon;
    k.weightDecay = op.weightDecay;
    return k;
}

struct OptimizerKernels {
    double (*sumSquares)(const float* values, int64_t n);
    /// Elements [first, first + n) of the flat arrays, which belong to one tensor and start at `inTensor` of it.
    /// scalars nullptr: the masters stay as they are (castOnly).
    void (*adamW)(const AdamW& op, const AdamWScalars* scalars, bool decay, int64_t first, int64_t n, int64_t inTensor,
                  const TileCast& cast);
};

MANTISSA_DECLARE_ISA_TABLE(OptimizerKernels, optimizerKernels)

}  // namespace mantissa::kernels
