// The whole window on an empty store: names and tooltips of every control, no clipped text, keys, launch dialog, start
// of a run.
#include "gui/main_window.h"

#include <gtest/gtest.h>

#include <QAbstractButton>
#include <QApplication>
#include <QComboBox>
#include <QLineEdit>
#include <QListWidget>
#include <QPlainTextEdit>
#include <QScrollArea>
#include <QSignalSpy>
#include <QStackedWidget>
#include <QTabBar>
#include <QTemporaryDir>
#include <QTest>
#include <QTreeView>
#include <memory>
#include <tuple>

#include "gui/dialogs/launch_dialog.h"
#include "gui/pages/formats_page.h"
#include "gui/widgets/command_palette.h"
#include "gui/widgets/format_widgets.h"
#include "gui/widgets/run_card.h"
#include "tests/gui/widget_walk.h"

namespace {

using namespace mantissa::gui;

bool waitFor(const std::function<bool()>& condition, int milliseconds = 20000) {
    return QTest::qWaitFor(condition, milliseconds);
}

class Window : public testing::Test {
  protected:
    void SetUp() override {
        settings_ = std::make_unique<Settings>(folder_.filePath(QStringLiteral("layout.json")));
        controller_ = std::make_unique<RunController>();
        window_ = std::make_unique<MainWindow>(*controller_, *settings_);
        window_->show();
        QSignalSpy opened(controller_.get(), &RunController::storeOpened);
        controller_->openStore(folder_.filePath(QStringLiteral("runs.mantissa")));
        ASSERT_TRUE(opened.count() > 0 || opened.wait(20000));
        ASSERT_TRUE(controller_->store().open);
    }
    void TearDown() override {
        window_.reset();
        controller_.reset();
    }
    void key(int key, Qt::KeyboardModifiers modifiers = Qt::NoModifier) {
        QApplication::setActiveWindow(window_.get());
        QTest::keyClick(window_.get(), static_cast<Qt::Key>(key), modifiers);
    }

