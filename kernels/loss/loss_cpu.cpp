// Cross-entropy over a tile of rows: largest logit, sum of exponentials, then dlogits over the logits.
#include "kernels/loss/loss_cpu.h"

#include "kernels/device/tile_cast.h"
#include "kernels/simd/math16.h"
#include "kernels/simd/vec16.h"

namespace mantissa::kernels::MANTISSA_ISA {
namespace {

template <class T>
float maxOfRow(const T* logits, int64_t n) {
    const V16 lowest = splat(-__builtin_inff());
    V16 largest = lowest;
    forEach16(
        n, [&](int64_t c, auto part) __attribute__((always_inline)) {
            largest = max(largest, keepOr(load(logits + c, part), lowest, part));
        });
    return maxLanes(largest);
}

template <class T>
void row(const CrossEntropy& op, int64_t index, T* logits) {
    const int64_t n = op.vocabulary;
    const V16 largest = splat(maxOfRow(logits, n));
    const float sum = sumRow(
        n, [&](V16 s, int64_t c, auto part)
               __attribute__((always_inline)) { return s + keep(expFlush16(load(logits + c, part) - largest), part); });
    const V16 target = splat(firstLane(load(logits + op.targets[index], Part{1})));
    const float distance = firstLane(largest - target);
    op.losses[index] = static_cast<float>(logarithm(sum) + distance);
    if (!op.backward) return;
    const V16 inverse = splat(1.0f / sum), scale = splat(*op.gradientScale);
    const V16 atTarget = (expFlush16(target - largest) * inverse - splat(1.0f)) * scale;
    forEach16(
        n, [&](int64_t c, auto part) __attribute__((always_inline)) {
            store(logits + c, expFlush16(load(logits + c, part) - largest) * inverse * scale, part);
        });
    forEach16(
        op.vocabularyPadded - n, [&](int64_t c, auto part)
                                     __attribute__((always_inline)) { store(logits + n + c, splat(0), part); });
    store(logits + op.targets[index], atTarget, Part{1});
}

template <class T>
void tile(const CrossEntropy& op, int64_t firstRow, int64_t lastRow, const TileCast& cast) {
    const int64_t cols = op.vocabularyPadded, span = spanRows(cols);
    for (int64_t first = firstRow; first < lastRow; first += span) {
        const int64_t rows = lastRow - first < span ? lastRow - first : span;
        T* logits = static_cast<T*>(op.logits) + first * cols;
        for (int64_t i = 0; i < rows; ++i) row(op, first + i, logits + i * cols);
        if (cast.params) castTile(logits, rows * cols, first * cols, cast);
    }
}

void crossEntropy(const CrossEntropy& op, int64_t firstRow, int64_t lastRow, const TileCast& cast) {
    switch (op.type) {
        case DType::BF16:
            return tile<Bf16>(op, firstRow, lastRow, cast);
        case DType::F16:
            return tile<F16>(op, firstRow, lastRow, cast);
        default:
            return tile<float>(op, firstRow, lastRow, cast);
    }
}

}  // namespace

const LossKernels lossKernels = {crossEntropy};

}  // namespace mantissa::kernels::MANTISSA_ISA
