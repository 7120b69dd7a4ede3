// Reference of the matrix product: one triple loop over decoded values with double sums.
#include <string>
#include <vector>

#include "kernels/device/reference_access.h"
#include "kernels/error.h"
#include "kernels/formats/block_layout.h"
#include "kernels/formats/fp8.h"
#include "kernels/matmul/matmul_kernels.h"

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

/// The operand as (rows, k) doubles.
std::vector<double> decoded(const MatmulOperand& operand, int64_t rows, int64_t k, bool tf32) {
    std::vector<double> values(static_cast<size_t>(rows * k));
    for (int64_t row = 0; row < rows; ++row)
        for (int64_t i = 0; i < k; ++i) {
            const int64_t index = operand.kContiguous ? row * operand.ld + i : i * operand.ld + row;
            double& value = values[static_cast<size_t>(row * k + i)];
            if (isFp8(operand.type))
                value = decodeFp8(static_cast<const uint8_t*>(operand.data)[index], operand.type);
            else
                value = reference::load(operand.type, operand.data, index);
            if (operand.blockScaleInv)
                value *= operand.blockScaleInv[blockScaleIndex(rows, k, operand.squareBlocks, row, i)];
            if (tf32) value = cutToTf32(static_cast<float>(value));
        }
    return values;
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
    for (const MatmulOperand* operand : {&op.a, &op.b})
        if (operand->emulates != DType::None && (operand->type != DType::BF16 || !isCodeFormat(operand->emulates)))
            fail(std::string("values of ") + dtypeName(operand->emulates) + " codes must be bf16");
    if (!op.a.blockScaleInv != !op.b.blockScaleInv) fail("one operand has block scales, the other has none");
    if (op.a.squareBlocks && op.b.squareBlocks) fail("both operands have square blocks");
    for (const MatmulOperand* operand : {&op.a, &op.b})
        if (operand->blockScaleInv && (!isFp8(operand->type) || !operand->kContiguous || operand->scaleInv))
            fail("an operand with block scales must be FP8 with k contiguous and no scale of its own");
    if (op.tf32 && op.a.type != DType::F32) fail("tf32 needs f32 operands");
}

MatmulReport runReference(const Matmul& op) {
    checkMatmul(op);
    const double scaleA = op.a.scaleInv ? *op.a.scaleInv : 1.0, scaleB = op.b.scaleInv ? *op.b.scaleInv : 1.0;
    const std::vector<double> aValues = decoded(op.a, op.m, op.k, op.tf32),
                              bValues = decoded(op.b, op.n, op.k, op.tf32);
    const double* const a = aValues.data();
    const double* const b = bValues.data();
    for (int64_t i = 0; i < op.m; ++i) {
        for (int64_t j = 0; j < op.n; ++j) {
            double sum = 0;
            for (int64_t k = 0; k < op.k; ++k) sum += a[i * op.k + k] * b[j * op.k + k];
            sum = sum * scaleA * scaleB;
            if (op.bias) sum += reference::load(op.biasType, op.bias, j);
            const int64_t index = i * op.ldOut + j;
            if (op.accumulate) sum += reference::load(op.outType, op.out, index);
            reference::store(op.outType, op.out, index, sum);
        }
    }
    return {reportedType(op.a), reportedType(op.b), op.outType, false, "reference"};
}

}  // namespace mantissa::kernels