    QTemporaryDir folder_;
    std::unique_ptr<Settings> settings_;
    std::unique_ptr<RunController> controller_;
    std::unique_ptr<MainWindow> window_;
};

TEST_F(Window, EveryControlHasANameAndATooltip) {
    walk::expectNamed(*window_);
    LaunchDialog& dialog = window_->openLaunch();
    walk::expectNamed(dialog);
}

/// Beside each other, never over each other: the list, the fields and the forecast of New run in the smallest window.
TEST_F(Window, TheColumnsOfNewRunDoNotOverlap) {
    window_->resize(1024, 640);
    window_->openLaunchPreset(QStringLiteral("tiny"));
    LaunchDialog& dialog = window_->openLaunch();
    QTest::qWait(100);
    QScrollArea *fields = nullptr, *forecast = nullptr;
    for (QScrollArea* area : dialog.findChildren<QScrollArea*>()) {
        if (area->accessibleName() == QLatin1String("Fields")) fields = area;
        if (area->accessibleName() == QLatin1String("Forecast")) forecast = area;
    }
    ASSERT_TRUE(fields && forecast);
    EXPECT_LE(dialog.width(), 1024);
    EXPECT_LT(fields->geometry().right(), forecast->geometry().left());
    EXPECT_LE(forecast->geometry().right(), dialog.width());
    EXPECT_EQ(fields->widget()->width(), fields->viewport()->width()) << "no field is cut off";
    const auto* presets = dialog.findChild<QListWidget*>();
    ASSERT_TRUE(presets && presets->currentItem());
    EXPECT_EQ(presets->currentItem()->text(), QStringLiteral("tiny"));
}

TEST_F(Window, NoTextIsClippedAtBothSizes) {
    for (const QSize size : {QSize(1440, 900), QSize(1024, 640)}) {
        window_->resize(size);
        for (const char* name : {"live", "ladder", "formats", "device"}) {
            window_->openPage(QLatin1String(name));
            QTest::qWait(50);
            SCOPED_TRACE(name);
            walk::expectUnclipped(*window_);
        }
        EXPECT_EQ(window_->size(), size);
    }
    LaunchDialog& dialog = window_->openLaunch();
    QTest::qWait(300);
    walk::expectUnclipped(dialog);
}

TEST_F(Window, KeysOpenPages) {
    for (int i = 0; i < window_->findChild<QTabBar*>()->count(); ++i) {
        window_->openPage(QStringLiteral("device"));
    }
    window_->openPage(QStringLiteral("formats"));
    EXPECT_EQ(window_->pageName(), QStringLiteral("formats"));
    key(Qt::Key_6, Qt::ControlModifier);
    EXPECT_EQ(window_->pageName(), QStringLiteral("device"));
    key(Qt::Key_5, Qt::ControlModifier);
    EXPECT_EQ(window_->pageName(), QStringLiteral("formats"));
}

TEST_F(Window, AllTabsHaveRoomBesideEveryPagesTools) {
    auto* tabs = window_->findChild<QTabBar*>();
    for (const QSize size : {QSize(1440, 900), QSize(1280, 720), QSize(1100, 700), QSize(1024, 640)}) {
        window_->resize(size);
        for (int i = 0; i < tabs->count(); ++i) {
            tabs->setCurrentIndex(i);
            QTest::qWait(50);
            EXPECT_LE(tabs->tabRect(tabs->count() - 1).right(), tabs->width())
                << size.width() << " wide, " << window_->pageName().toStdString();
        }
    }
}

TEST_F(Window, ANarrowRunListKeepsItsNames) {
    auto* table = window_->runList().findChild<QTreeView*>();
    window_->resize(1440, 900);
    QTest::qWait(20);
    EXPECT_FALSE(table->isColumnHidden(RunListModel::Step));
    window_->runList().resize(224, 600);
    EXPECT_TRUE(table->isColumnHidden(RunListModel::Step));
}

TEST_F(Window, ControlBHidesTheRunList) {
    window_->resize(1440, 900);
    EXPECT_TRUE(window_->runList().isVisible());
    key(Qt::Key_B, Qt::ControlModifier);
    EXPECT_FALSE(window_->runList().isVisible());
    key(Qt::Key_B, Qt::ControlModifier);
    EXPECT_TRUE(window_->runList().isVisible());
    window_->resize(1024, 640);
    EXPECT_FALSE(window_->runList().isVisible());
}

TEST_F(Window, PaletteRunsACommand) {
    key(Qt::Key_K, Qt::ControlModifier);
    auto* palette = window_->findChild<CommandPalette*>();
    ASSERT_TRUE(palette);
    QTest::keyClicks(palette->field(), QStringLiteral("formats"));
    QTest::keyClick(palette->field(), Qt::Key_Return);
    EXPECT_TRUE(waitFor([this] { return window_->pageName() == QLatin1String("formats"); }, 2000));
}

TEST_F(Window, NoRunMeansNoRunControls) {
    for (QAction* action : window_->allActions())
        if (action->shortcut() == QKeySequence(QStringLiteral("Ctrl+P")) ||
            action->shortcut() == QKeySequence(QStringLiteral("Ctrl+S"))) {
            EXPECT_FALSE(action->isEnabled());
            EXPECT_FALSE(action->toolTip().isEmpty());
        }
}

TEST_F(Window, LaunchShowsErrorUnderItsFieldAndStartIsOff) {
    key(Qt::Key_N, Qt::ControlModifier);
    LaunchDialog& dialog = window_->openLaunch();
    ASSERT_TRUE(dialog.startButton()->isEnabled());
    auto* rate = static_cast<QLineEdit*>(dialog.form().input(QStringLiteral("optimizer.learning_rate")));
    rate->selectAll();
    QTest::keyClicks(rate, QStringLiteral("-3"));
    EXPECT_FALSE(dialog.startButton()->isEnabled());
    ASSERT_EQ(dialog.form().errors().size(), 1);
    EXPECT_EQ(dialog.form().errors().first().title, QStringLiteral("Learning rate"));
    EXPECT_TRUE(rate->property("wrong").toBool());
    EXPECT_TRUE(dialog.startButton()->toolTip().contains(QLatin1String("Learning rate")));
    rate->selectAll();
    QTest::keyClicks(rate, QStringLiteral("abc"));
    EXPECT_FALSE(dialog.startButton()->isEnabled());
    rate->selectAll();
    QTest::keyClicks(rate, QStringLiteral("2e-4"));
    EXPECT_TRUE(dialog.startButton()->isEnabled());
    EXPECT_FLOAT_EQ(dialog.form().spec().trainer.optimizer.learningRate, 2e-4f);
    auto* rules = static_cast<QLineEdit*>(dialog.form().input(QStringLiteral("precision.rules")));
    QTest::keyClicks(rules, QStringLiteral("*.attn.prj"));
    EXPECT_FALSE(dialog.startButton()->isEnabled());
    rules->selectAll();
    QTest::keyClicks(rules, QStringLiteral("*.attn.proj"));
    EXPECT_TRUE(dialog.startButton()->isEnabled());
}

TEST_F(Window, LaunchMarksThePresetThatFillsItsForm) {
    LaunchDialog& dialog = window_->openLaunch();
    ASSERT_NE(dialog.presetList().currentItem(), nullptr);
    EXPECT_EQ(dialog.presetList().currentItem()->text(), QStringLiteral("nano"));
    EXPECT_EQ(dialog.form().name(), QStringLiteral("nano-fp8-delayed-s1"));
    dialog.presetList().setFocus();
    EXPECT_EQ(dialog.form().name(), QStringLiteral("nano-fp8-delayed-s1")) << "the focus alone chooses nothing";
}

TEST_F(Window, LaunchBeginsOnStartAndReturnStarts) {
    LaunchDialog& dialog = window_->openLaunch();
    dialog.form().setSpec(mantissa::experiments::presetSpec("tiny"));
    ASSERT_TRUE(waitFor([&] { return dialog.startButton()->isEnabled(); }, 5000));
    ASSERT_EQ(dialog.focusWidget(), dialog.startButton()) << "a keyboard begins on Start, not on a button of the head";
    QApplication::setActiveWindow(&dialog);
    QTest::keyClick(dialog.startButton(), Qt::Key_Return);
    EXPECT_TRUE(waitFor([&] { return !controller_->runs().isEmpty(); }, 10'000));
    controller_->stopAll(true);
    EXPECT_TRUE(waitFor([&] { return !controller_->ownsGoingRuns(); }));
}

TEST_F(Window, LaunchKeepsEveryRecipeOfASpec) {
    LaunchDialog& dialog = window_->openLaunch();
    for (const char* recipe : {"delayed", "current", "fixed", "block128", "mxfp8", "nvfp4"}) {
        auto spec = mantissa::experiments::presetSpec("nano");
        ASSERT_TRUE(
            mantissa::experiments::setPath(spec, "precision.recipe", std::string("\"") + recipe + "\"").empty());
        dialog.form().setSpec(spec);
        EXPECT_EQ(dialog.form().spec().trainer.precision.recipe, spec.trainer.precision.recipe) << recipe;
        EXPECT_TRUE(dialog.startButton()->isEnabled()) << recipe << dialog.startButton()->toolTip().toStdString();
    }
}

/// The suggested name gives way to the first key, and comes back where the field is left empty.
TEST_F(Window, LaunchTakesATypedName) {
    LaunchDialog& dialog = window_->openLaunch();
    SpecForm& form = dialog.form();
    auto* name = static_cast<QLineEdit*>(form.input(QStringLiteral("name")));
    const QString suggested = form.name();
    ASSERT_FALSE(suggested.isEmpty());
    name->selectAll();
    QTest::keyClicks(name, QStringLiteral("healthy"));
    EXPECT_EQ(form.name(), QStringLiteral("healthy"));
    auto* seed = static_cast<QLineEdit*>(form.input(QStringLiteral("seed")));
    ASSERT_NE(seed, nullptr);
    seed->selectAll();
    QTest::keyClicks(seed, QStringLiteral("7"));
    EXPECT_EQ(form.name(), QStringLiteral("healthy")) << "another field does not touch a typed name";
    name->selectAll();
    QTest::keyClick(name, Qt::Key_Delete);
    EXPECT_EQ(form.name(), QString()) << "not while it is being typed";
    QTest::keyClick(name, Qt::Key_Tab);
    Q_EMIT name->editingFinished();
    EXPECT_TRUE(form.name().endsWith(QStringLiteral("s7"))) << form.name().toStdString();
}

TEST_F(Window, LaunchPlantsAFault) {
    LaunchDialog& dialog = window_->openLaunch();
    SpecForm& form = dialog.form();
    const auto line = [&](const char* path) { return static_cast<QLineEdit*>(form.input(QLatin1String(path))); };
    auto* kind = static_cast<QComboBox*>(form.input(QStringLiteral("faults.kind")));
    auto* target = static_cast<QComboBox*>(form.input(QStringLiteral("faults.target")));
    EXPECT_TRUE(form.spec().trainer.faults.empty());
    EXPECT_FALSE(target->isVisibleTo(&dialog));
    kind->setCurrentIndex(kind->findText(QStringLiteral("scale never updated")));
    EXPECT_TRUE(target->isVisibleTo(&dialog));
    EXPECT_TRUE(dialog.startButton()->isEnabled()) << dialog.startButton()->toolTip().toStdString();
    EXPECT_EQ(target->count(), 4 * 4 * 3);
    const auto type = [](QLineEdit* edit, const char* text) {
        edit->selectAll();
        QTest::keyClicks(edit, QLatin1String(text));
    };
    type(target->lineEdit(), "h.2.mlp.fc1/grad_output");
    type(line("faults.step"), "30");
    ASSERT_EQ(form.spec().trainer.faults.size(), 1u);
    EXPECT_EQ(mantissa::experiments::getPath(form.spec(), "faults"),
              R"([{"kind":"never_update","step":30,"target":"h.2.mlp.fc1/grad_output","channel":0,"value":1000.0}])");
    EXPECT_TRUE(dialog.startButton()->isEnabled());
    // A tensor that is none, a step that is none, a channel beyond the tensor's end: under the field, in a sentence.
    type(target->lineEdit(), "h.9.mlp.fc1/grad_output");
    EXPECT_FALSE(dialog.startButton()->isEnabled());
    ASSERT_EQ(form.errors().size(), 1);
    EXPECT_EQ(form.errors().first().title, QStringLiteral("Tensor"));
    EXPECT_TRUE(target->property("wrong").toBool());
    EXPECT_FALSE(line("faults.step")->property("wrong").toBool());
    EXPECT_TRUE(form.errors().first().message.contains(QStringLiteral("no such tensor")))
        << form.errors().first().message.toStdString();
    type(target->lineEdit(), "h.2.mlp.fc1/grad_output");
    type(line("faults.step"), "0");
    EXPECT_FALSE(dialog.startButton()->isEnabled());
    type(line("faults.step"), "30");
    kind->setCurrentIndex(kind->findText(QStringLiteral("outlier channel")));
    EXPECT_EQ(target->currentText(), QStringLiteral("h.2.mlp.fc1/input"));
    EXPECT_TRUE(dialog.startButton()->isEnabled()) << dialog.startButton()->toolTip().toStdString();
    type(line("faults.channel"), "128");
    EXPECT_FALSE(dialog.startButton()->isEnabled());
    EXPECT_TRUE(form.errors().first().message.contains(QStringLiteral("allowed: 0 ... 127")));
    type(line("faults.channel"), "127");
    type(line("faults.value"), "50");
    EXPECT_TRUE(dialog.startButton()->isEnabled());
    EXPECT_EQ(form.spec().trainer.faults.front().value, 50);
    // A spec with two: the first in the fields, the other kept; none takes the first away.
    auto spec = form.spec();
    spec.trainer.faults.push_back(spec.trainer.faults.front());
    spec.trainer.faults.back().step = 99;
    form.setSpec(spec);
    EXPECT_EQ(form.spec().trainer.faults.size(), 2u);
    kind->setCurrentIndex(0);
    ASSERT_EQ(form.spec().trainer.faults.size(), 1u);
    EXPECT_EQ(form.spec().trainer.faults.front().step, 99);
}

TEST_F(Window, PlanCellsSwitchByMouseAndKeys) {
    LaunchDialog& dialog = window_->openLaunch();
    PlanGrid& grid = dialog.forecastPanel().grid();
    const int before = grid.fp8Products();
    ASSERT_GT(before, 0);
    grid.setFocus();
    QTest::keyClick(&grid, Qt::Key_Space);
    EXPECT_EQ(grid.fp8Products(), before - 1);
    QTest::keyClick(&grid, Qt::Key_Right);
    QTest::keyClick(&grid, Qt::Key_Space);
    QTest::keyClick(&grid, Qt::Key_Right);
    QTest::keyClick(&grid, Qt::Key_Space);
    EXPECT_EQ(grid.fp8Products(), before - 3);
    QTest::keyClick(&grid, Qt::Key_Space);
    EXPECT_EQ(grid.fp8Products(), before - 2);
    EXPECT_TRUE(dialog.startButton()->isEnabled());
}

TEST_F(Window, PresetFilterFindsPrecisions) {
    LaunchDialog& dialog = window_->openLaunch();
    const int bases = dialog.presetList().count();
    EXPECT_GE(bases, 7);
    dialog.findChild<QLineEdit*>()->setText(QStringLiteral("nano-"));
    EXPECT_GE(dialog.presetList().count(), 5);
    dialog.presetList().setCurrentRow(1);
    EXPECT_TRUE(dialog.startButton()->isEnabled());
}

TEST_F(Window, ControlReturnStartsATinyRunThatFinishes) {
    LaunchDialog& dialog = window_->openLaunch();
    auto spec = mantissa::experiments::presetSpec("tiny-fp8-delayed");
    spec.trainer.steps = 12;
    spec.data.path = "text:generated";
    dialog.form().setSpec(spec);
    ASSERT_TRUE(dialog.form().errors().isEmpty()) << dialog.form().errors().first().message.toStdString();
    QSignalSpy ended(controller_.get(), &RunController::runEnded);
    QSignalSpy steps(controller_.get(), &RunController::stepsArrived);
    QApplication::setActiveWindow(&dialog);  // the offscreen platform does not activate a second window by itself
    QSignalSpy started(controller_.get(), &RunController::runStarted);
    QString problem;
    QObject::connect(controller_.get(), &RunController::problem, controller_.get(),
                     [&problem](const QString& text) { problem = text; });
    QTest::keyClick(&dialog, Qt::Key_Return, Qt::ControlModifier);
    ASSERT_TRUE(started.count() > 0 || started.wait(20000))
        << problem.toStdString() << dialog.startButton()->isEnabled();
    ASSERT_TRUE(ended.count() > 0 || ended.wait(120000));
    ASSERT_EQ(controller_->runs().size(), 1);
    const QString id = controller_->runs().first().id;
    EXPECT_EQ(controller_->run(id)->state, RunState::Finished) << controller_->run(id)->message.toStdString();
    EXPECT_EQ(controller_->run(id)->step, 12);
    EXPECT_GE(steps.count(), 1);
    EXPECT_EQ(window_->runList().currentId(), id);
    controller_->rename(id, QStringLiteral("first"));
    EXPECT_TRUE(waitFor([&] { return controller_->run(id)->name == QLatin1String("first"); }));
    RunCard card(*controller_);
    card.setRuns({id, QStringLiteral("gone")});
    EXPECT_TRUE(card.asText().contains(QStringLiteral("none pinned"))) << card.asText().toStdString();
    controller_->setBaseline(id);
    EXPECT_TRUE(waitFor([&] { return controller_->baseline() == id; }));
    EXPECT_TRUE(waitFor([&] { return !card.asText().contains(QStringLiteral("none pinned")); }, 3000))
        << "the card of several runs names the baseline too";
    controller_->deleteRun(id);
    EXPECT_TRUE(waitFor([&] { return controller_->runs().isEmpty(); }));
}

TEST_F(Window, LayoutSurvivesARestart) {
    window_->resize(1300, 800);
    window_->openPage(QStringLiteral("device"));
    window_->close();
    Settings again(folder_.filePath(QStringLiteral("layout.json")));
    RunController other;
    MainWindow second(other, again);
    EXPECT_EQ(second.size(), QSize(1300, 800));
    EXPECT_EQ(second.pageName(), QStringLiteral("device"));
}

TEST_F(Window, FormatsLinkNumberCodeAndBits) {
    window_->openPage(QStringLiteral("formats"));
    auto* page = static_cast<FormatsPage*>(window_->page(QStringLiteral("formats")));
    QLineEdit* number = page->numberField();
    number->selectAll();
    QTest::keyClicks(number, QStringLiteral("0.1"));
    EXPECT_EQ(page->codeField()->text(), QStringLiteral("1D"));
    QTest::mouseClick(&page->codes(), Qt::LeftButton, Qt::NoModifier, page->codes().bitRect(0, 7).center());
    EXPECT_DOUBLE_EQ(page->number(), 0.09375);
    QLineEdit* code = page->codeField();
    code->setFocus();
    code->selectAll();
    QTest::keyClicks(code, QStringLiteral("7E"));
    EXPECT_DOUBLE_EQ(page->number(), 448);
    number->setFocus();
    number->selectAll();
    QTest::keyClicks(number, QStringLiteral("1,2,x"));
    EXPECT_TRUE(number->property("wrong").toBool());
    number->selectAll();
    QTest::keyClicks(number, QStringLiteral("1e400"));
    EXPECT_TRUE(number->property("wrong").toBool()) << "more than a double holds is not quietly infinity";
    number->selectAll();
    QTest::keyClicks(number, QStringLiteral("-inf"));
    EXPECT_FALSE(number->property("wrong").toBool());
}

TEST_F(Window, TheLineOfTheValueCrossesNoNumberOfTheRanges) {
    window_->openPage(QStringLiteral("formats"));
    auto* page = static_cast<FormatsPage*>(window_->page(QStringLiteral("formats")));
    page->numberField()->selectAll();
    QTest::keyClicks(page->numberField(), QStringLiteral("1000"));  // where 448 stands, right of E4M3's bar
    auto* bars = page->findChild<RangeBars*>();
    ASSERT_NE(bars, nullptr);
    const QImage image = bars->grab().toImage();
    const QRgb ink = color(Token::Text).rgb();
    int line = 0, most = 0;  // the column with most of the line's colour
    for (int x = 120; x < image.width(); ++x) {
        int count = 0;
        for (int y = 0; y < image.height(); ++y) count += image.pixel(x, y) == ink;
        if (count > most) std::tie(line, most) = std::pair(x, count);
    }
    ASSERT_GT(most, image.height() / 3);
    int gap = 0, longest = 0;
    for (int y = 4; y < image.height() - 30; ++y) {
        gap = image.pixel(line, y) == ink ? 0 : gap + 1;
        longest = std::max(longest, gap);
    }
    EXPECT_GE(longest, 12) << "the line is drawn through the number";
}

TEST_F(Window, BenchNamesTheWrongValueAndCastsTheRest) {
    window_->openPage(QStringLiteral("formats"));
    auto* page = static_cast<FormatsPage*>(window_->page(QStringLiteral("formats")));
    page->showBench(true);
    TensorBenchView& bench = page->bench();
    bench.valuesField()->setPlainText(QStringLiteral("1,2,x"));
    EXPECT_TRUE(waitFor([&] { return bench.errorText().contains(QLatin1String("value 3")); }, 5000))
        << bench.errorText().toStdString();
    bench.recipeField()->setCurrentText(QStringLiteral("current"));
    QSignalSpy done(&bench, &TensorBenchView::resultChanged);
    bench.valuesField()->setPlainText(QStringLiteral("1, -0, 448"));
    ASSERT_TRUE(done.wait(10000));
    ASSERT_EQ(bench.result()->codes.size(), 3u);
    EXPECT_EQ(bench.result()->codes[2], 0x7eu);
    EXPECT_EQ(bench.result()->counters.zeros, 1u);
}

TEST_F(Window, ThemeSwitchRepaintsEverything) {
    window_->openPage(QStringLiteral("device"));
    for (const bool dark : {false, true}) {
        Theme::instance().setChoice(dark ? ThemeChoice::Dark : ThemeChoice::Light);
        // The window appears in the new colours at once when all controls on screen have them, some 0.1 s later.
        EXPECT_TRUE(waitFor([&] {
            const QImage picture = window_->grab().toImage();
            return picture.pixelColor(4, picture.height() - 10) == Theme::tokenColor(Token::Panel, dark);
        }));
        const auto* field = window_->findChild<QLineEdit*>();
        EXPECT_TRUE(
            waitFor([&] { return field->styleSheet().contains(Theme::tokenColor(Token::Raised, dark).name()); }));
    }
}

}  // namespace
