// gui.md 13 on every page, view and dialog, over a store with runs in every state: names, tooltips, keys, text that
// fits at both sizes, contrast in both themes.
#include <gtest/gtest.h>

#include <QFile>
#include <QTemporaryDir>
#include <QTest>
#include <memory>

#include "gui/dialogs/change_dialog.h"
#include "gui/dialogs/checkpoint_dialog.h"
#include "gui/dialogs/launch_dialog.h"
#include "gui/main_window.h"
#include "gui/pages/numerics_page.h"
#include "tests/gui/widget_walk.h"
#include "tests/support/synthetic_store.h"

namespace {

using namespace mantissa::gui;
using mantissa::tests::addSyntheticRun;
using mantissa::tests::SyntheticRun;

const QSize kSizes[] = {QSize(1440, 900), QSize(1024, 640)};

/// A state of the window: which runs are selected, which page is open.
struct View {
    const char* name;
    const char* page;
    QStringList runs;
};

class Controls : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        folder_ = new QTemporaryDir;
        const std::string path = folder_->filePath(QStringLiteral("runs.mantissa")).toStdString();
        SyntheticRun run;
        run.name = "bf16 · s1";
        run.fp8 = false;
        addSyntheticRun(path, run);
        run.name = "fp8-delayed · s1";
        run.fp8 = true;
        run.spikeAt = 420;
        run.lossOffset = 0.003;
        run.speed = 1.15;
        addSyntheticRun(path, run);
        run.name = "nan · s1";
        run.spikeAt = 0;
        run.nonFiniteFrom = 300;
        run.nonFiniteTo = 600;
        run.status = "diverged";
        addSyntheticRun(path, run);
        run.name = "too large · s1";
        run.nonFiniteFrom = run.nonFiniteTo = 0;
        run.done = 0;
        run.status = "refused";
        addSyntheticRun(path, run);
        run.name = "gone · s1";
        run.done = 200;
        run.status = "interrupted";
        addSyntheticRun(path, run);
    }
    static void TearDownTestSuite() { delete folder_; }
    void SetUp() override { open(folder_->filePath(QStringLiteral("runs.mantissa")), 5); }
    void open(const QString& store, int runs) {
        window_.reset();
        settings_ = std::make_unique<Settings>(layout_.filePath(QStringLiteral("layout.json")));
        controller_ = std::make_unique<RunController>();
        window_ = std::make_unique<MainWindow>(*controller_, *settings_);
        window_->show();
        controller_->openStore(store);
        ASSERT_TRUE(
            QTest::qWaitFor([&] { return controller_->store().open && controller_->runs().size() == runs; }, 20000));
    }
    void choose(const QStringList& names) {
        QStringList ids;
        for (const QString& name : names)
            for (const RunInfo& run : controller_->runs())
                if (run.name == name) ids << run.id;
        window_->runList().chooseMany(ids);
    }
    void visit(const View& view) {
        if (!view.runs.isEmpty()) choose(view.runs);
        window_->openPage(QLatin1String(view.page));
        QTest::qWait(700);
    }
    static QVector<View> views() {
        const QString fp8 = QStringLiteral("fp8-delayed · s1"), bf16 = QStringLiteral("bf16 · s1"),
                      nan = QStringLiteral("nan · s1"), refused = QStringLiteral("too large · s1"),
                      gone = QStringLiteral("gone · s1");
        return {{"live", "live", {fp8}},
                {"live of BF16", "live", {bf16}},
                {"live of NaN", "live", {nan}},
                {"interrupted", "live", {gone}},
                {"refused", "live", {refused}},
                {"numerics", "numerics", {fp8}},
                {"numerics of BF16", "numerics", {bf16}},
                {"diagnosis", "diagnosis", {fp8}},
                {"trouble", "trouble", {nan}},
                {"compare one", "compare", {fp8}},
                {"compare", "compare", {fp8, bf16, nan}},
                {"two runs", "numerics", {fp8, nan}},
                {"ladder", "ladder", {}},
                {"formats", "formats", {}},
                {"device", "device", {}}};
    }
    static QTemporaryDir* folder_;
    QTemporaryDir layout_;
    std::unique_ptr<Settings> settings_;
    std::unique_ptr<RunController> controller_;
    std::unique_ptr<MainWindow> window_;
};
QTemporaryDir* Controls::folder_ = nullptr;

TEST_F(Controls, AreNamedExplainedAndReachedByKeys) {
    for (const View& view : views()) {
        SCOPED_TRACE(view.name);
        visit(view);
        walk::expectNamed(*window_);
        walk::expectKeys(*window_);
    }
}

TEST_F(Controls, TextFitsAtBothSizes) {
    for (const QSize size : kSizes) {
        window_->resize(size);
        for (const View& view : views()) {
            SCOPED_TRACE(std::string(view.name) + " at " + std::to_string(size.width()));
            visit(view);
            walk::expectUnclipped(*window_);
            walk::expectApart(*window_);
            EXPECT_EQ(window_->size(), size);
        }
    }
}

TEST_F(Controls, TextStandsOutInBothThemes) {
    for (const ThemeChoice theme : {ThemeChoice::Light, ThemeChoice::Dark}) {
        Theme::instance().setChoice(theme);
        for (const View& view : views()) {
            SCOPED_TRACE(std::string(view.name) + (theme == ThemeChoice::Dark ? " dark" : " light"));
            visit(view);
            walk::expectContrast(*window_);
        }
    }
}

TEST_F(Controls, OfAnEmptyStoreToo) {
    QTemporaryDir other;
    open(other.filePath(QStringLiteral("new.mantissa")), 0);
    for (const QSize size : kSizes) {
        window_->resize(size);
        for (const char* page : {"live", "numerics", "compare", "ladder"}) {
            SCOPED_TRACE(page);
            visit({page, page, {}});
            walk::expectNamed(*window_);
            walk::expectUnclipped(*window_);
            walk::expectApart(*window_);
            walk::expectKeys(*window_);
            walk::expectContrast(*window_);
        }
    }
}

TEST_F(Controls, OfTheDialogsToo) {
    choose({QStringLiteral("fp8-delayed · s1")});
    QFile wrong(layout_.filePath(QStringLiteral("wrong.safetensors")));
    ASSERT_TRUE(wrong.open(QIODevice::WriteOnly) && wrong.write("not weights") > 0);
    wrong.close();
    for (const ThemeChoice theme : {ThemeChoice::Light, ThemeChoice::Dark}) {
        Theme::instance().setChoice(theme);
        const QString run = controller_->runs()[1].id;
        ChangeDialog fork(*controller_, run, ChangeDialog::Mode::Fork);
        CheckpointDialog weights(wrong.fileName());
        fork.show();
        weights.show();
        LaunchDialog& launch = window_->openLaunch();
        QTest::qWait(700);
        for (QDialog* dialog : std::initializer_list<QDialog*>{&launch, &fork, &weights}) {
            SCOPED_TRACE(dialog->metaObject()->className());
            walk::expectNamed(*dialog);
            walk::expectUnclipped(*dialog);
            walk::expectApart(*dialog);
            walk::expectContrast(*dialog);
            walk::expectKeys(*dialog);
        }
    }
}

}  // namespace
