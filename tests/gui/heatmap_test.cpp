// Heatmap: the worst value of every pixel column, cells that are not values, keys and selection.
#include "gui/plot/heatmap_view.h"

#include <gtest/gtest.h>

#include <QSignalSpy>
#include <QTest>
#include <cmath>
#include <limits>

#include "gui/plot/heat_widgets.h"

namespace mantissa::gui {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

HeatCells quiet(int rows, int columns) {
    HeatCells cells;
    cells.rows = rows;
    cells.columns = columns;
    cells.firstStep = 1;
    cells.lastStep = columns;
    cells.values.assign(size_t(rows) * size_t(columns), 0.f);
    cells.nonFinite.assign(size_t(rows) * size_t(columns), 0);
    return cells;
}

std::vector<HeatRow> rowsOf(int layers) {
    std::vector<HeatRow> rows;
    for (int l = 0; l < layers; ++l) {
        for (const char* name : {"qkv", "proj", "fc1", "fc2"}) {
            rows.push_back({QLatin1String(name), QStringLiteral("h.%1").arg(l), int(rows.size()), false});
        }
    }
    return rows;
}

int pixels(const QImage& image, QRgb wanted) {
    int found = 0;
    for (int y = 0; y < image.height(); ++y) {
        for (int x = 0; x < image.width(); ++x) {
            found += image.pixel(x, y) == wanted;
        }
    }
    return found;
}

struct Shown {
    Shown(int width, int height, int layers, int columns) : view(&link) {
        link.setExtent(1, columns);
        view.setRows(rowsOf(layers));
        view.setScale(scale);
        view.resize(width, height);
        view.show();
    }
    XLink link;
    HeatScale scale;
    HeatmapView view;
};

TEST(Heatmap, OneOddStepOf100000ShowsAtEveryWidthAndZoom) {
    for (int at : {0, 1, 4711, 50000, 99999}) {
        for (int width : {200, 301, 777, 1440}) {
            Shown shown(width, 300, 2, 100000);
            HeatCells cells = quiet(8, 100000);
            cells.values[size_t(5 * 100000 + at)] = 0.2f;
            cells.nonFinite[size_t(2 * 100000 + at)] = 1;
            shown.view.setCells(cells);
            for (double zoom : {1.0, 0.23, 0.001}) {
                const double low = std::clamp(at - 100000 * zoom * 0.5, 1.0, 100000 * (1 - zoom) + 1);
                shown.link.setView(low, low + 100000 * zoom);
                QTest::qWait(1);
                const QImage screen = shown.view.grab().toImage();
                const QImage exported = shown.view.picture(2);
                const QRgb worst = shown.scale.colour(0.2), bad = color(Token::Nonfinite).rgb();
                ASSERT_GE(pixels(screen, worst), 3) << at << " " << width << " " << zoom;
                ASSERT_GE(pixels(screen, bad), 3) << at << " " << width << " " << zoom;
                ASSERT_GE(pixels(exported, worst), 3) << at << " " << width << " " << zoom;
            }
        }
    }
}

TEST(Heatmap, NotProbedIsHatchedAndHeldOnlyAsFarAsTheProbesReach) {
    Shown shown(600, 200, 1, 100);
    HeatCells cells = quiet(4, 100);
    std::fill(cells.values.begin(), cells.values.end(), kNan);
    for (int row = 0; row < 4; ++row) {
        for (int c : {0, 10, 20}) {
            cells.values[size_t(row * 100 + c)] = 0.2f;
        }
    }
    cells.hold(10);
    EXPECT_EQ(cells.values[9], 0.2f);
    EXPECT_EQ(cells.values[29], 0.2f);
    EXPECT_TRUE(std::isnan(cells.values[30]));
    shown.view.setCells(cells);
    QTest::qWait(1);
    const QImage image = shown.view.raster().isNull() ? shown.view.grab().toImage() : shown.view.raster();
    EXPECT_EQ(shown.view.cellAt(0, 60).state, CellState::NotProbed);
    EXPECT_EQ(shown.view.cellAt(0, 15).state, CellState::Value);
    EXPECT_GT(pixels(shown.view.raster(), mix(color(Token::Raised), color(Token::Text3), 0.45).rgb()), 500);
}

TEST(Heatmap, SmallerIsWorseForSqnr) {
    HeatScale scale;
    scale.space = HeatSpace::Linear;
    scale.low = 35;
    scale.high = 10;
    scale.smallerIsWorse = true;
    HeatCells cells = quiet(1, 100);
    std::fill(cells.values.begin(), cells.values.end(), 31.5f);
    cells.values[50] = 12.f;
    EXPECT_EQ(cells.pooled(0, 1, 100, scale).value, 12.f);
    EXPECT_GT(scale.position(12), scale.position(31.5));
    EXPECT_EQ(scale.worse(kNan, 20), 20);
}

TEST(Heatmap, ZeroSharesAreQuietAndAlarmsAreAbove) {
    HeatScale scale;
    EXPECT_EQ(scale.position(0), 0);
    EXPECT_EQ(scale.position(1e-5), 0);
    EXPECT_EQ(scale.position(1), 1);
    EXPECT_NEAR(scale.valueAt(scale.position(0.001)), 0.001, 1e-9);
}

TEST(Heatmap, ClickAndKeysSelectAndTheGroupOpens) {
    Shown shown(600, 400, 12, 1000);
    shown.view.setCells(quiet(48, 1000));
    QTest::qWait(1);
    QSignalSpy spy(&shown.view, &HeatmapView::selectionChanged);
    const QRectF row = shown.view.rowRect(39);
    QTest::mouseClick(shown.view.window(), Qt::LeftButton, {}, QPoint(300, int(row.center().y())));
    EXPECT_EQ(shown.view.selected(), 39);
    EXPECT_GE(shown.view.rowRect(38).height(), 14);
    EXPECT_LT(shown.view.rowRect(0).height(), 14);
    QTest::keyClick(&shown.view, Qt::Key_Up);
    EXPECT_EQ(shown.view.selected(), 38);
    EXPECT_EQ(spy.count(), 2);
    EXPECT_TRUE(shown.view.accessibleDescription().contains(QStringLiteral("h.9 fc1")));
}

TEST(Heatmap, FortyEightLayersScrollAtFourPixels) {
    Shown shown(600, 300, 48, 1000);
    shown.view.setCells(quiet(192, 1000));
    QTest::qWait(1);
    EXPECT_GE(shown.view.rowRect(0).height(), 4);
    shown.view.select(190);
    EXPECT_LE(shown.view.rowRect(190).bottom(), 300);
}

TEST(Heatmap, BorderCasesOfCells) {
    HeatCells none;
    EXPECT_EQ(none.pooled(0, 0, 1, HeatScale()).state, CellState::NotProbed);
    HeatCells one = quiet(1, 1);
    one.lastStep = 17;
    one.values[0] = 0.5f;
    EXPECT_EQ(one.pooled(0, 5, 6, HeatScale()).value, 0.5f);
    EXPECT_EQ(one.pooled(0, 18, 19, HeatScale()).state, CellState::NotProbed);
    EXPECT_EQ(one.pooled(0, -3, 0.5, HeatScale()).state, CellState::NotProbed);
}

TEST(HealthGrid, KeysReachEveryCellAndSayItsName) {
    HealthGrid grid;
    grid.resize(260, 120);
    grid.show();
    std::vector<GridCell> cells(6);
    for (int i = 0; i < 6; ++i) {
        cells[size_t(i)] = {i == 4 ? 0.05f : 0.f, CellState::Value, false, i, QStringLiteral("t%1").arg(i), {}};
    }
    grid.setCells({QStringLiteral("h.0"), QStringLiteral("h.1")}, {QStringLiteral("qkv")},
                  {QStringLiteral("x"), QStringLiteral("w"), QStringLiteral("dy")}, cells, HeatScale());
    EXPECT_TRUE(grid.accessibleDescription().contains(QStringLiteral("t4")));
    QSignalSpy spy(&grid, &HealthGrid::tensorClicked);
    QTest::keyClick(&grid, Qt::Key_Down);
    QTest::keyClick(&grid, Qt::Key_Right);
    QTest::keyClick(&grid, Qt::Key_Return);
    ASSERT_EQ(spy.count(), 1);
    EXPECT_EQ(spy.first().first().toInt(), 4);
}

}  // namespace
}  // namespace mantissa::gui
