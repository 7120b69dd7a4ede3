// What fused casts share: parameters made once an op, statistics kept per tile, and their merge into a tensor's slot.
//
// An op makes CastParams once, gives each tile a SpanStats of its own (in its workspace, resetSpanStats first), calls
// castSpanBf16 of kernels/quantize/cast_span.h on each row the tile writes, and merges the tiles in tile order: the
// dear sums are then the same on any thread count.
#pragma once

#include <cstdint>

#include "kernels/quantize/quantize.h"

namespace mantissa::kernels {

/// One op's cast, made ready: thresholds on |x| that belong to the scale, all of them FP32 bit patterns.
struct CastParams {
    DType format = DType::None;
    float scale = 1;
    float scaleInv = 1;           ///< RN(1 / scale)
    uint32_t lastInRange = 0;     ///< largest |x| with fl32(|x| scale) <= next float after M; above it: overRange
    uint32_t lastNotClipped = 0;  ///< largest |x| with fl32(|x| scale) rounding to M or below; above it: clipped
    bool amaxOnly = false;
    bool count = false;  ///< the target has a slot and wants its counters
    bool dear = false;
    bool exponents = false;
    bool stochastic = false;
    uint64_t seed = 0;
};

/// target.format E4M3 or E5M2. Reads *target.scale (1 when nullptr, and when amaxOnly). Throws ShapeMismatch on another
/// format.
CastParams makeCastParams(const CastTarget& target);

/// Statistics of what one tile cast. Plain memory: zero it with resetSpanStats.
struct SpanStats {
    uint32_t amaxBits = 0;        ///< FP32 bits of the largest |x|; NaN skipped
    uint32_t minNonZeroBits = 0;  ///< FP32 bits of the smallest finite non-zero |x| in the dear set; 0: none
    CastCounters counters;
    double sumSquares = 0, sumSquaredError = 0, sumFourth = 0;
    uint32_t exponents[kExponentBins] = {};
};

void resetSpanStats(SpanStats* tiles, int64_t count);
/// Merges tiles [0, count) in order into *target.slot (nothing when it is nullptr): counters add, amax by maximum,
/// minNonZero by minimum; sets slot->scaleUsed unless amaxOnly.
void mergeSpanStats(const SpanStats* tiles, int64_t count, const CastTarget& target, const CastParams& params);

}  // namespace mantissa::kernels
