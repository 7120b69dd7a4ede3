// Looking at tensors without changing them: non-finite values, products again in higher precision, codes against their
// weights.
#pragma once

#include <cstdint>

#include "kernels/matmul/matmul.h"

namespace mantissa::kernels {

/// In device memory; cleared before a step.
struct FiniteCount {
    uint64_t nan = 0, inf = 0;
    uint64_t firstInverted = 0;  ///< ~(number of the first non-finite element); 0: none
};

/// Counts non-finite values of in (n) F32, BF16 or F16 and merges them into *out: counts add, the first element by
/// minimum. `offset` is the number of in[0].
struct CheckFinite {
    int64_t n = 0;
    DType type = DType::BF16;
    const void* in = nullptr;
    int64_t offset = 0;
    FiniteCount* out = nullptr;
};

/// Sums over the compared elements, double, in a fixed order. In device memory.
struct ShadowSums {
    double wanted = 0, error = 0;  ///< sum of wanted^2, of (got - wanted)^2
    uint64_t rows = 0;
};

/// The product of a Matmul again on `samples` rows of its output (rows i * m / samples, all of them when samples >= m),
/// from plain operands, with double sums in a fixed order; the bias is added to what is wanted and left out of
/// wanted^2. a, b: F32, BF16 or F16, layouts as in Matmul, scaleInv ignored; roundB: F32 values of b are rounded to
/// BF16 first. Overwrites *sums.
struct ShadowProduct {
    int64_t m = 0, n = 0, k = 0;
    MatmulOperand a, b;
    bool roundB = false;
    const void* out = nullptr;
    DType outType = DType::F32;
    int64_t ldOut = 0;
    const void* bias = nullptr;
    DType biasType = DType::F32;
    int64_t samples = 32;
    ShadowSums* sums = nullptr;
};

/// *different = number of codes (rows * cols) that a cast of `in` (F32 or BF16, rounded to BF16 first) with *scale to
/// nearest even would not give.
struct CodeCheck {
    int64_t n = 0;
    DType inType = DType::F32;
    const void* in = nullptr;
    const uint8_t* codes = nullptr;
    DType format = DType::E4M3;
    const float* scale = nullptr;
    uint64_t* different = nullptr;
};

}  // namespace mantissa::kernels
