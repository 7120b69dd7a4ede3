// The per-ISA part of AdamW written out: one stage over a stretch of one tensor.
#pragma once

#include "kernels/optimizer/adamw_passes.h"
#include "kernels/optimizer/optimizer_cpu.h"

namespace mantissa::kernels {

struct AdamWPassKernels {
    /// Elements [first, first + n).
    void (*run)(const AdamWPass& op, const AdamWScalars& scalars, int64_t first, int64_t n);
};

MANTISSA_DECLARE_ISA_TABLE(AdamWPassKernels, adamWPassKernels)

}  // namespace mantissa::kernels
