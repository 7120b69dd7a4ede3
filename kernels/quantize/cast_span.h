// The cast of a span that lies in L1, inlined into every fused CPU op. Only for files compiled by mantissa_isa_sources.
//
// castSpanBf16 is all an op needs: codes, amax, counters and, on probed steps, the dear set, as its CastParams ask.
// Codes are exact. Dear sums run in double over 16 virtual lanes of the span, joined in a fixed order, so every
// instruction set gives the same bits as long as an op cuts its tensor into the same spans.
//
// How it is cheap: counts are taken on packed bytes; underflow = zero codes - zero inputs; over-range, clip, Inf and
// NaN are looked at only in a block whose largest |x| passes the threshold that belongs to the scale (the block is then
// counted by vector compares as well, because a stale scale can send every block there); amax is an integer maximum of
// bit patterns.
#pragma once

#include <cstdint>

#include "kernels/formats/fp8.h"
#include "kernels/formats/half.h"
#include "kernels/quantize/cast_vector.h"
#include "kernels/quantize/span_stats.h"
#include "kernels/simd/philox.h"

namespace mantissa::kernels::MANTISSA_ISA {

/// Elements of one vector block: two registers of BF16.
inline constexpr int kCastBlock = kVecBytes;
/// Span pieces whose codes go to a local buffer when an op wants none.
inline constexpr int kCastPiece = 1024;

/// FP8 magnitudes (32-bit lanes) of FP32 values x: |x * scale| clamped to M, then rounded by one addition
/// (kernels/formats/fp8.h).
template <bool kE5m2Format>
MANTISSA_ALWAYS_INLINE VecInt castMagnitudes(VecInt values, VecInt scale) {
    constexpr Fp8Traits kFormat = kE5m2Format ? kE5m2 : kE4m3;
    constexpr int kDropped = 23 - kFormat.mantissaBits;
    constexpr uint32_t kMagic = static_cast<uint32_t>(kDropped) << 23;
    VecInt abs = vecAnd(vecMulFloat(values, scale), vecSet32(kFloatAbs));
    abs = vecMin32(abs, vecSet32(kFormat.maxFinite));
    const VecInt exponent = vecMax32(vecAnd(abs, vecSet32(kFloatInf)), vecSet32(kFormat.minNormal));
    const VecInt sum = vecAddFloat(abs, vecAdd32(exponent, vecSet32(kMagic)));
    const VecInt base = vecSub32(vecShiftRight32<kDropped>(exponent), exponent);
    return vecSub32(vecAdd32(sum, base), vecSet32(kMagic + (kFormat.minNormal >> kDropped)));
}

/// Codes (16-bit lanes, in order) of one register of BF16; a NaN gives the largest finite code here.
template <bool kE5m2Format>
MANTISSA_ALWAYS_INLINE VecInt castCodes16(VecInt values, VecInt scale) {
    const VecInt low = castMagnitudes<kE5m2Format>(vecUnpackLow16(vecZero(), values), scale);
    const VecInt high = castMagnitudes<kE5m2Format>(vecUnpackHigh16(vecZero(), values), scale);
    return vecOr(vecPack32(low, high), vecAnd(vecShiftRight16<8>(values), vecSet16(0x80)));
}

/// Everything a run of blocks accumulates in registers.
struct CastAccumulators {
    VecInt amax = vecZero();
    VecCounter zeros, zeroCodes, smallCodes, over, clipped, inf, nan;
    MANTISSA_ALWAYS_INLINE void flush() {
        zeros.flush();
        zeroCodes.flush();
        smallCodes.flush();
        over.flush();
        clipped.flush();
        inf.flush();  // counts Inf and NaN together
        nan.flush();
    }
};

struct CastLimits {
    VecInt scale, careful, inRange, notClipped;
};

template <bool kE5m2Format, bool kCount>
MANTISSA_ALWAYS_INLINE void castBlock(const uint16_t* values, const CastLimits& limits, uint8_t* codes,
                                      CastAccumulators& sums) {
    constexpr Fp8Traits kFormat = kE5m2Format ? kE5m2 : kE4m3;
    const VecInt x0 = vecLoad(values), x1 = vecLoad(values + kCastBlock / 2);
    const VecInt a0 = vecAnd(x0, vecSet16(0x7FFF)), a1 = vecAnd(x1, vecSet16(0x7FFF));
    VecInt c0 = castCodes16<kE5m2Format>(x0, limits.scale), c1 = castCodes16<kE5m2Format>(x1, limits.scale);
    const VecInt largest = vecMax16(a0, a1);
    if (__builtin_expect(vecAnyGreater16(largest, limits.careful), 0)) {
        const VecInt infinity = vecSet16(0x7F80), nanCode = vecSet16(0x7F);
        c0 = vecSelectGreater16(a0, infinity, nanCode, c0);
        c1 = vecSelectGreater16(a1, infinity, nanCode, c1);
        if constexpr (kCount) {
            sums.over.addGreater16(a0, a1, limits.inRange);
            sums.clipped.addGreater16(a0, a1, limits.notClipped);
            sums.inf.addGreater16(a0, a1, vecSet16(0x7F7F));
            sums.nan.addGreater16(a0, a1, infinity);
        }
        const VecInt n0 = vecSelectGreater16(a0, infinity, vecZero(), a0),
                     n1 = vecSelectGreater16(a1, infinity, vecZero(), a1);
        sums.amax = vecMax16(sums.amax, vecMax16(n0, n1));
    } else {
        sums.amax = vecMax16(sums.amax, largest);
    }
    const VecInt packed = vecPack16InOrder(c0, c1);
    vecStore(codes, packed);
    if constexpr (!kCount) return;
    const VecInt magnitudes = vecAnd(packed, vecSet8(0x7F));
    sums.zeros.addZero16(a0, a1);
    sums.zeroCodes.addBelow8(magnitudes, vecSet8(1));
    sums.smallCodes.addBelow8(magnitudes, vecSet8(kFormat.subnormalCodes + 1));
}

/// Largest of the 16-bit lanes.
MANTISSA_ALWAYS_INLINE uint32_t vecLargest16(VecInt v) {
    uint16_t lanes[kVecBytes / 2];
    vecStore(lanes, v);
    uint32_t largest = 0;
    for (uint16_t lane : lanes) largest = lane > largest ? lane : largest;
    return largest;
}

/// codes (n) of values (n) with amax and the cheap counters; codes may have room for n only.
template <bool kE5m2Format, bool kCount>
static inline void castBlocks(const uint16_t* values, int64_t n, const CastParams& params, uint8_t* codes,
                              SpanStats& stats) {
    const uint32_t inRange = params.lastInRange >> 16;
    const CastLimits limits = {
        vecSet32(floatBits(params.scale)), vecSet16(static_cast<uint16_t>(inRange < 0x7F7F ? inRange : 0x7F7F)),
        vecSet16(static_cast<uint16_t>(inRange)), vecSet16(static_cast<uint16_t>(params.lastNotClipped >> 16))};
    CastAccumulators sums;
    int64_t i = 0;
    while (i + kCastBlock <= n) {
        int64_t end = i + 255 * kCastBlock;
        if (end > n) end = n;
        for (; i + kCastBlock <= end; i += kCastBlock)
            castBlock<kE5m2Format, kCount>(values + i, limits, codes + i, sums);
        sums.flush();
    }
    if (i < n) {  // the rest, padded with zeros that are taken off the counts again
        uint16_t restValues[kCastBlock] = {};
        uint8_t restCodes[kCastBlock];
        for (int64_t j = i; j < n; ++j) restValues[j - i] = values[j];
        castBlock<kE5m2Format, kCount>(restValues, limits, restCodes, sums);
        sums.flush();
        for (int64_t j = i; j < n; ++j) codes[j] = restCodes[j - i];
        sums.zeros.sum -= static_cast<uint64_t>(i + kCastBlock - n);
        sums.zeroCodes.sum -= static_cast<uint64_t>(i + kCastBlock - n);
        sums.smallCodes.sum -= static_cast<uint64_t>(i + kCastBlock - n);
    }
    const uint32_t amaxBits = vecLargest16(sums.amax) << 16;
    if (amaxBits > stats.amaxBits) stats.amaxBits = amaxBits;
    if constexpr (!kCount) return;
    CastCounters& counters = stats.counters;
    counters.elements += static_cast<uint64_t>(n);
    counters.zeros += sums.zeros.sum;
    counters.underflow += sums.zeroCodes.sum - sums.zeros.sum;
    counters.subnormal += sums.smallCodes.sum - sums.zeroCodes.sum;
    counters.overRange += sums.over.sum - sums.nan.sum;
    counters.clipped += sums.clipped.sum - sums.nan.sum;
    counters.inf += sums.inf.sum - sums.nan.sum;
    counters.nan += sums.nan.sum;
}

/// stats.amaxBits alone.
static inline void amaxSpanBf16(const uint16_t* values, int64_t n, SpanStats& stats) {
    const VecInt absMask = vecSet16(0x7FFF), infinity = vecSet16(0x7F80);
    VecInt amax = vecZero();
    int64_t i = 0;
    for (; i + kVecBytes / 2 <= n; i += kVecBytes / 2) {
        const VecInt abs = vecAnd(vecLoad(values + i), absMask);
        amax = vecMax16(amax, vecSelectGreater16(abs, infinity, vecZero(), abs));
    }
    uint32_t largest = vecLargest16(amax);
    for (; i < n; ++i) {
        const uint32_t abs = values[i] & 0x7FFFu;
        if (abs <= 0x7F80 && abs > largest) largest = abs;
    }
    if (largest << 16 > stats.amaxBits) stats.amaxBits = largest << 16;
}

/// One value the plain way: FP32 that is not rounded to BF16 first, and stochastic rounding.
static inline void castOne(float x, int64_t index, const CastParams& params, const Fp8Traits& format, uint8_t* code,
                           SpanStats& stats) {
    const uint32_t abs = floatBits(x) & kFloatAbs;
    const bool nan = abs > kFloatInf;
    if (!nan && abs > stats.amaxBits) stats.amaxBits = abs;
    const float scaled = x * params.scale;
    if (params.stochastic) {
        const Philox4 random = philoxBlock(params.seed, static_cast<uint64_t>(index) >> 2, 0);
        *code = encodeFp8Stochastic(scaled, format, random.value[index & 3]);
    } else {
        *code = encodeFp8(scaled, format);
    }
    if (!params.count) return;
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
}

/// Sixteen virtual lanes of the dear sums; element i of a span belongs to lane i % 16.
struct DearLanes {
    double squares[16] = {}, errors[16] = {}, fourths[16] = {};
    uint32_t smallest[16] = {kFloatInf, kFloatInf, kFloatInf, kFloatInf, kFloatInf, kFloatInf, kFloatInf, kFloatInf,
                             kFloatInf, kFloatInf, kFloatInf, kFloatInf, kFloatInf, kFloatInf, kFloatInf, kFloatInf};
};

/// Branch-free decodeFp8 of a magnitude (NaN codes do not come here: their inputs are left out).
MANTISSA_ALWAYS_INLINE float dearDecode(uint32_t code, const Fp8Traits& format) {
    const int dropped = 23 - format.mantissaBits;
    const uint32_t magnitude = code & 0x7Fu;
    const float normal = floatFromBits((magnitude << dropped) + format.minNormal - (1u << 23));
    const float small = floatFromBits((magnitude << dropped) + format.minNormal) - floatFromBits(format.minNormal);
    return floatFromBits(floatBits(magnitude <= format.subnormalCodes ? small : normal) | (code & 0x80u) << 24);
}

/// x (16) with its codes, into the lanes. Values that are not finite add nothing.
MANTISSA_ALWAYS_INLINE void dearGroup(const float* x, const uint8_t* codes, const Fp8Traits& format, float scaleInv,
                                      DearLanes& lanes) {
    for (int lane = 0; lane < 16; ++lane) {
        const uint32_t abs = floatBits(x[lane]) & kFloatAbs;
        const bool finite = abs < kFloatInf;
        const float value = finite ? x[lane] : 0.0f;
        const float back = finite ? dearDecode(codes[lane], format) * scaleInv : 0.0f;
        const double wide = value, square = wide * wide, error = static_cast<double>(back) - wide;
        lanes.squares[lane] += square;
        lanes.errors[lane] += error * error;
        lanes.fourths[lane] += square * square;
        const uint32_t candidate = abs != 0 && finite ? abs : kFloatInf;
        lanes.smallest[lane] = candidate < lanes.smallest[lane] ? candidate : lanes.smallest[lane];
    }
}

/// Adds n values (FP32, a multiple of 16 except at a span's end) with their codes to the lanes and the histogram.
static inline void dearPiece(const float* x, const uint8_t* codes, int64_t n, const CastParams& params,
                             DearLanes& lanes, SpanStats& stats) {
    const Fp8Traits format = fp8Traits(params.format);
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) dearGroup(x + i, codes + i, format, params.scaleInv, lanes);
    if (i < n) {
        float restValues[16] = {};
        uint8_t restCodes[16] = {};
        for (int64_t j = i; j < n; ++j) {
            restValues[j - i] = x[j];
            restCodes[j - i] = codes[j];
        }
        dearGroup(restValues, restCodes, format, params.scaleInv, lanes);
    }
    if (!params.exponents) return;
    for (int64_t j = 0; j < n; ++j) {
        const uint32_t abs = floatBits(x[j]) & kFloatAbs;
        if (abs == 0 || abs >= kFloatInf) continue;
        const int exponent = abs >> 23 ? static_cast<int>(abs >> 23) - 127 : 31 - __builtin_clz(abs) - 149;
        ++stats.exponents[exponent + kExponentBias];
    }
}

