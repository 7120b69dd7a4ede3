// A planted fault from the first sight to what the change brought, through the window: diagnosis, fork at one click and
// through the dialog, the child in the list, on its card and beside its parent.
#include <gtest/gtest.h>

#include <QApplication>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QTemporaryDir>
#include <QTest>

#include "gui/controller/run_controller.h"
#include "gui/dialogs/change_dialog.h"
#include "gui/main_window.h"
#include "gui/models/compare_tables.h"
#include "gui/pages/compare_page.h"
#include "gui/pages/diagnosis_view.h"
#include "gui/pages/numerics_page.h"
#include "gui/widgets/run_list_panel.h"

namespace mantissa::gui {
namespace {

class Fork : public testing::Test {
  protected:
    void SetUp() override {
        settings_ = std::make_unique<Settings>(folder_.filePath(QStringLiteral("layout.json")));
        controller_ = std::make_unique<RunController>();
        window_ = std::make_unique<MainWindow>(*controller_, *settings_);
        window_->resize(1440, 900);
        window_->show();
        controller_->openStore(folder_.filePath(QStringLiteral("runs.mantissa")));
        ASSERT_TRUE(QTest::qWaitFor([&] { return controller_->store().open; }, 20000));
    }
    void TearDown() override {
        window_.reset();
        controller_.reset();
    }
    static experiments::RunSpec tiny(const std::string& faults) {
        experiments::RunSpec spec = experiments::presetSpec("tiny");
        const std::pair<const char*, std::string> sets[] = {
            {"data.path", "text:generated"}, {"train.steps", "40"}, {"probes.every", "1"}, {"checkpoint.every", "10"},
            {"checkpoint.keep", "0"},        {"eval.every", "0"},   {"faults", faults}};
        for (const auto& [path, value] : sets) EXPECT_TRUE(experiments::setPath(spec, path, value).empty()) << path;
        return spec;
    }
    bool ended(const QString& id) {
        return QTest::qWaitFor([&] { return controller_->run(id) && controller_->run(id)->ended(); }, 60000);
    }
    /// Trains to the end; its id.
    QString trained(const experiments::RunSpec& spec) {
        experiments::JobOptions options;
        options.device.device = "cpu";
        controller_->start(spec, std::move(options));
        EXPECT_TRUE(QTest::qWaitFor([&] { return controller_->runs().size() == 1; }, 20000));
        const QString id = controller_->runs().first().id;
        EXPECT_TRUE(ended(id));
        return id;
    }
    DiagnosisView* diagnosisOf(const QString& id) {
        window_->runList().select(id);
        window_->openPage(QStringLiteral("diagnosis"));
        auto* page = static_cast<NumericsPage*>(window_->page(QStringLiteral("numerics")));
        EXPECT_TRUE(QTest::qWaitFor(
            [&] {
                DiagnosisView* view = page->diagnosisView();
                return view && view->diagnosis() && QString::fromStdString(view->diagnosis()->run) == id &&
                       view->diagnosis()->steps == 40;
            },
            20000));
        return page->diagnosisView();
    }
    QString childOf(const QString& parent) {
        QString child;
        EXPECT_TRUE(QTest::qWaitFor(
            [&] {
                for (const RunInfo& run : controller_->runs())
                    if (run.parent == parent) child = run.id;
                return !child.isEmpty();
            },
            20000));
        EXPECT_TRUE(ended(child));
        const RunInfo* info = controller_->run(child);
        EXPECT_EQ(info->state, RunState::Finished) << info->message.toStdString();
        return child;
    }
    bool says(const QWidget& root, const QString& words) {
        for (const QLabel* label : root.findChildren<QLabel*>())
            if (label->isVisibleTo(&root) && label->text().contains(words)) return true;
        return false;
    }
    /// One click on the change ranked first; the diagnosis that stands there then says that it ended the trouble.
    void expectOneClickEnds(const QString& parent, DiagnosisView* view, qint64 from) {
        const auto* shown = view->diagnosis();
        ASSERT_FALSE(shown->findings.empty());
        const std::string kind = shown->findings[0].kind;
        ASSERT_TRUE(view->forkButton()->isEnabled()) << view->forkButton()->toolTip().toStdString();
        EXPECT_FALSE(view->applyButton()->isEnabled()) << "the run has ended";
        view->forkButton()->click();
        const QString child = childOf(parent);
        EXPECT_EQ(controller_->run(child)->parentStep, from);
        EXPECT_EQ(controller_->run(child)->step, 40);
        ASSERT_TRUE(QTest::qWaitFor(
            [&] {
                const auto* now = view->diagnosis();
                return now && QString::fromStdString(now->run) == parent && !now->findings.empty() &&
                       now->findings[0].applied.size() == 1 && now->findings[0].applied[0].ended;
            },
            20000))
            << "the page stays and shows what the change brought";
        EXPECT_EQ(view->diagnosis()->findings[0].kind, kind);
        const auto& applied = view->diagnosis()->findings[0].applied[0];
        EXPECT_TRUE(says(*view, QString::fromStdString(applied.brought))) << applied.brought;
        std::printf("%s: %s: %s\n", kind.c_str(), applied.text.c_str(), applied.brought.c_str());
        // The child knows its parent and is clean.
        DiagnosisView* own = diagnosisOf(child);
        for (const auto& finding : own->diagnosis()->findings) EXPECT_NE(finding.kind, kind) << finding.what;
        const QString name = controller_->run(parent)->name;
        EXPECT_TRUE(says(window_->runList(), from > 0 ? QStringLiteral("%1, step %2").arg(name).arg(from)
                                                      : QStringLiteral("%1, from the start").arg(name)));
    }

