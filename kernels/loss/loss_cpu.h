// The per-ISA part of the cross-entropy: one tile of rows.
#pragma once

#include "kernels/device/row_tiles.h"
#include "kernels/loss/loss.h"
#include "kernels/simd/dispatch.h"

namespace mantissa::kernels {

struct LossKernels {
    void (*crossEntropy)(const CrossEntropy& op, int64_t firstRow, int64_t lastRow, const TileCast& cast);
};

MANTISSA_DECLARE_ISA_TABLE(LossKernels, lossKernels)

}  // namespace mantissa::kernels
