// Sixteen floats, on every instruction set: one AVX-512 register, two of AVX2, four of SSE.
//
// Only for files compiled by mantissa_isa_sources. Code written on V16 gives the same bits on AVX2, AVX-512 and
// AVX-512-BF16: every operation is one correctly rounded IEEE operation a lane, and sums over lanes have one fixed
// order. On SSE fma() is a product and a sum, each rounded, so results differ there (determinism class x86-sse).
// Tensors are read and written by storage type: float, Bf16, F16; stores round to nearest even, in integer code for
// BF16 because the BF16 instruction flushes subnormals.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/formats/half.h"

#define MANTISSA_SIMD_INLINE static inline __attribute__((always_inline))

namespace mantissa::kernels::MANTISSA_ISA {

#if defined(__AVX512F__)
enum { kWidth = 16 };
#elif defined(__AVX2__)
enum { kWidth = 8 };
#else
enum { kWidth = 4 };
#endif
enum { kParts = 16 / kWidth };

typedef float NativeF __attribute__((vector_size(4 * kWidth)));
typedef int32_t NativeI __attribute__((vector_size(4 * kWidth)));
typedef uint32_t NativeU __attribute__((vector_size(4 * kWidth)));

/// Storage of 16-bit elements.
struct Bf16 {
    uint16_t bits;
};
struct F16 {
    uint16_t bits;
};

struct V16 {
    NativeF p[kParts];
};
/// Sixteen 32-bit integers; also masks, all ones where true.
struct I16 {
    NativeI p[kParts];
};

template <class R, class F>
MANTISSA_SIMD_INLINE R eachPart(F f) {
    R r;
    r.p[0] = f(0);
    if constexpr (kParts >= 2) r.p[1] = f(1);
    if constexpr (kParts >= 4) {
        r.p[2] = f(2);
        r.p[3] = f(3);
    }
    return r;
}
#define MANTISSA_EACH(R, expression) \
    eachPart<R>([&]([[maybe_unused]] int i) __attribute__((always_inline)) { return expression; })

// --- Arithmetic, a lane at a time ---
MANTISSA_SIMD_INLINE V16 splat(float value) {
    return MANTISSA_EACH(V16, NativeF{} + value);
}
MANTISSA_SIMD_INLINE I16 splatInt(int32_t value) {
    return MANTISSA_EACH(I16, NativeI{} + value);
}
MANTISSA_SIMD_INLINE V16 operator+(V16 a, V16 b) {
    return MANTISSA_EACH(V16, a.p[i] + b.p[i]);
}
MANTISSA_SIMD_INLINE V16 operator-(V16 a, V16 b) {
    return MANTISSA_EACH(V16, a.p[i] - b.p[i]);
}
MANTISSA_SIMD_INLINE V16 operator*(V16 a, V16 b) {
    return MANTISSA_EACH(V16, a.p[i] * b.p[i]);
}
MANTISSA_SIMD_INLINE V16 operator/(V16 a, V16 b) {
    return MANTISSA_EACH(V16, a.p[i] / b.p[i]);
}
MANTISSA_SIMD_INLINE V16 operator-(V16 a) {
    return MANTISSA_EACH(V16, -a.p[i]);
}

MANTISSA_SIMD_INLINE NativeF nativeFma(NativeF a, NativeF b, NativeF c) {
#if defined(__AVX512F__)
    return NativeF(_mm512_fmadd_ps(__m512(a), __m512(b), __m512(c)));
#elif defined(__AVX2__)
    return NativeF(_mm256_fmadd_ps(__m256(a), __m256(b), __m256(c)));
#else
    return a * b + c;
#endif
}
MANTISSA_SIMD_INLINE NativeF nativeSqrt(NativeF a) {
#if defined(__AVX512F__)
    return NativeF(_mm512_sqrt_ps(__m512(a)));
#elif defined(__AVX2__)
    return NativeF(_mm256_sqrt_ps(__m256(a)));
#else
    return NativeF(_mm_sqrt_ps(__m128(a)));
#endif
}
MANTISSA_SIMD_INLINE NativeF nativeMax(NativeF a, NativeF b) {
#if defined(__AVX512F__)
    return NativeF(_mm512_max_ps(__m512(a), __m512(b)));
#elif defined(__AVX2__)
    return NativeF(_mm256_max_ps(__m256(a), __m256(b)));
#else
    return NativeF(_mm_max_ps(__m128(a), __m128(b)));
#endif
}
MANTISSA_SIMD_INLINE NativeF nativeMin(NativeF a, NativeF b) {
#if defined(__AVX512F__)
    return NativeF(_mm512_min_ps(__m512(a), __m512(b)));
#elif defined(__AVX2__)
    return NativeF(_mm256_min_ps(__m256(a), __m256(b)));
#else
    return NativeF(_mm_min_ps(__m128(a), __m128(b)));
#endif
}

/// a * b + c with one rounding (two on SSE).
MANTISSA_SIMD_INLINE V16 fma(V16 a, V16 b, V16 c) {
    return MANTISSA_EACH(V16, nativeFma(a.p[i], b.p[i], c.p[i]));
}
MANTISSA_SIMD_INLINE V16 sqrt(V16 a) {
    return MANTISSA_EACH(V16, nativeSqrt(a.p[i]));
}
/// Where either is NaN: b.
MANTISSA_SIMD_INLINE V16 max(V16 a, V16 b) {
    return MANTISSA_EACH(V16, nativeMax(a.p[i], b.p[i]));
}
MANTISSA_SIMD_INLINE V16 min(V16 a, V16 b) {
    return MANTISSA_EACH(V16, nativeMin(a.p[i], b.p[i]));
}
/// value within [low, high]; NaN stays NaN.
MANTISSA_SIMD_INLINE V16 clamp(float low, float high, V16 value) {
    return max(splat(low), min(splat(high), value));
}

// --- Bits and integers ---
MANTISSA_SIMD_INLINE I16 asInt(V16 a) {
    return MANTISSA_EACH(I16, (NativeI)a.p[i]);
}
MANTISSA_SIMD_INLINE V16 asFloat(I16 a) {
    return MANTISSA_EACH(V16, (NativeF)a.p[i]);
}
// Modulo 2^32: the bits of a NaN may leave the range of int32_t when they are rounded.
MANTISSA_SIMD_INLINE I16 operator+(I16 a, I16 b) {
    return MANTISSA_EACH(I16, NativeI((NativeU)a.p[i] + (NativeU)b.p[i]));
}
MANTISSA_SIMD_INLINE I16 operator-(I16 a, I16 b) {
    return MANTISSA_EACH(I16, NativeI((NativeU)a.p[i] - (NativeU)b.p[i]));
}
MANTISSA_SIMD_INLINE I16 operator&(I16 a, I16 b) {
    return MANTISSA_EACH(I16, a.p[i] & b.p[i]);
}
MANTISSA_SIMD_INLINE I16 operator|(I16 a, I16 b) {
    return MANTISSA_EACH(I16, a.p[i] | b.p[i]);
}
MANTISSA_SIMD_INLINE I16 operator>(I16 a, I16 b) {
    return MANTISSA_EACH(I16, a.p[i] > b.p[i]);
}
template <int kBits>
MANTISSA_SIMD_INLINE I16 shiftLeft(I16 a) {
    return MANTISSA_EACH(I16, a.p[i] << kBits);
}
/// Fills with the sign.
template <int kBits>
MANTISSA_SIMD_INLINE I16 shiftRight(I16 a) {
    return MANTISSA_EACH(I16, a.p[i] >> kBits);
}
/// Fills with zeros.
template <int kBits>
MANTISSA_SIMD_INLINE I16 shiftRightLogical(I16 a) {
    return MANTISSA_EACH(I16, NativeI((NativeU)a.p[i] >> kBits));
}
MANTISSA_SIMD_INLINE I16 select(I16 mask, I16 yes, I16 no) {
    return MANTISSA_EACH(I16, mask.p[i] ? yes.p[i] : no.p[i]);
}
/// Lane numbers 0 ... 15.
MANTISSA_SIMD_INLINE I16 laneIndex() {
    I16 r;
    for (int part = 0; part < kParts; ++part)
        for (int lane = 0; lane < kWidth; ++lane) r.p[part][lane] = part * kWidth + lane;
    return r;
}

// --- Loads and stores: 16 elements, any alignment ---
// Part by part: as one copy of 64 bytes GCC 12 sends the two AVX2 registers through the stack (3 to 7 times slower).
MANTISSA_SIMD_INLINE NativeF nativeLoad(const float* from) {
#if defined(__AVX512F__)
    return NativeF(_mm512_loadu_ps(from));
#elif defined(__AVX2__)
    return NativeF(_mm256_loadu_ps(from));
#else
    return NativeF(_mm_loadu_ps(from));
#endif
}
MANTISSA_SIMD_INLINE void nativeStore(float* to, NativeF value) {
#if defined(__AVX512F__)
    _mm512_storeu_ps(to, __m512(value));
#elif defined(__AVX2__)
    _mm256_storeu_ps(to, __m256(value));
#else
    _mm_storeu_ps(to, __m128(value));
#endif
}
MANTISSA_SIMD_INLINE V16 load16(const float* from) {
    return MANTISSA_EACH(V16, nativeLoad(from + i * kWidth));
}
MANTISSA_SIMD_INLINE void store16(float* to, V16 value) {
    nativeStore(to, value.p[0]);
    if constexpr (kParts >= 2) nativeStore(to + kWidth, value.p[1]);
    if constexpr (kParts >= 4) {
        nativeStore(to + 2 * kWidth, value.p[2]);
        nativeStore(to + 3 * kWidth, value.p[3]);
    }
}

MANTISSA_SIMD_INLINE V16 load16(const Bf16* from) {
#if defined(__AVX512F__)
    return {{NativeF(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)from)), 16))}};
