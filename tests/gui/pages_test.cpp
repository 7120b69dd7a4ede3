// Live, Numerics and Compare over a store with invented runs: what they show, their states, stale answers, a GUI that
// stays awake.
#include <gtest/gtest.h>

#include <QApplication>
#include <QElapsedTimer>
#include <QLabel>
#include <QTemporaryDir>
#include <QTest>
#include <cmath>

#include "gui/controller/run_controller.h"
#include "gui/format/numbers.h"
#include "gui/models/tensor_report.h"
#include "gui/pages/compare_page.h"
#include "gui/pages/live_health.h"
#include "gui/pages/live_page.h"
#include "gui/pages/numerics_page.h"
#include "gui/pages/refused_page.h"
#include "gui/widgets/figures_card.h"
#include "gui/widgets/note_list.h"
#include "gui/widgets/tensor_views.h"
#include "tests/support/synthetic_store.h"

namespace mantissa::gui {
namespace {

using tests::addSyntheticRun;
using tests::SyntheticRun;

bool waitFor(const std::function<bool()>& ready, int milliseconds = 20000) {
    QElapsedTimer timer;
    timer.start();
    while (!ready()) {
        if (timer.elapsed() > milliseconds) {
            return false;
        }
        QTest::qWait(10);
    }
    return true;
}

/// Saves a picture of the page in both themes when MANTISSA_SHOTS names a folder.
void shoot(Page& page, const QString& name) {
    const QString folder = qEnvironmentVariable("MANTISSA_SHOTS");
    if (folder.isEmpty()) {
        return;
    }
    page.tools()->hide();  // the window takes them into its tab bar
    for (ThemeChoice theme : {ThemeChoice::Light, ThemeChoice::Dark}) {
        Theme::instance().setChoice(theme);
        QTest::qWait(400);
        QImage image(page.size(), QImage::Format_RGB32);
        image.fill(color(Token::Window));
        page.render(&image, QPoint(), QRegion(), QWidget::DrawChildren);
        image.save(
            QStringLiteral("%1/%2-%3.png")
                .arg(folder, name, theme == ThemeChoice::Dark ? QStringLiteral("dark") : QStringLiteral("light")));
    }
}

class Pages : public ::testing::Test {
  protected:
    static void SetUpTestSuite() {
        folder_ = new QTemporaryDir;
        path_ = folder_->filePath(QStringLiteral("runs.mantissa"));
        const std::string path = path_.toStdString();
        SyntheticRun run;
        run.name = "bf16 · s1";
        run.fp8 = false;
        bf16_ = QString::fromStdString(addSyntheticRun(path, run));
        run.name = "fp8-delayed · s1";
        run.fp8 = true;
        run.spikeAt = 420;
        run.lossOffset = 0.003;
        run.speed = 1.15;
        fp8_ = QString::fromStdString(addSyntheticRun(path, run));
        run.name = "nan · s1";
        run.spikeAt = 0;
        run.nonFiniteFrom = 300;
        run.nonFiniteTo = 600;
        run.status = "diverged";
        nan_ = QString::fromStdString(addSyntheticRun(path, run));
    }
    static void TearDownTestSuite() {
        delete folder_;
        folder_ = nullptr;
    }
    void SetUp() override {
        controller_.openStore(path_);
        ASSERT_TRUE(waitFor([&] { return controller_.runs().size() >= 3; }));
    }
    static QTemporaryDir* folder_;
    static QString path_, bf16_, fp8_, nan_;
    RunController controller_;
};
QTemporaryDir* Pages::folder_ = nullptr;
QString Pages::path_, Pages::bf16_, Pages::fp8_, Pages::nan_;

TEST_F(Pages, LiveShowsFiguresCurvesHealthAndTheBaseline) {
    LivePage page(controller_);
    page.resize(1136, 817);
    page.setRun(fp8_);
    page.setBaseline(bf16_);
    page.show();
    ASSERT_TRUE(waitFor([&] {
        return page.figuresCard()->figures().size() >= 6 && !page.health()->findings().empty() &&
               page.lossView()->content().curves.size() >= 4;
    }));
    QTest::qWait(300);
    const auto& figures = page.figuresCard()->figures();
    EXPECT_EQ(figures[0].label, QStringLiteral("Train loss"));
    EXPECT_TRUE(figures[0].meaning.contains(QStringLiteral("bf16")));
    EXPECT_TRUE(figures[2].meaning.contains(QString::fromUtf8("×1.1")));
    EXPECT_EQ(figures.back().label, QStringLiteral("FP8 health"));
    // On a CPU there is no figure of the run alone, and the card says so.
    EXPECT_EQ(figures[4].label, QStringLiteral("Program memory"));
    EXPECT_TRUE(figures[4].tooltip.contains(QStringLiteral("the whole program")));
    // The tensor with the spike is named first.
    EXPECT_EQ(page.health()->findings().front().rank, 2);
    EXPECT_EQ(page.lossView()->content().curves[0].data->size(), 600u);
    shoot(page, QStringLiteral("live"));
}

TEST_F(Pages, LiveWithoutABaselineHasNoDifferenceStrip) {
    LivePage page(controller_);
    page.resize(1136, 817);
    page.setRun(fp8_);
    page.show();
    ASSERT_TRUE(waitFor([&] { return page.figuresCard()->figures().size() >= 6; }));
    for (const auto& curve : page.lossView()->content().curves) {
        EXPECT_FALSE(curve.name.contains(QStringLiteral("bf16")));
    }
    EXPECT_TRUE(page.lossView()->options().xLabels);
}

TEST_F(Pages, ThroughputAndStepTimeAreOfTheSameSteps) {
    SyntheticRun run;
    run.name = "fast at the end";
    run.steps = run.done = 200;
    run.fastLast = 30;  // of the last 20 all are fast, of the last 100 most are not
    const QString path = folder_->filePath(QStringLiteral("unsteady.mantissa"));
    const QString id = QString::fromStdString(addSyntheticRun(path.toStdString(), run));
    RunController controller;
    controller.openStore(path);
    ASSERT_TRUE(waitFor([&] { return controller.runs().size() == 1; }));
    LivePage page(controller);
    page.resize(1136, 817);
    page.setRun(id);
    page.show();
    // "40.9 k" and "50 ms" as numbers; the sign between number and unit is the locale's.
    const auto number = [&](size_t figure) {
        QString digits;
        for (const QChar c : page.figuresCard()->figures()[figure].value)
            if (c.isDigit() || c == QLatin1Char('.')) digits += c;
        return digits.toDouble() * (page.figuresCard()->figures()[figure].value.endsWith(QLatin1Char('k')) ? 1e3 : 1);
    };
    ASSERT_TRUE(waitFor([&] { return page.figuresCard()->figures().size() >= 5 && number(3) > 0; }));
    const auto& figures = page.figuresCard()->figures();
    ASSERT_EQ(figures[2].label, QStringLiteral("Throughput"));
    ASSERT_EQ(figures[3].label, QStringLiteral("Step time"));
    const double step = number(3), speed = number(2);
    EXPECT_NEAR(step, 50, 2);
    EXPECT_NEAR(speed * step / 1e3, 2048, 2048 * 0.01) << figures[2].value.toStdString();
    EXPECT_EQ(figures[2].meaning, QStringLiteral("median of 100 steps"));
}

TEST_F(Pages, LiveOfABf16RunOffersTheTwin) {
    LivePage page(controller_);
    page.resize(1136, 817);
    page.setRun(bf16_);
    page.show();
    ASSERT_TRUE(waitFor([&] { return page.figuresCard()->figures().size() >= 5; }));
    EXPECT_EQ(page.health()->fp8Tensors(), 0);
    for (const Figure& figure : page.figuresCard()->figures()) {
        EXPECT_NE(figure.label, QStringLiteral("FP8 health"));
    }
}

TEST_F(Pages, WithNothingSelectedLiveSaysSo) {
    LivePage page(controller_);
    page.resize(1136, 817);
    page.show();
    QTest::qWait(50);
    QStringList texts;
    for (const QLabel* label : page.findChildren<QLabel*>())
        if (label->isVisible()) texts << label->text();
    EXPECT_TRUE(texts.join(QLatin1Char('|')).contains(QStringLiteral("No run is selected.")))
        << texts.join(QLatin1Char('|')).toStdString();
    EXPECT_FALSE(texts.join(QLatin1Char('|')).contains(QStringLiteral("No runs in this store")));
    shoot(page, QStringLiteral("live-nothing-selected"));
}

TEST_F(Pages, LiveOfADivergedRunSaysNan) {
    LivePage page(controller_);
    page.resize(1136, 817);
    page.setRun(nan_);
    page.show();
    ASSERT_TRUE(
        waitFor([&] { return page.figuresCard()->figures().size() >= 6 && !page.health()->findings().empty(); }));
    EXPECT_TRUE(page.figuresCard()->figures()[0].meaning.contains(QStringLiteral("NaN")));
    EXPECT_EQ(page.health()->findings().front().rank, 0);
    shoot(page, QStringLiteral("live-nan"));
}

TEST_F(Pages, NumericsShowsTheSpikeAndItsVerdict) {
    NumericsPage page(controller_);
    page.resize(1136, 817);
    page.setRun(fp8_);
    page.show();
    ASSERT_TRUE(waitFor([&] { return page.selectedTensor() >= 0 && page.amaxView()->content().curves.size() == 2; }));
    page.showTensor(QStringLiteral("h.3/mlp.fc1/grad_output"), -1);
    ASSERT_TRUE(waitFor([&] { return page.inspector()->verdictText().contains(QStringLiteral("Underflow")); }))
        << page.inspector()->verdictText().toStdString();
    ASSERT_TRUE(
        waitFor([&] { return page.heatmap()->cellAt(page.heatmap()->selected(), 500).state == CellState::Value; }));
    EXPECT_GT(page.heatmap()->cellAt(page.heatmap()->selected(), 500).value,
              page.heatmap()->cellAt(page.heatmap()->selected(), 300).value);
    shoot(page, QStringLiteral("numerics"));
    QTest::keyClick(&page, Qt::Key_BracketRight);
    QTest::keyClick(&page, Qt::Key_W);
    QTest::qWait(100);
    EXPECT_EQ(page.heatmap()->rows().size(), 16u);
}

TEST_F(Pages, NumericsFillsNonFiniteCells) {
    NumericsPage page(controller_);
    page.resize(1136, 817);
    page.setRun(nan_);
    page.show();
    ASSERT_TRUE(waitFor([&] { return page.selectedTensor() >= 0; }));
    page.showTensor(QStringLiteral("h.3/mlp.fc1/grad_output"), -1);
    ASSERT_TRUE(
        waitFor([&] { return page.heatmap()->cellAt(page.heatmap()->selected(), 400).state == CellState::NonFinite; }));
    EXPECT_NE(page.heatmap()->cellAt(page.heatmap()->selected(), 200).state, CellState::NonFinite);
    ASSERT_TRUE(waitFor([&] { return page.inspector()->verdictText().contains(QStringLiteral("NaN")); }));
    shoot(page, QStringLiteral("numerics-nan"));
}

TEST_F(Pages, NumericsOfABf16RunShowsDashesAndSaysSo) {
    NumericsPage page(controller_);
    page.resize(1136, 817);
    page.setRun(bf16_);
    page.show();
    ASSERT_TRUE(waitFor([&] { return !page.heatmap()->rows().empty(); }));
    EXPECT_TRUE(page.heatmap()->rows().front().bf16);
    page.showTensor(QStringLiteral("h.0/attn.qkv/weight"), -1);
    ASSERT_TRUE(waitFor([&] { return page.inspector()->verdictText().contains(QStringLiteral("BF16")); }));
    // Nothing is cast, so there is no amax either: no 0 in its place.
    EXPECT_TRUE(page.inspector()->verdictText().contains(QStringLiteral("mode is bf16")));
    EXPECT_FALSE(page.inspector()->findChild<FactGrid*>()->isVisibleTo(page.inspector()));
    page.setStatistic(3);  // amax
    EXPECT_TRUE(page.heatmap()->rows().front().bf16);
    QTest::qWait(200);
    EXPECT_TRUE(page.amaxView()->content().curves.empty());
    EXPECT_TRUE(page.amaxView()->content().notes.empty());
}

TEST_F(Pages, ARunThatCastsNothingLeavesNoCurvesOfTheRunBefore) {
    NumericsPage page(controller_);
    page.resize(1136, 817);
    page.setRun(fp8_);
    page.show();
    const auto empty = [](const PlotContent& content) { return content.curves.empty() && content.notes.empty(); };
    ASSERT_TRUE(waitFor([&] { return !empty(page.amaxView()->content()) && !empty(page.countersView()->content()); }));
    const auto texts = [&] {
        QStringList result;
        for (const QLabel* label : page.findChildren<QLabel*>())
            if (label->isVisible()) result << label->text();
        return result.join(QLatin1Char('|'));
    };
    ASSERT_TRUE(texts().contains(QStringLiteral(", log₂")));
    page.setRun(bf16_);
    ASSERT_TRUE(waitFor([&] { return !page.heatmap()->rows().empty() && page.heatmap()->rows().front().bf16; }));
    QTest::qWait(1200);  // the page reads on after 0.8 s
    EXPECT_EQ(page.selectedTensor(), -1);
    EXPECT_TRUE(empty(page.amaxView()->content()));
    EXPECT_TRUE(empty(page.countersView()->content()));
    EXPECT_FALSE(texts().contains(QStringLiteral(", log₂"))) << texts().toStdString();
    EXPECT_TRUE(texts().contains(QStringLiteral("Choose a row of the heatmap."))) << texts().toStdString();
    shoot(page, QStringLiteral("numerics-bf16-after-fp8"));
    page.setRun(fp8_);  // and they come back
    EXPECT_TRUE(waitFor([&] { return !empty(page.amaxView()->content()) && !empty(page.countersView()->content()); }));
}

TEST_F(Pages, TheRuleThatKeepsATensorInBf16IsNamed) {
    auto spec = experiments::presetSpec("nano");
    engine::CatalogueEntry entry;
    entry.format = "bf16";
    const auto finding = [&](const char* layer, const char* linear) {
        entry.layer = layer;
        entry.linear = linear;
        const Verdict verdict = plainVerdict(entry, spec);
        EXPECT_TRUE(verdict.outlook.contains(QStringLiteral("none are recorded")));
        return verdict.finding;
    };
    spec.trainer.precision.firstLayersBf16 = 1;
    spec.trainer.precision.lastLayersBf16 = 2;
    EXPECT_EQ(finding("h.0", "mlp.fc1"), QStringLiteral("Runs in BF16 by rule first 1 layer."));
    EXPECT_EQ(finding("h.3", "mlp.fc1"), QStringLiteral("Runs in BF16 by rule last 2 layers."));
    EXPECT_EQ(finding("lm_head", ""), QStringLiteral("Runs in BF16 by precision.head, which is bf16."));
    spec.trainer.precision.rules = {{"*.mlp.fc1", 7, engine::RecipeKind::Bf16}};
    EXPECT_EQ(finding("h.1", "mlp.fc1"), QStringLiteral("Runs in BF16 by rule *.mlp.fc1."));
    spec.trainer.precision.mode = engine::PrecisionMode::Bf16;
    EXPECT_EQ(finding("h.1", "mlp.fc1"), QStringLiteral("Runs in BF16: the run's mode is bf16."));
}

TEST_F(Pages, TheFiguresBesideTheCountersHaveNames) {
    NumericsPage page(controller_);
    page.resize(1136, 817);
    page.setRun(fp8_);
    page.show();
    const PlotView* counters = nullptr;
    for (const auto* view : page.findChildren<PlotView*>())
        if (view->options().title == QStringLiteral("Counters")) counters = view;
    ASSERT_NE(counters, nullptr);
    ASSERT_TRUE(waitFor([&] { return counters->content().curves.size() == 4; }));
    QStringList heads;
    for (const PlotNote& note : counters->content().notes)
        if (!note.spare) heads << note.head;
    heads.sort();
    EXPECT_EQ(heads, (QStringList{QStringLiteral("subnormal"), QStringLiteral("underflow")}));
    // In the smallest window too: two names over their values, of 29 px each, from 6 px above the curves to 8 below.
    page.resize(1024, 530);
    QTest::qWait(50);
    EXPECT_GE(counters->plotRect().height() + 14, 58);
    EXPECT_GE(page.amaxView()->plotRect().height() + 14, 58);
    shoot(page, QStringLiteral("numerics-small"));
}

TEST_F(Pages, SmoothingIsTensorBoardsAndFitsTheLengthOfTheRun) {
    EXPECT_EQ(autoSmoothing(160), 0.6);
    EXPECT_EQ(autoSmoothing(600), 0.9);
    EXPECT_EQ(autoSmoothing(3000), 0.97);
    EXPECT_EQ(autoSmoothing(100000), 0.99);
    EXPECT_EQ(autoSmoothing(0), 0.6);
    LivePage page(controller_);
    page.resize(1136, 817);
    page.setRun(bf16_);
    page.show();
    const auto& curves = page.lossView()->content().curves;
    ASSERT_TRUE(waitFor([&] { return !curves.empty() && curves[0].data->size() == 600; }));
    const auto named = [&](const char* name) {
        return std::find_if(curves.begin(), curves.end(),
                            [&](const PlotCurve& c) { return c.name == QLatin1String(name); });
    };
    const auto raw = named("train, raw"), smooth = named("smoothed");
    ASSERT_TRUE(raw != curves.end() && smooth != curves.end());
    ASSERT_EQ(raw->data->size(), 600u);
    ASSERT_EQ(smooth->data->size(), 600u);
    // TensorBoard: last = last · weight + (1 − weight) · y; shown is last ÷ (1 − weightⁿ).
    double last = 0;
    for (size_t i = 0; i < 600; ++i) {
        last = last * 0.9 + (1 - 0.9) * double(raw->data->y(i));
        ASSERT_NEAR(double(smooth->data->y(i)), last / (1 - std::pow(0.9, double(i + 1))), 1e-5) << i;
    }
}

TEST_F(Pages, CompareDrawsAllRunsAndTheTable) {
    ComparePage page(controller_);
    page.resize(1136, 817);
    page.setVisibleRuns({fp8_, bf16_, nan_});
    page.setRun(fp8_);
    page.setBaseline(bf16_);
    page.show();
    ASSERT_TRUE(waitFor([&] { return page.curvesView()->content().curves.size() == 3; }));
    ASSERT_TRUE(waitFor([&] { return page.finalNumbers()->rowCount() == 3; }));
    shoot(page, QStringLiteral("compare"));
}

TEST_F(Pages, TileTableAndChartOfCompareAreOfTheSameStep) {
    SyntheticRun run;
    run.name = "long";
    const std::string path = folder_->filePath(QStringLiteral("lengths.mantissa")).toStdString();
    const QString longer = QString::fromStdString(addSyntheticRun(path, run));
    run.name = "short";
    run.steps = run.done = 160;
    const QString shorter = QString::fromStdString(addSyntheticRun(path, run));
    RunController controller;
    controller.openStore(QString::fromStdString(path));
    ASSERT_TRUE(waitFor([&] { return controller.runs().size() == 2; }));
    ComparePage page(controller);
    page.resize(1136, 817);
    page.setVisibleRuns({shorter, longer});
    page.setBaseline(longer);
    page.setRun(shorter);
    page.show();
    const PlotView* gap = nullptr;
    for (const auto* view : page.findChildren<PlotView*>())
        if (view->options().title == QStringLiteral("Difference")) gap = view;
    ASSERT_NE(gap, nullptr);
    const FiguresCard* tiles = page.findChild<FiguresCard*>();
    ASSERT_TRUE(waitFor([&] {
        return gap->content().curves.size() == 1 && tiles->figures().size() == 2 &&
               tiles->figures()[1].value != notMeasured();
    }));
    const SeriesPyramid& curve = *gap->content().curves[0].data;
    ASSERT_FALSE(curve.empty());
    // Both were evaluated at 150; at 160, where the shorter ends, the longer was not.
    ASSERT_EQ(curve.lastX(), 160);
    EXPECT_EQ(tiles->figures()[1].value, formatLossDifference(double(curve.y(curve.lowerBound(150)))));
    QStringList texts;
    for (const QLabel* label : page.findChildren<QLabel*>()) texts << label->text();
    EXPECT_TRUE(texts.join(QLatin1Char('|')).contains(QStringLiteral("at step 150")))
        << texts.join(QLatin1Char('|')).toStdString();
    EXPECT_LE(gap->options().sizeFrom, curve.x(0)) << "of so few points each counts for the scale";
    shoot(page, QStringLiteral("compare-lengths"));
}

TEST_F(Pages, AnAnswerForTheLastRunIsDropped) {
    LivePage page(controller_);
    page.resize(1136, 817);
    page.show();
    page.setRun(nan_);
    page.setRun(bf16_);
    page.setRun(fp8_);
    ASSERT_TRUE(waitFor([&] { return page.figuresCard()->figures().size() >= 6; }));
    QTest::qWait(200);
    EXPECT_GT(page.health()->fp8Tensors(), 0);
    EXPECT_FALSE(page.figuresCard()->figures()[0].meaning.contains(QStringLiteral("NaN")));
}

/// A run that the CPU was too small for is not offered the CPU.
TEST_F(Pages, ARefusedRunIsOfferedAnotherDeviceOnlyWhereThereIsOne) {
    SyntheticRun run;
    run.name = "too large";
    run.done = 0;
    run.status = "refused";
    const QString store = folder_->filePath(QStringLiteral("refused.mantissa"));
    const QString id = QString::fromStdString(addSyntheticRun(store.toStdString(), run));
    qputenv("MANTISSA_DEVICE", "cpu");
    RunController controller;
    controller.openStore(store);
    ASSERT_TRUE(waitFor([&] { return !controller.runs().isEmpty(); }));
    RefusedPage page(controller);
    page.setRun(id);
    const auto* changes = page.findChild<QTableWidget*>();
    ASSERT_NE(changes, nullptr);
    ASSERT_TRUE(waitFor([&] { return changes->rowCount() > 0; }));
    qunsetenv("MANTISSA_DEVICE");
    QStringList words;
    for (int row = 0; row < changes->rowCount(); ++row) words << changes->item(row, 0)->text();
    EXPECT_TRUE(words.join(QLatin1Char(',')).contains(QStringLiteral("micro-batch")))
        << words.join(QLatin1Char(',')).toStdString();
    EXPECT_FALSE(words.join(QLatin1Char(',')).contains(QStringLiteral("CPU")))
        << words.join(QLatin1Char(',')).toStdString();
}

TEST_F(Pages, PaintedWidgetsHaveNamesAndDescriptions) {
    LivePage live(controller_);
    NumericsPage numerics(controller_);
    ComparePage compare(controller_);
    for (QWidget* page :
         {static_cast<QWidget*>(&live), static_cast<QWidget*>(&numerics), static_cast<QWidget*>(&compare)}) {
        for (const auto* view : page->findChildren<PlotView*>()) {
            EXPECT_FALSE(view->accessibleName().isEmpty());
        }
        for (const auto* view : page->findChildren<HeatmapView*>()) {
            EXPECT_FALSE(view->accessibleName().isEmpty());
        }
        for (const auto* view : page->findChildren<NoteList*>()) {
            EXPECT_FALSE(view->accessibleName().isEmpty());
        }
    }
}

}  // namespace
}  // namespace mantissa::gui
