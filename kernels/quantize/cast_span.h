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
    bool careful = false;  ///< a block went the careful way since the last flush
    MANTISSA_ALWAYS_INLINE void flush() {
        zeros.flush();
        zeroCodes.flush();
        smallCodes.flush();
        if (!careful) return;
        careful = false;
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
            sums.careful = true;
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

/// random[i] = word (firstIndex + i) % 4 of Philox block (firstIndex + i) / 4. Sixteen blocks at a time, so that
/// compilers vectorise it.
static inline void castRandom(uint64_t seed, int64_t firstIndex, int64_t n, uint32_t* random) {
    constexpr int kBlocks = 16;
    const uint64_t first = static_cast<uint64_t>(firstIndex) >> 2;
    const int64_t skip = firstIndex & 3;
    for (int64_t at = 0; at < n + skip; at += 4 * kBlocks) {
        uint32_t words[4][kBlocks];
        for (int block = 0; block < kBlocks; ++block) {
            const Philox4 one = philoxBlock(seed, first + static_cast<uint64_t>(at / 4 + block), 0);
            for (int word = 0; word < 4; ++word) words[word][block] = one.value[word];
        }
        for (int64_t i = 0; i < 4 * kBlocks; ++i) {
            const int64_t to = at + i - skip;
            if (to >= 0 && to < n) random[to] = words[i & 3][i >> 2];
        }
    }
}

/// One value the plain way: FP32 that is not rounded to BF16 first, and stochastic rounding (`random`: 32 uniform
/// bits).
static inline void castOne(float x, uint32_t random, const CastParams& params, const Fp8Traits& format, uint8_t* code,
                           SpanStats& stats) {
    const uint32_t abs = floatBits(x) & kFloatAbs;
    const bool nan = abs > kFloatInf;
    if (!nan && abs > stats.amaxBits) stats.amaxBits = abs;
    const float scaled = x * params.scale;
    *code = params.stochastic ? encodeFp8Stochastic(scaled, format, random) : encodeFp8(scaled, format);
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
};

/// Decodes FP8 codes (32-bit lanes) to FP32 without branches or subnormal operands; NaN codes do not come here.
template <bool kE5m2Format>
MANTISSA_ALWAYS_INLINE VecInt dearDecode(VecInt codes) {
    constexpr Fp8Traits kFormat = kE5m2Format ? kE5m2 : kE4m3;
    constexpr int kDropped = 23 - kFormat.mantissaBits;
    const VecInt magnitude = vecAnd(codes, vecSet32(0x7F)), sign = vecShiftLeft32<24>(vecAnd(codes, vecSet32(0x80)));
    const VecInt shifted = vecShiftLeft32<kDropped>(magnitude);
    const VecInt normal = vecAdd32(shifted, vecSet32(kFormat.minNormal - (1u << 23)));
    const VecInt small = vecSubFloat(vecAdd32(shifted, vecSet32(kFormat.minNormal)), vecSet32(kFormat.minNormal));
    return vecOr(sign, vecSelectGreater32(magnitude, vecSet32(kFormat.subnormalCodes), normal, small));
}

MANTISSA_ALWAYS_INLINE void dearAdd(VecDouble x, VecDouble back, VecDouble& squares, VecDouble& errors,
                                    VecDouble& fourths) {
    const VecDouble square = x * x, error = back - x;
    squares += square;
    errors += error * error;
    fourths += square * square;
}

/// n values (BF16 bits or FP32 bits), n a multiple of 16, with their codes, into the lanes. Values that are not finite
/// add nothing. One pass over the data for each register's worth of lanes, so that the sums stay in registers.
template <bool kE5m2Format, class T>
static inline void dearGroups(const T* values, const uint8_t* codes, int64_t n, float scaleInv, DearLanes& lanes) {
    const VecInt inverse = vecSet32(floatBits(scaleInv)), absMask = vecSet32(kFloatAbs),
                 largest = vecSet32(kFloatMaxFinite);
    constexpr int kHalf = kVecFloats / 2;
    for (int lane = 0; lane < 16; lane += kVecFloats) {
        VecDouble squares[2], errors[2], fourths[2];
        for (int half = 0; half < 2; ++half) {
            squares[half] = vecLoadDouble(lanes.squares + lane + half * kHalf);
            errors[half] = vecLoadDouble(lanes.errors + lane + half * kHalf);
            fourths[half] = vecLoadDouble(lanes.fourths + lane + half * kHalf);
        }
        for (int64_t i = lane; i < n; i += 16) {
            VecInt x;
            if constexpr (sizeof(T) == 2)
                x = vecLoadBf16AsFloat(values + i);
            else
                x = vecLoad(values + i);
            VecInt back = vecMulFloat(dearDecode<kE5m2Format>(vecLoadBytes32(codes + i)), inverse);
            const VecInt abs = vecAnd(x, absMask);
            back = vecSelectGreater32(abs, largest, vecZero(), back);
            x = vecSelectGreater32(abs, largest, vecZero(), x);
            dearAdd(vecLowDouble(x), vecLowDouble(back), squares[0], errors[0], fourths[0]);
            dearAdd(vecHighDouble(x), vecHighDouble(back), squares[1], errors[1], fourths[1]);
        }
        for (int half = 0; half < 2; ++half) {
            vecStoreDouble(lanes.squares + lane + half * kHalf, squares[half]);
            vecStoreDouble(lanes.errors + lane + half * kHalf, errors[half]);
            vecStoreDouble(lanes.fourths + lane + half * kHalf, fourths[half]);
        }
    }
}

MANTISSA_ALWAYS_INLINE uint32_t wideBits(uint16_t bf16) {
    return static_cast<uint32_t>(bf16) << 16;
}
MANTISSA_ALWAYS_INLINE uint32_t wideBits(uint32_t f32) {
    return f32;
}

/// Smallest finite non-zero magnitude and, when asked for, the histogram.
template <class T>
static inline void dearRange(const T* values, int64_t n, const CastParams& params, SpanStats& stats) {
    constexpr T kAbs = static_cast<T>(~T{0}) >> 1;
    constexpr T kInfinity = sizeof(T) == 2 ? static_cast<T>(0x7F80) : static_cast<T>(kFloatInf);
    T smallest = kInfinity;
    for (int64_t i = 0; i < n; ++i) {
        const T abs = values[i] & kAbs;
        const T candidate = abs == 0 ? kInfinity : abs;
        smallest = candidate < smallest ? candidate : smallest;
    }
    const uint32_t bits = wideBits(smallest);
    if (bits < kFloatInf && (stats.minNonZeroBits == 0 || bits < stats.minNonZeroBits)) stats.minNonZeroBits = bits;
    if (!params.exponents) return;
    for (int64_t i = 0; i < n; ++i) {
        const uint32_t abs = wideBits(static_cast<T>(values[i] & kAbs));
        if (abs == 0 || abs >= kFloatInf) continue;
        const int exponent = abs >> 23 ? static_cast<int>(abs >> 23) - 127 : 31 - __builtin_clz(abs) - 149;
        ++stats.exponents[exponent + kExponentBias];
    }
}

/// Dear set of n values (BF16 bits or FP32 bits, a multiple of 16 except at a span's end) with their codes.
template <class T>
static inline void dearPiece(const T* values, const uint8_t* codes, int64_t n, const CastParams& params,
                             DearLanes& lanes, SpanStats& stats) {
    const auto groups = params.format == DType::E5M2 ? dearGroups<true, T> : dearGroups<false, T>;
    const int64_t whole = n / 16 * 16;
    groups(values, codes, whole, params.scaleInv, lanes);
    if (whole < n) {  // padded with zeros, which add nothing
        T restValues[16] = {};
        uint8_t restCodes[16] = {};
        for (int64_t j = whole; j < n; ++j) {
            restValues[j - whole] = values[j];
            restCodes[j - whole] = codes[j];
        }
        groups(restValues, restCodes, 16, params.scaleInv, lanes);
    }
    dearRange(values, n, params, stats);
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
}

static inline void castBlocks(const uint16_t* values, int64_t n, const CastParams& params, uint8_t* codes,
                              SpanStats& stats) {
    if (params.format == DType::E5M2)
        return params.count ? castBlocks<true, true>(values, n, params, codes, stats)
                            : castBlocks<true, false>(values, n, params, codes, stats);
    return params.count ? castBlocks<false, true>(values, n, params, codes, stats)
                        : castBlocks<false, false>(values, n, params, codes, stats);
}

/// What castSpanBf16 does when more is wanted than codes and the cheap set.
[[gnu::noinline]] static void castSpanInPieces(const uint16_t* values, int64_t n, int64_t firstIndex,
                                               const CastParams& params, uint8_t* codes, SpanStats& stats) {
    const Fp8Traits format = fp8Traits(params.format);
    DearLanes lanes;
    uint8_t pieceCodes[kCastPiece];
    for (int64_t i = 0; i < n; i += kCastPiece) {
        const int64_t size = n - i < kCastPiece ? n - i : kCastPiece;
        uint8_t* out = codes ? codes + i : pieceCodes;
        if (params.stochastic) {
            uint32_t random[kCastPiece];
            castRandom(params.seed, firstIndex + i, size, random);
            for (int64_t j = 0; j < size; ++j)
                castOne(decodeBf16(values[i + j]), random[j], params, format, out + j, stats);
        } else {
            castBlocks(values + i, size, params, out, stats);
        }
        if (params.dear) dearPiece(values + i, out, size, params, lanes, stats);
    }
    if (params.dear) dearFinish(lanes, stats);
}

/// values: (n) BF16 bits. firstIndex: row-major index of values[0] in its tensor (stochastic rounding draws by it).
/// codes: (n), or nullptr when only the statistics are wanted. Adds to `stats`.
static inline void castSpanBf16(const uint16_t* values, int64_t n, int64_t firstIndex, const CastParams& params,
                                uint8_t* codes, SpanStats& stats) {
    if (params.amaxOnly) return amaxSpanBf16(values, n, stats);
    if (params.dear || params.stochastic || !codes)
        return castSpanInPieces(values, n, firstIndex, params, codes, stats);
    castBlocks(values, n, params, codes, stats);
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
        uint32_t random[kCastPiece] = {};
        if (params.stochastic && !params.amaxOnly) castRandom(params.seed, firstIndex + i, size, random);
        for (int64_t j = 0; j < size; ++j) {
            if (params.amaxOnly) {
                const uint32_t abs = floatBits(values[i + j]) & kFloatAbs;
                if (abs <= kFloatInf && abs > stats.amaxBits) stats.amaxBits = abs;
            } else {
                castOne(values[i + j], random[j], params, format, out + j, stats);
            }
        }
        if (params.dear) dearPiece(reinterpret_cast<const uint32_t*>(values + i), out, size, params, lanes, stats);
    }
    if (params.dear) dearFinish(lanes, stats);
}

}  // namespace mantissa::kernels::MANTISSA_ISA
