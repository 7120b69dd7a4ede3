// The Ladder page: an empty plan with its cost, a ladder of the preset tiny run by its buttons, one rung filled again,
// stop, the sweep, export.
#include "gui/pages/ladder_page.h"

#include <gtest/gtest.h>

#include <QApplication>
#include <QComboBox>
#include <QDir>
#include <QLineEdit>
#include <QPushButton>
#include <QSignalSpy>
#include <QSpinBox>
#include <QTemporaryDir>
#include <QTest>
#include <QToolButton>

#include "gui/controller/run_controller.h"
#include "gui/theme/theme.h"
#include "gui/widgets/figures_card.h"
#include "gui/widgets/ladder_charts.h"
#include "gui/widgets/ladder_rows.h"

namespace mantissa::gui {
namespace {

using experiments::RungState;

class LadderPageTest : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        // A text of its own, so that no package has to be there.
        data_ = new QTemporaryDir;
        qputenv("XDG_DATA_HOME", data_->path().toLocal8Bit());
        QDir(data_->path()).mkpath(QStringLiteral("mantissa/text"));
        QFile text(data_->filePath(QStringLiteral("mantissa/text/kjv.txt")));
        ASSERT_TRUE(text.open(QIODevice::WriteOnly));
        for (int line = 0; line < 40000; ++line)
            text.write(QByteArray::number(line) + " and the evening and the morning were\n");
    }
    static void TearDownTestSuite() { delete data_; }
    void SetUp() override {
        QSignalSpy opened(&controller_, &RunController::storeOpened);
        controller_.openStore(folder_.filePath(QStringLiteral("runs.mantissa")));
        ASSERT_TRUE(opened.count() > 0 || opened.wait(20000));
        page_ = std::make_unique<LadderPage>(controller_);
        page_->resize(1136, 800);
        page_->choosePreset(QStringLiteral("tiny"));
        page_->show();
        ASSERT_TRUE(QTest::qWaitFor([&] { return page_->view().rungs != nullptr; }, 20000));
        box("Warm-up")->setValue(1);
        box("Timed")->setValue(3);
    }
    void TearDown() override { page_.reset(); }
    QSpinBox* box(const char* name) {
        for (auto* found : page_->findChildren<QSpinBox*>())
            if (found->accessibleName() == QLatin1String(name)) return found;
        return nullptr;
    }
    QToolButton* tool(const char* name) {
        for (auto* found : page_->findChildren<QToolButton*>())
            if (found->accessibleName() == QLatin1String(name)) return found;
        return nullptr;
    }
    bool shows(const QString& words) {
        for (auto* label : page_->findChildren<QLabel*>())
            if (label->isVisible() && label->text().contains(words)) return true;
        return false;
    }
    bool waitForEnd() {
        return QTest::qWaitFor([&] { return !page_->busy(); }, 120000);
    }
    std::vector<RungState> states() {
        std::vector<RungState> result;
        for (const auto& rung : page_->view().rungs->rungs) result.push_back(rung.state);
        return result;
    }
    bool waitForStates(const std::vector<RungState>& wanted) {
        return QTest::qWaitFor([&] { return states() == wanted; }, 120000);
    }
    /// Saves a picture in both themes when MANTISSA_SHOTS names a folder.
    void shoot(const QString& name) {
        const QString folder = qEnvironmentVariable("MANTISSA_SHOTS");
        if (folder.isEmpty()) return;
        page_->tools()->hide();
        for (ThemeChoice theme : {ThemeChoice::Light, ThemeChoice::Dark}) {
            Theme::instance().setChoice(theme);
            QTest::qWait(200);
            QImage image(page_->size(), QImage::Format_RGB32);
            image.fill(color(Token::Window));
            page_->render(&image, QPoint(), QRegion(), QWidget::DrawChildren);
            image.save(
                QStringLiteral("%1/%2-%3.png")
                    .arg(folder, name, theme == ThemeChoice::Dark ? QStringLiteral("dark") : QStringLiteral("light")));
        }
    }
    static QTemporaryDir* data_;
    QTemporaryDir folder_;
    RunController controller_;
    std::unique_ptr<LadderPage> page_;
};
QTemporaryDir* LadderPageTest::data_ = nullptr;

const std::vector<RungState> kNone(7, RungState::NotRun), kAll(7, RungState::Measured);

