// AdamW's stages in plain loops.
#include <cmath>

#include "kernels/device/reference_access.h"

namespace mantissa::kernels {
namespace {

void element(const AdamWPass& op, int64_t i) {
    const double beta1 = op.beta1, beta2 = op.beta2, a = op.a[i], b = op.b[i];
    float &w = op.masters[i], &m = op.moment1[i], &v = op.moment2[i];
    const auto rounded = [](double value) { return static_cast<float>(value); };
    switch (op.stage) {
        case AdamWStage::Clip:
            op.a[i] = rounded(static_cast<double>(op.gradients[i]) * op.state->clipFactor);
            return;
        case AdamWStage::Moment1:
            m = rounded(beta1 * m + (1 - beta1) * a);
            return;
        case AdamWStage::Square:
            op.b[i] = rounded((1 - beta2) * a * a);
            return;
        case AdamWStage::Moment2:
            v = rounded(beta2 * v + b);
            return;
        case AdamWStage::Correct2:
            op.b[i] = rounded(v / (1 - op.state->beta2Power));
            return;
        case AdamWStage::Root:
            op.b[i] = rounded(std::sqrt(b));
            return;
        case AdamWStage::Epsilon:
            op.b[i] = rounded(b + op.epsilon);
            return;
        case AdamWStage::Divide:
            op.a[i] = rounded(m / (1 - op.state->beta1Power) / b);
            return;
        case AdamWStage::Decay:
            op.a[i] = rounded(a + static_cast<double>(op.weightDecay) * w);
            return;
        case AdamWStage::Update:
            w = rounded(w - op.parameters->learningRate * a);
            return;
    }
}

}  // namespace

void runReference(const AdamWPass& op) {
    if (!op.state->applied) return;
    for (int64_t i = 0; i < op.n; ++i) element(op, i);
}

}  // namespace mantissa::kernels
