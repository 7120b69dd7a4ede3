// A model of FP8 products whose partial sums keep 14 bits, as Hopper's tensor cores do without promotion: of each group
// of 32 products and the sum so far, all are cut (towards zero) to 13 bits below the largest one's leading bit, then
// added exactly. Source: DeepSeek-V3 technical report (arXiv:2412.19437), section 3.5.2. Plain code for studying, not
// for speed: the products of codes are exact in F32, so the result does not depend on instruction set or threads.
#include <algorithm>
#include <cstring>

#include "kernels/device/cpu_host.h"
#include "kernels/formats/fp8.h"
#include "kernels/formats/half.h"
#include "kernels/matmul/matmul_kernels.h"

namespace mantissa::kernels {

namespace {

constexpr int64_t kPanel = 64;  // rows and columns of a tile
constexpr int64_t kGroup = 32;  // products of one instruction
constexpr int kFraction = 13;   // bits kept below the leading one

int64_t groupsOf(int64_t k) {
    return (k + kGroup - 1) / kGroup;
}

float valueAt(const MatmulOperand& operand, int64_t index) {
    if (isFp8(operand.type)) return decodeFp8(static_cast<const uint8_t*>(operand.data)[index], operand.type);
    return decodeBf16(static_cast<const uint16_t*>(operand.data)[index]);
}

/// Rows [first, first + count) of the operand as (count, groups * 32) values, the rest 0.
void unpack(const MatmulOperand& operand, int64_t first, int64_t count, int64_t k, float* out) {
    const int64_t length = groupsOf(k) * kGroup;
    for (int64_t row = 0; row < count; ++row)
        for (int64_t i = 0; i < length; ++i)
            out[row * length + i] = i >= k ? 0.0f
                                           : valueAt(operand, operand.kContiguous ? (first + row) * operand.ld + i
                                                                                  : i * operand.ld + first + row);
}

/// The sum so far and 32 products, cut to the largest one's grid.
float addGroup(float sum, const float* a, const float* b) {
    float products[kGroup];
    uint32_t largest = floatBits(sum) & kFloatAbs;
    for (int64_t i = 0; i < kGroup; ++i) {
        products[i] = a[i] * b[i];
        largest = std::max(largest, floatBits(products[i]) & kFloatAbs);
    }
    const int exponent = static_cast<int>(largest >> 23) - 127;
    if (largest >= kFloatInf || exponent < -100 || exponent > 100) {  // not finite, or next to nothing
        for (float product : products) sum += product;
        return sum;
    }
    const float quantum = floatFromBits(static_cast<uint32_t>(exponent - kFraction + 127) << 23);
    const float inverse = floatFromBits(static_cast<uint32_t>(kFraction - exponent + 127) << 23);
    int32_t total = static_cast<int32_t>(sum * inverse);
    for (float product : products) total += static_cast<int32_t>(product * inverse);
    return static_cast<float>(total) * quantum;
}

float biasAt(const Matmul& op, int64_t column) {
    if (op.biasType == DType::BF16) return decodeBf16(static_cast<const uint16_t*>(op.bias)[column]);
    if (op.biasType == DType::F16) return decodeFp16(static_cast<const uint16_t*>(op.bias)[column]);
    return static_cast<const float*>(op.bias)[column];
}

void store(const Matmul& op, int64_t row, int64_t column, float value) {
    const int64_t index = row * op.ldOut + column;
    if (op.outType == DType::BF16)
        static_cast<uint16_t*>(op.out)[index] = encodeBf16(value);
    else if (op.outType == DType::F16)
        static_cast<uint16_t*>(op.out)[index] = encodeFp16(value);
    else
        static_cast<float*>(op.out)[index] = op.accumulate ? static_cast<float*>(op.out)[index] + value : value;
}

}  // namespace

size_t workspaceLimited(const Matmul& op, const CpuContext& context) {
    return static_cast<size_t>(2 * kPanel * groupsOf(op.k) * kGroup * context.executor->threadCount()) * sizeof(float);
}

MatmulReport runLimited(const Matmul& op, const CpuContext& context) {
    const int64_t length = groupsOf(op.k) * kGroup, across = (op.n + kPanel - 1) / kPanel;
    const float scaleA = op.a.scaleInv ? *op.a.scaleInv : 1, scaleB = op.b.scaleInv ? *op.b.scaleInv : 1;
    auto* const scratch = static_cast<float*>(context.workspace);
    context.executor->run((op.m + kPanel - 1) / kPanel * across, [&](int64_t tile, int worker) {
        const int64_t row0 = tile / across * kPanel, column0 = tile % across * kPanel;
        const int64_t rows = std::min(kPanel, op.m - row0), columns = std::min(kPanel, op.n - column0);
        float* const a = scratch + worker * 2 * kPanel * length;
        float* const b = a + kPanel * length;
        unpack(op.a, row0, rows, op.k, a);
        unpack(op.b, column0, columns, op.k, b);
        for (int64_t row = 0; row < rows; ++row)
            for (int64_t column = 0; column < columns; ++column) {
                float sum = 0;
                for (int64_t i = 0; i < length; i += kGroup)
                    sum = addGroup(sum, a + row * length + i, b + column * length + i);
                sum = sum * scaleA * scaleB + (op.bias ? biasAt(op, column0 + column) : 0.0f);
                store(op, row0 + row, column0 + column, sum);
            }
    });
    return {reportedType(op.a), reportedType(op.b), op.outType, false, "14-bit partial sums (emulated)"};
}

}  // namespace mantissa::kernels
