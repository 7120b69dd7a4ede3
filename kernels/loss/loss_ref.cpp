// Cross-entropy in plain loops and double arithmetic.
#include <algorithm>
#include <cmath>

#include "kernels/device/reference_access.h"

namespace mantissa::kernels {

void runReference(const CrossEntropy& op) {
    for (int64_t row = 0; row < op.rows; ++row) {
        const int64_t first = row * op.vocabularyPadded;
        const auto logit = [&](int64_t v) { return reference::load(op.type, op.logits, first + v); };
        double largest = logit(0), sum = 0;
        for (int64_t v = 1; v < op.vocabulary; ++v) largest = std::max(largest, logit(v));
        for (int64_t v = 0; v < op.vocabulary; ++v) sum += std::exp(logit(v) - largest);
        op.losses[row] = static_cast<float>(std::log(sum) + largest - logit(op.targets[row]));
        if (!op.backward) continue;
        for (int64_t v = 0; v < op.vocabulary; ++v) {
            const double probability = std::exp(logit(v) - largest) / sum;
            reference::store(op.type, op.logits, first + v,
                             (probability - (v == op.targets[row] ? 1 : 0)) * *op.gradientScale);
        }
        for (int64_t v = op.vocabulary; v < op.vocabularyPadded; ++v)
            reference::store(op.type, op.logits, first + v, 0);
    }
    if (op.backward) reference::cast(op.type, op.logits, op.rows, op.vocabularyPadded, op.cast);
}

void runReference(const SumLosses& op) {
    double sum = op.accumulate ? *op.sum : 0;
    for (int64_t row = 0; row < op.rows; ++row) sum += op.losses[row];
    *op.sum = sum;
}

}  // namespace mantissa::kernels