    QTemporaryDir folder_;
    std::unique_ptr<Settings> settings_;
    std::unique_ptr<RunController> controller_;
    std::unique_ptr<MainWindow> window_;
};

TEST_F(Fork, OneClickEndsAStaleWeightCopy) {
    const QString parent = trained(tiny(R"([{"kind": "stale_weight", "step": 16, "target": "h.1.mlp.fc2/weight"}])"));
    DiagnosisView* view = diagnosisOf(parent);
    ASSERT_FALSE(view->diagnosis()->findings.empty());
    EXPECT_EQ(view->diagnosis()->findings[0].kind, "stale_weight");
    expectOneClickEnds(parent, view, 10);
}

TEST_F(Fork, OneClickEndsAScaleThatNeverUpdates) {
    const QString parent = trained(tiny(R"([{"kind": "never_update", "step": 1, "target": "h.0.attn.qkv/weight"}])"));
    DiagnosisView* view = diagnosisOf(parent);
    ASSERT_FALSE(view->diagnosis()->findings.empty());
    EXPECT_EQ(view->diagnosis()->findings[0].kind, "never_updated");
    expectOneClickEnds(parent, view, 0);
}

TEST_F(Fork, OneClickChangesTheRunThatGoes) {
    experiments::RunSpec spec = tiny(R"([{"kind": "never_update", "step": 1, "target": "h.0.attn.qkv/weight"}])");
    ASSERT_TRUE(experiments::setPath(spec, "train.steps", "50000").empty());
    ASSERT_TRUE(experiments::setPath(spec, "checkpoint.every", "0").empty());
    experiments::JobOptions options;
    options.device.device = "cpu";
    controller_->start(spec, std::move(options));
    ASSERT_TRUE(QTest::qWaitFor(
        [&] { return controller_->runs().size() == 1 && controller_->runs().first().step >= 60; }, 60000));
    const QString id = controller_->runs().first().id;
    window_->runList().select(id);
    window_->openPage(QStringLiteral("diagnosis"));
    auto* page = static_cast<NumericsPage*>(window_->page(QStringLiteral("numerics")));
    const auto finding = [&]() -> const experiments::Finding* {
        DiagnosisView* view = page->diagnosisView();
        if (!view || !view->diagnosis() || view->diagnosis()->findings.empty()) return nullptr;
        const auto& first = view->diagnosis()->findings[0];
        return first.kind == "never_updated" ? &first : nullptr;
    };
    ASSERT_TRUE(QTest::qWaitFor([&] { return finding() != nullptr; }, 60000));
    DiagnosisView* view = page->diagnosisView();
    ASSERT_TRUE(view->applyButton()->isEnabled()) << view->applyButton()->toolTip().toStdString();
    QTest::mouseClick(view->applyButton(), Qt::LeftButton);
    // The same run goes on with the change, and the page that stands there says what it brought.
    ASSERT_TRUE(QTest::qWaitFor(
        [&] { return finding() && finding()->applied.size() == 1 && finding()->applied[0].ended; }, 60000));
    const auto applied = finding()->applied[0];
    EXPECT_EQ(QString::fromStdString(applied.run), id);
    EXPECT_TRUE(says(*view, QString::fromStdString(applied.brought))) << applied.brought;
    EXPECT_EQ(controller_->runs().size(), 1) << "no child was made";
    EXPECT_TRUE(controller_->run(id)->going());
    EXPECT_TRUE(QTest::qWaitFor([&] { return controller_->run(id)->step > applied.step + 5; }, 20000));
    controller_->stop(id);
    ASSERT_TRUE(ended(id));
    EXPECT_EQ(controller_->run(id)->state, RunState::Stopped) << controller_->run(id)->message.toStdString();
    // A second process reads the same: the spec in force changed between two steps.
    experiments::RunStore store(folder_.filePath(QStringLiteral("runs.mantissa")).toStdString(),
                                experiments::RunStore::Mode::ReadOnly);
    const auto specs = store.document(id.toStdString()).specs;
    ASSERT_GE(specs.size(), 2u);
    EXPECT_EQ(specs.back().first, applied.step);
}

TEST_F(Fork, TheDialogMakesAChildThatIsCompared) {
    const QString parent = trained(tiny(R"([{"kind": "stale_weight", "step": 16, "target": "h.1.mlp.fc2/weight"}])"));
    DiagnosisView* view = diagnosisOf(parent);
    ASSERT_TRUE(view->lookOverButton()->isEnabled());
    view->lookOverButton()->click();
    ChangeDialog* dialog = nullptr;
    ASSERT_TRUE(QTest::qWaitFor(
        [&] {
            dialog = window_->findChild<ChangeDialog*>();
            return dialog && dialog->ready();
        },
        20000));
    EXPECT_EQ(dialog->fromField()->currentData().toLongLong(), 10);
    ASSERT_EQ(dialog->changes().size(), 1u);
    EXPECT_EQ(dialog->changes()[0].path, "precision.rules");
    auto* history = qobject_cast<QLineEdit*>(dialog->input(QStringLiteral("precision.history_length")));
    history->selectAll();
    QTest::keyClicks(history, QStringLiteral("8"));
    EXPECT_EQ(dialog->changes().size(), 2u);
    ASSERT_TRUE(dialog->goButton()->isEnabled()) << dialog->problem().toStdString();
    dialog->goButton()->click();
    const QString child = childOf(parent);
    EXPECT_EQ(controller_->run(child)->parentStep, 10);
    // Beside each other: two rows of final numbers, and what was changed among the differences.
    window_->runList().chooseMany({parent, child});
    window_->openPage(QStringLiteral("compare"));
    auto* compare = static_cast<ComparePage*>(window_->page(QStringLiteral("compare")));
    EXPECT_TRUE(QTest::qWaitFor([&] { return compare->finalNumbers()->rowCount() == 2; }, 20000));
}

}  // namespace
}  // namespace mantissa::gui
