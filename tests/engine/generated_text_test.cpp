// The generated corpus: probabilities, stationarity and the entropy rate it promises.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/data/generated_text.h"
#include "engine/data/token_source.h"

namespace mantissa::engine {
namespace {

TEST(MarkovSource, RowsAreProbabilities) {
    const MarkovSource source(96);
    for (int token = 0; token < 96; ++token) {
        double sum = 0;
        for (int next = 0; next < 96; ++next) sum += source.probability(token, next);
        EXPECT_NEAR(sum, 1, 1e-12);
    }
}

TEST(MarkovSource, SamplesReachTheEntropyRateAndNoLess) {
    for (int vocabulary : {2, 96, 1000}) {
        const MarkovSource source(vocabulary);
        std::vector<int32_t> tokens(129);
        double sum = 0, squares = 0;
        int64_t count = 0;
        for (uint64_t window = 0; window < 4000; ++window) {
            source.generate(7, window, 129, tokens.data());
            for (int i = 1; i < 129; ++i) {
                ASSERT_GE(tokens[i], 0);
                ASSERT_LT(tokens[i], vocabulary);
                const double loss = -std::log(source.probability(tokens[i - 1], tokens[i]));
                sum += loss;
                squares += loss * loss;
                ++count;
            }
        }
        // The loss of the true model is the entropy rate on average; five standard errors, doubled for the dependence
        // of neighbours.
        const double mean = sum / static_cast<double>(count);
        const double error =
            std::sqrt((squares / static_cast<double>(count) - mean * mean) / static_cast<double>(count));
        EXPECT_NEAR(mean, source.entropyRate(), 10 * error) << vocabulary;
        EXPECT_LT(source.entropyRate(), std::log(vocabulary));
    }
}

TEST(MarkovSource, TheFirstTokenIsStationary) {
    // The distribution of the first and of the last token of a window agree.
    const MarkovSource source(8);
    std::vector<int32_t> tokens(40);
    std::vector<double> first(8), last(8);
    const int windows = 100000;
    for (int window = 0; window < windows; ++window) {
        source.generate(3, static_cast<uint64_t>(window), 40, tokens.data());
        first[tokens[0]] += 1.0 / windows;
        last[tokens[39]] += 1.0 / windows;
    }
    for (int token = 0; token < 8; ++token) EXPECT_NEAR(first[token], last[token], 0.01) << token;
}

TEST(MarkovSource, LargeVocabularyIsReadyQuickly) {
    const MarkovSource source(50304);
    EXPECT_GT(source.entropyRate(), 2);
    EXPECT_LT(source.entropyRate(), 5);
    EXPECT_LT(source.bytesInMemory(), 3u << 20);
}

TEST(GeneratedText, WindowsDependOnSeedAndIndexAlone) {
    DataConfig config;
    config.path = "text:generated";
    const auto a = TokenSource::open(config, 32, 1), b = TokenSource::open(config, 32, 1),
               c = TokenSource::open(config, 32, 2);
    std::vector<int32_t> x(33), y(33), z(33), v(33), w(33);
    a->trainWindow(5, x.data());
    b->trainWindow(4, y.data());
    b->trainWindow(5, y.data());
    c->trainWindow(5, z.data());
    EXPECT_EQ(x, y);
    EXPECT_NE(x, z);
    a->validationWindow(5, v.data());
    c->validationWindow(5, w.data());
    EXPECT_EQ(v, w) << "every seed is judged on the same windows";
    EXPECT_NE(v, x);
    ASSERT_TRUE(a->entropyRate().has_value());
    EXPECT_GE(a->validationWindows(), 64);
    // A context of 16 is a prefix of a context of 32: the window has its start from (seed, index) alone.
    std::vector<int32_t> shorter(17);
    TokenSource::open(config, 16, 1)->trainWindow(5, shorter.data());
    EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), x.begin()));
}

}  // namespace
}  // namespace mantissa::engine
