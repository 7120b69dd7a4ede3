// Looking at tensors: non-finite counts, the shadow product, stale codes, and the model of 14-bit partial sums.
#include "kernels/numerics/numerics_ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/cpu_run.h"
#include "tests/support/probe_cases.h"
#include "tests/support/thread_executor.h"

namespace mantissa::kernels {
namespace {

TEST(CheckFinite, CountsAndNamesTheFirst) {
    for (DType type : {DType::F32, DType::BF16, DType::F16}) {
        test::Buffer values(type, 200001);
        for (int64_t i = 0; i < values.size(); ++i) values.set(i, 1.0 + static_cast<double>(i % 7));
        FiniteCount count;
        CheckFinite op{values.size(), type, values.data(), 1000, &count};
        test::ThreadExecutor executor(3);
        test::runOnCpu(op, Isa::Sse, executor);
        EXPECT_EQ(count.nan + count.inf + count.firstInverted, 0u);
        values.set(150000, INFINITY), values.set(70000, -INFINITY), values.set(199999, NAN);
        test::runOnCpu(op, Isa::Sse, executor);
        EXPECT_EQ(count.nan, 1u);
        EXPECT_EQ(count.inf, 2u);
        EXPECT_EQ(~count.firstInverted, 71000u);
        op.offset = 0;  // a second look adds, and keeps the smaller number
        test::runOnCpu(op, Isa::Sse, executor);
        EXPECT_EQ(count.nan, 2u);
        EXPECT_EQ(~count.firstInverted, 70000u);
    }
}

TEST(ShadowProduct, IsTheProductInDouble) {
    for (bool aK : {true, false})
        for (bool bK : {true, false})
            for (int64_t samples : {1, 5, 64}) {
                test::ShadowData data(37, 50, 70, aK, bK, samples);
                test::ThreadExecutor executor(3);
                test::runOnCpu(data.op(samples), Isa::Sse, executor);
                EXPECT_NEAR(data.sums[0].wanted, data.wanted, 1e-12 * data.wanted);
                EXPECT_NEAR(data.sums[0].error, data.error, 1e-9 * data.error);
                EXPECT_EQ(data.sums[0].rows, static_cast<uint64_t>(std::min<int64_t>(samples, 37)));
            }
}

TEST(CodeCheck, CountsCodesThatAFreshCastWouldNotGive) {
    test::CodeData data;
    test::runOnCpu(data.op(), Isa::Sse);
    EXPECT_EQ(data.different[0], static_cast<uint64_t>(test::CodeData::kChanged));
}

Matmul limited(test::MatmulData& data) {
    Matmul op = data.op();
    op.limited14 = true;
    return op;
}

/// Small integers are exact even in 14 bits (facts of the wrapper's test recipe): N11.
TEST(Limited14, IntegersAreExact) {
    for (Gemm gemm : {Gemm::Fprop, Gemm::Dgrad, Gemm::Wgrad}) {
        test::MatmulCase c;
        c.gemm = gemm, c.m = 70, c.n = 45, c.k = 1000, c.a = c.b = DType::E4M3, c.integers = true;
        test::MatmulData got(c), wanted(c);
        runReference(wanted.op());
        test::runOnCpu(limited(got), Isa::Sse);
        for (int64_t i = 0; i < got.out.size(); ++i) ASSERT_EQ(got.out.at(i), wanted.out.at(i)) << i;
    }
}

/// Errors of 256 dot products of K = 4096 as shares of the exact results' root mean square.
struct Loss {
    double rms = 0, mean = 0;
};

template <class Draw>
Loss lossOf(Draw draw) {
    test::MatmulCase c;
    c.m = 16, c.n = 16, c.k = 4096, c.a = c.b = DType::E4M3;
    test::MatmulData got(c), exact(c);
    test::Numbers numbers(21);
    for (int64_t i = 0; i < got.a.size(); ++i) {
        const double a = draw(numbers), b = draw(numbers);
        for (test::MatmulData* data : {&got, &exact}) data->a.set(i, a), data->b.set(i, b);
    }
    runReference(exact.op());
    test::runOnCpu(limited(got), Isa::Sse);
    Loss loss;
    double squares = 0;
    for (int64_t i = 0; i < got.out.size(); ++i) {
        const double error = got.out.at(i) - exact.out.at(i);
        loss.rms += error * error;
        loss.mean += error;
        squares += exact.out.at(i) * exact.out.at(i);
    }
    const double size = std::sqrt(squares / 256);
    return {std::sqrt(loss.rms / 256) / size, loss.mean / 256 / size};
}

/// Expected values computed apart from this code, 1,000 dot products each: Gaussian 0.13 % rms without bias, uniform 0
/// ... 1 -7.5 %.
TEST(Limited14, LosesAsMuchAsTheModelSays) {
    const Loss gaussian = lossOf([](test::Numbers& numbers) { return numbers.normal(); });
    const Loss positive = lossOf([](test::Numbers& numbers) { return numbers.uniform(); });
    std::printf("14-bit partial sums, K 4096: Gaussian rms %.3f %%, uniform mean %.2f %%\n", 100 * gaussian.rms,
                100 * positive.mean);
    EXPECT_NEAR(gaussian.rms, 0.0013, 0.0004);
    EXPECT_NEAR(gaussian.mean, 0, 0.0005);
    EXPECT_NEAR(positive.mean, -0.075, 0.01);
}

}  // namespace
}  // namespace mantissa::kernels
