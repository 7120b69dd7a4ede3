// The per-ISA part of LayerNorm and RMSNorm: one tile of rows.
#pragma once

#include "kernels/device/row_tiles.h"
#include "kernels/norm/norm.h"
#include "kernels/simd/dispatch.h"

namespace mantissa::kernels {

/// Column sums of one block of rows, F32, (cols) each; nullptr: not wanted.
struct NormColumnSums {
    float* gain = nullptr;
    float* bias = nullptr;
    float* linear = nullptr;
};

struct NormKernels {
    void (*forward)(const NormForward& op, int64_t firstRow, int64_t lastRow, const TileCast& cast);
    void (*backward)(const NormBackward& op, int64_t firstRow, int64_t lastRow, const NormColumnSums& sums,
                     const TileCast& cast);
};

MANTISSA_DECLARE_ISA_TABLE(NormKernels, normKernels)

}  // namespace mantissa::kernels
