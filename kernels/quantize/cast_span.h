// The cast of a span that lies in L1, inlined into every fused CPU op. Only for files compiled by mantissa_isa_sources.
//
// castSpanBf16 is all an op needs: codes, amax, counters and, on probed steps, the dear set, as its CastParams ask.
// Codes are exact. Dear sums run in double over 16 virtual lanes of the span, joined in a fixed order, so every
// instruction set gives the same bits as long as an op cuts its tensor into the same spans.
#pragma once

#include <cstdint>

#include "kernels/formats/fp8.h"
#include "kernels/formats/half.h"
#include "kernels/quantize/span_stats.h"
#include "kernels/simd/philox.h"

namespace mantissa::kernels::MANTISSA_ISA {

static inline void castOne(float x, int64_t index, const CastParams& params, const Fp8Traits& format, uint8_t* code,
                           SpanStats& stats) {
    const uint32_t abs = floatBits(x) & kFloatAbs;
    const bool nan = abs > kFloatInf;
    if (!nan && abs > stats.amaxBits) stats.amaxBits = abs;
    if (params.amaxOnly) return;
    const float scaled = x * params.scale;
    if (params.stochastic) {
        const Philox4 random = philoxBlock(params.seed, static_cast<uint64_t>(index) >> 2, 0);
        *code = encodeFp8Stochastic(scaled, format, random.value[index & 3]);
    } else {
        *code = encodeFp8(scaled, format);
    }
    const uint32_t magnitude = *code & 0x7Fu;
    CastCounters& counters = stats.counters;
    ++counters.elements;
    counters.zeros += abs == 0;
    counters.underflow += abs != 0 && magnitude == 0;
    counters.subnormal += magnitude != 0 && magnitude <= format.subnormalCodes;
    counters.overRange += !nan && abs > params.lastInRange;
    counters.clipped += !nan && abs > params.lastNotClipped;
    counters.inf += abs == kFloatInf;
    counters.nan += nan;
    if (!params.dear || abs >= kFloatInf) return;
    if (abs && (stats.minNonZeroBits == 0 || abs < stats.minNonZeroBits)) stats.minNonZeroBits = abs;
    const double value = x, square = value * value;
    const double error = static_cast<double>(decodeFp8(*code, format) * params.scaleInv) - value;
    stats.sumSquares += square;
    stats.sumSquaredError += error * error;
    stats.sumFourth += square * square;
    if (!params.exponents || !abs) return;
    const int exponent = abs >> 23 ? static_cast<int>(abs >> 23) - 127 : 31 - __builtin_clz(abs) - 149;
    ++stats.exponents[exponent + kExponentBias];
}

/// values: (n) BF16 bits. firstIndex: row-major index of values[0] in its tensor (stochastic rounding draws by it).
/// codes: (n), or nullptr when only the statistics are wanted. Adds to `stats`.
static inline void castSpanBf16(const uint16_t* values, int64_t n, int64_t firstIndex, const CastParams& params,
                                uint8_t* codes, SpanStats& stats) {
    const Fp8Traits format = fp8Traits(params.format);
    uint8_t unused = 0;
    for (int64_t i = 0; i < n; ++i)
        castOne(decodeBf16(values[i]), firstIndex + i, params, format, codes ? codes + i : &unused, stats);
}

/// The same from FP32. roundFirst: each value is rounded to BF16 before the cast, as every op of the engine does.
static inline void castSpanF32(const float* values, int64_t n, int64_t firstIndex, const CastParams& params,
                               bool roundFirst, uint8_t* codes, SpanStats& stats) {
    const Fp8Traits format = fp8Traits(params.format);
    uint8_t unused = 0;
    for (int64_t i = 0; i < n; ++i)
        castOne(roundFirst ? roundToBf16(values[i]) : values[i], firstIndex + i, params, format,
                codes ? codes + i : &unused, stats);
}

}  // namespace mantissa::kernels::MANTISSA_ISA
