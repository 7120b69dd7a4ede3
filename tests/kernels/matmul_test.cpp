// The CPU's matrix product against the reference: all types, layouts and sizes on every instruction set of this
// processor.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "kernels/device/cpu_ops.h"
#include "tests/support/cpu_run.h"
#include "tests/support/op_cases.h"
#include "tests/support/test_executor.h"
#include "tests/support/tolerance.h"

namespace mantissa::kernels {
namespace {

using test::Buffer;
using test::MatmulCase;
using test::MatmulData;

MatmulReport runOn(const Matmul& op, Isa isa, int threads) {
    test::ShuffledExecutor executor(threads);
    CpuContext context{&executor, isa, nullptr, 0};
    test::AlignedMemory memory(workspaceCpu(op, context));
    context.workspace = memory.data(), context.workspaceBytes = memory.size();
    const MatmulReport report = runCpu(op, context);
    EXPECT_TRUE(memory.guardIntact()) << "wrote beyond its workspace";
    return report;
}

/// The reference's D in F32, (m, ldOut), for cases of any output type.
std::vector<float> referenceOf(MatmulData& data) {
    std::vector<float> out(static_cast<size_t>(data.out.size()));
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(data.outBefore.at(static_cast<int64_t>(i)));
    Matmul op = data.op();
    op.out = out.data(), op.outType = DType::F32;
    runReference(op);
    return out;
}

/// Element by element within the derived bound; bytes between the rows untouched.
void expectNear(const MatmulData& got, const std::vector<float>& wanted, const std::vector<double>& magnitudes) {
    const MatmulCase& c = got.c;
    int failures = 0;
    for (int64_t i = 0; i < c.m; ++i)
        for (int64_t j = 0; j < got.ldOut; ++j) {
            const int64_t at = i * got.ldOut + j;
            const double value = got.out.at(at), exact = wanted[static_cast<size_t>(at)];
            const double bound = j < c.n ? test::matmulBound(c.k, magnitudes[i * c.n + j], exact, c.out) : 0;
            if (std::fabs(value - exact) <= bound) continue;
            if (++failures <= 3)
                ADD_FAILURE() << c.name() << " at " << i << "," << j << ": " << value << ", wanted " << exact << " +- "
                              << bound;
        }
}

class MatmulOnIsa : public testing::TestWithParam<Isa> {};

TEST_P(MatmulOnIsa, SmallIntegersAreExactInEveryLayout) {
    for (const MatmulCase& c : test::exactMatmulCases()) {
        MatmulData data(c), reference(c);
        runOn(data.op(), GetParam(), 3);
        runReference(reference.op());
        EXPECT_EQ(data.out.bytes, reference.out.bytes) << c.name();
    }
}

/// Weight gradients with one narrow side: tiles pack the wide side themselves, over several blocks of k.
TEST_P(MatmulOnIsa, NarrowWeightGradients) {
    for (DType type : {DType::F32, DType::BF16, DType::E4M3})
        for (const auto& [m, n] : {std::pair{130, 30}, {30, 130}, {1, 70}, {70, 1}, {513, 256}})
            for (bool accumulate : {false, true}) {
                MatmulCase c{Gemm::Wgrad, m, n, 801, type, type, DType::F32};
                c.accumulate = accumulate, c.integers = true;
                MatmulData data(c), reference(c);
                runOn(data.op(), GetParam(), 3);
                runReference(reference.op());
                EXPECT_EQ(data.out.bytes, reference.out.bytes) << c.name();
            }
}

TEST_P(MatmulOnIsa, Tf32CutsItsInputs) {
    MatmulCase c{Gemm::Fprop, 1, 1, 2};
    c.tf32 = true;
    MatmulData data(c);
    data.a.set(0, 1 + 0x1p-10 + 0x1p-11), data.a.set(1, 0);
    data.b.set(0, 1), data.b.set(1, 1);
    runOn(data.op(), GetParam(), 1);
    EXPECT_EQ(data.out.at(0), 1 + 0x1p-10);
}

// N07: 826 exactly; with scale_inv 1/64 and 1/4: 3.2265625; in BF16 3.21875 (404E).
TEST_P(MatmulOnIsa, ScaledDotProduct) {
    for (DType out : {DType::F32, DType::BF16}) {
        MatmulData data({Gemm::Fprop, 1, 1, 4, DType::E4M3, DType::E4M3, out});
        const double a[] = {448, 224, -112, 0.875}, b[] = {2, -0.5, 1.5, 240};
        for (int i = 0; i < 4; ++i) data.a.set(i, a[i]), data.b.set(i, b[i]);
        data.scaleInvA = data.scaleInvB = 1;
        if (out == DType::F32) {
            runOn(data.op(), GetParam(), 1);
            EXPECT_EQ(data.out.at(0), 826);
        }
        data.scaleInvA = 1 / 64.0f, data.scaleInvB = 1 / 4.0f;
        runOn(data.op(), GetParam(), 1);
        EXPECT_EQ(data.out.at(0), out == DType::F32 ? 3.2265625 : 3.21875);
    }
}

// C08: the three products of a linear by hand, from its codes.
TEST_P(MatmulOnIsa, LinearByHand) {
    const uint8_t codes[4] = {0x6E, 0x76, 0x7A, 0x7E};
    const float sx = 1 / 112.0f, sw = 1 / 896.0f, sdy = 1 / 152917.33f;
    MatmulData y({Gemm::Fprop, 1, 1, 16, DType::E4M3, DType::E4M3, DType::F32});
    y.a.bytes.assign(16, 0), y.b.bytes.assign(16, 0);
    std::memcpy(y.a.data(), codes, 4);
    std::memcpy(y.b.data(), codes, 4);
    y.scaleInvA = sx, y.scaleInvB = sw;
    runOn(y.op(), GetParam(), 1);
    EXPECT_NEAR(y.out.at(0), 3.64540816, 3.64540816e-6);

    MatmulData dx({Gemm::Dgrad, 1, 16, 1, DType::E5M2, DType::E4M3, DType::F32});
    dx.a.bytes[0] = 0x7B;
    dx.b = y.b;
    dx.scaleInvA = sdy, dx.scaleInvB = sw;
    runOn(dx.op(), GetParam(), 1);
    MatmulData dw({Gemm::Wgrad, 1, 16, 1, DType::E5M2, DType::E4M3, DType::F32});
    dw.a.bytes[0] = 0x7B;
    dw.b = y.a;
    dw.scaleInvA = sdy, dw.scaleInvB = sx;
    runOn(dw.op(), GetParam(), 1);
    const double wantedDx[] = {.046875, .09375, .133928567, .1875}, wantedDw[] = {.375, .75, 1.07142854, 1.5};
    for (int i = 0; i < 4; ++i) {
        EXPECT_NEAR(dx.out.at(i), wantedDx[i], wantedDx[i] * 1e-6);
        EXPECT_NEAR(dw.out.at(i), wantedDw[i], wantedDw[i] * 1e-6);
    }
}

// P02: one code byte flipped changes the product by exactly what that code is worth.
TEST_P(MatmulOnIsa, OneCodeByteChangesTheProductByItsWorth) {
    MatmulCase c{Gemm::Fprop, 20, 40, 100, DType::E4M3, DType::E4M3, DType::F32};
    c.integers = true;
    MatmulData before(c), after(c);
    after.b.bytes[7 * after.ldB + 31] = 0x5A;  // 20
    runOn(before.op(), GetParam(), 2);
    runOn(after.op(), GetParam(), 2);
    const double change = 20 - before.elementB(7, 31);
    for (int64_t i = 0; i < c.m; ++i)
        for (int64_t j = 0; j < c.n; ++j) {
            const double expected = j == 7 ? change * before.elementA(i, 31) : 0;
            EXPECT_EQ(after.out.at(i * after.ldOut + j) - before.out.at(i * before.ldOut + j), expected)
                << i << "," << j;
        }
}

// N13: a NaN spoils its row and nothing else; so does the NaN code of each FP8 format; infinity stays one.
TEST_P(MatmulOnIsa, NanAndInfinityGoThrough) {
    for (DType type : {DType::F32, DType::BF16, DType::F16, DType::E4M3, DType::E5M2})
        for (Gemm gemm : {Gemm::Fprop, Gemm::Wgrad}) {
            MatmulData data({gemm, 30, 50, 64, type, type, DType::F32});
            data.a.set(gemm == Gemm::Fprop ? 11 * data.ldA + 5 : 5 * data.ldA + 11,
                       std::numeric_limits<double>::quiet_NaN());
            runOn(data.op(), GetParam(), 2);
            for (int64_t i = 0; i < 30; ++i)
                for (int64_t j = 0; j < 50; ++j)
                    EXPECT_EQ(std::isnan(data.out.at(i * data.ldOut + j)), i == 11) << dtypeName(type);
        }
    MatmulData data({Gemm::Fprop, 1, 1, 1, DType::E5M2, DType::E5M2, DType::BF16});
    data.a.bytes[0] = 0xFC, data.b.bytes[0] = 0x3C;
    runOn(data.op(), GetParam(), 1);
    EXPECT_EQ(data.out.at(0), -std::numeric_limits<double>::infinity());
    MatmulData nan({Gemm::Fprop, 8, 64, 4, DType::F32, DType::F32, DType::BF16});
    nan.a.set(0, std::numeric_limits<double>::quiet_NaN());
    runOn(nan.op(), GetParam(), 1);
    EXPECT_TRUE(std::isnan(nan.out.at(0)));
    EXPECT_FALSE(std::isnan(nan.out.at(64)));
}

TEST_P(MatmulOnIsa, EveryCodeIsDecoded) {
    for (DType type : {DType::E4M3, DType::E5M2})
        for (Gemm gemm : {Gemm::Fprop, Gemm::Dgrad, Gemm::Wgrad}) {
            // 256 codes as A (or B), times 1.
            MatmulData left({gemm, 256, 1, 1, type, DType::E4M3, DType::F32}),
                right({gemm, 1, 256, 1, DType::E4M3, type, DType::F32});
            left.b.bytes[0] = right.a.bytes[0] = 0x38;
            left.scaleInvA = left.scaleInvB = right.scaleInvA = right.scaleInvB = 1;
            for (int code = 0; code < 256; ++code)
                left.a.bytes[code] = right.b.bytes[code] = static_cast<uint8_t>(code);
            runOn(left.op(), GetParam(), 1);
            runOn(right.op(), GetParam(), 1);
            for (int code = 0; code < 256; ++code) {
                const float wanted = decodeFp8(static_cast<uint8_t>(code), type);
                if (std::isnan(wanted)) {
                    EXPECT_TRUE(std::isnan(left.out.at(code)) && std::isnan(right.out.at(code))) << code;
                } else {
                    EXPECT_EQ(left.out.at(code), wanted) << code;
                    EXPECT_EQ(right.out.at(code), wanted) << code;
                }
            }
        }
}

INSTANTIATE_TEST_SUITE_P(Isas, MatmulOnIsa, testing::ValuesIn(test::supportedIsas()),
                         [](const auto& info) { return std::string(isaName(info.param)); });

TEST(Matmul, AllCasesWithinTheBoundOnEveryInstructionSet) {
    for (const MatmulCase& c : test::matmulCases()) {
        MatmulData inputs(c);
        if (c.tf32)  // the bound speaks of the operands that are multiplied
            for (Buffer* operand : {&inputs.a, &inputs.b})
                for (int64_t i = 0; i < operand->size(); ++i)
                    operand->set(i, floatFromBits(floatBits(static_cast<float>(operand->at(i))) & 0xFFFFE000u));
        const std::vector<float> reference = referenceOf(inputs);
        const std::vector<double> magnitudes = inputs.magnitudes();
        for (Isa isa : test::supportedIsas()) {
            SCOPED_TRACE(isaName(isa));
            MatmulData data = inputs;
            const MatmulReport report = runOn(data.op(), isa, 2);
            expectNear(data, reference, magnitudes);
            EXPECT_EQ(report.a, c.a);
            EXPECT_EQ(report.b, c.b);
            EXPECT_EQ(report.out, c.out);
            EXPECT_NE(std::string(report.algorithm), "");
        }
    }
}

// P13 and the determinism class: the same bits on 1, 2, 3 and 16 threads, and on AVX2, AVX-512 and AVX-512-BF16.
TEST(Matmul, SameBitsOnEveryThreadCountAndInstructionSetOfAClass) {
    for (const MatmulCase& c : test::matmulCases()) {
        const MatmulData inputs(c, 5);
        for (const std::vector<Isa>& group : {std::vector<Isa>{Isa::Sse}, {Isa::Avx2, Isa::Avx512, Isa::Avx512Bf16}}) {
            if (!isaSupported(group[0])) continue;
            MatmulData first = inputs;
            runOn(first.op(), group[0], 1);
            for (Isa isa : group) {
                if (!isaSupported(isa)) continue;
                for (int threads : {1, 2, 3, 16}) {
                    MatmulData data = inputs;
                    runOn(data.op(), isa, threads);
                    ASSERT_EQ(std::memcmp(data.out.data(), first.out.data(), first.out.bytes.size()), 0)
                        << c.name() << " on " << isaName(isa) << ", " << threads << " threads";
                }
            }
        }
    }
}

// vdpbf16ps counts subnormal inputs and sums as zero; the FMA path must do the same.
TEST(Matmul, SubnormalBf16IsTheSameOnEveryInstructionSet) {
    if (!isaSupported(Isa::Avx2)) GTEST_SKIP() << "needs AVX2";
    MatmulCase c{Gemm::Fprop, 24, 64, 200, DType::BF16, DType::BF16, DType::F32};
    const auto make = [&] {
        MatmulData data(c);
        test::Numbers numbers(3);
        for (Buffer* operand : {&data.a, &data.b})
            for (int64_t i = 0; i < operand->size(); ++i) {
                const int64_t exponent = numbers.integer(0, 70);  // products around and below 2^-126
                const int64_t bits = numbers.integer(0, 1) << 15 | exponent << 7 | numbers.integer(0, 127);
                reinterpret_cast<uint16_t*>(operand->data())[i] = static_cast<uint16_t>(bits);
            }
        return data;
    };
    MatmulData first = make();
    runOn(first.op(), Isa::Avx2, 1);
    for (Isa isa : {Isa::Avx512, Isa::Avx512Bf16}) {
        if (!isaSupported(isa)) continue;
        MatmulData data = make();
        runOn(data.op(), isa, 1);
        EXPECT_EQ(data.out.bytes, first.out.bytes) << isaName(isa);
    }
}

TEST(Matmul, ReportsWhatRan) {
    const auto report = [](DType type, Isa isa, bool tf32 = false) {
        MatmulCase c{Gemm::Fprop, 4, 4, 4, type, type, DType::F32};
        c.tf32 = tf32;
        MatmulData data(c);
        return runOn(data.op(), isa, 1);
    };
    EXPECT_TRUE(report(DType::F32, Isa::Sse).native);
    EXPECT_FALSE(report(DType::F32, Isa::Sse, true).native);
    EXPECT_FALSE(report(DType::BF16, Isa::Sse).native);
    EXPECT_FALSE(report(DType::E4M3, Isa::Sse).native);
    EXPECT_NE(std::string(report(DType::E4M3, Isa::Sse).algorithm).find("emulated"), std::string::npos);
    // By the BF16 instruction where that is the faster one, else as F32, and then it says so.
    for (Isa isa : test::supportedIsas()) {
        const MatmulReport bf16 = report(DType::BF16, isa);
        EXPECT_EQ(bf16.native, std::string(bf16.algorithm).find("emulated") == std::string::npos) << bf16.algorithm;
    }
}

TEST(Matmul, RefusesWhatIsOutsideItsContract) {
    const auto refused = [](auto change) {
        MatmulData data({Gemm::Fprop, 4, 4, 4, DType::BF16, DType::BF16, DType::BF16});
        Matmul op = data.op();
        change(op);
        EXPECT_THROW(runOn(op, Isa::Sse, 1), Error);
        EXPECT_THROW(runReference(op), Error);
    };
    refused([](Matmul& op) { op.a.ld = 3; });
    refused([](Matmul& op) { op.ldOut = 3; });
    refused([](Matmul& op) { op.a.type = DType::F32; });
    refused([](Matmul& op) { op.accumulate = true; });
    refused([](Matmul& op) { op.tf32 = true; });
    refused([](Matmul& op) { op.out = nullptr; });
    refused([](Matmul& op) { op.b.data = nullptr; });
    refused([](Matmul& op) { op.outType = DType::E4M3; });
}

/// Codes with block scales stand for values: the product of one is the product of the other.
TEST(Matmul, CodesWithBlockScalesAreTheirValues) {
    for (const test::BlockMatmulCase& c : test::blockMatmulCases(false)) {
        test::BlockMatmulData codes(c), values(c);
        runReference(codes.op());
        test::Buffer a(DType::BF16, c.m * c.k), b(DType::BF16, c.n * c.k);
        for (int64_t i = 0; i < c.m * c.k; ++i) a.set(i, codes.elementA(i / c.k, i % c.k));
        for (int64_t i = 0; i < c.n * c.k; ++i) b.set(i, codes.elementB(i / c.k, i % c.k));
        Matmul op = values.op();
        op.a = {a.data(), DType::BF16, true, c.k, nullptr, nullptr, DType::E4M3};
        op.b = {b.data(), DType::BF16, true, c.k, nullptr, nullptr, DType::E4M3};
        runReference(op);
        EXPECT_EQ(codes.out.bytes, values.out.bytes) << c.name();
    }
}

TEST(Matmul, BlockScalesOutsideTheContractAreRefused) {
    const test::BlockMatmulCase c{Gemm::Fprop, 16, 16, 128};
    test::BlockMatmulData data(c);
    const auto refused = [](const Matmul& op) {
        try {
            checkMatmul(op);
        } catch (const Error& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    EXPECT_EQ(refused(data.op()), "");
    Matmul one = data.op(), squares = data.op(), strided = data.op();
    one.b.blockScaleInv = nullptr;
    EXPECT_NE(refused(one).find("the other has none"), std::string::npos);
    squares.a.squareBlocks = true;
    EXPECT_NE(refused(squares).find("square"), std::string::npos);
    strided.b.kContiguous = false;
    EXPECT_NE(refused(strided).find("k contiguous"), std::string::npos);
    EXPECT_THROW(test::runOnCpu(data.op(), Isa::Sse), Error) << "the CPU multiplies values";
}

}  // namespace
}  // namespace mantissa::kernels
