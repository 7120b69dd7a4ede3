#include "kernels/quantize/span_stats.h"

#include <algorithm>
#include <cstring>

#include "kernels/error.h"
#include "kernels/formats/fp8.h"

namespace mantissa::kernels {
namespace {

/// Largest finite |x| bit pattern whose fl32(|x| * scale) is at most `limit`; the product is monotone in x, so bits are
/// bisected.
uint32_t largestInput(float scale, uint32_t limit) {
    uint32_t low = 0, high = kFloatInf;  // low holds, high does not
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (floatBits(floatFromBits(middle) * scale) <= limit)
            low = middle;
        else
            high = middle;
    }
    return low;
}

}  // namespace

CastParams makeCastParams(const CastTarget& target) {
    if (!isFp8(target.format))
        throw Error(ErrorCode::ShapeMismatch, std::string("cast: no FP8 format: ") + dtypeName(target.format));
    const Fp8Traits format = fp8Traits(target.format);
    CastParams params;
    params.format = target.format;
    params.scale = target.scale && !target.amaxOnly ? *target.scale : 1.0f;
    params.scaleInv = 1.0f / params.scale;
    params.lastInRange = largestInput(params.scale, format.lastInRange);
    params.lastNotClipped = largestInput(params.scale, format.lastNotClipped);
    params.amaxOnly = target.amaxOnly;
    params.count = target.slot && target.count;
    params.dear = target.dear && params.count && !target.amaxOnly;
    params.exponents = params.dear && target.exponents;
    params.stochastic = target.stochastic;
    params.seed = target.seed;
    return params;
}

void resetSpanStats(SpanStats* tiles, int64_t count) {
    for (int64_t i = 0; i < count; ++i) tiles[i] = SpanStats();
}

void mergeSpanStats(const SpanStats* tiles, int64_t count, const CastTarget& target, const CastParams& params) {
    if (!target.slot) return;
    TensorSlot& slot = *target.slot;
    if (!params.amaxOnly) slot.scaleUsed = params.scale;
    for (int64_t i = 0; i < count; ++i) {
        const SpanStats& tile = tiles[i];
        slot.amax = std::max(slot.amax, floatFromBits(tile.amaxBits));
        if (params.amaxOnly || !params.count) continue;
        slot.counters.elements += tile.counters.elements;
        slot.counters.zeros += tile.counters.zeros;
        slot.counters.underflow += tile.counters.underflow;
        slot.counters.subnormal += tile.counters.subnormal;
        slot.counters.overRange += tile.counters.overRange;
        slot.counters.clipped += tile.counters.clipped;
        slot.counters.inf += tile.counters.inf;
        slot.counters.nan += tile.counters.nan;
        if (!params.dear) continue;
        const float smallest = floatFromBits(tile.minNonZeroBits);
        if (smallest > 0 && (slot.dear.minNonZero == 0 || smallest < slot.dear.minNonZero))
            slot.dear.minNonZero = smallest;
        slot.dear.sumSquares += tile.sumSquares;
        slot.dear.sumSquaredError += tile.sumSquaredError;
        slot.dear.sumFourth += tile.sumFourth;
        if (!params.exponents) continue;
        for (int bin = 0; bin < kExponentBins; ++bin) slot.dear.exponents[bin] += tile.exponents[bin];
    }
}

}  // namespace mantissa::kernels