/// Sum of 16 lanes in the fixed order of a binary tree.
MANTISSA_ALWAYS_INLINE double sumLanes(double* lanes) {
    for (int half = 8; half >= 1; half /= 2)
        for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    return lanes[0];
}

static inline void dearFinish(DearLanes& lanes, SpanStats& stats) {
    stats.sumSquares += sumLanes(lanes.squares);
    stats.sumSquaredError += sumLanes(lanes.errors);
    stats.sumFourth += sumLanes(lanes.fourths);
    for (uint32_t bits : lanes.smallest)
        if (bits < kFloatInf && (stats.minNonZeroBits == 0 || bits < stats.minNonZeroBits)) stats.minNonZeroBits = bits;
}

/// values: (n) BF16 bits. firstIndex: row-major index of values[0] in its tensor (stochastic rounding draws by it).
/// codes: (n), or nullptr when only the statistics are wanted. Adds to `stats`.
static inline void castSpanBf16(const uint16_t* values, int64_t n, int64_t firstIndex, const CastParams& params,
                                uint8_t* codes, SpanStats& stats) {
    if (params.amaxOnly) return amaxSpanBf16(values, n, stats);
    const Fp8Traits format = fp8Traits(params.format);
    DearLanes lanes;
    uint8_t pieceCodes[kCastPiece];
    for (int64_t i = 0; i < n; i += kCastPiece) {
        const int64_t size = n - i < kCastPiece ? n - i : kCastPiece;
        uint8_t* out = codes ? codes + i : pieceCodes;
        if (params.stochastic) {
            for (int64_t j = 0; j < size; ++j)
                castOne(decodeBf16(values[i + j]), firstIndex + i + j, params, format, out + j, stats);
        } else {
            const auto blocks = params.format == DType::E5M2
                                    ? (params.count ? castBlocks<true, true> : castBlocks<true, false>)
                                    : (params.count ? castBlocks<false, true> : castBlocks<false, false>);
            blocks(values + i, size, params, out, stats);
        }
        if (!params.dear) continue;
        float wide[kCastPiece];
        for (int64_t j = 0; j < size; ++j) wide[j] = decodeBf16(values[i + j]);
        dearPiece(wide, out, size, params, lanes, stats);
    }
    if (params.dear) dearFinish(lanes, stats);
}

