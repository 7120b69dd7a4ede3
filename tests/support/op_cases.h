// Cases and data of the ops, shared by the tests of both backends and by the benchmarks. Same seed, same bits
// everywhere.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/formats/block_layout.h"
#include "kernels/formats/fp8.h"
#include "kernels/formats/half.h"
#include "kernels/matmul/matmul.h"

namespace mantissa::test {

using kernels::DType;

/// Uniform and normal numbers that do not depend on the standard library's distributions.
class Numbers {
  public:
    explicit Numbers(uint64_t seed) : engine_(seed) {}
    double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
    double normal() { return std::sqrt(-2 * std::log(1 - uniform())) * std::cos(6.283185307179586 * uniform()); }
    int64_t integer(int64_t low, int64_t high) {
        return low + static_cast<int64_t>(engine_() % static_cast<uint64_t>(high - low + 1));
    }

  private:
    std::mt19937_64 engine_;
};

/// A flat array of one of the stored types.
struct Buffer {
    DType type = DType::F32;
    std::vector<uint8_t> bytes;

    Buffer() = default;
    Buffer(DType t, int64_t n) : type(t), bytes(static_cast<size_t>(n) * kernels::dtypeSize(t)) {}
    int64_t size() const { return bytes.empty() ? 0 : static_cast<int64_t>(bytes.size() / kernels::dtypeSize(type)); }
    void* data() { return bytes.data(); }
    const void* data() const { return bytes.data(); }
    double at(int64_t i) const {
        switch (type) {
            case DType::F32:
                return reinterpret_cast<const float*>(bytes.data())[i];
            case DType::BF16:
                return kernels::decodeBf16(reinterpret_cast<const uint16_t*>(bytes.data())[i]);
            case DType::F16:
                return kernels::decodeFp16(reinterpret_cast<const uint16_t*>(bytes.data())[i]);
            default:
                return kernels::decodeFp8(bytes[i], type);
        }
    }
    void set(int64_t i, double value) {
        const float x = static_cast<float>(value);
        switch (type) {
            case DType::F32:
                reinterpret_cast<float*>(bytes.data())[i] = x;
                return;
            case DType::BF16:
                reinterpret_cast<uint16_t*>(bytes.data())[i] = kernels::encodeBf16(x);
                return;
            case DType::F16:
                reinterpret_cast<uint16_t*>(bytes.data())[i] = kernels::encodeFp16(x);
                return;
            default:
                bytes[i] = kernels::encodeFp8(x, type);
        }
    }
};

struct MatmulCase {
    kernels::Gemm gemm = kernels::Gemm::Fprop;
    int64_t m = 1, n = 1, k = 1;
    DType a = DType::F32, b = DType::F32, out = DType::F32;
    bool bias = false;
    bool accumulate = false;
    bool tf32 = false;
    bool integers = false;  ///< values -2 ... 2: every sum is exact in any order (cases N11)
    int64_t padding = 0;    ///< leading dimensions are this much larger than they need to be

    std::string name() const {
        const char* gemms[] = {"fprop", "dgrad", "wgrad"};
        return std::string(gemms[static_cast<int>(gemm)]) + " " + std::to_string(m) + "x" + std::to_string(n) + "x" +
               std::to_string(k) + " " + kernels::dtypeName(a) + "*" + kernels::dtypeName(b) + "->" +
               kernels::dtypeName(out) + (bias ? " bias" : "") + (accumulate ? " accumulate" : "") +
               (tf32 ? " tf32" : "") + (integers ? " integers" : "") + (padding ? " padded" : "");
    }
};

/// Operands, output and scales of a case in host memory; op() points into it, so it must outlive the call.
struct MatmulData {
    MatmulCase c;
    Buffer a, b, bias, out, outBefore;
    float scaleInvA = 1, scaleInvB = 1;
    int64_t ldA = 0, ldB = 0, ldOut = 0;

    explicit MatmulData(const MatmulCase& matmulCase, uint64_t seed = 1) : c(matmulCase) {
        const bool rowsOfA = c.gemm != kernels::Gemm::Wgrad, rowsOfB = c.gemm == kernels::Gemm::Fprop;
        ldA = (rowsOfA ? c.k : c.m) + c.padding;
        ldB = (rowsOfB ? c.k : c.n) + c.padding;
        ldOut = c.n + c.padding;
        Numbers numbers(seed);
        a = filled(c.a, (rowsOfA ? c.m : c.k) * ldA, numbers);
        b = filled(c.b, (rowsOfB ? c.n : c.k) * ldB, numbers);
        bias = filled(c.out, c.n, numbers);
        out = filled(c.out, c.m * ldOut, numbers);
        outBefore = out;
        if (kernels::isFp8(c.a) && !c.integers) scaleInvA = 0.0123f, scaleInvB = 0.37f;
    }

