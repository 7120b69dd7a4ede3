// SeriesPyramid: summaries against plain loops, gaps, counts, smoothing.
#include "gui/plot/series_pyramid.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace mantissa::gui {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

SeriesPyramid randomSeries(size_t n, unsigned seed, bool uniform) {
    std::mt19937 random(seed);
    std::normal_distribution<float> value;
    SeriesPyramid series;
    double x = 1;
    for (size_t i = 0; i < n; ++i) {
        const unsigned kind = random() % 50;
        const float y = kind == 0 ? kNan : kind == 1 ? kInf : kind == 2 ? -kInf : kind == 3 ? 0.f : value(random);
        EXPECT_TRUE(series.append(x, y));
        x += uniform ? 1 : 1 + double(random() % 7);
    }
    return series;
}

TEST(SeriesPyramid, SummariesEqualAPlainLoopAtAwkwardSizes) {
    for (size_t n : {size_t(1), size_t(15), size_t(16), size_t(17), size_t(255), size_t(257), size_t(4097)}) {
        const SeriesPyramid series = randomSeries(n, unsigned(n), true);
        std::mt19937 random(7);
        for (int trial = 0; trial < 200; ++trial) {
            size_t a = random() % (n + 1), b = random() % (n + 1);
            if (a > b) {
                std::swap(a, b);
            }
            RangeSummary plain;
            for (size_t i = a; i < b; ++i) {
                plain.add(series.y(i));
            }
            const RangeSummary fast = series.summary(a, b);
            ASSERT_EQ(fast.min, plain.min);
            ASSERT_EQ(fast.max, plain.max);
            ASSERT_EQ(fast.minPositive, plain.minPositive);
            ASSERT_EQ(fast.notANumber, plain.notANumber);
            ASSERT_EQ(fast.infinite, plain.infinite);
            ASSERT_EQ(fast.notPositive, plain.notPositive);
            size_t above = 0;
            for (size_t i = a; i < b; ++i) {
                above += std::isfinite(series.y(i)) && series.y(i) > 0.7f ? 1 : 0;
            }
            ASSERT_EQ(series.countBeyond(a, b, 0.7f, true), above);
        }
    }
}

TEST(SeriesPyramid, LowerBoundIsExactForUniformAndUnevenX) {
    for (bool uniform : {true, false}) {
        const SeriesPyramid series = randomSeries(3001, 5, uniform);
        for (double x = -2; x < series.lastX() + 3; x += 0.5) {
            size_t plain = 0;
            while (plain < series.size() && series.x(plain) < x) {
                ++plain;
            }
            ASSERT_EQ(series.lowerBound(x), plain) << x;
            ASSERT_EQ(series.lowerBound(x, plain / 2), plain) << x;
            ASSERT_EQ(series.lowerBound(x, plain + 40), plain) << x;
        }
    }
}

TEST(SeriesPyramid, FindsTheOneOddSampleOfAMillion) {
    SeriesPyramid series;
    for (int i = 1; i <= 1000000; ++i) {
        series.append(i, i == 777777 ? 9.f : 1.f);
    }
    const RangeSummary all = series.summary(0, series.size());
    EXPECT_EQ(all.max, 9.f);
    EXPECT_EQ(series.x(series.argExtreme(0, series.size(), true)), 777777.0);
    EXPECT_EQ(series.countBeyond(0, series.size(), 5.f, true), 1u);
}

TEST(SeriesPyramid, DropsSamplesThatGoBackInX) {
    SeriesPyramid series;
    EXPECT_TRUE(series.append(5, 1.f));
    EXPECT_FALSE(series.append(4, 1.f));
    EXPECT_FALSE(series.append(std::nan(""), 1.f));
    EXPECT_EQ(series.size(), 1u);
}

TEST(DebiasedEma, FollowsTheFormulaAndSkipsNonFinite) {
    // alpha 0.5: m = 0.5, w = 0.5 -> 1; then NaN keeps 1; then y = 4: m = 2.25, w = 0.75 -> 3.
    DebiasedEma average(0.5);
    EXPECT_TRUE(std::isnan(average.add(kNan)));
    EXPECT_FLOAT_EQ(average.add(1.f), 1.f);
    EXPECT_FLOAT_EQ(average.add(kNan), 1.f);
    EXPECT_FLOAT_EQ(average.add(kInf), 1.f);
    EXPECT_FLOAT_EQ(average.add(4.f), 3.f);
    DebiasedEma copy(0);
    copy.add(2.f);
    EXPECT_FLOAT_EQ(copy.add(7.f), 7.f);
}

}  // namespace
}  // namespace mantissa::gui
