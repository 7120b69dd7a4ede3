// Error bounds of the ops, derived, in one place. All of them are on |got - exact| for one element.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/dtype.h"

namespace mantissa::test {

/// Unit roundoff of a stored type: half a unit in the last place of 1.
inline double unitRoundoff(kernels::DType type) {
    switch (type) {
        case kernels::DType::BF16:
            return 0x1p-8;
        case kernels::DType::F16:
            return 0x1p-11;
        default:
            return 0x1p-24;
    }
}

/// Half the spacing of the type's subnormal numbers: what rounding loses near zero at most.
inline double leastRounding(kernels::DType type) {
    return type == kernels::DType::F16 ? 0x1p-25 : type == kernels::DType::BF16 ? 0x1p-134 : 0x1p-150;
}

/// A chain of n roundings in F32 loses at most n u / (1 - n u) of the sum of magnitudes (Higham, Accuracy and Stability
/// of Numerical Algorithms, 2nd ed., lemma 3.1).
inline double gammaF32(double n) {
    const double nu = n * 0x1p-24;
    return nu / (1 - nu);
}

/// Matrix product: k additions (2 k without FMA), at most 4 more roundings for scales, bias and accumulation, one to
/// the output type. sumMagnitude: sum_k |a b| |scales| + |bias| + |old value|; exact: the element in double. 2^-126:
/// subnormal BF16 inputs and sums count as zero.
inline double matmulBound(int64_t k, double sumMagnitude, double exact, kernels::DType outType) {
    const double chain = gammaF32(2.0 * static_cast<double>(k) + 4.0) * sumMagnitude;
    return chain + unitRoundoff(outType) * (std::fabs(exact) + chain) + leastRounding(outType) + 0x1p-126;
}

/// What native FP8 products lose beside it. Hopper sums groups of 32 products aligned to the largest one with 13 bits
/// below it, and promotes to FP32 every 128 products unless fast accumulation is on (with block scales always): 2^-13
/// of the largest term a group, and of what it has already summed.
inline double fp8SumBound(double sumMagnitude) {
    return 0x1p-11 * sumMagnitude;
}

/// Softmax probabilities from scores of `width` products: relative error. scoreMagnitude: the row's largest
/// sum_d |q k| / sqrt(width). A score's own error goes into the exponent; the row's sum brings it in a second time. 8
/// u: the exponential (2 ulp, twice) and the division; `context` additions in the sum.
inline double probabilityError(int64_t width, int64_t context, double scoreMagnitude) {
    const double score = gammaF32(2.0 * static_cast<double>(width) + 4.0) * scoreMagnitude;
    return 2 * score + 8 * 0x1p-24 + gammaF32(static_cast<double>(context));
}

/// Roundings in a chain of a row sum over C columns: 32 partial sums, joined in 5 steps, and a dozen more around it
/// (twice without FMA).
inline double rowChain(int64_t cols) {
    return 2 * (static_cast<double>(cols) / 32 + 18);
}

/// Two results that each round once to `type` a value that they know within `error`.
inline double roundedTwice(double error, double expected, kernels::DType type) {
    const double least = type == kernels::DType::F16 ? 0x1p-24 : 0x1p-126;
    return error + 2 * unitRoundoff(type) * (std::fabs(expected) + error) + least;
}

/// Ops whose result is a short expression over sums of a row. magnitude: the expression with every term made positive.
inline double rowOpBound(int64_t cols, double magnitude, double expected, kernels::DType type) {
    return roundedTwice(gammaF32(2 * rowChain(cols)) * magnitude, expected, type);
}

/// Relative error of 1 / sqrt(var + eps) in F32: half of that of the variance, whose mean is off by gamma mean|r|.
inline double normRstdBound(int64_t cols, double meanAbs, double rstd) {
    const double gamma = gammaF32(rowChain(cols)), meanError = gamma * meanAbs * rstd;
    return gamma + meanError * meanError + 0x1p-22;
}

/// Norm, forward: y = (r - mean) rstd gain + bias. The mean is off by gamma mean|r|, which the difference inherits.
inline double normForwardBound(int64_t cols, double r, double mean, double rstd, double meanAbs, double gain,
                               double bias, kernels::DType type) {
    const double gamma = gammaF32(rowChain(cols)), center = std::fabs(r - mean);
    const double x = rstd * (gamma * meanAbs + 0x1p-23 * center) + rstd * center * normRstdBound(cols, meanAbs, rstd);
    const double y = (r - mean) * rstd * gain + bias;
    return roundedTwice(x * std::fabs(gain) + 0x1p-22 * (rstd * center * std::fabs(gain) + std::fabs(bias)), y, type);
}

/// Logistic function of v = a few F32 operations on x: an error of 4 u |v| in v is a relative error of that size, plus
/// 4 units of exp and the quotient. magnitude: the result with every term made positive.
inline double logisticBound(double v, double magnitude, double expected, kernels::DType type) {
    return roundedTwice(0x1p-24 * (12 + 8 * std::fabs(v)) * magnitude, expected, type);
}

}  // namespace mantissa::test
