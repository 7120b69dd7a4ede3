// Products on the GPU: exact on small integers (case N11), within the derived bound elsewhere, the same bits every
// time.
#include <array>
#include <cmath>
#include <cstring>

#include "kernels/device/cpu_ops.h"
#include "tests/support/cuda_twin.h"
#include "tests/support/op_cases.h"
#include "tests/support/tolerance.h"

namespace mantissa::kernels {
namespace {

using test::MatmulCase;
using test::MatmulData;
using MatmulOnGpu = test::CudaTest;

/// Codes of an operand stored the other way round, as the chip's FP8 products read them.
std::vector<uint8_t> transposedCodes(const test::Buffer& buffer, int64_t rows, int64_t cols, int64_t ld) {
    std::vector<uint8_t> out(static_cast<size_t>(rows * cols));
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; ++c)
            out[static_cast<size_t>(c * rows + r)] = buffer.bytes[static_cast<size_t>(r * ld + c)];
    return out;
}

MatmulReport runOn(Backend& gpu, MatmulData& data, bool giveTransposed, bool fast = false) {
    Matmul op = data.op();
    op.fastAccumulate = fast;
    const MatmulCase& c = data.c;
    std::vector<uint8_t> a, b;
    std::vector<float> scaleA{data.scaleInvA},
        scaleB{data.scaleInvB};  // apart: the library wants them aligned to 16 bytes
    if (op.a.scaleInv) op.a.scaleInv = scaleA.data();
    if (op.b.scaleInv) op.b.scaleInv = scaleB.data();
    if (isFp8(c.a) && giveTransposed) {
        if (!op.a.kContiguous) a = transposedCodes(data.a, c.k, c.m, data.ldA), op.a.transposed = a.data();
        if (!op.b.kContiguous) b = transposedCodes(data.b, c.k, c.n, data.ldB), op.b.transposed = b.data();
    }
    test::Twins twins(gpu);
    twins.add(data.a.bytes), twins.add(data.b.bytes), twins.add(data.bias.bytes), twins.add(data.out.bytes);
    twins.add(a), twins.add(b), twins.add(scaleA), twins.add(scaleB);
    const MatmulReport report = twins.run(op);
    if (!data.out.bytes.empty()) data.out.bytes = twins.get(data.out.bytes);
    return report;
}

double sumBound(const MatmulCase& c, const MatmulReport& report, double magnitude) {
    if (c.tf32) return 0x1p-9 * magnitude;  // both inputs rounded or cut to 10 bits
    return isFp8(c.a) && report.native ? test::fp8SumBound(magnitude) : 0;
}

void expectNear(const MatmulData& got, const std::vector<float>& wanted, const MatmulReport& report) {
    const MatmulCase& c = got.c;
    const std::vector<double> magnitudes = got.magnitudes();
    int failures = 0;
    for (int64_t i = 0; i < c.m; ++i)
        for (int64_t j = 0; j < got.ldOut; ++j) {
            const int64_t at = i * got.ldOut + j;
            const double value = got.out.at(at), exact = wanted[static_cast<size_t>(at)];
            double bound = 0;
            if (j < c.n) {
                const double magnitude = magnitudes[static_cast<size_t>(i * c.n + j)];
                bound = test::matmulBound(c.k, magnitude, exact, c.out) + sumBound(c, report, magnitude);
                // A bias that no epilogue takes is added to the product as it was stored.
                if (c.bias && c.out != DType::F32) bound += test::unitRoundoff(c.out) * magnitude;
            }
            if (std::fabs(value - exact) <= bound) continue;
            if (++failures <= 3)
                ADD_FAILURE() << c.name() << " (" << report.algorithm << ") at " << i << "," << j << ": " << value
                              << ", wanted " << exact << " +- " << bound;
        }
}

std::vector<float> referenceOf(MatmulData& data) {
    std::vector<float> out(static_cast<size_t>(data.out.size()));
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(data.outBefore.at(static_cast<int64_t>(i)));
    Matmul op = data.op();
    op.out = out.data(), op.outType = DType::F32;
    runReference(op);
    return out;
}

TEST_F(MatmulOnGpu, SmallIntegersAreExactInEveryLayout) {
    std::vector<MatmulCase> cases = test::exactMatmulCases();
    // Sizes that the chip's own FP8 products take.
    for (Gemm gemm : {Gemm::Fprop, Gemm::Dgrad, Gemm::Wgrad})
        for (DType a : {DType::E4M3, DType::E5M2})
            for (DType b : {DType::E4M3, DType::E5M2})
                for (int64_t k : {16, 528, 4096}) {
                    MatmulCase c{gemm, 144, 208, k, a, b, gemm == Gemm::Wgrad ? DType::F32 : DType::BF16};
                    c.integers = true;
                    cases.push_back(c);
                }
    int native = 0;
    for (const MatmulCase& c : cases)
        for (bool giveTransposed : {true, false}) {
            MatmulData data(c), reference(c);
            const MatmulReport report = runOn(*gpu_, data, giveTransposed, c.gemm == Gemm::Fprop);
            native += report.native && isFp8(c.a);
            runReference(reference.op());
            ASSERT_EQ(data.out.bytes, reference.out.bytes) << c.name() << " (" << report.algorithm << ")";
            EXPECT_EQ(report.a, c.a);
            EXPECT_EQ(report.b, c.b);
        }
    if (gpu_->nativeFp8()) {
        EXPECT_GE(native, 50);
    }
}

TEST_F(MatmulOnGpu, EveryCaseWithinItsBound) {
    for (const MatmulCase& c : test::matmulCases()) {
        MatmulData data(c), reference(c);
        const MatmulReport report = runOn(*gpu_, data, true);
        expectNear(data, referenceOf(reference), report);
    }
}

TEST_F(MatmulOnGpu, LargeFp8WithinItsBoundAndTheSameBitsTwice) {
    for (Gemm gemm : {Gemm::Fprop, Gemm::Dgrad, Gemm::Wgrad}) {
        MatmulCase c{gemm,
                     256,
                     512,
                     2048,
                     gemm == Gemm::Fprop ? DType::E4M3 : DType::E5M2,
                     DType::E4M3,
                     gemm == Gemm::Wgrad ? DType::F32 : DType::BF16};
        c.bias = gemm == Gemm::Fprop;
        c.accumulate = gemm == Gemm::Wgrad;
        MatmulData data(c), again(c), reference(c);
        const MatmulReport report = runOn(*gpu_, data, true, gemm == Gemm::Fprop);
        EXPECT_EQ(report.native, gpu_->nativeFp8()) << c.name();
        runOn(*gpu_, again, true, gemm == Gemm::Fprop);
        EXPECT_EQ(data.out.bytes, again.out.bytes) << c.name();
        if (gemm != Gemm::Fprop) expectNear(data, referenceOf(reference), report);
    }
}

// P02: one code flipped changes the product by what that code is worth.
TEST_F(MatmulOnGpu, OneCodeByteChangesTheProductByItsWorth) {
    MatmulCase c{Gemm::Fprop, 32, 48, 96, DType::E4M3, DType::E4M3, DType::F32};
    c.integers = true;
    MatmulData before(c), after(c);
    after.b.bytes[static_cast<size_t>(7 * after.ldB + 31)] = 0x5A;  // 20
    runOn(*gpu_, before, true);
    runOn(*gpu_, after, true);
    const double change = 20 - before.elementB(7, 31);
    for (int64_t i = 0; i < c.m; ++i)
        for (int64_t j = 0; j < c.n; ++j) {
            const double expected = j == 7 ? change * before.elementA(i, 31) : 0;
            EXPECT_EQ(after.out.at(i * after.ldOut + j) - before.out.at(i * before.ldOut + j), expected)
                << i << "," << j;
        }
}

/// Runs the case where the chip takes it; false, with nothing run, where it says why not.
bool runBlocks(Backend& gpu, test::BlockMatmulData& data, std::string& why, std::string* algorithm = nullptr) {
    const Matmul op = data.op();
    test::Twins twins(gpu);
    twins.add(data.a.bytes), twins.add(data.b.bytes), twins.add(data.bias.bytes), twins.add(data.out.bytes);
    twins.add(data.scaleA), twins.add(data.scaleB);
    why = gpu.whyNoBlockCodes(twins.translated(op));
    if (!why.empty()) return false;
    const MatmulReport report = twins.run(op);
    EXPECT_TRUE(report.native);
    EXPECT_EQ(report.a, DType::E4M3);
    EXPECT_EQ(report.b, DType::E4M3);
    if (algorithm) *algorithm = report.algorithm;
    data.out.bytes = twins.get(data.out.bytes);
    return true;
}

bool isHopper(const Backend& gpu) {
    return gpu.info().isa == "sm_90a";
}

TEST_F(MatmulOnGpu, BlockScaledIntegersAreExact) {
    int native = 0;
    for (const test::BlockMatmulCase& c : test::blockMatmulCases(true)) {
        test::BlockMatmulData data(c), reference(c);
        std::string why;
        if (!runBlocks(*gpu_, data, why)) {
            std::printf("%s: %s\n", c.name().c_str(), why.c_str());
            continue;
        }
        ++native;
        runReference(reference.op());
        int different = 0;
        for (int64_t i = 0; i < data.out.size(); ++i) different += data.out.at(i) != reference.out.at(i);
        EXPECT_EQ(different, 0) << c.name();
    }
    if (isHopper(*gpu_)) {
        EXPECT_GE(native, 40);
    }
}

TEST_F(MatmulOnGpu, BlockScaledWithinTheBoundAndTheSameBitsTwice) {
    for (const test::BlockMatmulCase& c : test::blockMatmulCases(false)) {
        test::BlockMatmulData data(c), again(c), reference(c);
        std::string why, algorithm;
        if (!runBlocks(*gpu_, data, why, &algorithm)) continue;
        EXPECT_NE(algorithm.find("block scales"), std::string::npos) << algorithm;
        runBlocks(*gpu_, again, why);
        EXPECT_EQ(data.out.bytes, again.out.bytes) << c.name();
        runReference(reference.op());
        int failures = 0;
        for (int64_t i = 0; i < c.m && failures < 3; ++i)
            for (int64_t j = 0; j < c.n && failures < 3; ++j) {
                double exact = c.bias ? data.bias.at(j) : 0, magnitude = std::fabs(exact);
                for (int64_t k = 0; k < c.k; ++k) {
                    const double term = data.elementA(i, k) * data.elementB(j, k);
                    exact += term, magnitude += std::fabs(term);
                }
                if (c.accumulate) exact += data.outBefore.at(i * c.n + j);
                if (c.accumulate) magnitude += std::fabs(data.outBefore.at(i * c.n + j));
                const double bound = test::matmulBound(c.k, magnitude, exact, c.out()) + test::fp8SumBound(magnitude);
                const double got = data.out.at(i * c.n + j);
                if (std::fabs(got - exact) <= bound) continue;
                ++failures;
                ADD_FAILURE() << c.name() << " (" << algorithm << ") at " << i << "," << j << ": " << got << ", wanted "
                              << exact << " +- " << bound;
            }
    }
}

// P02 with block scales: one code flipped changes the product by what that code is worth in its blocks.
TEST_F(MatmulOnGpu, OneCodeByteWithBlockScalesChangesTheProductByItsWorth) {
    test::BlockMatmulCase c{Gemm::Fprop, 128, 256, 384};
    c.integers = true;
    test::BlockMatmulData before(c), after(c);
    after.b.bytes[static_cast<size_t>(171 * c.k + 300)] = 0x5A;  // 20
    std::string why;
    if (!runBlocks(*gpu_, before, why)) GTEST_SKIP() << why;
    ASSERT_TRUE(runBlocks(*gpu_, after, why));
    const double change = after.elementB(171, 300) - before.elementB(171, 300);
    EXPECT_NE(change, 0);
    for (int64_t i = 0; i < c.m; ++i)
        for (int64_t j = 0; j < c.n; ++j) {
            const double expected = j == 171 ? change * before.elementA(i, 300) : 0;
            const double was = before.out.at(i * c.n + j);
            // The result is stored in BF16, which holds integers up to 256 exactly.
            if (std::fabs(was) > 128 || std::fabs(was + expected) > 256) continue;
            EXPECT_EQ(after.out.at(i * c.n + j) - was, expected) << i << "," << j;
        }
}

TEST_F(MatmulOnGpu, BlockScaledProductsThatDoNotFitAreRefusedWithTheReason) {
    for (const auto& [m, n, k] : {std::array<int64_t, 3>{128, 128, 120}, {128, 130, 128}, {130, 128, 128}}) {
        test::BlockMatmulData data({Gemm::Fprop, m, n, k});
        const std::string why = gpu_->whyNoBlockCodes(data.op());
        EXPECT_NE(why.find(isHopper(*gpu_) ? "multiple of" : "compute capability"), std::string::npos) << why;
        std::string reason;
        EXPECT_FALSE(runBlocks(*gpu_, data, reason));
    }
}

}  // namespace
}  // namespace mantissa::kernels
