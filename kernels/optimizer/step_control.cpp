#include "kernels/optimizer/step_control.h"

#include <algorithm>
#include <cmath>

namespace mantissa::kernels {
namespace {

constexpr float kMaxLossScale = 16777216.0f;  // 2^24

/// FP16's dynamic loss scale: doubled after `interval` good steps in a row, halved on a step that overflowed.
void updateLossScale(StepState& state, bool finite, int interval) {
    if (!finite) {
        state.lossScale = std::max(1.0f, state.lossScale / 2);
        state.goodSteps = 0;
    } else if (++state.goodSteps >= static_cast<uint32_t>(interval)) {
        state.lossScale = std::min(kMaxLossScale, state.lossScale * 2);
        state.goodSteps = 0;
    }
}

}  // namespace

void stepBegin(const StepBegin& op) {
    op.parameters->gradientScale = op.state->lossScale / static_cast<float>(op.parameters->tokens);
    op.state->lossSum = 0;
    std::fill(op.slots, op.slots + op.slotCount, TensorSlot{});
}

void gradientControl(const GradientControl& op) {
    StepState& state = *op.state;
    double sum = 0;
    for (int64_t i = 0; i < op.partialCount; ++i) sum += op.partials[i];
    const double norm = std::sqrt(sum) / state.lossScale;
    const bool finite = std::isfinite(norm) && std::isfinite(state.lossSum);
    state.gradientNorm = static_cast<float>(norm);
    const double clip = op.clip > 0 && norm > op.clip ? op.clip / norm : 1.0;
    state.clipFactor = static_cast<float>(clip / state.lossScale);
    state.applied = op.parameters->stop == 0 && (finite || !op.skipNonFinite);
    state.skippedRunning = state.applied ? 0 : state.skippedRunning + 1;
    if (state.applied) {
        state.beta1Power *= op.beta1;
        state.beta2Power *= op.beta2;
        ++state.updates;
    }
    if (op.dynamicLossScale && op.parameters->stop == 0) updateLossScale(state, finite, op.growthInterval);
}

}  // namespace mantissa::kernels
