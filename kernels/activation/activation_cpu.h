// The per-ISA part of the activations: one tile of rows.
#pragma once

#include "kernels/activation/activation.h"
#include "kernels/device/row_tiles.h"
#include "kernels/simd/dispatch.h"

namespace mantissa::kernels {

struct ActivationKernels {
    void (*forward)(const ActivationForward& op, int64_t firstRow, int64_t lastRow, const TileCast& cast);
    /// sums: (width of dIn) F32, zeroed, out: column sums of the tile's dIn; nullptr: not wanted.
    void (*backward)(const ActivationBackward& op, int64_t firstRow, int64_t lastRow, float* sums,
                     const TileCast& cast);
};

MANTISSA_DECLARE_ISA_TABLE(ActivationKernels, activationKernels)

}  // namespace mantissa::kernels
