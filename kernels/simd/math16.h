// exp and the logistic function on sixteen lanes, and a scalar logarithm; worst errors are measured by
// tests/kernels/vec16_test.cpp.
#pragma once

#include "kernels/simd/vec16.h"

namespace mantissa::kernels::MANTISSA_ISA {

/// exp(x) for x <= 88, worst error 1.0 ulp where the result is normal; below 2^-126 it is 0 or 2^-126, NaN stays NaN.
/// x = n ln 2 + r, |r| <= ln(2)/2, ln 2 in two parts; polynomial of degree 7 (Cephes, expf.c).
MANTISSA_SIMD_INLINE V16 expFlush16(V16 x) {
    // 1.5 * 2^23 + 127: the low bits of the sum are the rounded integer n plus the exponent's bias.
    const V16 magic = splat(12583039.0f);
    const V16 limited = max(splat(-88.0f), x);
    const V16 shifted = fma(limited, splat(1.44269504088896341f), magic);
    const V16 n = shifted - magic;
    V16 r = fma(n, splat(-0.693359375f), limited);
    r = fma(n, splat(2.12194440e-4f), r);
    V16 p = splat(1.9875691500e-4f);
    p = fma(p, r, splat(1.3981999507e-3f));
    p = fma(p, r, splat(8.3334519073e-3f));
    p = fma(p, r, splat(4.1665795894e-2f));
    p = fma(p, r, splat(1.6666665459e-1f));
    p = fma(p, r, splat(5.0000001201e-1f));
    p = fma(p, r * r, r) + splat(1.0f);
    return p * asFloat(shiftLeft<23>(asInt(shifted)));  // n = -127 gives the factor 0
}

/// 1 / (1 + exp(-x)): worst error 2.2 ulp where the result is normal; 0 and 1 far out, NaN stays NaN.
/// From e = exp(-|x|), which cannot overflow: 1 / (1 + e), or e / (1 + e) for negative x.
MANTISSA_SIMD_INLINE V16 sigmoid16(V16 x) {
    const V16 e = expFlush16(asFloat(asInt(x) | splatInt(INT32_MIN)));
    const V16 numerator = asFloat(select(splatInt(0) > asInt(x), asInt(e), asInt(splat(1.0f))));
    return numerator / (splat(1.0f) + e);
}

/// ln(x) for normal positive x, in double: x = 2^e m, m in [sqrt(1/2), sqrt(2)); 2 atanh((m - 1) / (m + 1)) as a
/// series. Error below 1e-15; NaN and Inf come back as they are. One a row, so not on 16 lanes, and not the C
/// library's, whose bits depend on its version.
static inline double logarithm(double x) {
    const uint64_t bits = __builtin_bit_cast(uint64_t, x);
    const int exponent = static_cast<int>(bits >> 52) - 1023;
    const double fraction = __builtin_bit_cast(double, (bits & 0x000FFFFFFFFFFFFFull) | 0x3FF0000000000000ull);
    const bool upper = fraction > 1.41421356237309505;  // selections, no branches: loops over rows become vectors
    const double m = upper ? fraction / 2 : fraction;
    const double t = (m - 1) / (m + 1), square = t * t;
    double series = 0;
#pragma GCC unroll 11
    for (int k = 21; k >= 1; k -= 2) series = series * square + 1.0 / k;
    const double result = 2 * t * series + (upper ? exponent + 1 : exponent) * 0.69314718055994530942;
    return exponent == 1024 ? x : result;
}

}  // namespace mantissa::kernels::MANTISSA_ISA
