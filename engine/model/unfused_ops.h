// Fused ops written out as the stages they are made of, each a pass over memory: what EngineSwitches turn on. The CPU's
// results are the fused ops' bit for bit; on a GPU AdamW's are, and the norm's sums have another order.
#pragma once

#include <cstddef>

#include "kernels/backend.h"

namespace mantissa::engine {

/// Bytes that a written-out norm over (rows, cols) keeps between its stages.
size_t unfusedNormBytes(int64_t rows, int64_t cols);
/// Likewise for AdamW; largest: elements of its largest tensor.
size_t unfusedAdamBytes(int64_t largest);

/// scratch: device memory of the sizes above. castFromF32 is not supported.
void runWrittenOut(kernels::Backend& backend, const kernels::NormForward& op, float* scratch);
void runWrittenOut(kernels::Backend& backend, const kernels::NormBackward& op, float* scratch);
/// Tensor by tensor; then the low-precision copies in one more pass over the masters. op.castOnly must be false.
void runWrittenOut(kernels::Backend& backend, const kernels::AdamW& op, float* scratch);

/// Fused when scratch is nullptr.
template <class NormOp>
void runNorm(kernels::Backend& backend, const NormOp& op, float* scratch) {
    if (scratch)
        runWrittenOut(backend, op, scratch);
    else
        backend.run(op);
}

}  // namespace mantissa::engine
