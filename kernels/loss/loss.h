// Cross-entropy over chunks of rows: loss and dlogits in one pass, in place; no F32 copy of the logits is kept.
#pragma once

#include <cstdint>

#include "kernels/dtype.h"
#include "kernels/quantize/quantize.h"

namespace mantissa::kernels {

/// logits (rows, vocabularyPadded) of `type`; columns >= vocabulary count as -Inf. losses (rows) F32, out: log sum exp - logit[target].
/// When `backward`: logits become dlogits = (softmax - onehot) * *gradientScale, rounded to `type`, padded columns 0.
/// cast: of dlogits (an FP8 head). dBias is not needed: the head has no bias.
struct CrossEntropy {
    int64_t rows = 0, vocabulary = 0, vocabularyPadded = 0;
    DType type = DType::F32;
    void* logits = nullptr;
    const int32_t* targets = nullptr;  ///< (rows) I32
    float* losses = nullptr;
    const float* gradientScale = nullptr;  ///< device memory: lossScale / (tokens of the step)
    bool backward = true;
    CastTarget cast;
};

/// *sum (device, double) = (accumulate ? *sum : 0) + sum of losses (rows), in double, fixed blocks of 1024 rows.
struct SumLosses {
    int64_t rows = 0;
    const float* losses = nullptr;
    double* sum = nullptr;
    bool accumulate = false;
};

}  // namespace mantissa::kernels
