// Embeddings: against the reference, with finite differences and planted mistakes, bit by bit across machines.
#include <algorithm>

#include "tests/support/elementwise_cases.h"
#include "tests/support/tolerance.h"

namespace mantissa::test {
namespace {

TEST(Embedding, ForwardMatchesReference) {
    for (const EmbeddingData& c : embeddingCases())
        for (kernels::Isa isa : supportedIsas()) {
            EmbeddingData got = c, expected = c;
            runOnCpu(got.forward(), isa);
            runReference(expected.forward());
            expectWithin(c.name(), got.out, expected.out, [&](int64_t i) {
                return roundedTwice(0x1p-24 * std::fabs(expected.out.at(i)), expected.out.at(i), c.type);
            });
        }
}

TEST(Embedding, BackwardMatchesReference) {
    for (const EmbeddingData& c : embeddingCases())
        for (bool accumulate : {false, true})
            for (kernels::Isa isa : supportedIsas()) {
                EmbeddingData got = c;
                got.accumulate = accumulate;
                EmbeddingData expected = got;
                runOnCpu(got.backward(), isa);
                runReference(expected.backward());
                std::vector<double> token(static_cast<size_t>(c.vocabulary * c.cols)),
                    position(static_cast<size_t>(c.context * c.cols));
                for (int64_t i = 0; i < c.dOut.size(); ++i) {
                    const int64_t row = i / c.cols, column = i % c.cols;
                    token[static_cast<size_t>(c.tokens[static_cast<size_t>(row)] * c.cols + column)] +=
                        std::fabs(c.dOut.at(i));
                    position[static_cast<size_t>(row % c.context * c.cols + column)] += std::fabs(c.dOut.at(i));
                }
                const double chain = gammaF32(static_cast<double>(c.batch * c.context) + 2);
                expectWithin(c.name() + " tokens", got.dTokenTable, expected.dTokenTable, [&](int64_t i) {
                    return chain * (token[static_cast<size_t>(i)] + std::fabs(c.dTokenTable.at(i)));
                });
                expectWithin(c.name() + " positions", got.dPositionTable, expected.dPositionTable, [&](int64_t i) {
                    return chain * (position[static_cast<size_t>(i)] + std::fabs(c.dPositionTable.at(i)));
                });
            }
}

struct Forward : EmbeddingData {
    explicit Forward(const EmbeddingData& data) : EmbeddingData(data) {}
    kernels::EmbeddingForward op() { return forward(); }
    Bytes bytes() const { return Bytes().add(out); }
};
struct Backward : EmbeddingData {
    explicit Backward(const EmbeddingData& data) : EmbeddingData(data) {}
    kernels::EmbeddingBackward op() { return backward(); }
    Bytes bytes() const { return Bytes().add(dTokenTable).add(dPositionTable); }
};

TEST(Embedding, SameBitsOnAllThreadsAndInstructionSets) {
    for (const EmbeddingData& c : embeddingCases()) {
        expectSameBitsEverywhere("embedding " + c.name(), Forward(c));
        expectSameBitsEverywhere("embedding backward " + c.name(), Backward(c));
    }
}

TEST(Embedding, BackwardMatchesFiniteDifferencesAndPlantedMistakesDoNot) {
    EmbeddingData data(3, 4, 6, 5, DType::F32);
    Numbers numbers(21);
    const Buffer w = normalBuffer(DType::F32, 72, numbers);
    const auto loss = [&] {
        runReference(data.forward());
        return weightedSum(w, data.out);
    };
    const auto errors = [&](auto plant) {
        EmbeddingData backward = data;
        backward.dOut = w;
        std::fill(backward.dTokenTable.bytes.begin(), backward.dTokenTable.bytes.end(), uint8_t{0});
        plant(backward);
        runOnCpu(backward.backward(), kernels::bestIsa());
        return std::vector<double>{gradientError(data.tokenTable, backward.dTokenTable, loss),
                                   gradientError(data.positionTable, backward.dPositionTable, loss)};
    };
    for (double error : errors([](auto&) {})) EXPECT_LT(error, kGradientTolerance);
    for (double error : errors([&](auto& b) { b.dOut = negated(w); }))
        EXPECT_GT(error, kGradientTolerance) << "wrong sign";
    for (double error : errors([&](auto& b) { b.dOut = negated(w, 1.02); }))
        EXPECT_GT(error, kGradientTolerance) << "wrong factor";
    for (double error : errors([&](auto& b) { b.dOut = transposed(w, 12, 6); }))
        EXPECT_GT(error, kGradientTolerance) << "transposed operand";
    EXPECT_GT(errors([&](auto& b) { b.batch = 2; })[1], kGradientTolerance) << "missing rows";
    EXPECT_GT(errors([&](auto& b) { std::reverse(b.tokens.begin(), b.tokens.end()); })[0], kGradientTolerance)
        << "wrong tokens";
    EXPECT_GT(errors([&](auto& b) { b.accumulate = true; })[1], kGradientTolerance) << "position table not cleared";
}

TEST(Embedding, RefusesTokensOutsideTheVocabulary) {
    EmbeddingData data(2, 3, 8, 5, DType::BF16);
    data.tokens[4] = 5;
    EXPECT_THROW(runOnCpu(data.forward(), kernels::bestIsa()), Error);
    data.tokens[4] = -1;
    EXPECT_THROW(runOnCpu(data.backward(), kernels::bestIsa()), Error);
}

}  // namespace
}  // namespace mantissa::test