TEST_F(LadderPageTest, ShowsThePlanThenRunsAllRungsAndFillsOneAgain) {
    EXPECT_EQ(states(), kNone);
    for (int i = 0; i < 7; ++i) {
        EXPECT_TRUE(page_->rows().runButton(i)->isVisible());
        EXPECT_FALSE(page_->rows().runButton(i)->accessibleName().isEmpty());
    }
    ASSERT_EQ(page_->figures().figures().size(), 2u);
    EXPECT_EQ(page_->figures().figures()[1].label, QStringLiteral("Will take about"));
    EXPECT_FALSE(tool("Export")->isEnabled());
    shoot(QStringLiteral("ladder-empty"));

    QTest::mouseClick(tool("Run ladder"), Qt::LeftButton);
    EXPECT_TRUE(page_->busy());
    EXPECT_TRUE(QTest::qWaitFor([&] { return !page_->statusText().isEmpty(); }, 60000)) << "the status bar says where";
    EXPECT_FALSE(page_->rows().runButton(5)->isVisible()) << "one ladder at a time";
    ASSERT_TRUE(waitForEnd());
    ASSERT_TRUE(waitForStates(kAll));
    const auto first = page_->view().rungs;
    EXPECT_EQ(page_->figures().figures()[0].label, QStringLiteral("Fastest rung"));
    EXPECT_EQ(page_->rows().asText().count(QLatin1Char('\n')), 8);
    EXPECT_TRUE(page_->rows().accessibleDescription().contains(QStringLiteral("fused AdamW")));
    for (const auto& rung : first->rungs) EXPECT_EQ(rung.timedSteps, 3);
    shoot(QStringLiteral("ladder-tiny"));

    // A run that is deleted leaves an empty row; its button fills that row alone.
    controller_.deleteRun(QString::fromStdString(first->rungs[2].run));
    std::vector<RungState> oneLess = kAll;
    oneLess[2] = RungState::NotRun;
    ASSERT_TRUE(waitForStates(oneLess));
    ASSERT_TRUE(page_->rows().runButton(2)->isVisible());
    EXPECT_FALSE(page_->rows().runButton(1)->isVisible());
    QTest::mouseClick(page_->rows().runButton(2), Qt::LeftButton);
    ASSERT_TRUE(waitForEnd());
    ASSERT_TRUE(waitForStates(kAll));
    EXPECT_EQ(page_->view().rungs->id, first->id);
    EXPECT_NE(page_->view().rungs->rungs[2].run, first->rungs[2].run);
    EXPECT_EQ(page_->view().rungs->rungs[3].run, first->rungs[3].run);

    QSignalSpy opened(page_.get(), &LadderPage::runRequested);
    page_->rows().setFocus();
    QTest::keyClick(&page_->rows(), Qt::Key_Down);
    QTest::keyClick(&page_->rows(), Qt::Key_Return);
    ASSERT_EQ(opened.count(), 1);
    EXPECT_EQ(opened[0][0].toString().toStdString(), first->rungs[0].run);

    for (const char* name : {"l.png", "l.svg", "l.csv"}) {
        const QString path = folder_.filePath(QLatin1String(name));
        EXPECT_TRUE(page_->exportTo(path, *first));
        EXPECT_TRUE(QTest::qWaitFor([&] { return QFile::exists(path); }, 10000)) << name;
    }
    const QImage picture(folder_.filePath(QStringLiteral("l.png")));
    EXPECT_EQ(picture.width(), 1100) << "what we pack reads as a PNG";
    EXPECT_FALSE(page_->exportTo(folder_.filePath(QStringLiteral("l.gif")), *first));
}

/// A store with a ladder opens on it, whichever model it is of, until a model is picked.
TEST_F(LadderPageTest, OpensOnTheNewestLadderOfTheStore) {
    {
        experiments::RunStore store(folder_.filePath(QStringLiteral("runs.mantissa")).toStdString(),
                                    experiments::RunStore::Mode::ReadWrite);
        for (const char* preset : {"minigpt", "gpt2-124m"}) {
            experiments::LadderDocument document;
            document.id = preset == std::string("minigpt") ? "01A" : "01B";
            document.request.base = experiments::presetSpec(preset);
            document.device = "cpu";
            experiments::writeLadder(store, document);
        }
    }
    LadderPage fresh(controller_);
    fresh.show();
    EXPECT_TRUE(QTest::qWaitFor([&] { return fresh.preset() == QStringLiteral("gpt2-124m"); }, 20000))
        << fresh.preset().toStdString();
    ASSERT_TRUE(fresh.view().rungs);
    EXPECT_EQ(fresh.view().rungs->id, "01B");
    fresh.choosePreset(QStringLiteral("tiny"));
    ASSERT_TRUE(QTest::qWaitFor([&] { return fresh.view().preset == QStringLiteral("tiny"); }, 20000));
    QTest::qWait(300);
    EXPECT_EQ(fresh.preset(), QStringLiteral("tiny"));
}

