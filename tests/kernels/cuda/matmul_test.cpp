// Products on the GPU: exact on small integers (case N11), within the derived bound elsewhere, the same bits every
// time.
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

/// Native FP8 products keep fewer bits while they add: Hopper sums groups of 32 aligned to the largest term with 13
/// bits below it, and promotes to FP32 every 128 products unless fast accumulation is on. So 2^-13 of the largest term
/// a group.
double sumBound(const MatmulCase& c, const MatmulReport& report, double magnitude) {
    if (c.tf32) return 0x1p-9 * magnitude;  // both inputs rounded or cut to 10 bits
    return isFp8(c.a) && report.native ? 0x1p-11 * magnitude : 0;
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

}  // namespace
}  // namespace mantissa::kernels
