// GELU (tanh form) and SwiGLU over a tile of rows.
//
// GELU as x sigma(2u), u = sqrt(2/pi) (x + 0.044715 x^3): the same function, since (1 + tanh u) / 2 = sigma(2u), and
// without the cancellation of 1 + tanh u for negative x. Its derivative is s + x s (1 - s) 2u'.
#include "kernels/activation/activation_cpu.h"

#include "kernels/device/tile_cast.h"
#include "kernels/simd/math16.h"
#include "kernels/simd/vec16.h"

namespace mantissa::kernels::MANTISSA_ISA {
namespace {

constexpr float kTwoSqrtTwoOverPi = 1.59576912160573071176f;
constexpr float kCubic = 0.044715f;

MANTISSA_SIMD_INLINE V16 gelu(V16 x) {
    const V16 inner = fma(x * x, splat(kTwoSqrtTwoOverPi * kCubic), splat(kTwoSqrtTwoOverPi));
    return x * sigmoid16(x * inner);
}

MANTISSA_SIMD_INLINE V16 geluSlope(V16 x) {
    // Beyond +-12 the logistic function is 0 or 1 in F32; unlimited, 0 * Inf would come out far away.
    const V16 near = clamp(-12.0f, 12.0f, x), square = near * near;
    const V16 inner = fma(square, splat(kTwoSqrtTwoOverPi * kCubic), splat(kTwoSqrtTwoOverPi));
    const V16 s = sigmoid16(near * inner);
    const V16 derivative = fma(square, splat(3 * kTwoSqrtTwoOverPi * kCubic), splat(kTwoSqrtTwoOverPi));
    return fma(near * s * (splat(1.0f) - s), derivative, s);
}

template <class T>
void forwardRow(const ActivationForward& op, int64_t row, T* out) {
    const int64_t cols = op.cols;
    if (op.kind == Activation::GeluTanh) {
        const T* in = static_cast<const T*>(op.in) + row * cols;
        forEach16(
            cols, [&](int64_t c, auto part)
                      __attribute__((always_inline)) { store(out + c, gelu(load(in + c, part)), part); });
        return;
    }
    const T* in = static_cast<const T*>(op.in) + 2 * row * cols;
    forEach16(
        cols, [&](int64_t c, auto part) __attribute__((always_inline)) {
            const V16 gate = load(in + c, part);
            store(out + c, gate * sigmoid16(gate) * load(in + cols + c, part), part);
        });
}

template <class T>
void forwardTile(const ActivationForward& op, int64_t firstRow, int64_t lastRow, const TileCast& cast) {
    const int64_t span = spanRows(op.cols), cols = op.cols;
    for (int64_t row = firstRow; row < lastRow; row += span) {
        const int64_t rows = lastRow - row < span ? lastRow - row : span;
        T* out = op.out ? static_cast<T*>(op.out) + row * cols : static_cast<T*>(cast.scratch);
        for (int64_t i = 0; i < rows; ++i) forwardRow(op, row + i, out + i * cols);
        if (cast.params) castTile(out, rows * cols, row * cols, cast);
    }
}

void forward(const ActivationForward& op, int64_t firstRow, int64_t lastRow, const TileCast& cast) {
    switch (op.type) {
        case DType::BF16:
            return forwardTile<Bf16>(op, firstRow, lastRow, cast);
        case DType::F16:
            return forwardTile<F16>(op, firstRow, lastRow, cast);
        default:
            return forwardTile<float>(op, firstRow, lastRow, cast);
    }
}

/// value rounded to T, stored, and added to its column.
template <class T, class P>
MANTISSA_SIMD_INLINE void put(T* out, V16 value, float* sums, P part) {
    const V16 rounded = storeRounded(out, value, part);
    if (sums) store(sums, load(sums, part) + rounded, part);
}

template <class T>
void geluBackwardRow(const ActivationBackward& op, int64_t row, T* dIn, float* sums) {
    const int64_t first = row * op.cols;
    const T* in = static_cast<const T*>(op.in) + first;
    const T* dOut = static_cast<const T*>(op.dOut) + first;
    T* again = op.outAgain ? static_cast<T*>(op.outAgain) + first : nullptr;
    forEach16(
        op.cols, [&](int64_t c, auto part) __attribute__((always_inline)) {
            const V16 x = load(in + c, part);
            put(dIn + c, load(dOut + c, part) * geluSlope(x), sums ? sums + c : nullptr, part);
            if (again) store(again + c, gelu(x), part);
        });
}

template <class T>
void swigluBackwardRow(const ActivationBackward& op, int64_t row, T* dIn, float* sums) {
    const int64_t cols = op.cols;
    const T* in = static_cast<const T*>(op.in) + 2 * row * cols;
    const T* dOut = static_cast<const T*>(op.dOut) + row * cols;
    T* again = op.outAgain ? static_cast<T*>(op.outAgain) + row * cols : nullptr;
    forEach16(
        cols, [&](int64_t c, auto part) __attribute__((always_inline)) {
            const V16 gate = load(in + c, part), up = load(in + cols + c, part), dy = load(dOut + c, part);
            const V16 s = sigmoid16(gate), silu = gate * s;
            if (again) store(again + c, silu * up, part);
            put(dIn + c, dy * up * fma(silu, splat(1.0f) - s, s), sums ? sums + c : nullptr, part);
            put(dIn + cols + c, dy * silu, sums ? sums + cols + c : nullptr, part);
        });
}

template <class T>
void backwardTile(const ActivationBackward& op, int64_t firstRow, int64_t lastRow, float* sums, const TileCast& cast) {
    const bool isGelu = op.kind == Activation::GeluTanh;
    const int64_t width = isGelu ? op.cols : 2 * op.cols, span = spanRows(width);
    for (int64_t row = firstRow; row < lastRow; row += span) {
        const int64_t rows = lastRow - row < span ? lastRow - row : span;
        T* dIn = op.dIn ? static_cast<T*>(op.dIn) + row * width : static_cast<T*>(cast.scratch);
        for (int64_t i = 0; i < rows; ++i) {
            if (isGelu)
                geluBackwardRow(op, row + i, dIn + i * width, sums);
            else
                swigluBackwardRow(op, row + i, dIn + i * width, sums);
        }
        if (cast.params) castTile(dIn, rows * width, row * width, cast);
    }
}

void backward(const ActivationBackward& op, int64_t firstRow, int64_t lastRow, float* sums, const TileCast& cast) {
    switch (op.type) {
        case DType::BF16:
            return backwardTile<Bf16>(op, firstRow, lastRow, sums, cast);
        case DType::F16:
            return backwardTile<F16>(op, firstRow, lastRow, sums, cast);
        default:
            return backwardTile<float>(op, firstRow, lastRow, sums, cast);
    }
}

}  // namespace

const ActivationKernels activationKernels = {forward, backward};

}  // namespace mantissa::kernels::MANTISSA_ISA
