// Codes with block scales as products read them: the fast path of the block cast on the GPU.
#pragma once

#include "kernels/device/cuda/cuda_launch.h"
#include "kernels/quantize/block_quantize.h"

namespace mantissa::kernels::cuda {

/// Whether block_codes.cu casts the op: block128 to E4M3 codes alone, in rows and columns of whole 16-byte vectors.
bool castsWholeVectors(const BlockQuantize& op);
/// Writes the codes and scales; with `statistics` also what the slot takes (amax, smallest scale, counters; not the
/// dear set).
void launchBlockCodes(const LaunchContext& context, const BlockQuantize& op, bool statistics);

}  // namespace mantissa::kernels::cuda