TEST_F(LadderPageTest, StopsAndSaysSo) {
    box("Timed")->setValue(100000);
    QTest::mouseClick(tool("Run ladder"), Qt::LeftButton);
    ASSERT_TRUE(QTest::qWaitFor([&] { return tool("Stop") && tool("Stop")->isEnabled(); }, 60000));
    QTest::mouseClick(tool("Stop"), Qt::LeftButton);  // the second half of a double click
    QTest::qWait(QApplication::doubleClickInterval() + 50);
    ASSERT_TRUE(page_->busy());
    QTest::mouseClick(tool("Stop"), Qt::LeftButton);
    ASSERT_TRUE(waitForEnd());
    std::vector<RungState> wanted = kNone;
    wanted[0] = RungState::Stopped;
    EXPECT_TRUE(waitForStates(wanted));
    EXPECT_TRUE(page_->rows().runButton(0)->isVisible());
    shoot(QStringLiteral("ladder-stopped"));
}

/// A ladder that was stopped at once does not hide the measured one before it; while it goes it is the one shown.
TEST_F(LadderPageTest, AStoppedLadderHidesNoMeasuredOne) {
    page_->runRungs({"bf16"});
    ASSERT_TRUE(waitForEnd());
    std::vector<RungState> measured = kNone;
    measured[3] = RungState::Measured;
    ASSERT_TRUE(waitForStates(measured));
    const std::string id = page_->view().rungs->id;
    box("Timed")->setValue(100000);
    QTest::mouseClick(tool("Run ladder"), Qt::LeftButton);
    ASSERT_TRUE(QTest::qWaitFor([&] { return page_->view().rungs->id != id; }, 60000));
    page_->stop();
    ASSERT_TRUE(waitForEnd());
    ASSERT_TRUE(waitForStates(measured));
    EXPECT_EQ(page_->view().rungs->id, id);
    EXPECT_TRUE(page_->view().newerStopped);
    EXPECT_TRUE(shows(QStringLiteral("a newer one was stopped")));
}

TEST_F(LadderPageTest, AnExportThatCannotBeWrittenIsSaid) {
    QSignalSpy done(&controller_, &RunController::done);
    const QString good = folder_.filePath(QStringLiteral("ladder.csv"));
    EXPECT_TRUE(page_->exportTo(good, *page_->view().rungs));
    ASSERT_TRUE(done.count() > 0 || done.wait(20000));
    EXPECT_TRUE(QFile::exists(good));
    page_->exportTo(folder_.filePath(QStringLiteral("absent/ladder.png")), *page_->view().rungs);
    EXPECT_TRUE(QTest::qWaitFor([&] { return shows(QStringLiteral("absent/ladder.png: ")); }, 20000));
}

TEST_F(LadderPageTest, SweepsWidthsAndRefusesWrongOnes) {
    QLineEdit* widths = nullptr;
    for (auto* found : page_->findChildren<QLineEdit*>())
        if (found->accessibleName() == QStringLiteral("Widths of the sweep")) widths = found;
    ASSERT_NE(widths, nullptr);
    EXPECT_EQ(widths->placeholderText(), QStringLiteral("32, 64, 128, 256"));
    widths->setText(QStringLiteral("32, 50"));
    QTest::mouseClick(tool("Run the sweep over widths"), Qt::LeftButton);
    ASSERT_TRUE(QTest::qWaitFor([&] { return !page_->busy(); }, 60000));
    EXPECT_TRUE(shows(QStringLiteral("multiples of 32")));
    EXPECT_TRUE(widths->property("wrong").toBool());
    widths->setText(QStringLiteral("abc, 64"));
    QTest::mouseClick(tool("Run the sweep over widths"), Qt::LeftButton);
    EXPECT_FALSE(page_->busy());
    EXPECT_TRUE(shows(QStringLiteral("\"abc\" is no width")));
    widths->setText(QStringLiteral("32, 64"));
    QTest::mouseClick(tool("Run the sweep over widths"), Qt::LeftButton);
    ASSERT_TRUE(QTest::qWaitFor([&] { return !page_->busy(); }, 120000));
    ASSERT_TRUE(QTest::qWaitFor([&] { return page_->chart().asText().count(QLatin1Char('\n')) == 3; }, 20000));
    EXPECT_FALSE(page_->chart().accessibleDescription().isEmpty());
    EXPECT_EQ(states(), kNone) << "the sweep is not the ladder";
    shoot(QStringLiteral("ladder-widths"));
}

}  // namespace
}  // namespace mantissa::gui
