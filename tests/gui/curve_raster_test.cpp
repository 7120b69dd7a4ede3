// Pixels of curves: nothing is lost at any width or zoom (P10, S05), gaps, marks, widths, dashes, and what 200 curves
// cost.
#include "gui/plot/curve_raster.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <ctime>
#include <limits>

namespace mantissa::gui {
namespace {

/// CPU time of the process: other programs on the machine do not count.
double cpuMs() {
    return double(std::clock()) * 1e3 / CLOCKS_PER_SEC;
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
const QColor kWhite(255, 255, 255);

AxisScale scale(double low, double high, ScaleKind kind = ScaleKind::Linear) {
    AxisScale result;
    result.kind = kind;
    result.low = low;
    result.high = high;
    return result;
}

/// Largest alpha in the rows [top, bottom) of the picture.
int strongest(const QImage& image, int top, int bottom) {
    int best = 0;
    for (int y = top; y < bottom; ++y) {
        for (int x = 0; x < image.width(); ++x) {
            best = std::max(best, qAlpha(image.pixel(x, y)));
        }
    }
    return best;
}

SeriesPyramid spiked(int samples, int at) {
    SeriesPyramid series;
    for (int i = 1; i <= samples; ++i) {
        series.append(i, i == at ? 10.f : 1.f);
    }
    return series;
}

TEST(CurveRaster, OneOddStepIn100000ShowsAtEveryWidthAndZoom) {
    for (int at : {1, 2, 17, 50000, 77777, 99999, 100000}) {
        const SeriesPyramid series = spiked(100000, at);
        for (int width : {1, 3, 17, 64, 333, 640, 1000, 1440, 3840}) {
            for (double zoom : {1.0, 0.37, 0.1, 0.003, 0.0001}) {
                const double span = 100001 * zoom;
                const double low = std::clamp(at - span * 0.41, 0.0, 100001 - span);
                CurveRaster raster(width, 200, scale(low, low + span), scale(0, 12));
                raster.drawCurve(series, {kWhite, 1, {}});
                ASSERT_GE(strongest(raster.image(), 0, 100), 128)
                    << "step " << at << ", width " << width << ", zoom " << zoom;
            }
        }
    }
}

TEST(CurveRaster, OneOddStepShowsWithDashesAndOnLogAxes) {
    const SeriesPyramid series = spiked(1000000, 654321);
    for (int width : {200, 777, 1440}) {
        CurveRaster dashed(width, 200, scale(0, 1000001), scale(0, 12));
        dashed.drawCurve(series, {kWhite, 1, {2, 200}});
        EXPECT_GE(strongest(dashed.image(), 0, 100), 128) << width;
        CurveRaster log(width, 200, scale(0, 1000001), scale(-0.5, 1.2, ScaleKind::Log));
        log.drawCurve(series, {kWhite, 2, {}});
        EXPECT_GE(strongest(log.image(), 0, 100), 128) << width;
    }
}

TEST(CurveRaster, NonFiniteStepsAreAGapWithMarks) {
    // S03: NaN from step 1000 to 1050.
    SeriesPyramid series;
    for (int i = 1; i <= 2000; ++i) {
        series.append(i, i >= 1000 && i <= 1050 ? kNan : 2.f);
    }
    CurveRaster raster(2000, 100, scale(0.5, 2000.5), scale(0, 4));
    raster.drawCurve(series, {kWhite, 2, {}});
    const QImage image = raster.image();
    EXPECT_GT(qAlpha(image.pixel(900, 50)), 200);
    EXPECT_GT(qAlpha(image.pixel(1100, 50)), 200);
    for (int step = 1001; step <= 1049; ++step) {
        ASSERT_EQ(qAlpha(image.pixel(step - 1, 50)), 0) << step;
        ASSERT_TRUE(raster.marks()[size_t(step - 1)] & kMarkNan) << step;
    }
    EXPECT_FALSE(raster.marks()[900] & kMarkNan);
    // The smoothed line goes on through the gap.
    CurveRaster smooth(2000, 100, scale(0.5, 2000.5), scale(0, 4));
    smooth.drawCurve(smoothed(series, 0.97), {kWhite, 2, {}});
    for (int step = 1001; step <= 1049; ++step) {
        ASSERT_GT(qAlpha(smooth.image().pixel(step - 1, 50)), 200) << step;
    }
}

TEST(CurveRaster, ZerosOnALogAxisLeaveAMarkAndTheRestStays) {
    SeriesPyramid series;
    for (int i = 1; i <= 1000; ++i) {
        series.append(i, i % 100 == 0 ? 0.f : 1e-3f);
    }
    CurveRaster raster(500, 100, scale(0, 1001), scale(-5, 0, ScaleKind::Log));
    raster.drawCurve(series, {kWhite, 2, {}});
    int drawn = 0, marked = 0;
    for (int c = 0; c < 500; ++c) {
        drawn += raster.spans()[size_t(c)].empty() ? 0 : 1;
        marked += raster.marks()[size_t(c)] & kMarkZero ? 1 : 0;
    }
    EXPECT_GE(drawn, 480);
    EXPECT_EQ(marked, 10);
    EXPECT_GT(strongest(raster.image(), 55, 65), 200);  // log10(1e-3) = -3: three fifths down
}

TEST(CurveRaster, ALoneSampleIsADotAndOffScaleSamplesAreMarked) {
    SeriesPyramid series;
    series.append(10, kNan);
    series.append(20, 5.f);
    series.append(30, kNan);
    series.append(40, 50.f);
    series.append(50, -50.f);
    CurveRaster raster(100, 100, scale(0, 100), scale(0, 10));
    raster.drawCurve(series, {kWhite, 1, {}});
    EXPECT_GT(qAlpha(raster.image().pixel(20, 50)), 200);
    EXPECT_TRUE(raster.marks()[40] & kMarkAbove);
    EXPECT_TRUE(raster.marks()[50] & kMarkBelow);
}

TEST(CurveRaster, ALineOfTwoPixelsCoversTwoPixels) {
    SeriesPyramid flat;
    flat.append(0, 5.f);
    flat.append(100, 5.f);
    for (double width : {1.0, 2.0, 3.0}) {
        CurveRaster raster(100, 100, scale(0, 100), scale(0, 10));
        raster.drawCurve(flat, {kWhite, width, {}});
        double sum = 0;
        for (int y = 0; y < 100; ++y) {
            sum += qAlpha(raster.image().pixel(50, y)) / 255.0;
        }
        EXPECT_NEAR(sum, width, 0.15);
    }
    // A line at 45 degrees is as thick across as a level one.
    SeriesPyramid diagonal;
    diagonal.append(0, 0.f);
    diagonal.append(100, 10.f);
    CurveRaster raster(100, 100, scale(0, 100), scale(0, 10));
    raster.drawCurve(diagonal, {kWhite, 2, {}});
    double sum = 0;
    for (int y = 0; y < 100; ++y) {
        sum += qAlpha(raster.image().pixel(50, y)) / 255.0;
    }
    EXPECT_NEAR(sum, 2 * std::sqrt(2.0), 0.3);
}

TEST(CurveRaster, BandFillsBetweenItsEdges) {
    SeriesPyramid low, high;
    for (int i = 0; i <= 100; i += 10) {
        low.append(i, 2.f);
        high.append(i, 8.f);
    }
    CurveRaster raster(100, 100, scale(0, 100), scale(0, 10));
    raster.drawBand(low, high, QColor(255, 0, 0, 64));
    EXPECT_NEAR(qAlpha(raster.image().pixel(50, 50)), 64, 2);
    EXPECT_EQ(qAlpha(raster.image().pixel(50, 10)), 0);
    EXPECT_EQ(qAlpha(raster.image().pixel(50, 90)), 0);
}

TEST(CurveRaster, TimingOf8And200Curves) {
    // Budget of the product: 200 curves at 1000 x 500 in 22 ms on a quiet machine. The test prints, and fails only far
    // above it.
    std::vector<SeriesPyramid> series(200);
    uint32_t random = 1;
    for (size_t k = 0; k < series.size(); ++k) {
        for (int i = 0; i < 100000; ++i) {
            random = random * 1664525u + 1013904223u;
            series[k].append(i + 1, 3.5f + 3.f * (1 - float(i) / 1e5f) + 0.01f * float(k) + float(random >> 8) * 6e-9f);
        }
    }
    for (size_t count : {size_t(8), size_t(200)}) {
        double best = 1e9;
        for (int trial = 0; trial < 5; ++trial) {
            const double start = cpuMs();
            CurveRaster raster(1000, 500, scale(0, 100000), scale(std::log10(3.3), std::log10(7.0), ScaleKind::Log));
            for (size_t k = 0; k < count; ++k) {
                raster.drawCurve(series[k], {QColor::fromHsv(int(k * 359 / 200), 150, 220), 1, {}});
            }
            EXPECT_FALSE(raster.image().isNull());
            best = std::min(best, cpuMs() - start);
        }
        std::printf("%zu curves of 100000 samples, 1000 x 500: %.2f ms\n", count, best);
        EXPECT_LT(best, 220);
    }
}

TEST(AxisScale, FlatRangesArePaddedAndLogDecadesLabelled) {
    AxisScale flat;
    flat.fit(3, 3);
    EXPECT_LT(flat.low, 3);
    EXPECT_GT(flat.high, 3);
    flat.fit(0, 0);
    EXPECT_LT(flat.low, 0);
    EXPECT_GT(flat.high, 0);
    AxisScale log = scale(-5, 1.2, ScaleKind::Log);
    const auto marks = ticks(log, 5);
    ASSERT_GE(marks.size(), 3u);
    for (const Tick& tick : marks) {
        EXPECT_NEAR(tick.position, std::round(tick.position), 1e-9);
        EXPECT_FALSE(tick.label.isEmpty());
    }
    // A log axis within less than a decade still gets numbers.
    EXPECT_GE(ticks(scale(std::log10(3.4), std::log10(5.6), ScaleKind::Log), 5).size(), 3u);
    AxisScale log0;
    log0.kind = ScaleKind::Log;
    log0.fit(0, 0.5);
    EXPECT_TRUE(std::isfinite(log0.low) && log0.high > log0.low);
    EXPECT_EQ(axisNumber(0.02, 0.02), QStringLiteral("0.02"));
    EXPECT_EQ(axisNumber(18000, 2000), QString::fromUtf8("18\u2009000"));
    EXPECT_EQ(axisNumber(-0.005, 0.005), QString::fromUtf8("\u22120.005"));
    EXPECT_EQ(axisNumber(3.5, 0.5), QStringLiteral("3.5"));
    EXPECT_EQ(axisNumber(4, 0.5), QStringLiteral("4.0"));
}

TEST(AxisScale, TransformsRoundTrip) {
    for (ScaleKind kind : {ScaleKind::Linear, ScaleKind::Log, ScaleKind::Log2, ScaleKind::SymLog}) {
        AxisScale axis;
        axis.kind = kind;
        for (double value : {1e-6, 0.02, 1.0, 3.7, 5e4}) {
            EXPECT_NEAR(axis.fromAxis(axis.toAxis(value)), value, value * 1e-9);
        }
    }
    AxisScale sym;
    sym.kind = ScaleKind::SymLog;
    EXPECT_NEAR(sym.fromAxis(sym.toAxis(-3.0)), -3.0, 1e-9);
    EXPECT_EQ(sym.toAxis(0), 0);
}

}  // namespace
}  // namespace mantissa::gui
