// Cross-entropy: against the reference, against finite differences with planted mistakes, bit by bit across machines.
#include "tests/support/elementwise_cases.h"
#include "tests/support/tolerance.h"

namespace mantissa::test {
namespace {

/// The padded vocabulary is the case's width; a quarter of the cases have no padding.
std::vector<CrossEntropyData> cases() {
    std::vector<CrossEntropyData> all;
    for (const RowsCase& c : rowsCases()) {
        all.emplace_back(c, c.cols);
        if (c.cols > 16) all.emplace_back(c, c.cols - 15);
        if (c.cols > 64) all.emplace_back(c, c.cols - 32);
    }
    return all;
}

TEST(CrossEntropy, MatchesReference) {
    for (const CrossEntropyData& data : cases())
        for (kernels::Isa isa : supportedIsas()) {
            CrossEntropyData got = data, expected = data;
            runOnCpu(got.op(), isa);
            runReference(expected.op());
            const int64_t cols = data.c.cols;
            const std::string what = "cross-entropy " + data.c.name() + " " + kernels::isaName(isa);
            std::vector<double> largest(static_cast<size_t>(data.c.rows), -1e30);
            for (int64_t i = 0; i < data.c.rows * cols; ++i)
                if (i % cols < data.vocabulary)
                    largest[static_cast<size_t>(i / cols)] =
                        std::max(largest[static_cast<size_t>(i / cols)], data.logits.at(i));
            const double chain = gammaF32(rowChain(cols));
            expectWithin(what + " loss", got.losses, expected.losses,
                         [&](int64_t row) { return 2 * chain + 0x1p-22 * (std::fabs(expected.losses.at(row)) + 10); });
            expectWithin(what, got.logits, expected.logits, [&](int64_t i) {
                const int64_t row = i / cols;
                const double distance = largest[static_cast<size_t>(row)] - data.logits.at(i);
                const bool target = i % cols == data.targets[static_cast<size_t>(row)];
                const double p = std::fabs(expected.logits.at(i)) + (target ? data.gradientScale : 0);
                return roundedTwice((2 * chain + 0x1p-22 * (2 + distance)) * p, expected.logits.at(i), data.c.type);
            });
            for (int64_t row = 0; row < data.c.rows; ++row)
                for (int64_t v = data.vocabulary; v < cols; ++v) ASSERT_EQ(got.logits.at(row * cols + v), 0) << what;
            expectCastOf(what, got.cast, got.logits, data.c.rows, cols);
        }
}

TEST(CrossEntropy, LossAloneLeavesTheLogits) {
    CrossEntropyData data({20, 96, DType::BF16}, 90), with = data;
    data.backward = false;
    const Buffer before = data.logits;
    runOnCpu(data.op(), kernels::bestIsa());
    runOnCpu(with.op(), kernels::bestIsa());
    EXPECT_EQ(data.logits.bytes, before.bytes);
    EXPECT_EQ(data.losses.bytes, with.losses.bytes);
}

TEST(CrossEntropy, KnownValues) {
    CrossEntropyData uniform({1, 128, DType::F32}, 96);
    for (int64_t i = 0; i < 128; ++i) uniform.logits.set(i, 2.5);
    runOnCpu(uniform.op(), kernels::bestIsa());
    EXPECT_FLOAT_EQ(static_cast<float>(uniform.losses.at(0)), 4.56434819f);  // ln 96
    CrossEntropyData sure({1, 16, DType::F32}, 16);
    for (int64_t i = 0; i < 16; ++i) sure.logits.set(i, i == sure.targets[0] ? 200 : -200);
    runOnCpu(sure.op(), kernels::bestIsa());
    EXPECT_EQ(sure.losses.at(0), 0);
    for (int64_t i = 0; i < 16; ++i) EXPECT_EQ(sure.logits.at(i), 0);
}

TEST(CrossEntropy, NanMarksItsRowAlone) {
    CrossEntropyData data({3, 40, DType::BF16, DType::E5M2}, 40);
    data.logits.set(40 + 3, std::nan(""));
    runOnCpu(data.op(), kernels::bestIsa());
    for (int64_t row = 0; row < 3; ++row) EXPECT_EQ(std::isnan(data.losses.at(row)), row == 1);
    EXPECT_EQ(data.cast.slot.counters.nan, 40u);
}

TEST(CrossEntropy, SameBitsOnAllThreadsAndInstructionSets) {
    for (const CrossEntropyData& data : cases())
        if (data.c.rows * data.c.cols <= 30000) expectSameBitsEverywhere("cross-entropy " + data.c.name(), data);
}

TEST(CrossEntropy, GradientMatchesFiniteDifferencesAndPlantedMistakesDoNot) {
    CrossEntropyData forward({6, 14, DType::F32}, 11);
    forward.backward = false;
    forward.gradientScale = 1;
    const auto loss = [&] {
        runReference(forward.op());
        double sum = 0;
        for (int64_t row = 0; row < 6; ++row) sum += forward.losses.at(row);
        return sum;
    };
    const auto error = [&](auto plant) {
        CrossEntropyData data = forward;
        data.backward = true;
        plant(data);
        runOnCpu(data.op(), kernels::bestIsa());
        return gradientError(forward.logits, data.logits, loss);
    };
    EXPECT_LT(error([](auto&) {}), kGradientTolerance);
    EXPECT_GT(error([](auto& d) { d.gradientScale = -1; }), kGradientTolerance) << "wrong sign";
    EXPECT_GT(error([](auto& d) { d.gradientScale = 1.02f; }), kGradientTolerance) << "wrong factor";
    EXPECT_GT(error([](auto& d) { d.targets[2] = (d.targets[2] + 1) % 11; }), kGradientTolerance) << "wrong target";
    EXPECT_GT(error([](auto& d) { d.vocabulary = 14; }), kGradientTolerance) << "padding counted";
    EXPECT_GT(error([](auto& d) { d.logits = transposed(d.logits, 6, 14); }), kGradientTolerance)
        << "transposed operand";
    EXPECT_GT(error([](auto& d) { d.backward = false; }), kGradientTolerance) << "no gradient";
}

TEST(SumLosses, MatchesReferenceOnAnyThreads) {
    for (int64_t rows : {0, 1, 1000, 1024, 5000}) {
        Numbers numbers(33);
        Buffer losses = normalBuffer(DType::F32, rows, numbers, 1, 4);
        const auto* values = reinterpret_cast<const float*>(losses.data());
        for (bool accumulate : {false, true}) {
            double expected = 7, first = 7;
            runReference(kernels::SumLosses{rows, values, &expected, accumulate});
            for (int threads : {1, 3}) {
                ThreadExecutor executor(threads);
                double got = 7;
                runOnCpu(kernels::SumLosses{rows, values, &got, accumulate}, kernels::bestIsa(), executor);
                EXPECT_NEAR(got, expected, 1e-12 * expected);
                if (threads == 1) first = got;
                EXPECT_EQ(got, first);
            }
        }
    }
}

}  // namespace
}  // namespace mantissa::test
