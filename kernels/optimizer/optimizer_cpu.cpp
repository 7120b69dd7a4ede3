// Sum of squares and AdamW over spans of the flat arrays. AdamW is bound by memory (28 bytes an element); its square
// root and quotient are the correctly rounded ones, so that every instruction set gives the same bits.
#include "kernels/optimizer/optimizer_cpu.h"

#include "kernels/device/tile_cast.h"
#include "kernels/simd/vec16.h"

namespace mantissa::kernels::MANTISSA_ISA {
namespace {

double sumSquares(const float* values, int64_t n) {
    D16 sums;
    forEach16(
        n, [&](int64_t i, auto part) __attribute__((always_inline)) { addSquares(sums, load(values + i, part)); });
    return sumLanes(sums);
}

void update(const AdamW& op, const AdamWScalars& k, bool decay, int64_t first, int64_t n) {
    float* masters = op.masters + first;
    float* moment1 = op.moment1 + first;
    float* moment2 = op.moment2 + first;
    const float* gradients = op.gradients + first;
    const V16 clip = splat(k.clip), beta1 = splat(k.beta1), beta2 = splat(k.beta2);
    const V16 rest1 = splat(k.oneMinusBeta1), rest2 = splat(k.oneMinusBeta2);
    const V16 correction1 = splat(k.correction1), correction2 = splat(k.correction2);
    const V16 rate = splat(-k.learningRate), epsilon = splat(k.epsilon),
              weightDecay = splat(decay ? k.weightDecay : 0.0f);
    forEach16(
        n, [&](int64_t i, auto part) __attribute__((always_inline)) {
            const V16 g = load(gradients + i, part) * clip, w = load(masters + i, part);
            const V16 m = fma(beta1, load(moment1 + i, part), rest1 * g);
            const V16 v = fma(beta2, load(moment2 + i, part), rest2 * g * g);
            const V16 step = m * correction1 / (sqrt(v * correction2) + epsilon);
            store(moment1 + i, m, part);
            store(moment2 + i, v, part);
            store(masters + i, fma(rate, fma(weightDecay, w, step), w), part);
        });
}

template <class T>
void copy(const float* from, T* to, int64_t n) {
    forEach16(
        n, [&](int64_t i, auto part) __attribute__((always_inline)) { store(to + i, load(from + i, part), part); });
}

void adamW(const AdamW& op, const AdamWScalars* scalars, bool decay, int64_t first, int64_t n, int64_t inTensor,
           const TileCast& cast) {
    for (int64_t done = 0; done < n; done += kSpanElements) {
        const int64_t at = first + done, span = n - done < kSpanElements ? n - done : kSpanElements;
        if (scalars) update(op, *scalars, decay, at, span);
        const float* masters = op.masters + at;
        if (op.compute && op.computeType == DType::BF16) copy(masters, static_cast<Bf16*>(op.compute) + at, span);
        if (op.compute && op.computeType == DType::F16) copy(masters, static_cast<F16*>(op.compute) + at, span);
        if (!cast.params) continue;
        if (op.compute && op.computeType == DType::BF16)
            castTile(static_cast<const Bf16*>(op.compute) + at, span, inTensor + done, cast);
        else
            castTile(masters, span, inTensor + done, cast);
    }
}

}  // namespace

const OptimizerKernels optimizerKernels = {sumSquares, adamW};

}  // namespace mantissa::kernels::MANTISSA_ISA
