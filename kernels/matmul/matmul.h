// Matrix products of a linear: fprop, dgrad, wgrad. One op with operand layouts.
#pragma once

#include <cstdint>

#include "kernels/dtype.h"

namespace mantissa::kernels {

enum class Gemm : uint8_t { Fprop, Dgrad, Wgrad };

/// One operand of D = A * B^T, where A is (m, k) and B is (n, k).
struct MatmulOperand {
    const void* data = nullptr;
    DType type = DType::F32;
    bool kContiguous = true;          ///< true: stored [row][k], leading dimension `ld`; false: stored [k][row]
    int64_t ld = 0;                   ///< elements between consecutive rows of the storage
    const float* scaleInv = nullptr;  ///< FP8, or BF16 values of codes: device memory; value = code value * scaleInv
    const uint8_t* transposed =
        nullptr;  ///< FP8 where the chip needs k contiguous: codes stored the other way round, ld = the other size
    DType emulates =
        DType::None;  ///< BF16: the values are those of codes of this format (block recipes); reported as such
    /// FP8 with k contiguous, instead of scaleInv: a factor for each block of 128, in the order of block_layout.h for
    /// the matrix (rows, k). Both operands have them or none.
    const float* blockScaleInv = nullptr;
    bool squareBlocks = false;  ///< blocks of 128 rows x 128 k, not of one row; of one operand at most
};

/// D(m, n) = scaleInvA * scaleInvB * sum_k A(m, k) B(n, k) + bias(n), or D += ... when accumulate (F32 only).
///   fprop  y (M, N)  = x (M, K) w (N, K)^T + b : m = M, n = N, k = K, a = x [m][k], b = w [n][k]
///   dgrad  dx (M, K) = dy (M, N) w (N, K)      : m = M, n = K, k = N, a = dy [m][k], b = w stored [k][n]
///   wgrad  dw (N, K) = dy (M, N)^T x (M, K)    : m = N, n = K, k = M, a = dy stored [k][m], b = x stored [k][n]; F32
///   out
/// Operand types: F32 x F32; F32 with tf32 (inputs cut to 10 bits); F16 x F16; BF16 x BF16; E4M3/E5M2 x E4M3/E5M2. Sums
/// in F32. CPU order of summation: facts in kernels/matmul/matmul_cpu.cpp; the same bits on AVX2, AVX-512,
/// AVX-512-BF16, on any thread count.
struct Matmul {
    Gemm gemm = Gemm::Fprop;
    int64_t m = 0, n = 0, k = 0;
    MatmulOperand a, b;
    void* out = nullptr;
    DType outType = DType::F32;
    int64_t ldOut = 0;
    const void* bias = nullptr;  ///< (n) of biasType, or nullptr
    DType biasType = DType::F32;
    bool accumulate = false;
    bool fastAccumulate = false;  ///< where the hardware offers it; never changes the CPU's result
    bool tf32 = false;
    const char* emulatedBecause = nullptr;  ///< why the operands are values of codes, for the report; or nullptr
    bool limited14 =
        false;  ///< CPU, codes or their values: partial sums of 14 bits without promotion (matmul_limited.cpp)
};

/// What really ran, filled in by the call itself; the effective precision map is made from it.
struct MatmulReport {
    DType a = DType::None, b = DType::None, out = DType::None;
    bool native =
        false;  ///< the chip's own instruction for these types; false: emulated (decoded, BF16 or F32 product)
    const char* algorithm = "";  ///< e.g. "avx512bf16 8x32 k768", "cublasLt 13.1 #3"; static or interned text
};

/// The type that a report names: the emulated one where the values are those of codes.
constexpr DType reportedType(const MatmulOperand& operand) {
    return operand.emulates != DType::None ? operand.emulates : operand.type;
}

/// Throws ShapeMismatch, naming the operand and the values, unless types, sizes and leading dimensions fit the contract
/// above.
void checkMatmul(const Matmul& op);

}  // namespace mantissa::kernels