#elif defined(__AVX2__)
    return {{NativeF(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)from)), 16)),
             NativeF(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)(from + 8))), 16))}};
#else
    const __m128i zero = _mm_setzero_si128(), a = _mm_loadu_si128((const __m128i*)from),
                  b = _mm_loadu_si128((const __m128i*)(from + 8));
    return {{NativeF(_mm_unpacklo_epi16(zero, a)), NativeF(_mm_unpackhi_epi16(zero, a)),
             NativeF(_mm_unpacklo_epi16(zero, b)), NativeF(_mm_unpackhi_epi16(zero, b))}};
#endif
}

/// The BF16 patterns of nearest-even rounding in the low halves; NaN stays a quiet NaN.
MANTISSA_SIMD_INLINE I16 bf16Bits(V16 value) {
    const I16 bits = asInt(value), high = shiftRightLogical<16>(bits);
    const I16 rounded = shiftRightLogical<16>(bits + (high & splatInt(1)) + splatInt(0x7FFF));
    const I16 nan = (bits & splatInt(0x7FFFFFFF)) > splatInt(0x7F800000);
    return select(nan, high | splatInt(0x40), rounded);
}
MANTISSA_SIMD_INLINE void storeBf16Bits(Bf16* to, I16 bits) {
#if defined(__AVX512F__)
    _mm256_storeu_si256((__m256i*)to, _mm512_cvtepi32_epi16(__m512i(bits.p[0])));
#elif defined(__AVX2__)
    const __m256i packed = _mm256_packus_epi32(__m256i(bits.p[0]), __m256i(bits.p[1]));
    _mm256_storeu_si256((__m256i*)to, _mm256_permute4x64_epi64(packed, 0xD8));
#else
    _mm_storeu_si128((__m128i*)to, _mm_packus_epi32(__m128i(bits.p[0]), __m128i(bits.p[1])));
    _mm_storeu_si128((__m128i*)(to + 8), _mm_packus_epi32(__m128i(bits.p[2]), __m128i(bits.p[3])));
#endif
}

