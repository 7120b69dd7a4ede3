// Reference of the matrix product: one triple loop over decoded values with double sums.
#include <cmath>
#include <string>

#include "kernels/device/cpu_ops.h"
#include "kernels/error.h"
#include "kernels/simd/scalar_convert.h"

namespace mantissa::kernels {

namespace {

[[noreturn]] void fail(const std::string& sentence) {
    throw Error(ErrorCode::ShapeMismatch, "matmul: " + sentence);
}

bool isOperandPair(DType a, DType b) {
    if (isFp8(a) || isFp8(b)) return isFp8(a) && isFp8(b);
    return a == b && (a == DType::F32 || a == DType::F16 || a == DType::BF16);
}

void checkOperand(const char* name, const MatmulOperand& operand, int64_t rows, int64_t k) {
    const int64_t least = operand.kContiguous ? k : rows;
    if (operand.ld < least)
        fail(std::string(name) + " has ld " + std::to_string(operand.ld) + ", needs at least " + std::to_string(least));
    if (!operand.data && rows > 0 && k > 0) fail(std::string(name) + " has no data");
}

double element(const MatmulOperand& operand, int64_t row, int64_t k, bool tf32) {
    const float value =
        loadScalar(operand.data, operand.type, operand.kContiguous ? row * operand.ld + k : k * operand.ld + row);
    return tf32 ? cutToTf32(value) : value;
}

}  // namespace

void checkMatmul(const Matmul& op) {
    if (op.m < 0 || op.n < 0 || op.k < 0) fail("a size is negative");
    if (!isOperandPair(op.a.type, op.b.type))
        fail(std::string("operand types ") + dtypeName(op.a.type) + " x " + dtypeName(op.b.type) +
             " do not go together");
    checkOperand("a", op.a, op.m, op.k);
    checkOperand("b", op.b, op.n, op.k);
    if (op.outType != DType::F32 && op.outType != DType::BF16 && op.outType != DType::F16)
        fail(std::string("output type ") + dtypeName(op.outType) + " is not f32, bf16 or fp16");
    if (op.ldOut < op.n) fail("ldOut is " + std::to_string(op.ldOut) + ", needs at least n = " + std::to_string(op.n));
    if (!op.out && op.m > 0 && op.n > 0) fail("out is missing");
    if (op.accumulate && op.outType != DType::F32) fail("accumulate needs an f32 output");
    if (op.bias && op.biasType != DType::F32 && op.biasType != DType::BF16 && op.biasType != DType::F16)
        fail(std::string("bias type ") + dtypeName(op.biasType) + " is not f32, bf16 or fp16");
    if (op.tf32 && op.a.type != DType::F32) fail("tf32 needs f32 operands");
}

MatmulReport runReference(const Matmul& op) {
    checkMatmul(op);
    const double scaleA = op.a.scaleInv ? *op.a.scaleInv : 1.0, scaleB = op.b.scaleInv ? *op.b.scaleInv : 1.0;
    for (int64_t i = 0; i < op.m; ++i) {
        for (int64_t j = 0; j < op.n; ++j) {
            double sum = 0;
            for (int64_t k = 0; k < op.k; ++k) sum += element(op.a, i, k, op.tf32) * element(op.b, j, k, op.tf32);
            sum = sum * scaleA * scaleB;
            if (op.bias) sum += loadScalar(op.bias, op.biasType, j);
            const int64_t index = i * op.ldOut + j;
            if (op.accumulate) sum += loadScalar(op.out, op.outType, index);
            storeScalar(op.out, op.outType, index, static_cast<float>(sum));
        }
    }
    return {op.a.type, op.b.type, op.outType, false, "reference"};
}

}  // namespace mantissa::kernels
