// No run selected, and the store read again, on every page: by a click beside the runs, Ctrl+click, F5, and copying
// from an empty table.
#include <gtest/gtest.h>

#include <QApplication>
#include <QFile>
#include <QLabel>
#include <QMessageBox>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>
#include <QTimer>
#include <memory>

#include "gui/format/numbers.h"
#include "gui/main_window.h"
#include "gui/pages/compare_page.h"
#include "gui/widgets/figures_card.h"
#include "gui/widgets/run_card.h"
#include "tests/support/synthetic_store.h"

namespace {

using namespace mantissa::gui;
using mantissa::tests::addSyntheticRun;
using mantissa::tests::SyntheticRun;

class Selection : public testing::TestWithParam<const char*> {
  protected:
    static void SetUpTestSuite() {
        folder_ = new QTemporaryDir;
        const std::string path = folder_->filePath(QStringLiteral("runs.mantissa")).toStdString();
        SyntheticRun run;
        run.name = "bf16";
        run.fp8 = false;
        addSyntheticRun(path, run);
        run.name = "nan";
        run.fp8 = true;
        run.nonFiniteFrom = 300, run.nonFiniteTo = 600;
        run.status = "diverged";
        id_ = QString::fromStdString(addSyntheticRun(path, run));
    }
    static void TearDownTestSuite() { delete folder_; }
    void SetUp() override {
        settings_ = std::make_unique<Settings>(layout_.filePath(QStringLiteral("layout.json")));
        window_ = std::make_unique<MainWindow>(controller_, *settings_);
        window_->resize(1440, 900);
        window_->show();
        controller_.openStore(folder_->filePath(QStringLiteral("runs.mantissa")));
        ASSERT_TRUE(QTest::qWaitFor([&] { return controller_.runs().size() == 2; }, 20000));
        choose();
        window_->openPage(QString::fromLatin1(GetParam()));
        QTest::qWait(800);
    }
    void choose() {
        window_->runList().chooseMany({id_});
        ASSERT_TRUE(QTest::qWaitFor([&] { return window_->runList().selectedIds().size() == 1; }, 5000));
    }
    void expectNothingSelected() {
        ASSERT_TRUE(QTest::qWaitFor([&] { return window_->runList().selectedIds().isEmpty(); }, 5000));
        QTest::qWait(600);  // what was being read arrives
        QApplication::processEvents();
        window_->grab();
    }
    static QTemporaryDir* folder_;
    static QString id_;
    QTemporaryDir layout_;
    std::unique_ptr<Settings> settings_;
    RunController controller_;
    std::unique_ptr<MainWindow> window_;
};
QTemporaryDir* Selection::folder_ = nullptr;
QString Selection::id_;

/// Runs that differ in their name alone; their ids.
QStringList addRuns(const QString& path, int count) {
    SyntheticRun run;
    run.scalarsOnly = true;
    QStringList ids;
    for (int i = 0; i < count; ++i) {
        run.name = "run " + std::to_string(i);
        ids << QString::fromStdString(addSyntheticRun(path.toStdString(), run));
    }
    return ids;
}

/// A run and its repeat with the same settings and seed are two on Compare; of very many the page says how many it
/// drew.
TEST(CompareRepeats, AreShownOrCounted) {
    QTemporaryDir folder;
    const QString path = folder.filePath(QStringLiteral("runs.mantissa"));
    const QStringList ids = addRuns(path, 9);
    RunController controller;
    controller.openStore(path);
    ASSERT_TRUE(QTest::qWaitFor([&] { return controller.runs().size() == 9; }, 20000));
    ComparePage page(controller);
    page.resize(1136, 817);
    page.show();
    const auto hint = [&] {
        QStringList texts;
        for (const QLabel* label : page.findChildren<QLabel*>()) texts << label->text();
        return texts.join(QLatin1Char('|'));
    };
    page.setVisibleRuns(ids.mid(0, 2));
    page.setRun(ids[0]);
    const auto* tiles = page.findChild<FiguresCard*>();
    ASSERT_TRUE(QTest::qWaitFor(  // until the comparison has been read
        [&] { return !tiles->figures().empty() && tiles->figures()[0].value != notMeasured(); }, 20000));
    EXPECT_EQ(tiles->figures().size(), 2u);
    EXPECT_TRUE(QTest::qWaitFor([&] { return page.finalNumbers()->rowCount() == 2; }, 5000));
    EXPECT_TRUE(QTest::qWaitFor([&] { return page.curvesView()->content().curves.size() == 2; }, 5000));
    page.setVisibleRuns(ids);
    EXPECT_TRUE(QTest::qWaitFor(
        [&] { return hint().contains(QStringLiteral("8 with settings and seed of a later one left out")); }, 20000))
        << hint().toStdString();
}

/// A store moved away under an open window is told; another one put in its place is read.
TEST(RunControllerFile, AStoreReplacedOnDiskIsReadAnew) {
    QTemporaryDir folder;
    const QString path = folder.filePath(QStringLiteral("runs.mantissa")),
                  other = folder.filePath(QStringLiteral("other.mantissa"));
    SyntheticRun run;
    run.name = "first";
    addSyntheticRun(path.toStdString(), run);
    run.name = "another";
    addSyntheticRun(other.toStdString(), run);
    RunController controller;
    QStringList problems;
    QObject::connect(&controller, &RunController::problem, &controller,
                     [&problems](const QString& text) { problems << text; });
    controller.openStore(path);
    ASSERT_TRUE(QTest::qWaitFor([&] { return controller.runs().size() == 1; }, 20000));
    for (const char* suffix : {"", "-wal", "-shm"}) QFile::remove(path + QLatin1String(suffix));
    EXPECT_TRUE(QTest::qWaitFor([&] { return !problems.isEmpty(); }, 20000));
    EXPECT_TRUE(problems.value(0).contains(QStringLiteral("moved or deleted")))
        << problems.join(QLatin1Char('|')).toStdString();
    ASSERT_TRUE(QFile::rename(other, path));
    EXPECT_TRUE(QTest::qWaitFor(
        [&] { return controller.runs().size() == 1 && controller.runs().first().name == QStringLiteral("another"); },
        20000));
    EXPECT_EQ(problems.size(), 2) << problems.join(QLatin1Char('|')).toStdString();
}

/// With the old file's log beside it SQLite would spoil the new file: it is not opened, and the window says why.
TEST(RunControllerFile, AStoreReplacedBesideTheOldLogIsLeftAlone) {
    QTemporaryDir folder;
    const QString path = folder.filePath(QStringLiteral("runs.mantissa")),
                  other = folder.filePath(QStringLiteral("other.mantissa"));
    SyntheticRun run;
    run.scalarsOnly = true;
    run.name = "first";
    const QString id = QString::fromStdString(addSyntheticRun(path.toStdString(), run));
    run.name = "another";
    addSyntheticRun(other.toStdString(), run);
    RunController controller;
    QStringList problems;
    QObject::connect(&controller, &RunController::problem, &controller,
                     [&problems](const QString& text) { problems << text; });
    controller.openStore(path);
    ASSERT_TRUE(QTest::qWaitFor([&] { return controller.runs().size() == 1; }, 20000));
    controller.rename(id, QStringLiteral("renamed"));  // a commit: its log stands beside the file
    ASSERT_TRUE(QTest::qWaitFor([&] { return controller.runs().first().name == QStringLiteral("renamed"); }, 20000));
    QTest::qWait(600);
    ASSERT_TRUE(QFile::exists(path + QStringLiteral("-wal")));
    ASSERT_TRUE(QFile::remove(path));
    ASSERT_TRUE(QFile::rename(other, path));
    EXPECT_TRUE(
        QTest::qWaitFor([&] { return problems.join(QLatin1Char('|')).contains(QStringLiteral("-wal")); }, 20000));
    QTest::qWait(500);
    EXPECT_EQ(controller.runs().size(), 1);
    EXPECT_EQ(controller.runs().first().name, QStringLiteral("renamed"));
}

/// Delete asks for all selected runs at once, with Cancel under the Return key, and takes them all.
TEST(DeleteRuns, TheKeyTakesAllThatAreSelected) {
    QTemporaryDir folder;
    const QString path = folder.filePath(QStringLiteral("runs.mantissa"));
    const QStringList ids = addRuns(path, 3);
    Settings settings(folder.filePath(QStringLiteral("layout.json")));
    RunController controller;
    MainWindow window(controller, settings);
    window.show();
    controller.openStore(path);
    ASSERT_TRUE(QTest::qWaitFor([&] { return controller.runs().size() == 3; }, 20000));
    window.runList().chooseMany(ids.mid(0, 2));
    ASSERT_TRUE(QTest::qWaitFor([&] { return window.runList().selectedIds().size() == 2; }, 5000));
    QString asked;
    const auto answer = [&](bool yes) {
        QTimer::singleShot(300, &window, [&asked, yes] {
            auto* box = qobject_cast<QMessageBox*>(QApplication::activeModalWidget());
            if (!box) return;
            asked = box->text();
            if (!yes) return QTest::keyClick(box, Qt::Key_Return);
            for (QAbstractButton* button : box->buttons())
                if (box->buttonRole(button) == QMessageBox::DestructiveRole) return button->click();
        });
        QApplication::setActiveWindow(&window);
        window.runList().table().setFocus();
        QTest::keyClick(&window.runList().table(), Qt::Key_Delete);
    };
    answer(false);
    EXPECT_TRUE(asked.startsWith(QStringLiteral("2 runs"))) << asked.toStdString();
    QTest::qWait(400);
    EXPECT_EQ(controller.runs().size(), 3) << "Return cancels";
    answer(true);
    EXPECT_TRUE(QTest::qWaitFor([&] { return controller.runs().size() == 1; }, 20000));
    EXPECT_EQ(controller.runs().first().id, ids[2]);
}

TEST_P(Selection, AClickBesideTheRunsLeavesNoneSelected) {
    QWidget* list = window_->runList().table().viewport();
    QTest::mouseClick(list, Qt::LeftButton, Qt::NoModifier, QPoint(list->width() / 2, list->height() - 5));
    expectNothingSelected();
    choose();
    QTest::mouseClick(list, Qt::LeftButton, Qt::NoModifier, QPoint(list->width() / 2, list->height() - 5));
    expectNothingSelected();  // at once, while the run is being read
    choose();
    QTest::qWait(300);
}

/// The card of several runs follows the pin, also while the selection stays.
TEST_P(Selection, TheCardOfManyNamesTheBaseline) {
    QStringList ids;
    for (const RunInfo& run : controller_.runs()) ids << run.id;
    window_->runList().chooseMany(ids);
    auto* card = window_->findChild<RunCard*>();
    ASSERT_NE(card, nullptr);
    const auto says = [&](const char* words) {
        return QTest::qWaitFor([&] { return card->asText().contains(QLatin1String(words)); }, 10000);
    };
    EXPECT_TRUE(says("2 runs selected"));
    EXPECT_TRUE(says("none pinned"));
    controller_.setBaseline(id_);
    EXPECT_TRUE(says("Baseline\tnan") || says("Baseline: nan")) << card->asText().toStdString();
    controller_.setBaseline({});
    EXPECT_TRUE(says("none pinned"));
}

TEST_P(Selection, TheStoreIsReadAgain) {
    for (int i = 0; i < 3; ++i) {
        QTest::keyClick(window_.get(), Qt::Key_F5);
        QTest::qWait(i == 0 ? 1000 : 20);
    }
    ASSERT_TRUE(QTest::qWaitFor([&] { return window_->runList().selectedIds() == QStringList{id_}; }, 10000));
    QTest::qWait(800);
    window_->grab();
}

TEST_P(Selection, AnEmptyTableCopiesNothing) {
    for (QTableView* table : window_->findChildren<QTableView*>()) {
        if (!table->isVisible()) continue;
        table->setFocus();
        QTest::keyClick(table, Qt::Key_C, Qt::ControlModifier);
        QTest::mouseClick(table->viewport(), Qt::LeftButton, Qt::NoModifier, table->viewport()->rect().center());
        QTest::keyClick(table, Qt::Key_C, Qt::ControlModifier);
    }
}

INSTANTIATE_TEST_SUITE_P(Pages, Selection,
                         testing::Values("live", "numerics", "compare", "ladder", "formats", "device", "diagnosis",
                                         "trouble"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
