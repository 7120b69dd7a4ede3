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

/// A chain of n roundings in F32 loses at most n u / (1 - n u) of the sum of magnitudes (Higham, Accuracy and Stability
/// of Numerical Algorithms, 2nd ed., lemma 3.1).
inline double gammaF32(double n) {
    const double nu = n * 0x1p-24;
    return nu / (1 - nu);
}

/// Matrix product: k additions (2 k without FMA), at most 4 more roundings for scales, bias and accumulation, one to
/// the output type. sumMagnitude: sum_k |a b| |scales| + |bias| + |old value|; exact: the element in double. The
/// smallest subnormal of the type covers results below its normal range.
inline double matmulBound(int64_t k, double sumMagnitude, double exact, kernels::DType outType) {
    const double chain = gammaF32(2.0 * static_cast<double>(k) + 4.0) * sumMagnitude;
    const double least = outType == kernels::DType::F16 ? 0x1p-24 : 0x1p-126;
    return chain + unitRoundoff(outType) * (std::fabs(exact) + chain) + least;
}

}  // namespace mantissa::test
