// What the window says beside its pages, and which keys act where: the bell, the widths of the run list, the focus of a
// page that was opened.
#include <gtest/gtest.h>

#include <QApplication>
#include <QHeaderView>
#include <QLabel>
#include <QMenu>
#include <QTabBar>
#include <QTemporaryDir>
#include <QTest>
#include <QTimer>
#include <QToolButton>

#include "experiments/store/database.h"
#include "gui/dialogs/change_dialog.h"
#include "gui/dialogs/launch_dialog.h"
#include "gui/main_window.h"
#include "gui/pages/numerics_page.h"
#include "tests/support/synthetic_store.h"

namespace {

using namespace mantissa::gui;
using mantissa::tests::addSyntheticRun;
using mantissa::tests::SyntheticRun;

class WindowState : public testing::Test {
  protected:
    void SetUp() override {
        SyntheticRun run;
        run.steps = run.done = 60;
        run.name = "quiet";
        quiet_ = add(run);
        run.name = "amber";
        run.spikeAt = 20;
        amber_ = add(run);
        run.name = "red";
        run.nonFiniteFrom = 40;
        run.nonFiniteTo = 60;
        run.status = "diverged";
        red_ = add(run);
        settings_ = std::make_unique<Settings>(folder_.filePath(QStringLiteral("layout.json")));
        controller_ = std::make_unique<RunController>();
        window_ = std::make_unique<MainWindow>(*controller_, *settings_);
        window_->resize(1440, 900);
        window_->show();
        QApplication::setActiveWindow(window_.get());
        controller_->openStore(path());
        ASSERT_TRUE(QTest::qWaitFor([&] { return controller_->runs().size() == 3; }, 20000));
        for (auto* button : window_->findChildren<QToolButton*>())
            if (button->accessibleName() == QStringLiteral("Alerts")) bell_ = button;
        ASSERT_NE(bell_, nullptr);
    }
    void TearDown() override {
        window_.reset();
        controller_.reset();
    }
    QString path() const { return folder_.filePath(QStringLiteral("runs.mantissa")); }
    QString add(const SyntheticRun& run) { return QString::fromStdString(addSyntheticRun(path().toStdString(), run)); }
    NumericsPage* numerics() { return static_cast<NumericsPage*>(window_->page(QStringLiteral("numerics"))); }

    /// Entries of the list that the bell opens.
    int alertsListed() {
        int listed = -1;
        QTimer look;
        QObject::connect(&look, &QTimer::timeout, [&] {
            auto* menu = qobject_cast<QMenu*>(QApplication::activePopupWidget());
            if (!menu) return;
            listed = 0;
            for (const QAction* entry : menu->actions()) listed += entry->isEnabled();
            menu->close();
        });
        look.start(10);
        bell_->click();
        EXPECT_TRUE(QTest::qWaitFor([&] { return listed >= 0; }, 10000));
        return listed;
    }
    QRgb bellColour() const {
        const QImage image = bell_->icon().pixmap(32).toImage();
        for (int y = 0; y < image.height(); ++y)
            for (int x = 0; x < image.width(); ++x)
                if (image.pixelColor(x, y).alpha() == 255) return image.pixel(x, y);
        return 0;
    }

    QTemporaryDir folder_;
    QString quiet_, amber_, red_;
    std::unique_ptr<Settings> settings_;
    std::unique_ptr<RunController> controller_;
    std::unique_ptr<MainWindow> window_;
    QToolButton* bell_ = nullptr;
};

TEST_F(WindowState, TheBellCountsWhatItsListHolds) {
    const std::tuple<QString, int, Token> expected[] = {
        {red_, 2, Token::Bad}, {quiet_, 0, Token::Text2}, {amber_, 1, Token::Warn}, {red_, 2, Token::Bad}};
    for (const auto& [id, count, token] : expected) {
        window_->runList().select(id);
        EXPECT_EQ(bell_->text(), count ? QString::number(count) : QString());
        EXPECT_EQ(alertsListed(), count);
        EXPECT_EQ(bellColour(), color(token).rgb()) << count;
    }
}

TEST_F(WindowState, KeysOfAPageActOnceItIsOpened) {
    window_->runList().select(red_);
    window_->runList().table().setFocus();
    QTest::keyClick(window_.get(), Qt::Key_2, Qt::ControlModifier);
    ASSERT_EQ(window_->pageName(), QStringLiteral("numerics"));
    ASSERT_TRUE(QTest::qWaitFor([&] { return numerics()->selectedTensor() >= 0; }, 20000));
    ASSERT_NE(QApplication::focusWidget(), nullptr);
    QTest::keyClick(QApplication::focusWidget(), Qt::Key_G);
    EXPECT_EQ(numerics()->mode(), NumericsPage::Mode::Diagnosis);
    QTest::keyClick(QApplication::focusWidget(), Qt::Key_G);
    EXPECT_EQ(numerics()->mode(), NumericsPage::Mode::Heatmap);
    QTest::keyClick(QApplication::focusWidget(), Qt::Key_T);
    EXPECT_EQ(numerics()->mode(), NumericsPage::Mode::Trouble);
    // A click on the tab does the same.
    window_->openPage(QStringLiteral("live"));
    window_->runList().table().setFocus();
    auto* tabs = window_->findChild<QTabBar*>();
    QTest::mouseClick(tabs, Qt::LeftButton, Qt::NoModifier, tabs->tabRect(1).center());
    QTest::qWait(10);
    QTest::keyClick(QApplication::focusWidget(), Qt::Key_T);
    EXPECT_EQ(numerics()->mode(), NumericsPage::Mode::Heatmap);
}

TEST_F(WindowState, F1ShowsTheKeysToo) {
    const auto shown = [&] {
        for (auto* dialog : window_->findChildren<QDialog*>())
            if (dialog->isVisible() && dialog->windowTitle() == QStringLiteral("Keys")) return true;
        return false;
    };
    EXPECT_FALSE(shown());
    QTest::keyClick(window_.get(), Qt::Key_F1);
    EXPECT_TRUE(shown());
}

TEST_F(WindowState, AColumnGrowsWithTheStepsOfARun) {
    auto* list = &window_->runList().table();
    const int before = list->header()->sectionSize(RunListModel::Step);
    mantissa::experiments::Database store(path().toStdString(), mantissa::experiments::Database::Access::ReadWrite,
                                          false);
    store.exec("UPDATE run SET step = 1234567 WHERE name = 'quiet'");
    ASSERT_TRUE(QTest::qWaitFor([&] { return controller_->run(quiet_)->step == 1234567; }, 10000));
    const QString text = RunListModel::cellText(*controller_->run(quiet_), RunListModel::Step);
    const int needed = QFontMetrics(uiFont(TextSize::Body)).horizontalAdvance(text) + 18;  // 8 and 10 beside it
    ASSERT_GT(needed, before);
    EXPECT_GE(list->header()->sectionSize(RunListModel::Step), needed);
}

TEST_F(WindowState, AForkNamesTheProbesAsANewRunDoes) {
    const auto labels = [](const QWidget& dialog) {
        QStringList texts;
        for (const QLabel* label : dialog.findChildren<QLabel*>()) texts << label->text();
        return texts;
    };
    ChangeDialog fork(*controller_, quiet_, ChangeDialog::Mode::Fork);
    EXPECT_TRUE(labels(window_->openLaunch()).contains(QStringLiteral("Costly figures")));
    EXPECT_TRUE(labels(fork).contains(QStringLiteral("Costly figures"))) << labels(fork).join(u'|').toStdString();
}

}  // namespace
