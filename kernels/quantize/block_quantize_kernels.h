// The per-instruction-set part of the block cast.
#pragma once

#include <cstdint>

#include "kernels/quantize/block_quantize.h"
#include "kernels/quantize/span_stats.h"
#include "kernels/simd/dispatch.h"

namespace mantissa::kernels {

inline constexpr int64_t kBlockTile = 128;  ///< rows and columns of a tile; no block crosses it
/// Floats between the lines of a tile: 128 would put a column into an eighth of the first cache's sets.
inline constexpr int64_t kBlockLead = kBlockTile + 16;
inline constexpr int64_t kBlockScratch = 2 * kBlockTile * kBlockLead;  ///< floats of scratch a worker

/// What one tile found.
struct BlockStats {
    SpanStats span;
    float smallestScale = 0;                    ///< 0: none
    uint32_t rowAmaxBits = 0, colAmaxBits = 0;  ///< of the two copies' inputs; amax alone
};

/// The tensor's own scales, 1 but for Nvfp4.
struct BlockTensorScales {
    float row = 1, col = 1;
};

/// Tile (tileRow, tileCol) of the op. amax: only the amaxes. cast: both copies and the statistics.
struct BlockQuantizeKernels {
    void (*amax)(const BlockQuantize& op, int64_t tileRow, int64_t tileCol, float* scratch, BlockStats& stats);
    void (*cast)(const BlockQuantize& op, const BlockTensorScales& tensor, int64_t tileRow, int64_t tileCol,
                 float* scratch, BlockStats& stats);
};
MANTISSA_DECLARE_ISA_TABLE(BlockQuantizeKernels, blockQuantizeKernels)

}  // namespace mantissa::kernels
