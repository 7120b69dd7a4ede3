// The quantize op, compiled once per instruction set.
#include "kernels/quantize/cast_span.h"
#include "kernels/quantize/quantize_kernels.h"

namespace mantissa::kernels::MANTISSA_ISA {
namespace {

void castPiece(const Quantize& op, const CastParams& params, int64_t first, int64_t n, uint8_t* codes,
               SpanStats& stats) {
    if (op.inType == DType::BF16)
        castSpanBf16(static_cast<const uint16_t*>(op.in) + first, n, first, params, codes, stats);
    else
        castSpanF32(static_cast<const float*>(op.in) + first, n, first, params, op.roundToBf16, codes, stats);
}

/// Row by row through a local buffer, scattered to the transposed codes.
void castTransposed(const Quantize& op, const CastParams& params, int64_t firstRow, int64_t lastRow, SpanStats& stats) {
    uint8_t buffer[kCastPiece];
    for (int64_t row = firstRow; row < lastRow; ++row) {
        for (int64_t col = 0; col < op.cols; col += kCastPiece) {
            const int64_t n = op.cols - col < kCastPiece ? op.cols - col : kCastPiece;
            castPiece(op, params, row * op.cols + col, n, buffer, stats);
            for (int64_t i = 0; i < n; ++i) op.target.codesTransposed[(col + i) * op.rows + row] = buffer[i];
            if (!op.target.codes) continue;
            for (int64_t i = 0; i < n; ++i) op.target.codes[row * op.cols + col + i] = buffer[i];
        }
    }
}

void sumColumns(const Quantize& op, int64_t firstRow, int64_t lastRow, float* sums) {
    for (int64_t col = 0; col < op.cols; ++col) sums[col] = 0;
    for (int64_t row = firstRow; row < lastRow; ++row) {
        if (op.inType == DType::BF16) {
            const uint16_t* values = static_cast<const uint16_t*>(op.in) + row * op.cols;
            for (int64_t col = 0; col < op.cols; ++col) sums[col] += decodeBf16(values[col]);
        } else {
            const float* values = static_cast<const float*>(op.in) + row * op.cols;
            for (int64_t col = 0; col < op.cols; ++col) sums[col] += values[col];
        }
    }
}

void tile(const Quantize& op, const CastParams& params, int64_t firstRow, int64_t lastRow, float* biasSums,
          SpanStats& stats) {
    if (params.format == DType::None) {
        // Bias sums alone.
    } else if (op.target.codesTransposed && !params.amaxOnly) {
        castTransposed(op, params, firstRow, lastRow, stats);
    } else {
        const int64_t first = firstRow * op.cols, n = (lastRow - firstRow) * op.cols;
        castPiece(op, params, first, n, op.target.codes ? op.target.codes + first : nullptr, stats);
    }
    if (biasSums) sumColumns(op, firstRow, lastRow, biasSums);
}

}  // namespace

extern const QuantizeKernels quantizeKernels;
const QuantizeKernels quantizeKernels = {tile};

}  // namespace mantissa::kernels::MANTISSA_ISA