MANTISSA_SIMD_INLINE void store16(Bf16* to, V16 value) {
    storeBf16Bits(to, bf16Bits(value));
}

MANTISSA_SIMD_INLINE V16 load16(const F16* from) {
#if defined(__AVX512F__)
    return {{NativeF(_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)from)))}};
#elif defined(__AVX2__)
    return {{NativeF(_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)from))),
             NativeF(_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(from + 8))))}};
#else
    float values[16];
    for (int i = 0; i < 16; ++i) values[i] = decodeFp16(from[i].bits);
    return load16(values);
#endif
}
MANTISSA_SIMD_INLINE void store16(F16* to, V16 value) {
#if defined(__AVX512F__)
    _mm256_storeu_si256((__m256i*)to, _mm512_cvtps_ph(__m512(value.p[0]), _MM_FROUND_TO_NEAREST_INT));
#elif defined(__AVX2__)
    _mm_storeu_si128((__m128i*)to, _mm256_cvtps_ph(__m256(value.p[0]), _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((__m128i*)(to + 8), _mm256_cvtps_ph(__m256(value.p[1]), _MM_FROUND_TO_NEAREST_INT));
#else
    float values[16];
    store16(values, value);
    for (int i = 0; i < 16; ++i) to[i].bits = encodeFp16(values[i]);
#endif
}

/// The first n (0 ... 16) elements; the others read as 0 and are not touched in memory.
template <class T>
MANTISSA_SIMD_INLINE V16 loadPart(const T* from, int64_t n) {
    T values[16] = {};
    __builtin_memcpy(values, from, static_cast<size_t>(n) * sizeof(T));
    return load16(values);
}
template <class T>
MANTISSA_SIMD_INLINE void storePart(T* to, V16 value, int64_t n) {
    T values[16];
    store16(values, value);
    __builtin_memcpy(to, values, static_cast<size_t>(n) * sizeof(T));
}
/// Zero in the lanes from n on, whatever they hold.
MANTISSA_SIMD_INLINE V16 keepFirst(V16 value, int64_t n) {
    return asFloat((splatInt(static_cast<int32_t>(n)) > laneIndex()) & asInt(value));
}

MANTISSA_SIMD_INLINE float firstLane(V16 value) {
    return value.p[0][0];
}

// --- Across lanes: pairs 8 apart, then 4, 2, 1 ---
template <class F>
MANTISSA_SIMD_INLINE float reduceLanes(V16 value, F join) {
#if defined(__AVX512F__)
    const __m256 low = _mm512_castps512_ps256(__m512(value.p[0]));
    const __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(__m512(value.p[0])), 1));
    const __m256 eight = join.ymm(low, high);
    __m128 four = join.xmm(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
#elif defined(__AVX2__)
    const __m256 eight = join.ymm(__m256(value.p[0]), __m256(value.p[1]));
    __m128 four = join.xmm(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
#else
    __m128 four =
        join.xmm(join.xmm(__m128(value.p[0]), __m128(value.p[2])), join.xmm(__m128(value.p[1]), __m128(value.p[3])));
#endif
    four = join.xmm(four, _mm_movehl_ps(four, four));
    four = join.xmm(four, _mm_shuffle_ps(four, four, 1));
    return _mm_cvtss_f32(four);
}
struct JoinSum {
#if defined(__AVX2__)
    static __attribute__((always_inline)) inline __m256 ymm(__m256 a, __m256 b) {
        return _mm256_add_ps(a, b);
    }
#endif
    static __attribute__((always_inline)) inline __m128 xmm(__m128 a, __m128 b) {
        return _mm_add_ps(a, b);
    }
};
struct JoinMax {
#if defined(__AVX2__)
    static __attribute__((always_inline)) inline __m256 ymm(__m256 a, __m256 b) {
        return _mm256_max_ps(a, b);
    }
#endif
    static __attribute__((always_inline)) inline __m128 xmm(__m128 a, __m128 b) {
        return _mm_max_ps(a, b);
    }
};
MANTISSA_SIMD_INLINE float sumLanes(V16 value) {
    return reduceLanes(value, JoinSum{});
}
/// NaN lanes may or may not be seen: test for NaN apart where it matters.
MANTISSA_SIMD_INLINE float maxLanes(V16 value) {
    return reduceLanes(value, JoinMax{});
}

/// Sixteen lanes of double sums.
struct D16 {
    double lane[16] = {};
};
/// sums += value^2; the square of a float is exact in double.
MANTISSA_SIMD_INLINE void addSquares(D16& sums, V16 value) {
    float values[16];
    store16(values, value);
    for (int i = 0; i < 16; ++i) sums.lane[i] += static_cast<double>(values[i]) * values[i];
}
/// Pairs 8 apart, then 4, 2, 1.
MANTISSA_SIMD_INLINE double sumLanes(const D16& sums) {
    double lane[16];
    __builtin_memcpy(lane, sums.lane, sizeof lane);
    for (int half = 8; half >= 1; half /= 2)
        for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
    return lane[0];
}

/// How much of sixteen a step covers: all, or the first n lanes. Loops over a row call their body with Full, then once
/// with Part.
struct Full {};
struct Part {
    int64_t n;
};
template <class T>
MANTISSA_SIMD_INLINE V16 load(const T* from, Full) {
    return load16(from);
}
template <class T>
MANTISSA_SIMD_INLINE V16 load(const T* from, Part part) {
    return loadPart(from, part.n);
}
template <class T>
MANTISSA_SIMD_INLINE void store(T* to, V16 value, Full) {
    store16(to, value);
}
template <class T>
MANTISSA_SIMD_INLINE void store(T* to, V16 value, Part part) {
    storePart(to, value, part.n);
}
/// Stores, and returns the values as they read from memory afterwards. BF16 is rounded once for both.
MANTISSA_SIMD_INLINE V16 storeRounded(float* to, V16 value, Full) {
    store16(to, value);
    return value;
}
MANTISSA_SIMD_INLINE V16 storeRounded(Bf16* to, V16 value, Full) {
    const I16 bits = bf16Bits(value);
    storeBf16Bits(to, bits);
    return asFloat(shiftLeft<16>(bits));
}
MANTISSA_SIMD_INLINE V16 storeRounded(F16* to, V16 value, Full) {
    store16(to, value);
    return load16(to);
}
template <class T>
MANTISSA_SIMD_INLINE V16 storeRounded(T* to, V16 value, Part part) {
    storePart(to, value, part.n);
    return loadPart(to, part.n);
}

MANTISSA_SIMD_INLINE V16 keep(V16 value, Full) {
    return value;
}
MANTISSA_SIMD_INLINE V16 keep(V16 value, Part part) {
    return keepFirst(value, part.n);
}
/// value, and `other` in the lanes beyond the part.
MANTISSA_SIMD_INLINE V16 keepOr(V16 value, V16, Full) {
    return value;
}
MANTISSA_SIMD_INLINE V16 keepOr(V16 value, V16 other, Part part) {
    const I16 within = splatInt(static_cast<int32_t>(part.n)) > laneIndex();
    return asFloat(select(within, asInt(value), asInt(other)));
}

/// body(column, Full or Part) over a row of n columns.
template <class F>
MANTISSA_SIMD_INLINE void forEach16(int64_t n, F body) {
    int64_t c = 0;
    for (; c + 16 <= n; c += 16) body(c, Full{});
    if (c < n) body(c, Part{n - c});
}

/// Sum over a row in one fixed order: columns 32 j + lane and 32 j + 16 + lane add up apart, then join, then the lanes.
/// step(sum, column, Full or Part) returns sum plus its 16 columns, with zeros beyond the end of the row (keep()).
template <class F>
MANTISSA_SIMD_INLINE float sumRow(int64_t n, F step) {
    V16 even = splat(0), odd = splat(0);
    int64_t c = 0;
    for (; c + 32 <= n; c += 32) {
        even = step(even, c, Full{});
        odd = step(odd, c + 16, Full{});
    }
    if (c + 16 <= n) {
        even = step(even, c, Full{});
        if (c + 16 < n) odd = step(odd, c + 16, Part{n - c - 16});
    } else if (c < n) {
        even = step(even, c, Part{n - c});
    }
    return sumLanes(even + odd);
}

}  // namespace mantissa::kernels::MANTISSA_ISA
