// The per-ISA part of the norm written out: one stage over a tile of rows.
#pragma once

#include "kernels/norm/norm_passes.h"
#include "kernels/simd/dispatch.h"

namespace mantissa::kernels {

struct NormPassKernels {
    /// columnSums: (cols) F32 of this tile, added to, for the stages that sum columns.
    void (*run)(const NormPass& op, int64_t firstRow, int64_t lastRow, float* columnSums);
};

MANTISSA_DECLARE_ISA_TABLE(NormPassKernels, normPassKernels)

}  // namespace mantissa::kernels