    kernels::Matmul op() {
        kernels::Matmul op;
        op.gemm = c.gemm, op.m = c.m, op.n = c.n, op.k = c.k;
        op.a = {a.data(), c.a, c.gemm != kernels::Gemm::Wgrad, ldA, kernels::isFp8(c.a) ? &scaleInvA : nullptr,
                nullptr};
        op.b = {b.data(), c.b, c.gemm == kernels::Gemm::Fprop, ldB, kernels::isFp8(c.b) ? &scaleInvB : nullptr,
                nullptr};
        op.out = out.data(), op.outType = c.out, op.ldOut = ldOut;
        if (c.bias) op.bias = bias.data(), op.biasType = c.out;
        op.accumulate = c.accumulate, op.tf32 = c.tf32;
        return op;
    }

    double elementA(int64_t row, int64_t k) const {
        return a.at(c.gemm != kernels::Gemm::Wgrad ? row * ldA + k : k * ldA + row);
    }
    double elementB(int64_t row, int64_t k) const {
        return b.at(c.gemm == kernels::Gemm::Fprop ? row * ldB + k : k * ldB + row);
    }
    /// For each element of D, (m, n): sum_k |a b| with scales, bias and the old value.
    std::vector<double> magnitudes() const {
        std::vector<double> left(static_cast<size_t>(c.m * c.k)), right(static_cast<size_t>(c.n * c.k));
        for (int64_t i = 0; i < c.m * c.k; ++i) left[static_cast<size_t>(i)] = std::fabs(elementA(i / c.k, i % c.k));
        for (int64_t i = 0; i < c.n * c.k; ++i) right[static_cast<size_t>(i)] = std::fabs(elementB(i / c.k, i % c.k));
        std::vector<double> sums(static_cast<size_t>(c.m * c.n));
        for (int64_t i = 0; i < c.m; ++i)
            for (int64_t j = 0; j < c.n; ++j) {
                double sum = 0;
                for (int64_t k = 0; k < c.k; ++k)
                    sum += left[static_cast<size_t>(i * c.k + k)] * right[static_cast<size_t>(j * c.k + k)];
                sum *= static_cast<double>(scaleInvA) * scaleInvB;
                if (c.bias) sum += std::fabs(bias.at(j));
                if (c.accumulate) sum += std::fabs(outBefore.at(i * ldOut + j));
                sums[static_cast<size_t>(i * c.n + j)] = sum;
            }
        return sums;
    }

  private:
    Buffer filled(DType type, int64_t n, Numbers& numbers) const {
        Buffer buffer(type, n);
        for (int64_t i = 0; i < n; ++i)
            buffer.set(i, c.integers ? static_cast<double>(numbers.integer(-2, 2)) : numbers.normal());
        return buffer;
    }
};

/// All type combinations and layouts on awkward sizes: 1, 17, odd, not a multiple of any tile, beyond one block of k
/// and of columns, empty.
inline std::vector<MatmulCase> matmulCases() {
    using kernels::Gemm;
    struct Types {
        DType a, b, out;
        bool tf32;
    };
    const Types types[] = {
        {DType::F32, DType::F32, DType::F32, false},    {DType::F32, DType::F32, DType::F32, true},
        {DType::BF16, DType::BF16, DType::BF16, false}, {DType::BF16, DType::BF16, DType::F32, false},
        {DType::F16, DType::F16, DType::F16, false},    {DType::F16, DType::F16, DType::F32, false},
        {DType::E4M3, DType::E4M3, DType::BF16, false}, {DType::E5M2, DType::E4M3, DType::BF16, false},
        {DType::E4M3, DType::E5M2, DType::F32, false},  {DType::E5M2, DType::E5M2, DType::F32, false}};
    struct Size {
        int64_t m, n, k, padding;
    };
    const Size sizes[] = {{1, 1, 1, 0},      {17, 17, 17, 3},    {8, 32, 64, 0},   {1, 96, 129, 0},    {130, 33, 66, 0},
                          {35, 101, 771, 1}, {96, 128, 1024, 0}, {9, 1100, 40, 0}, {200, 40, 2000, 8}, {5, 7, 0, 0}};
    std::vector<MatmulCase> cases;
    for (Gemm gemm : {Gemm::Fprop, Gemm::Dgrad, Gemm::Wgrad})
        for (const Types& t : types)
            for (const Size& s : sizes) {
                MatmulCase c{gemm, s.m, s.n, s.k, t.a, t.b, t.out};
                c.tf32 = t.tf32;
                c.bias = gemm == Gemm::Fprop;
                c.accumulate = gemm == Gemm::Wgrad && t.out == DType::F32 && s.m % 2 == 1;
                c.padding = s.padding;
                cases.push_back(c);
            }
    return cases;
}

/// N11: sums of small integers, exact in any order, so every backend and layout must agree bit for bit.
inline std::vector<MatmulCase> exactMatmulCases() {
    using kernels::Gemm;
    std::vector<MatmulCase> cases;
    for (Gemm gemm : {Gemm::Fprop, Gemm::Dgrad, Gemm::Wgrad})
        for (DType a : {DType::E4M3, DType::E5M2, DType::BF16, DType::F32})
            for (int64_t k : {64, 300, 4096}) {
                const DType b = a == DType::E5M2 ? DType::E4M3 : a;
                MatmulCase c{gemm, 48, 80, k, a, b, DType::F32};
                c.integers = true;
                cases.push_back(c);
            }
    return cases;
}

/// A product of block128: codes with scales, k contiguous, in the layouts that Linear gives it.
struct BlockMatmulCase {
    kernels::Gemm gemm = kernels::Gemm::Fprop;
    int64_t m = 1, n = 1, k = 1;
    bool bias = false, accumulate = false;
    bool integers = false;  ///< codes -2 ... 2, scales 1 or 2: every sum is exact in any order

