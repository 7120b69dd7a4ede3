// The per-instruction-set part of the quantize op.
#pragma once

#include <cstdint>

#include "kernels/quantize/quantize.h"
#include "kernels/quantize/span_stats.h"
#include "kernels/simd/dispatch.h"

namespace mantissa::kernels {

/// tile: rows [firstRow, lastRow) of op as one span: codes, transposed codes, statistics; biasSums (cols) F32, or
/// nullptr: overwritten with the column sums of these rows, rows ascending.
struct QuantizeKernels {
    void (*tile)(const Quantize& op, const CastParams& params, int64_t firstRow, int64_t lastRow, float* biasSums,
                 SpanStats& stats);
};
MANTISSA_DECLARE_ISA_TABLE(QuantizeKernels, quantizeKernels)

}  // namespace mantissa::kernels
