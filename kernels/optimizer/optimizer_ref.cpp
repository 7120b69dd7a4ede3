// Step control, AdamW and initial weights in plain loops.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/device/reference_access.h"
#include "kernels/optimizer/normal_table.h"
#include "kernels/optimizer/step_control.h"

namespace mantissa::kernels {

void runReference(const StepBegin& op) {
    stepBegin(op);
}
void runReference(const GradientControl& op) {
    gradientControl(op);
}

void runReference(const SumSquares& op) {
    constexpr int64_t kBlock = 32768;
    for (int64_t first = 0, block = 0; first < op.n; first += kBlock, ++block) {
        double sum = 0;
        for (int64_t i = first; i < std::min(op.n, first + kBlock); ++i)
            sum += static_cast<double>(op.values[i]) * op.values[i];
        op.partials[block] = sum;
    }
}

namespace {
int64_t computeShift(const ParameterTensor& tensor) {
    return tensor.computeOffset == kComputeAtOffset ? 0 : tensor.computeOffset - tensor.offset;
}
}  // namespace

void runReference(const AdamW& op) {
    if ((!op.castOnly || op.castWhenApplied) && !op.state->applied) return;
    for (int t = 0; t < op.tensorCount; ++t) {
        const ParameterTensor& tensor = op.tensors[t];
        for (int64_t i = tensor.offset; i < tensor.offset + tensor.rows * tensor.cols; ++i) {
            if (!op.castOnly) {
                const double g = static_cast<double>(op.gradients[i]) * op.state->clipFactor;
                const double m =
                    op.beta1 * static_cast<double>(op.moment1[i]) + (1 - static_cast<double>(op.beta1)) * g;
                const double v =
                    op.beta2 * static_cast<double>(op.moment2[i]) + (1 - static_cast<double>(op.beta2)) * g * g;
                const double mHat = m / (1 - op.state->beta1Power), vHat = v / (1 - op.state->beta2Power);
                const double decay = tensor.decay ? op.weightDecay : 0;
                const double w = op.masters[i];
                op.masters[i] = static_cast<float>(w - op.parameters->learningRate *
                                                           (mHat / (std::sqrt(vHat) + op.epsilon) + decay * w));
                op.moment1[i] = static_cast<float>(m);
                op.moment2[i] = static_cast<float>(v);
            }
            if (op.compute && tensor.computeOffset != kNoCompute)
                reference::store(op.computeType, op.compute, i + computeShift(tensor), op.masters[i]);
        }
        if (tensor.cast.slot) *tensor.cast.slot = TensorSlot{};
        reference::cast(DType::F32, op.masters + tensor.offset, tensor.rows, tensor.cols, tensor.cast);
    }
}

void runReference(const InitNormal& op) {
    const int64_t* table = normalTable();
    for (int64_t i = 0; i < op.n; ++i) op.out[i] = normalElement(table, op.seed, op.stream, i, op.std);
}

void runReference(const Fill& op) {
    std::fill(op.out, op.out + op.n, op.value);
}

}  // namespace mantissa::kernels