    DType out() const { return gemm == kernels::Gemm::Wgrad ? DType::F32 : DType::BF16; }
    bool square() const { return gemm != kernels::Gemm::Wgrad; }  ///< b is a weight
    std::string name() const {
        const char* gemms[] = {"fprop", "dgrad", "wgrad"};
        return std::string("block128 ") + gemms[static_cast<int>(gemm)] + " " + std::to_string(m) + "x" +
               std::to_string(n) + "x" + std::to_string(k) + (bias ? " bias" : "") + (accumulate ? " accumulate" : "") +
               (integers ? " integers" : "");
    }
};

/// Operands in host memory; op() points into them.
struct BlockMatmulData {
    BlockMatmulCase c;
    Buffer a, b, bias, out, outBefore;
    std::vector<float> scaleA, scaleB;

    explicit BlockMatmulData(const BlockMatmulCase& blockCase, uint64_t seed = 1) : c(blockCase) {
        Numbers numbers(seed);
        a = filled(c.m * c.k, numbers), b = filled(c.n * c.k, numbers);
        scaleA = scales(kernels::blockScaleCount(c.m, c.k, false), numbers);
        scaleB = scales(kernels::blockScaleCount(c.n, c.k, c.square()), numbers);
        bias = Buffer(c.out(), c.n), out = Buffer(c.out(), c.m * c.n);
        for (int64_t i = 0; i < c.n; ++i) bias.set(i, c.integers ? numbers.integer(-2, 2) : numbers.normal());
        for (int64_t i = 0; i < c.m * c.n; ++i) out.set(i, c.integers ? numbers.integer(-2, 2) : numbers.normal());
        outBefore = out;
    }
    kernels::Matmul op() {
        kernels::Matmul op;
        op.gemm = c.gemm, op.m = c.m, op.n = c.n, op.k = c.k;
        for (kernels::MatmulOperand* operand : {&op.a, &op.b}) operand->type = DType::E4M3, operand->ld = c.k;
        op.a.data = a.data(), op.a.blockScaleInv = scaleA.data();
        op.b.data = b.data(), op.b.blockScaleInv = scaleB.data(), op.b.squareBlocks = c.square();
        op.out = out.data(), op.outType = c.out(), op.ldOut = c.n;
        if (c.bias) op.bias = bias.data(), op.biasType = c.out();
        op.accumulate = c.accumulate;
        return op;
    }
    double elementA(int64_t row, int64_t k) const {
        return a.at(row * c.k + k) * scaleA[static_cast<size_t>(kernels::blockScaleIndex(c.m, c.k, false, row, k))];
    }
    double elementB(int64_t row, int64_t k) const {
        return b.at(row * c.k + k) *
               scaleB[static_cast<size_t>(kernels::blockScaleIndex(c.n, c.k, c.square(), row, k))];
    }

