// PlotView: what it draws, exports and links; zoom, history, follow; repaint budget; accessibility.
#include "gui/plot/plot_view.h"

#include <gtest/gtest.h>

#include <QApplication>
#include <QFile>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <limits>

#include "gui/plot/plot_legend.h"

namespace mantissa::gui {
namespace {

/// CPU time of the process: other programs on the machine do not count.
double cpuMs() {
    return double(std::clock()) * 1e3 / CLOCKS_PER_SEC;
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::shared_ptr<SeriesPyramid> spiked(int samples, int at) {
    auto series = std::make_shared<SeriesPyramid>();
    for (int i = 1; i <= samples; ++i) {
        series->append(i, i == at ? 10.f : 1.f);
    }
    return series;
}

PlotCurve curve(const QString& name, SharedSeries data, Ink ink = Ink::of(Token::Nonfinite), double width = 1) {
    PlotCurve result;
    result.name = name;
    result.data = std::move(data);
    result.ink = ink;
    result.width = width;
    return result;
}

/// Pixels of about this colour in the rows [top, bottom).
int count(const QImage& image, const QColor& wanted, int top, int bottom, int tolerance = 90) {
    int found = 0;
    for (int y = std::max(0, top); y < std::min(bottom, image.height()); ++y) {
        for (int x = 0; x < image.width(); ++x) {
            const QColor c = image.pixelColor(x, y);
            found += std::abs(c.red() - wanted.red()) + std::abs(c.green() - wanted.green()) +
                         std::abs(c.blue() - wanted.blue()) <
                     tolerance;
        }
    }
    return found;
}

struct Shown {
    explicit Shown(int width, int height, PlotOptions options = {}) : view(std::move(options), &link) {
        view.resize(width, height);
        view.show();
        QTest::qWait(1);
    }
    void settle() { QTest::qWait(30); }
    XLink link;
    PlotView view;
};

TEST(PlotView, OneOddStepShowsAtEveryWidthZoomAndExport) {
    const auto data = spiked(100000, 65432);
    QTemporaryDir folder;
    for (int width : {240, 517, 1000, 1440}) {
        Shown shown(width, 220);
        shown.link.setExtent(0, 100000);
        PlotContent content;
        content.curves = {curve(QStringLiteral("loss"), data)};
        shown.view.setContent(content);
        for (double zoom : {1.0, 0.2, 0.001}) {
            shown.link.setView(65432 - 100000 * zoom * 0.6, 65432 + 100000 * zoom * 0.4);
            shown.settle();
            const QColor ink = color(Token::Nonfinite);
            const int middle = int(shown.view.plotRect().center().y());
            EXPECT_GE(count(shown.view.grab().toImage(), ink, 20, middle), 20) << width << " " << zoom;
            const QString png = folder.filePath(QStringLiteral("a.png"));
            ASSERT_TRUE(shown.view.savePng(png));
            EXPECT_GE(count(QImage(png), ink, 40, 2 * middle), 20) << width << " " << zoom;
            const QString svg = folder.filePath(QStringLiteral("a.svg"));
            ASSERT_TRUE(shown.view.saveSvg(svg));
            QFile file(svg);
            ASSERT_TRUE(file.open(QIODevice::ReadOnly));
            EXPECT_GT(file.readAll().count("L"), 10);
            EXPECT_TRUE(shown.view.csv().contains(QStringLiteral("\n65432,10\n")));
        }
    }
}

TEST(PlotView, TheLastSampleHasItsMarker) {
    auto series = std::make_shared<SeriesPyramid>();
    for (int i = 0; i <= 100; i += 20) series->append(i, 1.f);
    Shown shown(600, 200);
    shown.link.setExtent(0, 100);
    PlotContent content;
    PlotCurve points = curve(QStringLiteral("val"), series, Ink::of(Token::Warn), 0);
    points.sampleMarker = Marker::Circle;
    content.curves = {points};
    shown.view.setContent(content);
    shown.link.setView(0, 100);
    shown.settle();
    const QImage image = shown.view.grab().toImage();
    const QRectF plot = shown.view.plotRect();
    const auto inked = [&](double left, double right) {
        int count = 0;
        for (int x = int(left); x < int(right); ++x)
            for (int y = int(plot.top()); y < int(plot.bottom()); ++y)
                count += image.pixel(x, y) == color(Token::Warn).rgb();
        return count;
    };
    EXPECT_GT(inked(plot.left() + plot.width() * 0.78, plot.left() + plot.width() * 0.82), 8) << "the last but one";
    EXPECT_GT(inked(plot.right() - 5, plot.right() + 1), 4) << "the last, of which half is in the plot";
}

/// Of few points each has the run's marker; of many it stands here and there and on the last.
TEST(PlotView, FewPointsHaveAMarkerEach) {
    for (const int samples : {4, 12, 200}) {
        auto series = std::make_shared<SeriesPyramid>();
        for (int i = 1; i <= samples; ++i) series->append(i, 1.f);
        Shown shown(900, 200);
        shown.link.setExtent(0, samples + 1);
        PlotContent content;
        PlotCurve line = curve(QStringLiteral("loss"), series, Ink::of(Token::Warn), 1);
        line.runMarker = Marker::Square;
        content.curves = {line};
        shown.view.setContent(content);
        shown.link.setView(0, samples + 1);
        shown.settle();
        const QImage image = shown.view.grab().toImage();
        const QRectF plot = shown.view.plotRect();
        int markers = 0, inside = 0;
        for (int x = int(plot.left()); x < int(plot.right()); ++x) {
            int high = 0;
            for (int y = int(plot.top()); y < int(plot.bottom()); ++y)
                high += image.pixel(x, y) == color(Token::Warn).rgb();
            if (high >= 4 && !inside) ++markers;
            inside = high >= 4;
        }
        EXPECT_EQ(markers, samples > 5 ? 5 : samples) << samples;
    }
}

/// A note of a curve is of what is in view, not of a step that a zoom has left outside.
TEST(PlotView, NotesAreOfTheNewestSampleInView) {
    auto series = std::make_shared<SeriesPyramid>();
    for (int i = 1; i <= 140; i += 3) series->append(i, float(i));
    Shown shown(600, 200);
    shown.link.setExtent(0, 140);
    PlotContent content;
    content.curves = {curve(QStringLiteral("amax"), series)};
    PlotNote note{kNan, QStringLiteral("amax"), QStringLiteral("-")};
    note.of = series;
    note.text = [](double value) { return QString::number(value); };
    note.colour = [](double value) { return value > 100 ? Token::Bad : Token::Text; };
    content.notes = {note};
    shown.view.setContent(content);
    const auto seen = [&](double low, double high) {
        shown.link.setView(low, high);
        shown.settle();
        return shown.view.notesInView().at(0);
    };
    EXPECT_EQ(seen(0, 140).value, QStringLiteral("139"));
    EXPECT_EQ(seen(0, 140).token, Token::Bad);
    EXPECT_EQ(seen(1, 40).value, QStringLiteral("40"));
    EXPECT_EQ(seen(1, 39.5).value, QStringLiteral("37"));
    EXPECT_EQ(seen(1, 39.5).token, Token::Text);
    EXPECT_EQ(seen(1, 39.5).y, 37);
    EXPECT_EQ(note.at(0.5).value, QStringLiteral("-")) << "all of it lies to the right";
}

TEST(PlotView, NonFiniteStepsShowAsTrianglesAndLogAxesDrawTheRest) {
    auto series = std::make_shared<SeriesPyramid>();
    for (int i = 1; i <= 2000; ++i) {
        series->append(i, i >= 1000 && i <= 1050 ? kNan : i == 500 ? 0.f : 2.f + 0.5f * std::sin(float(i)));
    }
    PlotOptions options;
    options.yScale = ScaleKind::Log;
    Shown shown(900, 300, options);
    shown.link.setExtent(0, 2000);
    PlotContent content;
    content.curves = {curve(QStringLiteral("loss"), series, Ink::run(1), 2)};
    shown.view.setContent(content);
    shown.settle();
    const QImage image = shown.view.grab().toImage();
    const QRectF plot = shown.view.plotRect();
    EXPECT_GT(
        count(image.copy(int(shown.view.toScene(990, 1).x()), int(plot.top()), 40, 12), color(Token::Nonfinite), 0, 12),
        15);
    EXPECT_GT(count(image, Theme::instance().series(1).color, int(plot.top()), int(plot.bottom())), 2000);
    EXPECT_TRUE(std::isfinite(shown.view.yAxis().low));
}

TEST(PlotView, ALoneSampleIsAMarker) {
    auto one = std::make_shared<SeriesPyramid>();
    one->append(100, 2.f);
    Shown shown(600, 200);
    shown.link.setExtent(0, 200);
    PlotContent content;
    content.curves = {curve(QStringLiteral("validation"), one)};
    shown.view.setContent(content);
    shown.settle();
    const QImage image = shown.view.grab().toImage();
    const QPoint at = shown.view.toScene(100, 2).toPoint();
    EXPECT_GE(count(image.copy(at.x() - 8, at.y() - 8, 16, 16), color(Token::Nonfinite), 0, 16), 15);
}

TEST(PlotView, FlatAndEmptyDataHaveARange) {
    Shown shown(400, 200);
    shown.view.setContent({});
    shown.settle();
    EXPECT_LT(shown.view.yAxis().low, shown.view.yAxis().high);
    auto flat = std::make_shared<SeriesPyramid>();
    shown.link.setExtent(0, 3);
    flat->append(1, 3.f);
    flat->append(2, 3.f);
    PlotContent content;
    content.curves = {curve(QStringLiteral("flat"), flat)};
    shown.view.setContent(content);
    shown.settle();
    EXPECT_LT(shown.view.yAxis().low, 3);
    EXPECT_GT(shown.view.yAxis().high, 3);
}

TEST(PlotView, DragZoomsLinkedChartsAndGoesOnTheHistory) {
    XLink link;
    link.setExtent(0, 1000);
    PlotView a({}, &link), b({}, &link);
    for (PlotView* view : {&a, &b}) {
        view->resize(600, 200);
        view->show();
        PlotContent content;
        content.curves = {curve(QStringLiteral("x"), spiked(1000, 7))};
        view->setContent(content);
    }
    QTest::qWait(30);
    const QPoint from(int(a.toScene(200, 1).x()), 100), to(int(a.toScene(400, 1).x()), 110);
    QTest::mousePress(a.viewport(), Qt::LeftButton, {}, from);
    QTest::mouseMove(a.viewport(), to);
    QMouseEvent move(QEvent::MouseMove, QPointF(to), a.viewport()->mapToGlobal(QPointF(to)), Qt::NoButton,
                     Qt::LeftButton, {});
    QApplication::sendEvent(a.viewport(), &move);
    QTest::mouseRelease(a.viewport(), Qt::LeftButton, {}, to);
    EXPECT_NEAR(b.xRange().low, 200, 3);
    EXPECT_NEAR(b.xRange().high, 400, 3);
    EXPECT_FALSE(link.follows());
    link.setExtent(0, 5000);
    EXPECT_NEAR(b.xRange().high, 400, 3) << "new data moved a view that does not follow";
    QTest::keyClick(&a, Qt::Key_Left, Qt::AltModifier);
    EXPECT_LT(b.xRange().low, 1);
    QTest::keyClick(&a, Qt::Key_Right, Qt::AltModifier);
    EXPECT_NEAR(b.xRange().low, 200, 3);
    QTest::keyClick(&a, Qt::Key_F);
    EXPECT_TRUE(link.follows());
    EXPECT_GE(b.xRange().high, 5000);
    QTest::keyClick(&a, Qt::Key_0);
    EXPECT_NEAR(b.xRange().low, 0, 1);
}

TEST(PlotView, TheCursorSnapsToAStepAndGivesItsExactValue) {
    // S05: hover gives exact step and value.
    Shown shown(600, 200);
    shown.link.setExtent(0, 1000000);
    PlotContent content;
    content.curves = {curve(QStringLiteral("x"), spiked(1000000, 777777))};
    shown.view.setContent(content);
    shown.link.setView(777700, 777800);
    shown.settle();
    const QPoint at(int(std::lround(shown.view.toScene(777777, 1).x())), 100);
    QMouseEvent move(QEvent::MouseMove, QPointF(at), shown.view.viewport()->mapToGlobal(QPointF(at)), Qt::NoButton,
                     Qt::NoButton, {});
    QApplication::sendEvent(shown.view.viewport(), &move);
    EXPECT_EQ(shown.link.cursor(), 777777.0);
    ASSERT_EQ(shown.view.legend().size(), 1u);
    EXPECT_EQ(shown.view.legend()[0].value, shown.view.valueText(10));
    QTest::keyClick(&shown.view, Qt::Key_Right);
    EXPECT_EQ(shown.link.cursor(), 777778.0);
}

TEST(PlotView, NewDataRepaintsAtMostTenTimesASecond) {
    Shown shown(600, 200);
    auto data = spiked(1000, 5);
    PlotContent content;
    content.curves = {curve(QStringLiteral("x"), data)};
    shown.view.setContent(content);
    QTest::qWait(150);
    const int before = shown.view.rasterCount();
    for (int i = 0; i < 100; ++i) {
        data->append(2000 + i, 1.f);
        shown.view.dataChanged();
        QTest::qWait(10);
    }
    EXPECT_LE(shown.view.rasterCount() - before, 14);  // a second and what the waits add
    EXPECT_GE(shown.view.rasterCount() - before, 5);
}

TEST(PlotView, HoverRedrawsNoCurve) {
    Shown shown(600, 200);
    shown.link.setExtent(0, 1000);
    PlotContent content;
    content.curves = {curve(QStringLiteral("x"), spiked(1000, 5))};
    shown.view.setContent(content);
    QTest::qWait(50);
    const int before = shown.view.rasterCount();
    for (int i = 0; i < 50; ++i) {
        shown.link.setCursor(i * 20);
        QCoreApplication::processEvents();
    }
    EXPECT_EQ(shown.view.rasterCount(), before);
}

TEST(PlotView, SaysWhatItShows) {
    PlotOptions options;
    options.title = QStringLiteral("Loss <b>&\"x\"");
    Shown shown(600, 200, options);
    PlotContent content;
    content.curves = {curve(QStringLiteral("<img src=x> & co"), spiked(18420, 5))};
    shown.view.setContent(content);
    shown.settle();
    EXPECT_EQ(shown.view.accessibleName(), options.title);
    QTest::qWait(2100);
    shown.view.dataChanged();
    QTest::qWait(150);
    EXPECT_TRUE(shown.view.accessibleDescription().contains(QString::fromUtf8("18\u2009420")))
        << shown.view.accessibleDescription().toStdString();
    EXPECT_EQ(shown.view.legend()[0].name, QStringLiteral("<img src=x> & co"));
}

TEST(PlotView, TheTableHoldsEverySample) {
    Shown shown(600, 200);
    shown.link.setExtent(0, 1000);
    PlotContent content;
    content.curves = {curve(QStringLiteral("a"), spiked(1000, 500)), curve(QStringLiteral("b"), spiked(10, 3))};
    shown.view.setContent(content);
    shown.view.showData();
    QTableView* table = nullptr;
    for (QWidget* widget : QApplication::topLevelWidgets()) {
        if (auto* found = widget->findChild<QTableView*>()) {
            table = found;
        }
    }
    ASSERT_NE(table, nullptr);
    EXPECT_EQ(table->model()->rowCount(), 1000);
    EXPECT_EQ(table->model()->index(499, 1).data().toString(), QStringLiteral("10.00000"));
    EXPECT_EQ(table->model()->index(2, 2).data().toString(), QStringLiteral("10.00000"));
    EXPECT_EQ(table->model()->index(20, 2).data().toString(), QString());
    table->window()->close();
}

TEST(PlotView, TimingOf8And200Series) {
    Shown shown(1090, 560);
    shown.link.setExtent(0, 100000);
    for (int series : {8, 200}) {
        PlotContent content;
        for (int k = 0; k < series; ++k) {
            content.curves.push_back(curve(QString::number(k), spiked(100000, 100 * k + 1), Ink::run(k % 8)));
        }
        shown.view.setContent(content);
        QTest::qWait(100);
        double best = 1e9;
        for (int trial = 0; trial < 5; ++trial) {
            const double start = cpuMs();
            shown.link.setView(trial, 99990 + trial, false);
            QTest::qWait(0);
            shown.view.viewport()->repaint();
            best = std::min(best, cpuMs() - start);
        }
        std::printf("%d series of 100000 samples, zoom and repaint: %.1f ms\n", series, best);
        EXPECT_LT(best, 250);
    }
}

TEST(XLink, FollowingMovesWithTheTailAndZoomKeepsInside) {
    XLink link;
    link.setExtent(0, 100);
    EXPECT_GE(link.view().high, 100);
    link.setExtent(0, 200);
    EXPECT_GE(link.view().high, 200);
    link.setView(150, 210);
    EXPECT_TRUE(link.follows());
    const double span = link.view().high - link.view().low;
    link.setExtent(0, 400);
    EXPECT_NEAR(link.view().high - link.view().low, span, 1e-9);
    EXPECT_GE(link.view().high, 400);
    link.setView(-500, 5000);
    EXPECT_GE(link.view().low, 0);
    EXPECT_TRUE(link.showsAll());
}

}  // namespace
}  // namespace mantissa::gui