/// bits[i] = BF16 of values[i], nearest even, subnormals kept (never vcvtneps2bf16, which flushes them).
static inline void roundSpanBf16(const float* values, int64_t n, uint16_t* bits) {
    for (int64_t i = 0; i < n; ++i) bits[i] = encodeBf16(values[i]);
}

/// The same from FP32. roundFirst: each value is rounded to BF16 before the cast, as every op of the engine does.
static inline void castSpanF32(const float* values, int64_t n, int64_t firstIndex, const CastParams& params,
                               bool roundFirst, uint8_t* codes, SpanStats& stats) {
    if (roundFirst) {
        uint16_t rounded[kCastPiece];
        for (int64_t i = 0; i < n; i += kCastPiece) {
            const int64_t size = n - i < kCastPiece ? n - i : kCastPiece;
            roundSpanBf16(values + i, size, rounded);
            castSpanBf16(rounded, size, firstIndex + i, params, codes ? codes + i : nullptr, stats);
        }
        return;
    }
    const Fp8Traits format = fp8Traits(params.format);
    DearLanes lanes;
    uint8_t pieceCodes[kCastPiece];
    for (int64_t i = 0; i < n; i += kCastPiece) {
        const int64_t size = n - i < kCastPiece ? n - i : kCastPiece;
        uint8_t* out = codes ? codes + i : pieceCodes;
        for (int64_t j = 0; j < size; ++j) {
            if (params.amaxOnly) {
                const uint32_t abs = floatBits(values[i + j]) & kFloatAbs;
                if (abs <= kFloatInf && abs > stats.amaxBits) stats.amaxBits = abs;
            } else {
                castOne(values[i + j], firstIndex + i + j, params, format, out + j, stats);
            }
        }
        if (params.dear) dearPiece(values + i, out, size, params, lanes, stats);
    }
    if (params.dear) dearFinish(lanes, stats);
}

}  // namespace mantissa::kernels::MANTISSA_ISA
