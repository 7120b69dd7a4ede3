// Vector registers of the instruction set being compiled, as far as the FP8 cast needs them. Only for
// mantissa_isa_sources files.
//
// All three widths work in 128-bit lanes alike: unpacking BF16 with zeros below gives FP32, and packing the codes of
// both halves puts them back in place, so one algorithm serves them all. Counts of bytes: SSE and AVX2 subtract compare
// masks from byte counters that are summed every 255 blocks, AVX-512 counts mask bits.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/formats/float_bits.h"

namespace mantissa::kernels::MANTISSA_ISA {

#if defined(MANTISSA_ISA_avx512) || defined(MANTISSA_ISA_avx512bf16)
using VecInt = __m512i;
inline constexpr int kVecBytes = 64;
MANTISSA_ALWAYS_INLINE VecInt vecLoad(const void* p) {
    return _mm512_loadu_si512(p);
}
MANTISSA_ALWAYS_INLINE void vecStore(void* p, VecInt v) {
    _mm512_storeu_si512(p, v);
}
MANTISSA_ALWAYS_INLINE VecInt vecZero() {
    return _mm512_setzero_si512();
}
MANTISSA_ALWAYS_INLINE VecInt vecSet32(uint32_t v) {
    return _mm512_set1_epi32(static_cast<int>(v));
}
MANTISSA_ALWAYS_INLINE VecInt vecSet16(uint16_t v) {
    return _mm512_set1_epi16(static_cast<short>(v));
}
MANTISSA_ALWAYS_INLINE VecInt vecSet8(uint8_t v) {
    return _mm512_set1_epi8(static_cast<char>(v));
}
MANTISSA_ALWAYS_INLINE VecInt vecAnd(VecInt a, VecInt b) {
    return _mm512_and_si512(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecOr(VecInt a, VecInt b) {
    return _mm512_or_si512(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecAdd32(VecInt a, VecInt b) {
    return _mm512_add_epi32(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecSub32(VecInt a, VecInt b) {
    return _mm512_sub_epi32(a, b);
}
template <int kBits>
MANTISSA_ALWAYS_INLINE VecInt vecShiftRight32(VecInt a) {
    return _mm512_srli_epi32(a, kBits);
}
template <int kBits>
MANTISSA_ALWAYS_INLINE VecInt vecShiftRight16(VecInt a) {
    return _mm512_srli_epi16(a, kBits);
}
MANTISSA_ALWAYS_INLINE VecInt vecMin32(VecInt a, VecInt b) {
    return _mm512_min_epi32(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecMax32(VecInt a, VecInt b) {
    return _mm512_max_epi32(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecMax16(VecInt a, VecInt b) {
    return _mm512_max_epu16(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecUnpackLow16(VecInt a, VecInt b) {
    return _mm512_unpacklo_epi16(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecUnpackHigh16(VecInt a, VecInt b) {
    return _mm512_unpackhi_epi16(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecPack32(VecInt a, VecInt b) {
    return _mm512_packus_epi32(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecPack16InOrder(VecInt a, VecInt b) {
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), _mm512_packus_epi16(a, b));
}
MANTISSA_ALWAYS_INLINE VecInt vecMulFloat(VecInt a, VecInt b) {
    return _mm512_castps_si512(_mm512_mul_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b)));
}
MANTISSA_ALWAYS_INLINE VecInt vecAddFloat(VecInt a, VecInt b) {
    return _mm512_castps_si512(_mm512_add_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b)));
}
MANTISSA_ALWAYS_INLINE bool vecAnyGreater16(VecInt a, VecInt b) {
    return _mm512_cmpgt_epi16_mask(a, b) != 0;
}
/// b where a > limit (signed 16 bits), else `other`.
MANTISSA_ALWAYS_INLINE VecInt vecSelectGreater16(VecInt a, VecInt limit, VecInt b, VecInt other) {
    return _mm512_mask_blend_epi16(_mm512_cmpgt_epi16_mask(a, limit), other, b);
}
/// Doubles of the low and high half of a register of FP32.
using VecDouble = __m512d;
inline constexpr int kVecFloats = 16;
MANTISSA_ALWAYS_INLINE VecInt vecLoadBf16AsFloat(const uint16_t* p) {
    return _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16);
}
MANTISSA_ALWAYS_INLINE VecInt vecLoadBytes32(const uint8_t* p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
template <int kBits>
MANTISSA_ALWAYS_INLINE VecInt vecShiftLeft32(VecInt a) {
    return _mm512_slli_epi32(a, kBits);
}
MANTISSA_ALWAYS_INLINE VecInt vecSubFloat(VecInt a, VecInt b) {
    return _mm512_castps_si512(_mm512_sub_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b)));
}
/// b where a > limit (signed 32 bits), else `other`.
MANTISSA_ALWAYS_INLINE VecInt vecSelectGreater32(VecInt a, VecInt limit, VecInt b, VecInt other) {
    return _mm512_mask_blend_epi32(_mm512_cmpgt_epi32_mask(a, limit), other, b);
}
MANTISSA_ALWAYS_INLINE VecDouble vecLowDouble(VecInt a) {
    return _mm512_cvtps_pd(_mm256_castsi256_ps(_mm512_castsi512_si256(a)));
}
MANTISSA_ALWAYS_INLINE VecDouble vecHighDouble(VecInt a) {
    return _mm512_cvtps_pd(_mm256_castsi256_ps(_mm512_extracti64x4_epi64(a, 1)));
}
MANTISSA_ALWAYS_INLINE VecDouble vecLoadDouble(const double* p) {
    return _mm512_loadu_pd(p);
}
MANTISSA_ALWAYS_INLINE void vecStoreDouble(double* p, VecDouble a) {
    _mm512_storeu_pd(p, a);
}
/// Largest of the unsigned 16-bit lanes.
MANTISSA_ALWAYS_INLINE uint32_t vecLargest16(VecInt a) {
    const __m256i half = _mm256_max_epu16(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1));
    const __m128i quarter = _mm_max_epu16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    return 0xFFFFu &
           ~static_cast<uint32_t>(_mm_cvtsi128_si32(_mm_minpos_epu16(_mm_xor_si128(quarter, _mm_set1_epi16(-1)))));
}
/// How often a 16-bit or 8-bit condition held.
struct VecCounter {
    uint64_t sum = 0;
    MANTISSA_ALWAYS_INLINE void addGreater16(VecInt a0, VecInt a1, VecInt limit) {
        sum += __builtin_popcountll(_mm512_cmpgt_epi16_mask(a0, limit)) +
               __builtin_popcountll(_mm512_cmpgt_epi16_mask(a1, limit));
    }
    MANTISSA_ALWAYS_INLINE void addZero16(VecInt a0, VecInt a1) {
        const uint64_t m0 = _mm512_testn_epi16_mask(a0, a0), m1 = _mm512_testn_epi16_mask(a1, a1);
        sum += __builtin_popcountll(m0 | (m1 << 32));
    }
    MANTISSA_ALWAYS_INLINE void addBelow8(VecInt a, VecInt limit) {
        sum += __builtin_popcountll(_mm512_cmplt_epi8_mask(a, limit));
    }
    MANTISSA_ALWAYS_INLINE void flush() {}
};
#elif defined(MANTISSA_ISA_avx2)
using VecInt = __m256i;
inline constexpr int kVecBytes = 32;
MANTISSA_ALWAYS_INLINE VecInt vecLoad(const void* p) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
MANTISSA_ALWAYS_INLINE void vecStore(void* p, VecInt v) {
    _mm256_storeu_si256(static_cast<__m256i*>(p), v);
}
MANTISSA_ALWAYS_INLINE VecInt vecZero() {
    return _mm256_setzero_si256();
}
MANTISSA_ALWAYS_INLINE VecInt vecSet32(uint32_t v) {
    return _mm256_set1_epi32(static_cast<int>(v));
}
MANTISSA_ALWAYS_INLINE VecInt vecSet16(uint16_t v) {
    return _mm256_set1_epi16(static_cast<short>(v));
}
MANTISSA_ALWAYS_INLINE VecInt vecSet8(uint8_t v) {
    return _mm256_set1_epi8(static_cast<char>(v));
}
MANTISSA_ALWAYS_INLINE VecInt vecAnd(VecInt a, VecInt b) {
    return _mm256_and_si256(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecOr(VecInt a, VecInt b) {
    return _mm256_or_si256(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecAdd32(VecInt a, VecInt b) {
    return _mm256_add_epi32(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecSub32(VecInt a, VecInt b) {
    return _mm256_sub_epi32(a, b);
}
template <int kBits>
MANTISSA_ALWAYS_INLINE VecInt vecShiftRight32(VecInt a) {
    return _mm256_srli_epi32(a, kBits);
}
template <int kBits>
MANTISSA_ALWAYS_INLINE VecInt vecShiftRight16(VecInt a) {
    return _mm256_srli_epi16(a, kBits);
}
MANTISSA_ALWAYS_INLINE VecInt vecMin32(VecInt a, VecInt b) {
    return _mm256_min_epi32(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecMax32(VecInt a, VecInt b) {
    return _mm256_max_epi32(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecMax16(VecInt a, VecInt b) {
    return _mm256_max_epu16(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecUnpackLow16(VecInt a, VecInt b) {
    return _mm256_unpacklo_epi16(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecUnpackHigh16(VecInt a, VecInt b) {
    return _mm256_unpackhi_epi16(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecPack32(VecInt a, VecInt b) {
    return _mm256_packus_epi32(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecPack16InOrder(VecInt a, VecInt b) {
    return _mm256_permute4x64_epi64(_mm256_packus_epi16(a, b), 0xD8);
}
MANTISSA_ALWAYS_INLINE VecInt vecMulFloat(VecInt a, VecInt b) {
    return _mm256_castps_si256(_mm256_mul_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b)));
}
MANTISSA_ALWAYS_INLINE VecInt vecAddFloat(VecInt a, VecInt b) {
    return _mm256_castps_si256(_mm256_add_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b)));
}
MANTISSA_ALWAYS_INLINE VecInt vecGreater16(VecInt a, VecInt b) {
    return _mm256_cmpgt_epi16(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecGreater8(VecInt a, VecInt b) {
    return _mm256_cmpgt_epi8(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecEqual16(VecInt a, VecInt b) {
    return _mm256_cmpeq_epi16(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecPackSigned16(VecInt a, VecInt b) {
    return _mm256_packs_epi16(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecSub8(VecInt a, VecInt b) {
    return _mm256_sub_epi8(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecSumBytes(VecInt a) {
    return _mm256_sad_epu8(a, _mm256_setzero_si256());
}
MANTISSA_ALWAYS_INLINE uint64_t vecSum64(VecInt a) {
    const __m128i half = _mm_add_epi64(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    return static_cast<uint64_t>(_mm_cvtsi128_si64(half) + _mm_extract_epi64(half, 1));
}
MANTISSA_ALWAYS_INLINE bool vecAnyGreater16(VecInt a, VecInt b) {
    return _mm256_movemask_epi8(vecGreater16(a, b)) != 0;
}
MANTISSA_ALWAYS_INLINE VecInt vecSelectGreater16(VecInt a, VecInt limit, VecInt b, VecInt other) {
    return _mm256_blendv_epi8(other, b, vecGreater16(a, limit));
}
/// Doubles of the low and high half of a register of FP32.
using VecDouble = __m256d;
inline constexpr int kVecFloats = 8;
MANTISSA_ALWAYS_INLINE VecInt vecLoadBf16AsFloat(const uint16_t* p) {
    return _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), 16);
}
MANTISSA_ALWAYS_INLINE VecInt vecLoadBytes32(const uint8_t* p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}
template <int kBits>
MANTISSA_ALWAYS_INLINE VecInt vecShiftLeft32(VecInt a) {
    return _mm256_slli_epi32(a, kBits);
}
MANTISSA_ALWAYS_INLINE VecInt vecSubFloat(VecInt a, VecInt b) {
    return _mm256_castps_si256(_mm256_sub_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b)));
}
/// b where a > limit (signed 32 bits), else `other`.
MANTISSA_ALWAYS_INLINE VecInt vecSelectGreater32(VecInt a, VecInt limit, VecInt b, VecInt other) {
    return _mm256_blendv_epi8(other, b, _mm256_cmpgt_epi32(a, limit));
}
MANTISSA_ALWAYS_INLINE VecDouble vecLowDouble(VecInt a) {
    return _mm256_cvtps_pd(_mm_castsi128_ps(_mm256_castsi256_si128(a)));
}
MANTISSA_ALWAYS_INLINE VecDouble vecHighDouble(VecInt a) {
    return _mm256_cvtps_pd(_mm_castsi128_ps(_mm256_extracti128_si256(a, 1)));
}
MANTISSA_ALWAYS_INLINE VecDouble vecLoadDouble(const double* p) {
    return _mm256_loadu_pd(p);
}
MANTISSA_ALWAYS_INLINE void vecStoreDouble(double* p, VecDouble a) {
    _mm256_storeu_pd(p, a);
}
/// Largest of the unsigned 16-bit lanes.
MANTISSA_ALWAYS_INLINE uint32_t vecLargest16(VecInt a) {
    const __m128i quarter = _mm_max_epu16(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    return 0xFFFFu &
           ~static_cast<uint32_t>(_mm_cvtsi128_si32(_mm_minpos_epu16(_mm_xor_si128(quarter, _mm_set1_epi16(-1)))));
}
#define MANTISSA_BYTE_COUNTERS 1
#else
using VecInt = __m128i;
inline constexpr int kVecBytes = 16;
MANTISSA_ALWAYS_INLINE VecInt vecLoad(const void* p) {
    return _mm_loadu_si128(static_cast<const __m128i*>(p));
}
MANTISSA_ALWAYS_INLINE void vecStore(void* p, VecInt v) {
    _mm_storeu_si128(static_cast<__m128i*>(p), v);
}
MANTISSA_ALWAYS_INLINE VecInt vecZero() {
    return _mm_setzero_si128();
}
MANTISSA_ALWAYS_INLINE VecInt vecSet32(uint32_t v) {
    return _mm_set1_epi32(static_cast<int>(v));
}
MANTISSA_ALWAYS_INLINE VecInt vecSet16(uint16_t v) {
    return _mm_set1_epi16(static_cast<short>(v));
}
MANTISSA_ALWAYS_INLINE VecInt vecSet8(uint8_t v) {
    return _mm_set1_epi8(static_cast<char>(v));
}
MANTISSA_ALWAYS_INLINE VecInt vecAnd(VecInt a, VecInt b) {
    return _mm_and_si128(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecOr(VecInt a, VecInt b) {
    return _mm_or_si128(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecAdd32(VecInt a, VecInt b) {
    return _mm_add_epi32(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecSub32(VecInt a, VecInt b) {
    return _mm_sub_epi32(a, b);
}
template <int kBits>
MANTISSA_ALWAYS_INLINE VecInt vecShiftRight32(VecInt a) {
    return _mm_srli_epi32(a, kBits);
}
template <int kBits>
MANTISSA_ALWAYS_INLINE VecInt vecShiftRight16(VecInt a) {
    return _mm_srli_epi16(a, kBits);
}
MANTISSA_ALWAYS_INLINE VecInt vecMin32(VecInt a, VecInt b) {
    return _mm_min_epi32(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecMax32(VecInt a, VecInt b) {
    return _mm_max_epi32(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecMax16(VecInt a, VecInt b) {
    return _mm_max_epu16(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecUnpackLow16(VecInt a, VecInt b) {
    return _mm_unpacklo_epi16(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecUnpackHigh16(VecInt a, VecInt b) {
    return _mm_unpackhi_epi16(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecPack32(VecInt a, VecInt b) {
    return _mm_packus_epi32(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecPack16InOrder(VecInt a, VecInt b) {
    return _mm_packus_epi16(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecMulFloat(VecInt a, VecInt b) {
    return _mm_castps_si128(_mm_mul_ps(_mm_castsi128_ps(a), _mm_castsi128_ps(b)));
}
MANTISSA_ALWAYS_INLINE VecInt vecAddFloat(VecInt a, VecInt b) {
    return _mm_castps_si128(_mm_add_ps(_mm_castsi128_ps(a), _mm_castsi128_ps(b)));
}
MANTISSA_ALWAYS_INLINE VecInt vecGreater16(VecInt a, VecInt b) {
    return _mm_cmpgt_epi16(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecGreater8(VecInt a, VecInt b) {
    return _mm_cmpgt_epi8(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecEqual16(VecInt a, VecInt b) {
    return _mm_cmpeq_epi16(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecPackSigned16(VecInt a, VecInt b) {
    return _mm_packs_epi16(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecSub8(VecInt a, VecInt b) {
    return _mm_sub_epi8(a, b);
}
MANTISSA_ALWAYS_INLINE VecInt vecSumBytes(VecInt a) {
    return _mm_sad_epu8(a, _mm_setzero_si128());
}
MANTISSA_ALWAYS_INLINE uint64_t vecSum64(VecInt a) {
    return static_cast<uint64_t>(_mm_cvtsi128_si64(a) + _mm_extract_epi64(a, 1));
}
MANTISSA_ALWAYS_INLINE bool vecAnyGreater16(VecInt a, VecInt b) {
    return _mm_movemask_epi8(vecGreater16(a, b)) != 0;
}
MANTISSA_ALWAYS_INLINE VecInt vecSelectGreater16(VecInt a, VecInt limit, VecInt b, VecInt other) {
    return _mm_blendv_epi8(other, b, vecGreater16(a, limit));
}
/// Doubles of the low and high half of a register of FP32.
using VecDouble = __m128d;
inline constexpr int kVecFloats = 4;
MANTISSA_ALWAYS_INLINE VecInt vecLoadBf16AsFloat(const uint16_t* p) {
    return _mm_slli_epi32(_mm_cvtepu16_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))), 16);
}
MANTISSA_ALWAYS_INLINE VecInt vecLoadBytes32(const uint8_t* p) {
    int bytes;
    __builtin_memcpy(&bytes, p, sizeof bytes);
    return _mm_cvtepu8_epi32(_mm_cvtsi32_si128(bytes));
}
template <int kBits>
MANTISSA_ALWAYS_INLINE VecInt vecShiftLeft32(VecInt a) {
    return _mm_slli_epi32(a, kBits);
}
MANTISSA_ALWAYS_INLINE VecInt vecSubFloat(VecInt a, VecInt b) {
    return _mm_castps_si128(_mm_sub_ps(_mm_castsi128_ps(a), _mm_castsi128_ps(b)));
}
/// b where a > limit (signed 32 bits), else `other`.
MANTISSA_ALWAYS_INLINE VecInt vecSelectGreater32(VecInt a, VecInt limit, VecInt b, VecInt other) {
    return _mm_blendv_epi8(other, b, _mm_cmpgt_epi32(a, limit));
}
MANTISSA_ALWAYS_INLINE VecDouble vecLowDouble(VecInt a) {
    return _mm_cvtps_pd(_mm_castsi128_ps(a));
}
MANTISSA_ALWAYS_INLINE VecDouble vecHighDouble(VecInt a) {
    return _mm_cvtps_pd(_mm_castsi128_ps(_mm_unpackhi_epi64(a, a)));
}
MANTISSA_ALWAYS_INLINE VecDouble vecLoadDouble(const double* p) {
    return _mm_loadu_pd(p);
}
MANTISSA_ALWAYS_INLINE void vecStoreDouble(double* p, VecDouble a) {
    _mm_storeu_pd(p, a);
}
/// Largest of the unsigned 16-bit lanes.
MANTISSA_ALWAYS_INLINE uint32_t vecLargest16(VecInt a) {
    return 0xFFFFu & ~static_cast<uint32_t>(_mm_cvtsi128_si32(_mm_minpos_epu16(_mm_xor_si128(a, _mm_set1_epi16(-1)))));
}
#define MANTISSA_BYTE_COUNTERS 1
#endif

#ifdef MANTISSA_BYTE_COUNTERS
#undef MANTISSA_BYTE_COUNTERS
/// How often a 16-bit or 8-bit condition held; flush at least every 255 adds.
struct VecCounter {
    uint64_t sum = 0;
    VecInt bytes = vecZero();
    MANTISSA_ALWAYS_INLINE void addGreater16(VecInt a0, VecInt a1, VecInt limit) {
        bytes = vecSub8(bytes, vecPackSigned16(vecGreater16(a0, limit), vecGreater16(a1, limit)));
    }
    MANTISSA_ALWAYS_INLINE void addZero16(VecInt a0, VecInt a1) {
        bytes = vecSub8(bytes, vecPackSigned16(vecEqual16(a0, vecZero()), vecEqual16(a1, vecZero())));
    }
    MANTISSA_ALWAYS_INLINE void addBelow8(VecInt a, VecInt limit) { bytes = vecSub8(bytes, vecGreater8(limit, a)); }
    MANTISSA_ALWAYS_INLINE void flush() {
        sum += vecSum64(vecSumBytes(bytes));
        bytes = vecZero();
    }
};
#endif

}  // namespace mantissa::kernels::MANTISSA_ISA
