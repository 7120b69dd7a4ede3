// The numerics workbench: first trouble, diagnosis, what-if, two runs, changes and forks, checkpoint inspector.
#include <gtest/gtest.h>
#include <unistd.h>

#include <QApplication>
#include <QComboBox>
#include <QElapsedTimer>
#include <QLineEdit>
#include <QSignalSpy>
#include <QTableWidget>
#include <QTemporaryDir>
#include <QTest>
#include <QToolButton>
#include <cmath>
#include <fstream>

#include "engine/checkpoint/safetensors.h"
#include "experiments/job/first_trouble.h"
#include "gui/controller/run_controller.h"
#include "gui/dialogs/change_dialog.h"
#include "gui/dialogs/checkpoint_dialog.h"
#include "gui/models/plan_rules.h"
#include "gui/models/statistic_map.h"
#include "gui/models/what_if_rows.h"
#include "gui/pages/diagnosis_view.h"
#include "gui/pages/numerics_page.h"
#include "gui/pages/trouble_view.h"
#include "gui/widgets/segmented_bar.h"
#include "tests/support/synthetic_store.h"

namespace mantissa::gui {
namespace {

using tests::addSyntheticRun;
using tests::SyntheticRun;

bool waitFor(const std::function<bool()>& ready, int milliseconds = 20000) {
    QElapsedTimer timer;
    timer.start();
    while (!ready()) {
        if (timer.elapsed() > milliseconds) return false;
        QTest::qWait(10);
    }
    return true;
}

/// Saves a picture in both themes when MANTISSA_SHOTS names a folder.
void shoot(QWidget& widget, const QString& name) {
    const QString folder = qEnvironmentVariable("MANTISSA_SHOTS");
    if (folder.isEmpty()) return;
    for (ThemeChoice theme : {ThemeChoice::Light, ThemeChoice::Dark}) {
        Theme::instance().setChoice(theme);
        QTest::qWait(400);
        QImage image(widget.size(), QImage::Format_RGB32);
        image.fill(color(Token::Window));
        widget.render(&image, QPoint(), QRegion(), QWidget::DrawChildren);
        image.save(
            QStringLiteral("%1/%2-%3.png")
                .arg(folder, name, theme == ThemeChoice::Dark ? QStringLiteral("dark") : QStringLiteral("light")));
    }
}

class Workbench : public ::testing::Test {
  protected:
    static void SetUpTestSuite() {
        folder_ = new QTemporaryDir;
        path_ = folder_->filePath(QStringLiteral("runs.mantissa"));
        SyntheticRun run;
        run.name = "a";
        run.spikeAt = 420;
        a_ = QString::fromStdString(addSyntheticRun(path_.toStdString(), run));
        run.name = "b";
        run.spikeAt = 0;
        run.seed = 2;
        b_ = QString::fromStdString(addSyntheticRun(path_.toStdString(), run));
        run.name = "nan";
        run.nonFiniteFrom = 300;
        run.nonFiniteTo = 600;
        run.status = "diverged";
        nan_ = QString::fromStdString(addSyntheticRun(path_.toStdString(), run));
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
    static QString path_, a_, b_, nan_;
    RunController controller_;
};
QTemporaryDir* Workbench::folder_ = nullptr;
QString Workbench::path_, Workbench::a_, Workbench::b_, Workbench::nan_;

TEST_F(Workbench, FirstTroubleNamesStepAndTensor) {
    NumericsPage page(controller_);
    page.resize(1136, 817);
    page.setRun(nan_);
    page.show();
    ASSERT_TRUE(waitFor([&] { return page.selectedTensor() >= 0; }));
    ASSERT_TRUE(waitFor([&] {
        QTest::keyClick(&page, Qt::Key_T);
        return page.mode() == NumericsPage::Mode::Trouble;
    }));
    ASSERT_TRUE(waitFor([&] { return page.troubleView() && page.troubleView()->report(); }));
    const TroubleReport& report = *page.troubleView()->report();
    EXPECT_EQ(report.step, 300);
    EXPECT_TRUE(report.headline.contains(QStringLiteral("h.3 · mlp.fc1 · dy"))) << report.headline.toStdString();
    EXPECT_TRUE(report.headline.contains(QStringLiteral("backward")));
    EXPECT_EQ(report.steps.size(), 12u);
    EXPECT_EQ(page.troubleView()->grid()->rowCount(), 16);
    EXPECT_FALSE(page.troubleView()->grid()->firstCell().isEmpty());
    const auto scale = std::find_if(report.before.begin(), report.before.end(),
                                    [](const TroubleFact& fact) { return fact.name == QStringLiteral("scale"); });
    ASSERT_NE(scale, report.before.end());
    EXPECT_TRUE(scale->value.contains(QStringLiteral("unchanged since step"))) << scale->value.toStdString();
    // No checkpoint: the ways start anew, one of them without FP8 in the linear.
    EXPECT_GE(page.troubleView()->ways()->rowCount(), 3);
    EXPECT_TRUE(page.troubleView()->reportText().contains(QStringLiteral("NaN")));
    shoot(page, QStringLiteral("trouble"));
    // A cell opens its tensor at its step in the heatmap.
    Q_EMIT page.troubleView()->tensorChosen(0, 295);
    EXPECT_EQ(page.mode(), NumericsPage::Mode::Heatmap);
    EXPECT_EQ(page.selectedTensor(), 0);
}

TEST_F(Workbench, FirstTroubleTellsWhatTheEngineFound) {
    engine::TroubleReport found;
    found.step = 250;
    found.first.layer = "h.2";
    found.first.op = "mlp.fc1";
    found.tensor = "h.2.mlp.fc1/weight";
    found.row = 0;
    found.col = 3;
    found.value = NAN;
    found.text = "NaN in the weight of h.2 mlp.fc1, element (0, 3).";
    const auto op = [](const char* layer, const char* name, bool backward, uint64_t nan) {
        engine::OpCheck check;
        check.layer = layer;
        check.op = name;
        check.backward = backward;
        check.nan = nan;
        return check;
    };
    found.chain = {op("h.2", "mlp.fc1", false, 2048), op("h.3", "norm1", false, 9), op("lm_head", "loss", false, 1),
                   op("h.3", "mlp.fc2", true, 7)};
    found.reachedLoss = true;
    SyntheticRun run;
    run.name = "found";
    run.trouble = experiments::troubleJson(found);
    const std::string path = folder_->filePath(QStringLiteral("found.mantissa")).toStdString();
    const std::string id = addSyntheticRun(path, run);
    experiments::RunStore store(path, experiments::RunStore::Mode::ReadOnly);
    const TroubleReport report = readTrouble(store, id);
    EXPECT_EQ(report.step, 250);
    EXPECT_EQ(report.headline.toStdString(), found.text);
    ASSERT_GE(report.tensor, 0);
    EXPECT_EQ(engine::tensorName(store.document(id).catalogue[size_t(report.tensor)]), "h.2/mlp.fc1/weight");
    ASSERT_EQ(report.chain.size(), 6u);  // first, forward, loss, backward, gradient norm, optimizer
    EXPECT_TRUE(report.chain[0].detail.contains(QStringLiteral("(0, 3)")));
    EXPECT_TRUE(report.chain[1].detail.contains(QStringLiteral("2 ops")));
    EXPECT_EQ(report.chain[2].what, QStringLiteral("loss"));
    EXPECT_EQ(report.chain[3].right, QStringLiteral("backward"));
    EXPECT_TRUE(report.outcome.contains(QStringLiteral("sits in a weight"))) << report.outcome.toStdString();
    EXPECT_EQ(report.chain[5].detail, QStringLiteral("not run: the weights keep the value"));
}

TEST_F(Workbench, AScaleThatChangedInTheStepIsNotCalledUnchanged) {
    SyntheticRun run;
    run.name = "short window";
    run.historyLength = 2;  // the scale follows the amax of the step before
    run.nonFiniteFrom = run.nonFiniteTo = 90;
    run.steps = run.done = 100;
    const std::string path = folder_->filePath(QStringLiteral("short.mantissa")).toStdString();
    const std::string id = addSyntheticRun(path, run);
    experiments::RunStore store(path, experiments::RunStore::Mode::ReadOnly);
    const TroubleReport report = readTrouble(store, id);
    ASSERT_EQ(report.step, 90);
    const auto scale = std::find_if(report.before.begin(), report.before.end(),
                                    [](const TroubleFact& fact) { return fact.name == QStringLiteral("scale"); });
    ASSERT_NE(scale, report.before.end());
    EXPECT_TRUE(scale->value.endsWith(QStringLiteral(", new in this step"))) << scale->value.toStdString();
}

TEST_F(Workbench, ARunWithoutTroubleHasNoSuchView) {
    NumericsPage page(controller_);
    page.resize(1136, 817);
    page.setRun(b_);
    page.show();
    ASSERT_TRUE(waitFor([&] { return page.selectedTensor() >= 0; }));
    QTest::keyClick(&page, Qt::Key_T);
    EXPECT_EQ(page.mode(), NumericsPage::Mode::Heatmap);
    EXPECT_EQ(page.troubleView(), nullptr);
}

TEST_F(Workbench, TwoRunsShowTheirRatio) {
    NumericsPage page(controller_);
    page.resize(1136, 817);
    page.setVisibleRuns({a_, b_});
    page.setRun(a_);
    page.show();
    ASSERT_TRUE(waitFor([&] { return page.selectedTensor() >= 0 && page.pairBar()->isVisible(); }));
    page.setStatistic(3);  // amax
    page.pairBar()->setCurrent(2);
    page.showTensor(QStringLiteral("h.3/mlp.fc1/grad_output"), -1);
    const auto amax = [&](const QString& id, int tensor) {
        experiments::RunStore store(path_.toStdString(), experiments::RunStore::Mode::ReadOnly);
        return double(
            store.heatmap(id.toStdString(), experiments::Statistic::Amax, 420, 420, 1).values[size_t(tensor)]);
    };
    const double wanted = std::log2(amax(a_, page.selectedTensor()) / amax(b_, page.selectedTensor()));
    ASSERT_GT(wanted, 10);  // the spike
    ASSERT_TRUE(waitFor([&] {
        return std::fabs(double(page.heatmap()->cellAt(page.heatmap()->selected(), 420).value) - wanted) < 1e-3;
    })) << page.heatmap()->cellAt(page.heatmap()->selected(), 420).value
        << " wanted " << wanted;
    EXPECT_TRUE(page.heatmap()->scale().symmetric);
    const QString nameA = controller_.run(a_)->name, nameB = controller_.run(b_)->name;
    const auto says = [&](const QString& words) {
        for (const auto* label : page.findChildren<QLabel*>())
            if (label->isVisible() && label->text().contains(words)) return true;
        return false;
    };
    EXPECT_TRUE(says(QStringLiteral("A is %1, B %2").arg(nameA, nameB)));
    shoot(page, QStringLiteral("ratio"));
    page.pairBar()->setCurrent(1);
    EXPECT_TRUE(waitFor([&] { return says(QStringLiteral("; of %1").arg(nameB)); }));
}

TEST_F(Workbench, EveryStatisticHasCellsAndWords) {
    NumericsPage page(controller_);
    page.resize(1136, 817);
    page.setRun(a_);
    page.show();
    ASSERT_TRUE(waitFor([&] { return page.selectedTensor() >= 0; }));
    for (size_t i = 0; i < shownStatistics().size(); ++i) {
        if (shownStatistics()[i].shadow) continue;  // no product was measured in this store
        page.setStatistic(int(i));
        ASSERT_TRUE(waitFor([&] { return page.heatmap()->cellAt(0, 590).state == CellState::Value; }))
            << shownStatistics()[i].name.toStdString();
        EXPECT_FALSE(statisticText(shownStatistics()[i], double(page.heatmap()->cellAt(0, 590).value)).isEmpty());
        EXPECT_FALSE(shownStatistics()[i].definition.isEmpty());
    }
}

TEST_F(Workbench, TensorsAreRankedWorstFirst) {
    experiments::RunStore store(path_.toStdString(), experiments::RunStore::Mode::ReadOnly);
    const std::string id = a_.toStdString();
    const StatisticInfo& amax = shownStatistics()[3];
    const auto rows = rankTensors(store, id, amax, 400, 440);
    ASSERT_GT(rows.size(), 10u);
    EXPECT_EQ(rows[0].name, QStringLiteral("h.3 fc1 · dy"));  // the spike
    EXPECT_EQ(rows[0].step, 420);
    for (size_t i = 1; i < rows.size(); ++i) EXPECT_LE(rows[i].worst, rows[i - 1].worst) << i;
    const auto broken = rankTensors(store, nan_.toStdString(), amax, 1, 600);
    EXPECT_TRUE(broken[0].nonFinite);

    NumericsPage page(controller_);
    page.resize(1136, 817);
    page.setRun(a_);
    page.show();
    ASSERT_TRUE(waitFor([&] { return page.selectedTensor() >= 0; }));
    page.setStatistic(3);
    auto* view = page.findChild<QComboBox*>();
    view->setCurrentIndex(view->count() - 1);
    QTableWidget* table = nullptr;
    for (auto* one : page.findChildren<QTableWidget*>())
        if (one->accessibleName() == QStringLiteral("Tensors ranked")) table = one;
    ASSERT_NE(table, nullptr);
    ASSERT_TRUE(waitFor([&] { return table->rowCount() > 10; }));
    EXPECT_EQ(table->item(0, 1)->text(), QStringLiteral("h.3 fc1 · dy"));
    table->setCurrentCell(1, 0);
    table->setCurrentCell(0, 0);
    EXPECT_EQ(page.selectedTensor(), rows[0].tensor);
    EXPECT_EQ(page.link().cursor(), 420);
    shoot(page, QStringLiteral("ranked"));
}

TEST_F(Workbench, WhatIfOfARecordedSeriesStandsInTheInspector) {
    NumericsPage page(controller_);
    page.resize(1136, 1000);
    page.setRun(a_);
    page.show();
    ASSERT_TRUE(waitFor([&] { return page.selectedTensor() >= 0; }));
    page.showTensor(QStringLiteral("h.3/mlp.fc1/grad_output"), -1);
    WhatIfTable* table = page.inspector()->whatIfTable();
    ASSERT_TRUE(waitFor([&] { return table->rows().size() > 3; }));
    EXPECT_TRUE(table->rows()[0].asItIs);
    const auto current = std::find_if(table->rows().begin(), table->rows().end(), [](const WhatIfRow& row) {
        return row.setting == QStringLiteral("current scaling");
    });
    ASSERT_NE(current, table->rows().end());
    EXPECT_LT(current->underflow, table->rows()[0].underflow / 2);  // one spike rules the window
    QSignalSpy asked(page.inspector(), &Inspector::specRequested);
    table->setCurrentCell(int(current - table->rows().begin()), 0);
    ASSERT_TRUE(page.inspector()->forkButton()->isEnabled());
    EXPECT_FALSE(page.inspector()->useButton()->isEnabled());  // the run has ended
    page.inspector()->forkButton()->click();
    ASSERT_EQ(asked.count(), 1);
    EXPECT_TRUE(asked[0][0].toString().contains(QStringLiteral("h.3.mlp.fc1")));
    shoot(page, QStringLiteral("what-if"));
}

TEST(WhatIfRows, AChoiceBecomesFieldsOrARule) {
    const experiments::RunSpec spec = experiments::presetSpec("nano");
    engine::CatalogueEntry entry;
    entry.layer = "h.1";
    entry.linear = "mlp.fc1";
    entry.role = engine::TensorRole::Input;
    experiments::ScalingChoice recorded;
    recorded.historyLength = 16;
    experiments::ScalingChoice choice = recorded;
    QString why;
    EXPECT_FALSE(withChoice(spec, entry, recorded, choice, &why));
    choice.historyLength = 64;
    auto changed = withChoice(spec, entry, recorded, choice, &why);
    ASSERT_TRUE(changed) << why.toStdString();
    EXPECT_EQ(experiments::getPath(*changed, "precision.history_length"), "64");
    choice = recorded;
    choice.recipe = "bf16";
    changed = withChoice(spec, entry, recorded, choice, &why);
    ASSERT_TRUE(changed) << why.toStdString();
    ASSERT_EQ(changed->trainer.precision.rules.size(), 2u);  // the two products that read an input
    EXPECT_EQ(changed->trainer.precision.rules[0].match, "h.1.mlp.fc1");
    EXPECT_EQ(changed->trainer.precision.rules[0].gemms | changed->trainer.precision.rules[1].gemms, 5);
    choice = recorded;
    choice.format = "e5m2";
    EXPECT_FALSE(withChoice(spec, entry, recorded, choice, &why));
    EXPECT_TRUE(why.contains(QStringLiteral("precision.format")));
}

TEST(PlanRules, CellsSwitchThereAndBack) {
    std::vector<engine::PrecisionRule> rules =
        toggledRules({}, {QStringLiteral("h.1"), QStringLiteral("h.2")}, QStringLiteral("mlp.fc1"), 1, true,
                     engine::RecipeKind::Delayed);
    ASSERT_EQ(rules.size(), 2u);
    EXPECT_EQ(rules[1].match, "h.2.mlp.fc1");
    EXPECT_EQ(rules[1].gemms, 2);
    rules =
        toggledRules(rules, {QStringLiteral("h.1")}, QStringLiteral("mlp.fc1"), 2, true, engine::RecipeKind::Delayed);
    EXPECT_EQ(rules[0].gemms, 6);
    rules =
        toggledRules(rules, {QStringLiteral("h.1")}, QStringLiteral("mlp.fc1"), 1, false, engine::RecipeKind::Delayed);
    EXPECT_EQ(rules[0].gemms, 4);
}

experiments::Diagnosis inventedDiagnosis(const std::string& run) {
    experiments::Diagnosis diagnosis;
    diagnosis.run = run;
    diagnosis.steps = 600;
    diagnosis.summary = "h.3 mlp.fc1 grad_output underflows since step 421.";
    experiments::Finding finding;
    finding.kind = "underflow";
    finding.layer = "h.3";
    finding.linear = "mlp.fc1";
    finding.tensor = "grad_output";
    finding.tensorIndex = 46;
    finding.firstStep = 421;
    finding.lastStep = 600;
    finding.ongoing = true;
    finding.what = "h.3 mlp.fc1 grad_output: 4.6 % of the elements underflow since step 421, 0.003 % before.";
    finding.cause = "One spike at step 420 still rules the window of 256.";
    finding.evidence = {{"underflow 4.6 % at step 500", "numerics/h.3/mlp.fc1/grad_output/underflow_share", 500, 0.046},
                        {"loss 1.27 at step 500", "loss", 500, 1.27}};
    experiments::ProposedChange change;
    change.title = "history length 256 → 16";
    change.expected = "underflow 4.6 % → 0.002 %";
    change.sets = {{"precision.history_length", "16", "256"}};
    change.live = true;
    change.forkStep = 400;
    finding.changes = {change};
    change.title = "no such field";
    change.sets = {{"precision.no_such_field", "16", "256"}};
    finding.changes.push_back(change);
    finding.applied = {
        {"precision.history_length: 256 → 16", run, "a", 500, "underflow 4.6 % → 0.002 %", "", 0.046, 2e-5, true}};
    diagnosis.findings = {finding};
    return diagnosis;
}

TEST_F(Workbench, DiagnosisActsOnTheChosenChange) {
    DiagnosisView view;
    view.resize(1112, 700);
    view.show();
    RunInfo run = *controller_.run(a_);
    run.state = RunState::Running;
    experiments::RunSpec spec = experiments::presetSpec("nano");
    spec.trainer.precision.historyLength = 256;
    const auto diagnosis = std::make_shared<experiments::Diagnosis>(inventedDiagnosis(a_.toStdString()));
    view.showDiagnosis(diagnosis, spec, &run);
    EXPECT_EQ(view.chosen(), 0);
    ASSERT_TRUE(view.applyButton()->isEnabled());
    QSignalSpy apply(&view, &DiagnosisView::applyRequested), fork(&view, &DiagnosisView::forkRequested),
        evidence(&view, &DiagnosisView::evidenceRequested);
    view.applyButton()->click();
    view.forkButton()->click();
    view.lookOverButton()->click();
    ASSERT_EQ(apply.count(), 1);
    ASSERT_EQ(fork.count(), 2);
    EXPECT_TRUE(fork[0][2].toBool());
    EXPECT_FALSE(fork[1][2].toBool());
    const auto parsed = experiments::parseSpec(apply[0][0].toString().toStdString());
    EXPECT_EQ(parsed.spec.trainer.precision.historyLength, 16);
    EXPECT_EQ(fork[0][0].toLongLong(), 400);
    for (QToolButton* link : view.findChildren<QToolButton*>())
        if (link->text().startsWith(QStringLiteral("underflow"))) link->click();
    ASSERT_EQ(evidence.count(), 1);
    EXPECT_EQ(evidence[0][1].toLongLong(), 500);
    view.changes()->setCurrentCell(1, 0);
    EXPECT_FALSE(view.applyButton()->isEnabled());
    EXPECT_TRUE(view.applyButton()->toolTip().contains(QStringLiteral("no_such_field")));
    run.state = RunState::Finished;
    view.showDiagnosis(diagnosis, spec, &run);
    EXPECT_FALSE(view.applyButton()->isEnabled());
    EXPECT_TRUE(view.forkButton()->isEnabled());
    shoot(view, QStringLiteral("diagnosis"));
}

TEST_F(Workbench, DiagnosisOfARecordedRunOpensAndClosesWithG) {
    NumericsPage page(controller_);
    page.resize(1136, 817);
    page.setRun(a_);
    page.show();
    ASSERT_TRUE(waitFor([&] { return page.selectedTensor() >= 0; }));
    QTest::keyClick(&page, Qt::Key_G);
    ASSERT_TRUE(waitFor([&] { return page.diagnosisView() && page.diagnosisView()->diagnosis(); }));
    EXPECT_EQ(page.diagnosisView()->diagnosis()->steps, 600);
    ASSERT_FALSE(page.diagnosisView()->diagnosis()->findings.empty());  // the spike
    shoot(page, QStringLiteral("diagnosis-page"));
    EXPECT_EQ(page.diagnosisView()->mapTo(&page, QPoint()), QPoint(12, 12)) << "the page's margin";
    Q_EMIT page.diagnosisView()->evidenceRequested(QStringLiteral("numerics/h.2/attn.qkv/weight/clipped_share"), 200);
    EXPECT_EQ(page.mode(), NumericsPage::Mode::Heatmap);
    EXPECT_EQ(page.link().cursor(), 200);
}

TEST_F(Workbench, ChangesAreCheckedAsTyped) {
    ChangeDialog dialog(controller_, a_, ChangeDialog::Mode::Fork);
    dialog.show();
    ASSERT_TRUE(waitFor([&] { return dialog.ready(); }));
    EXPECT_TRUE(dialog.goButton()->isEnabled());  // nothing on disk to go on from: the start alone
    EXPECT_EQ(dialog.fromField()->count(), 1);
    EXPECT_EQ(dialog.fromField()->currentData().toLongLong(), 0);
    auto* history = qobject_cast<QLineEdit*>(dialog.input(QStringLiteral("precision.history_length")));
    ASSERT_NE(history, nullptr);
    history->selectAll();
    QTest::keyClicks(history, QStringLiteral("64"));
    ASSERT_EQ(dialog.changes().size(), 1u);
    EXPECT_EQ(dialog.changes()[0].path, "precision.history_length");
    EXPECT_EQ(dialog.changes()[0].right, "64");
    Q_EMIT dialog.asked().cellToggled({QStringLiteral("h.1")}, QStringLiteral("mlp.fc1"), 0, true);
    EXPECT_EQ(dialog.changes().size(), 2u);
    EXPECT_EQ(dialog.asked().fp8Products(), dialog.asked().products() - 4);  // that cell and the head's three
    history->selectAll();
    QTest::keyClicks(history, QStringLiteral("-3"));
    EXPECT_TRUE(history->property("wrong").toBool());
    shoot(dialog, QStringLiteral("fork"));

    ChangeDialog ended(controller_, a_, ChangeDialog::Mode::WhileItRuns);
    ended.show();
    ASSERT_TRUE(waitFor([&] { return ended.ready(); }));
    EXPECT_FALSE(ended.goButton()->isEnabled());
}

TEST_F(Workbench, CheckpointInspectorReadsAFile) {
    const QString path = folder_->filePath(QStringLiteral("w.safetensors"));
    std::vector<engine::SafetensorsEntry> entries(2);
    entries[0] = {"h.0.mlp.fc1.weight", "F32", {64, 128}, 0, 0};
    entries[1] = {"h.0.mlp.fc1.bias", "F32", {64}, 0, 0};
    std::vector<float> values(64 * 128 + 64);
    for (size_t i = 0; i < values.size(); ++i) values[i] = std::ldexp(float(i % 7) - 3, -int(i % 20));
    values[5] = NAN;
    values[9] = 900;
    {
        std::ofstream file(path.toStdString(), std::ios::binary);
        file << engine::makeSafetensorsHeader(entries, {});
        file.write(reinterpret_cast<const char*>(values.data()), std::streamsize(values.size() * sizeof(float)));
    }
    CheckpointDialog dialog(path);
    dialog.show();
    ASSERT_TRUE(waitFor([&] { return dialog.ready(); }));
    EXPECT_EQ(dialog.model().rowCount(), 2);
    EXPECT_EQ(dialog.model().statistics(0)->amax, 900);
    EXPECT_EQ(dialog.model().statistics(0)->nan, 1u);
    ASSERT_TRUE(waitFor([&] { return dialog.whatIf().isVisible() && !dialog.whatIf().rows().empty(); }));
    EXPECT_GE(dialog.whatIf().rows().size(), 8u);
    dialog.choose(1);
    ASSERT_TRUE(waitFor([&] { return dialog.whatIf().isVisible() && dialog.whatIf().rows()[0].clipped == 0; }));
    shoot(dialog, QStringLiteral("checkpoint"));

    const QString broken = folder_->filePath(QStringLiteral("broken.safetensors"));
    std::ofstream(broken.toStdString()) << "not weights at all";
    CheckpointDialog refused(broken);
    refused.show();
    ASSERT_TRUE(waitFor([&] { return !refused.problem().isEmpty(); }));
    EXPECT_TRUE(refused.problem().contains(QStringLiteral("broken.safetensors")));
}

}  // namespace
}  // namespace mantissa::gui
