// The register of the instruction set at hand, as the product's kernels use it. Only for files compiled by
// mantissa_isa_sources.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/dtype.h"
#include "kernels/formats/fp8.h"
#include "kernels/formats/half.h"
#include "kernels/matmul/matmul_kernels.h"

namespace mantissa::kernels::MANTISSA_ISA {

#if defined(MANTISSA_ISA_avx512) || defined(MANTISSA_ISA_avx512bf16)
using Vec = __m512;
constexpr int kLanes = 16;
constexpr int kMr = 8, kNv = 2;
static inline Vec vecZero() {
    return _mm512_setzero_ps();
}
static inline Vec vecLoad(const float* p) {
    return _mm512_loadu_ps(p);
}
static inline void vecStore(float* p, Vec v) {
    _mm512_storeu_ps(p, v);
}
static inline Vec vecSet(float x) {
    return _mm512_set1_ps(x);
}
static inline Vec vecAdd(Vec a, Vec b) {
    return _mm512_add_ps(a, b);
}
static inline Vec vecMul(Vec a, Vec b) {
    return _mm512_mul_ps(a, b);
}
static inline Vec vecFma(Vec a, Vec b, Vec c) {
    return _mm512_fmadd_ps(a, b, c);
}
static inline void vecStoreBf16(uint16_t* p, Vec v) {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), odd);
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    rounded = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
}
static inline void vecStoreF16(uint16_t* p, Vec v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
#elif defined(MANTISSA_ISA_avx2)
using Vec = __m256;
constexpr int kLanes = 8;
constexpr int kMr = 6, kNv = 2;
static inline Vec vecZero() {
    return _mm256_setzero_ps();
}
static inline Vec vecLoad(const float* p) {
    return _mm256_loadu_ps(p);
}
static inline void vecStore(float* p, Vec v) {
    _mm256_storeu_ps(p, v);
}
static inline Vec vecSet(float x) {
    return _mm256_set1_ps(x);
}
static inline Vec vecAdd(Vec a, Vec b) {
    return _mm256_add_ps(a, b);
}
static inline Vec vecMul(Vec a, Vec b) {
    return _mm256_mul_ps(a, b);
}
static inline Vec vecFma(Vec a, Vec b, Vec c) {
    return _mm256_fmadd_ps(a, b, c);
}
static inline void vecStoreBf16(uint16_t* p, Vec v) {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), odd);
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    const __m256i high = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
    const __m128i packed = _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), packed);
}
static inline void vecStoreF16(uint16_t* p, Vec v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
#else
using Vec = __m128;
constexpr int kLanes = 4;
constexpr int kMr = 4, kNv = 2;
static inline Vec vecZero() {
    return _mm_setzero_ps();
}
static inline Vec vecLoad(const float* p) {
    return _mm_loadu_ps(p);
}
static inline void vecStore(float* p, Vec v) {
    _mm_storeu_ps(p, v);
}
static inline Vec vecSet(float x) {
    return _mm_set1_ps(x);
}
static inline Vec vecAdd(Vec a, Vec b) {
    return _mm_add_ps(a, b);
}
static inline Vec vecMul(Vec a, Vec b) {
    return _mm_mul_ps(a, b);
}
static inline Vec vecFma(Vec a, Vec b, Vec c) {
    return _mm_add_ps(_mm_mul_ps(a, b), c);
}
static inline void vecStoreBf16(uint16_t* p, Vec v) {
    for (int i = 0; i < 4; ++i) p[i] = encodeBf16(v[i]);
}
static inline void vecStoreF16(uint16_t* p, Vec v) {
    for (int i = 0; i < 4; ++i) p[i] = encodeFp16(v[i]);
}
#endif

constexpr int kNr = kNv * kLanes;

/// Keeps the compiler from moving arithmetic on `v` across this point.
static inline void vecPin(Vec& v) {
#if defined(MANTISSA_ISA_avx512) || defined(MANTISSA_ISA_avx512bf16)
    asm volatile("" : "+v"(v));
#else
    asm volatile("" : "+x"(v));
#endif
}

}  // namespace mantissa::kernels::MANTISSA_ISA
