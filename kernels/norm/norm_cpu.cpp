// LayerNorm and RMSNorm over a tile of rows. Three passes over a row that stays in L1: residual add and sum, variance,
// result; then the cast of each span of rows. Sums of a row run on two virtual vectors of 16 lanes (sumRow); columns of
// a block add up row by row.
#include "kernels/norm/norm_cpu.h"

#include "kernels/device/tile_cast.h"
#include "kernels/simd/vec16.h"

namespace mantissa::kernels::MANTISSA_ISA {
namespace {

/// residual + delta, rounded to T, stored; returns the row's sum.
template <class T>
float addResidual(const T* in, const T* delta, T* out, int64_t cols) {
    return sumRow(
        cols, [&](V16 sum, int64_t c, auto part) __attribute__((always_inline)) {
            return sum + storeRounded(out + c, load(in + c, part) + load(delta + c, part), part);
        });
}

template <class T>
void forwardRow(const NormForward& op, int64_t row, T* out, float* exact) {
    const int64_t cols = op.cols, first = row * cols;
    const T* r = static_cast<const T*>(op.residualIn) + first;
    float sum = 0;
    if (op.delta) {
        T* residualOut = static_cast<T*>(op.residualOut) + first;
        sum = addResidual(r, static_cast<const T*>(op.delta) + first, residualOut, cols);
        r = residualOut;
    } else if (op.kind == NormKind::LayerNorm) {
        sum = sumRow(
            cols, [&](V16 s, int64_t c, auto part) __attribute__((always_inline)) { return s + load(r + c, part); });
    }
    const float mean = op.kind == NormKind::LayerNorm ? sum / static_cast<float>(cols) : 0.0f;
    const V16 center = splat(mean);
    const float squares = sumRow(
        cols, [&](V16 s, int64_t c, auto part) __attribute__((always_inline)) {
            const V16 d = keep(load(r + c, part) - center, part);
            return fma(d, d, s);
        });
    const float rstd = 1.0f / __builtin_sqrtf(squares / static_cast<float>(cols) + op.eps);
    if (op.mean) op.mean[row] = mean;
    if (op.rstd) op.rstd[row] = rstd;
    const V16 scale = splat(rstd);
    const T* gain = static_cast<const T*>(op.gain);
    const T* bias = static_cast<const T*>(op.bias);
    forEach16(
        cols, [&](int64_t c, auto part) __attribute__((always_inline)) {
            const V16 shift = bias ? load(bias + c, part) : splat(0);
            const V16 y = fma((load(r + c, part) - center) * scale, load(gain + c, part), shift);
            store(out + c, y, part);
            if (exact) store(exact + c, y, part);
        });
}

template <class T>
void forwardTile(const NormForward& op, int64_t firstRow, int64_t lastRow, const TileCast& cast) {
    const int64_t span = spanRows(op.cols), cols = op.cols;
    for (int64_t row = firstRow; row < lastRow; row += span) {
        const int64_t rows = lastRow - row < span ? lastRow - row : span;
        float* scratch = static_cast<float*>(cast.scratch);
        float* exact = cast.params && op.castFromF32 ? scratch : nullptr;
        T* out = op.out ? static_cast<T*>(op.out) + row * cols : reinterpret_cast<T*>(scratch + span * cols);
        for (int64_t i = 0; i < rows; ++i) forwardRow(op, row + i, out + i * cols, exact ? exact + i * cols : nullptr);
        if (exact)
            castTile(exact, rows * cols, row * cols, cast, false);
        else if (cast.params)
            castTile(out, rows * cols, row * cols, cast);
    }
}

void forward(const NormForward& op, int64_t firstRow, int64_t lastRow, const TileCast& cast) {
    switch (op.type) {
        case DType::BF16:
            return forwardTile<Bf16>(op, firstRow, lastRow, cast);
        case DType::F16:
            return forwardTile<F16>(op, firstRow, lastRow, cast);
        default:
            return forwardTile<float>(op, firstRow, lastRow, cast);
    }
}

/// The two row sums of backward: dy gain, and dy gain times the normalised value.
struct RowSums {
    float plain, dot;
};

template <class T>
RowSums rowSums(const T* dOut, const T* r, const T* gain, V16 center, V16 scale, int64_t cols,
                const NormColumnSums& sums) {
    V16 plain = splat(0), dot = splat(0);
    forEach16(
        cols, [&](int64_t c, auto part) __attribute__((always_inline)) {
            const V16 dy = load(dOut + c, part);
            const V16 x = (load(r + c, part) - center) *
                          scale;  // beyond the row dy is 0, so x there does not matter unless it is not finite
            const V16 scaled = dy * load(gain + c, part);
            plain = plain + scaled;
            dot = fma(scaled, keep(x, part), dot);
            if (sums.gain) store(sums.gain + c, fma(dy, x, load(sums.gain + c, part)), part);
            if (sums.bias) store(sums.bias + c, load(sums.bias + c, part) + dy, part);
        });
    return {sumLanes(plain), sumLanes(dot)};
}

template <class T>
void backwardRow(const NormBackward& op, int64_t row, const NormColumnSums& sums) {
    const int64_t cols = op.cols, first = row * cols;
    const bool layerNorm = op.kind == NormKind::LayerNorm;
    const T* dOut = static_cast<const T*>(op.dOut) + first;
    const T* r = static_cast<const T*>(op.residual) + first;
    const T* gain = static_cast<const T*>(op.gain);
    const T* bias = static_cast<const T*>(op.bias);
    const T* dIn = op.dResidualIn ? static_cast<const T*>(op.dResidualIn) + first : nullptr;
    T* out = static_cast<T*>(op.dResidual) + first;
    T* again = op.outAgain ? static_cast<T*>(op.outAgain) + first : nullptr;
    const V16 center = splat(layerNorm ? op.mean[row] : 0.0f), scale = splat(op.rstd[row]);
    const RowSums total = rowSums(dOut, r, gain, center, scale, cols, sums);
    const V16 mean = splat(layerNorm ? total.plain / static_cast<float>(cols) : 0.0f);
    const V16 dot = splat(total.dot / static_cast<float>(cols));
    forEach16(
        cols, [&](int64_t c, auto part) __attribute__((always_inline)) {
            const V16 x = (load(r + c, part) - center) * scale, g = load(gain + c, part);
            const V16 d = fma(-x, dot, load(dOut + c, part) * g - mean);
            const V16 sum = fma(d, scale, dIn ? load(dIn + c, part) : splat(0));
            if (again) store(again + c, fma(x, g, bias ? load(bias + c, part) : splat(0)), part);
            const V16 value = storeRounded(out + c, sum, part);
            if (sums.linear) store(sums.linear + c, load(sums.linear + c, part) + value, part);
        });
}

template <class T>
void backwardTile(const NormBackward& op, int64_t firstRow, int64_t lastRow, const NormColumnSums& sums,
                  const TileCast& cast) {
    const int64_t span = spanRows(op.cols), cols = op.cols;
    for (int64_t row = firstRow; row < lastRow; row += span) {
        const int64_t rows = lastRow - row < span ? lastRow - row : span;
        for (int64_t i = 0; i < rows; ++i) backwardRow<T>(op, row + i, sums);
        if (cast.params) castTile(static_cast<const T*>(op.dResidual) + row * cols, rows * cols, row * cols, cast);
    }
}

void backward(const NormBackward& op, int64_t firstRow, int64_t lastRow, const NormColumnSums& sums,
              const TileCast& cast) {
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

const NormKernels normKernels = {forward, backward};

}  // namespace mantissa::kernels::MANTISSA_ISA