  private:
    Buffer filled(int64_t n, Numbers& numbers) const {
        Buffer buffer(DType::E4M3, n);
        for (int64_t i = 0; i < n; ++i)
            buffer.set(i, c.integers ? static_cast<double>(numbers.integer(-2, 2)) : 64 * numbers.normal());
        return buffer;
    }
    /// Far apart from block to block, so that a scale read from a wrong place shows.
    std::vector<float> scales(int64_t n, Numbers& numbers) const {
        std::vector<float> all(static_cast<size_t>(n));
        for (float& scale : all) {
            const double exponent = static_cast<double>(c.integers ? numbers.integer(0, 1) : numbers.integer(-12, -2));
            scale = static_cast<float>(std::exp2(exponent));
        }
        return all;
    }
};

/// Sizes that Hopper's own products take (k a multiple of 16): whole blocks, blocks cut in every direction, less than
/// one, long sums.
inline std::vector<BlockMatmulCase> blockMatmulCases(bool integers) {
    using kernels::Gemm;
    struct Size {
        int64_t m, n, k;
    };
    const Size sizes[] = {{128, 128, 128}, {256, 384, 512},  {64, 96, 64},     {4, 16, 16},    {144, 208, 272},
                          {96, 800, 400},  {1024, 256, 320}, {256, 128, 2048}, {132, 48, 1040}};
    std::vector<BlockMatmulCase> cases;
    for (Gemm gemm : {Gemm::Fprop, Gemm::Dgrad, Gemm::Wgrad})
        for (const Size& s : sizes)
            for (bool second : {false, true}) {
                BlockMatmulCase c{gemm, s.m, s.n, s.k};
                c.bias = second && gemm == Gemm::Fprop;
                c.accumulate = second && gemm == Gemm::Wgrad;
                c.integers = integers;
                if (second && gemm == Gemm::Dgrad) continue;
                cases.push_back(c);
            }
    return cases;
}

struct AttentionCase {
    int64_t batch = 1, context = 1, heads = 1, headWidth = 16;
    DType type = DType::F32;

    std::string name() const {
        return std::string(kernels::dtypeName(type)) + " batch " + std::to_string(batch) + " context " +
               std::to_string(context) + " heads " + std::to_string(heads) + " width " + std::to_string(headWidth);
    }
};

/// Inputs and outputs of attention forward and backward; forward() and backward() point into it.
struct AttentionData {
    AttentionCase c;
    Buffer qkv, out, dOut, dQkv;
    std::vector<float> lse, dBias;

    explicit AttentionData(const AttentionCase& attentionCase, uint64_t seed = 1) : c(attentionCase) {
        const int64_t rows = c.batch * c.context, channels = c.heads * c.headWidth;
        Numbers numbers(seed);
        qkv = Buffer(c.type, rows * 3 * channels);
        dOut = Buffer(c.type, rows * channels);
        for (int64_t i = 0; i < qkv.size(); ++i) qkv.set(i, numbers.normal());
        for (int64_t i = 0; i < dOut.size(); ++i) dOut.set(i, numbers.normal());
        out = Buffer(c.type, rows * channels);
        dQkv = Buffer(c.type, rows * 3 * channels);
        lse.assign(static_cast<size_t>(c.batch * c.heads * c.context), 0);
        dBias.assign(static_cast<size_t>(3 * channels), 0.5f);
    }
    kernels::AttentionForward forward() {
        kernels::AttentionForward op;
        op.batch = c.batch, op.context = c.context, op.heads = c.heads, op.headWidth = c.headWidth, op.type = c.type;
        op.qkv = qkv.data(), op.out = out.data(), op.lse = lse.data();
        return op;
    }
    kernels::AttentionBackward backward() {
        kernels::AttentionBackward op;
        op.batch = c.batch, op.context = c.context, op.heads = c.heads, op.headWidth = c.headWidth, op.type = c.type;
        op.qkv = qkv.data(), op.out = out.data(), op.lse = lse.data(), op.dOut = dOut.data(), op.dQkv = dQkv.data();
        op.dBias = dBias.data();
        return op;
    }
};

inline std::vector<AttentionCase> attentionCases() {
    std::vector<AttentionCase> cases;
    for (DType type : {DType::F32, DType::BF16, DType::F16}) {
        cases.push_back({1, 1, 1, 16, type});
        cases.push_back({2, 17, 3, 32, type});
        cases.push_back({1, 64, 2, 64, type});
        cases.push_back({1, 131, 2, 128, type});
        cases.push_back({2, 200, 1, 32, type});
        cases.push_back({1, 801, 1, 16, type});
    }
    return cases;
}

}  // namespace mantissa::test
