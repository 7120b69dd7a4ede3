// S04: 200 runs in one store: list, sorting, Compare with all of them, panning, the nearest run under the cursor.
//
// By hand in full length, on a machine with nothing else to do:
// MANTISSA_MANY_STEPS=100000 MANTISSA_GAP_LIMIT_MS=50 test_gui_many_runs_test
#include <gtest/gtest.h>
#include <malloc.h>

#include <QComboBox>
#include <QElapsedTimer>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>
#include <algorithm>
#include <cstdio>
#include <memory>

#include "gui/heartbeat.h"
#include "gui/main_window.h"
#include "gui/pages/compare_page.h"
#include "tests/support/synthetic_store.h"

namespace {

using namespace mantissa::gui;

constexpr int kRuns = 200;

qint64 stepsOfARun() {
    bool ok = false;
    const qint64 steps = qEnvironmentVariable("MANTISSA_MANY_STEPS").toLongLong(&ok);
    return ok ? steps : 400;
}

/// Budgets hold on a quiet machine (a limit is given then); elsewhere only what is far beyond them fails.
double slack() {
    return qEnvironmentVariableIsSet("MANTISSA_GAP_LIMIT_MS") ? 1 : 20;
}

TEST(ManyRuns, ListCompareAndPanStayWithinTheirBudgets) {
    QTemporaryDir folder;
    const QString path = folder.filePath(QStringLiteral("many.mantissa"));
    for (int i = 0; i < kRuns; ++i) {
        mantissa::tests::SyntheticRun run;
        run.name = "sweep-" + std::to_string(i);
        run.steps = run.done = stepsOfARun();
        run.historyLength = 16 + i;  // a sweep: runs that differ in their seed alone would be one group
        run.lossOffset = 0.002 * i;
        run.scalarsOnly = true;
        mantissa::tests::addSyntheticRun(path.toStdString(), run);
    }
    Settings settings(folder.filePath(QStringLiteral("layout.json")));
    RunController controller;
    MainWindow window(controller, settings);
    window.resize(1440, 900);
    window.show();
    Heartbeat heart((QString()));
    QElapsedTimer clock;
    clock.start();
    controller.openStore(path);
    ASSERT_TRUE(QTest::qWaitFor([&] { return window.runList().model().totalCount() == kRuns; }, 60000));
    std::printf("list of %d runs: %lld ms\n", kRuns, static_cast<long long>(clock.elapsed()));

    clock.restart();
    window.runList().model().sort(RunListModel::ValLoss, Qt::DescendingOrder);
    const double sortMs = double(clock.nsecsElapsed()) * 1e-6;
    std::printf("sort: %.1f ms\n", sortMs);
    EXPECT_LT(sortMs, 50 * slack());
    QTest::qWait(300);

    QStringList ids;
    for (const RunInfo& run : controller.runs()) ids << run.id;
    window.openPage(QStringLiteral("compare"));  // builds it
    auto* compare = static_cast<ComparePage*>(window.page(QStringLiteral("compare")));
    ASSERT_TRUE(compare);
    PlotView* view = compare->curvesView();
    static_cast<QComboBox*>(compare->tools()->findChild<QComboBox*>())
        ->setCurrentIndex(1);  // training loss, every step
    heart.takeGap();
    clock.restart();
    window.runList().chooseMany(ids);
    ASSERT_TRUE(QTest::qWaitFor([&] { return view->content().curves.size() > 1 && view->rasterCount() > 0; }, 60000));
    const double firstMs = double(clock.elapsed());
    ASSERT_TRUE(QTest::qWaitFor([&] { return view->content().curves.size() >= kRuns; }, 300000));
    QTest::qWait(500);
    const Heartbeat::Gap gap = heart.takeGap();
    std::printf("first picture %.0f ms, all curves %lld ms, longest gap %.1f ms (CPU %.1f), heap %.0f MiB\n", firstMs,
                static_cast<long long>(clock.elapsed()), gap.wallMs, gap.cpuMs,
                double(mallinfo2().uordblks + mallinfo2().hblkhd) / 1048576);
    EXPECT_LE(firstMs, 3000 * slack());
    EXPECT_LE(gap.cpuMs, 50 * slack());
    EXPECT_LE(double(mallinfo2().uordblks + mallinfo2().hblkhd), 1.5e9);

    // Pan by wheel zoom and arrow keys: each frame drawn anew.
    view->setFocus();
    QTest::keyClick(view, Qt::Key_Plus);
    QTest::qWait(200);
    std::vector<double> frames;
    for (int i = 0; i < 20; ++i) {
        const int before = view->rasterCount();
        clock.restart();
        QTest::keyClick(view, i % 2 ? Qt::Key_Plus : Qt::Key_Minus);
        if (!QTest::qWaitFor([&] { return view->rasterCount() > before; }, 5000)) continue;
        view->viewport()->repaint();
        frames.push_back(double(clock.nsecsElapsed()) * 1e-6);
    }
    ASSERT_GE(frames.size(), 10u);
    std::nth_element(frames.begin(), frames.begin() + long(frames.size() / 2), frames.end());
    std::printf("frame of 200 curves while zooming: median %.1f ms\n", frames[frames.size() / 2]);
    EXPECT_LE(frames[frames.size() / 2], 33 * slack());

    // The nearest run is found under the cursor.
    const auto drawn = [&] {
        const auto& curves = view->content().curves;
        return curves.size() > kRuns / 2 && curves[kRuns / 2].data && !curves[kRuns / 2].data->empty();
    };
    ASSERT_TRUE(QTest::qWaitFor(drawn, 30000));
    const auto& curve = view->content().curves[kRuns / 2];
    const size_t middle = curve.data->size() / 2;
    const int nearest = view->nearestCurve(view->toScene(curve.data->x(middle), double(curve.data->y(middle))));
    ASSERT_GE(nearest, 0);
    ASSERT_TRUE(view->content().curves[size_t(nearest)].data);
    const auto& found = view->content().curves[size_t(nearest)];
    EXPECT_NEAR(view->toScene(0, double(found.data->y(found.data->nearest(curve.data->x(middle))))).y(),
                view->toScene(0, double(curve.data->y(middle))).y(), 2);
}

}  // namespace
