// AdamW written out: one op a stage and tensor, each a pass over memory, as a framework's unfused optimizer runs it.
#pragma once

#include <cstdint>

#include "kernels/optimizer/optimizer.h"

namespace mantissa::kernels {

/// a, b: scratch (n) F32. In the order of an update; the values are those of the fused AdamW, each rounded to F32 where
/// that rounds too, so all stages together give its bits.
enum class AdamWStage : uint8_t {
    Clip,      ///< a = g * clipFactor
    Moment1,   ///< m = beta1 m + (1 - beta1) a
    Square,    ///< b = (1 - beta2) a^2
    Moment2,   ///< v = beta2 v + b
    Correct2,  ///< b = v / (1 - beta2^t)
    Root,      ///< b = sqrt(b)
    Epsilon,   ///< b = b + epsilon
    Divide,    ///< a = m / (1 - beta1^t) / b
    Decay,     ///< a = a + weightDecay w
    Update     ///< w = w - learningRate a
};
inline constexpr int kAdamWStages = 10;

/// One stage over the n elements of one tensor; nothing happens unless state->applied.
struct AdamWPass {
    AdamWStage stage = AdamWStage::Clip;
    int64_t n = 0;
    float* masters = nullptr;
    float* moment1 = nullptr;
    float* moment2 = nullptr;
    const float* gradients = nullptr;
    float* a = nullptr;
    float* b = nullptr;
    const StepState* state = nullptr;
    const StepParameters* parameters = nullptr;
    float beta1 = 0.9f, beta2 = 0.95f, epsilon = 1e-8f, weightDecay = 0;
};

}  // namespace mantissa::kernels
