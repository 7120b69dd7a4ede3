// Two windows on one store (S02), files that cannot be opened, plans that do not fit, NaN (N13), the keyboard alone
// (S08), a killed training process.
#include <gtest/gtest.h>
#include <signal.h>

#include <QApplication>
#include <QDropEvent>
#include <QElapsedTimer>
#include <QFile>
#include <QMimeData>
#include <QProcess>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>
#include <QUrl>
#include <cstdio>
#include <memory>

#include "experiments/spec/run_spec.h"
#include "gui/dialogs/launch_dialog.h"
#include "gui/main_window.h"
#include "gui/widgets/message_strip.h"
#include "tests/support/synthetic_store.h"

namespace {

using namespace mantissa::gui;
using mantissa::tests::addSyntheticRun;
using mantissa::tests::SyntheticRun;

/// Ten times what S02 asks for: other programs may use the machine.
constexpr int kSeenMs = 10000;

struct Program {
    explicit Program(const QTemporaryDir& folder, const char* name)
        : settings(folder.filePath(QLatin1String(name) + QStringLiteral(".json"))), window(controller, settings) {
        window.resize(1440, 900);
        window.show();
        controller.openStore(folder.filePath(QStringLiteral("runs.mantissa")));
    }
    QStringList names() const {
        QStringList result;
        for (const RunInfo& run : controller.runs()) result << run.name;
        return result;
    }
    QStringList banners() const {
        QStringList titles;
        for (const Banner* banner : window.findChildren<Banner*>()) titles << banner->title();
        return titles;
    }
    bool saysSoon(const QString& part) const {
        return QTest::qWaitFor([&] { return banners().join(QLatin1Char('|')).contains(part); }, kSeenMs);
    }
    Settings settings;
    RunController controller;
    MainWindow window;
};

SyntheticRun shortRun(const char* name) {
    SyntheticRun run;
    run.name = name;
    run.steps = run.done = 60;
    return run;
}

TEST(Scenarios, TwoWindowsSeeEachOthersEdits) {
    QTemporaryDir folder;
    const std::string path = folder.filePath(QStringLiteral("runs.mantissa")).toStdString();
    const QString first = QString::fromStdString(addSyntheticRun(path, shortRun("first")));
    const QString second = QString::fromStdString(addSyntheticRun(path, shortRun("second")));
    Program a(folder, "a"), b(folder, "b");
    ASSERT_TRUE(QTest::qWaitFor([&] { return a.names().size() == 2 && b.names().size() == 2; }, kSeenMs));
    b.window.runList().select(first);
    b.window.openPage(QStringLiteral("numerics"));
    QTest::qWait(300);

    QElapsedTimer clock;
    clock.start();
    a.controller.rename(first, QStringLiteral("renamed"));
    ASSERT_TRUE(QTest::qWaitFor([&] { return b.names().contains(QStringLiteral("renamed")); }, kSeenMs));
    std::printf("rename seen after %lld ms\n", static_cast<long long>(clock.elapsed()));
    a.controller.setTags(first, {QStringLiteral("kept")});
    ASSERT_TRUE(
        QTest::qWaitFor([&] { return b.controller.run(first)->tags.contains(QStringLiteral("kept")); }, kSeenMs));

    // Both write at once: nobody is locked out and both end up with the same, the later one.
    QSignalSpy troubleA(&a.controller, &RunController::problem), troubleB(&b.controller, &RunController::problem);
    for (int i = 0; i < 20; ++i) {
        a.controller.rename(second, QStringLiteral("a%1").arg(i));
        b.controller.rename(second, QStringLiteral("b%1").arg(i));
    }
    ASSERT_TRUE(QTest::qWaitFor(
        [&] {
            const QString name = a.controller.run(second)->name;
            return (name == QLatin1String("a19") || name == QLatin1String("b19")) &&
                   b.controller.run(second)->name == name;
        },
        kSeenMs));
    EXPECT_EQ(troubleA.count() + troubleB.count(), 0);

    // The run that b looks at goes away: b shows the other one.
    clock.restart();
    a.controller.deleteRun(first);
    ASSERT_TRUE(QTest::qWaitFor([&] { return b.names().size() == 1; }, kSeenMs));
    std::printf("deletion seen after %lld ms\n", static_cast<long long>(clock.elapsed()));
    QTest::qWait(500);
    EXPECT_NE(b.window.runList().currentId(), first);
    for (const char* name : {"live", "numerics", "compare"}) {
        b.window.openPage(QLatin1String(name));
        QTest::qWait(200);
        EXPECT_NE(b.window.page(QLatin1String(name))->run(), first) << name;
    }
}

void drop(MainWindow& window, const QString& path) {
    QMimeData data;
    data.setUrls({QUrl::fromLocalFile(path)});
    QDragEnterEvent enter(QPoint(700, 400), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(&window, &enter);
    EXPECT_TRUE(enter.isAccepted());
    QDropEvent event(QPointF(700, 400), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(&window, &event);
}

void write(const QString& path, const QByteArray& text) {
    QFile file(path);
    ASSERT_TRUE(file.open(QIODevice::WriteOnly));
    file.write(text);
}

TEST(Scenarios, FilesThatCannotBeOpenedAreNamedAndTheStoreStays) {
    QTemporaryDir folder;
    addSyntheticRun(folder.filePath(QStringLiteral("runs.mantissa")).toStdString(), shortRun("mine"));
    Program program(folder, "a");
    ASSERT_TRUE(QTest::qWaitFor([&] { return program.names().size() == 1; }, kSeenMs));

    const QString text = folder.filePath(QStringLiteral("notes.txt"));
    write(text,
          "Three lines\nthat are no\ndatabase at all, and long enough for a header of one hundred bytes or so.\n");
    drop(program.window, text);
    EXPECT_TRUE(program.saysSoon(QStringLiteral("notes.txt")))
        << program.banners().join(QLatin1Char('|')).toStdString();
    const QString wrong = folder.filePath(QStringLiteral("wrong.json"));
    write(wrong, R"({"version": 1, "preset": "nano", "optimizer": {"learning_rate": -3}})");
    drop(program.window, wrong);
    EXPECT_TRUE(program.saysSoon(QStringLiteral("optimizer.learning_rate")))
        << program.banners().join(QLatin1Char('|')).toStdString();
    const QString broken = folder.filePath(QStringLiteral("broken.json"));
    write(broken, "{\"version\": 1,");
    drop(program.window, broken);
    EXPECT_TRUE(program.saysSoon(QStringLiteral("broken.json")))
        << program.banners().join(QLatin1Char('|')).toStdString();
    QTest::qWait(500);
    EXPECT_EQ(program.names(), QStringList{QStringLiteral("mine")});
    EXPECT_TRUE(program.controller.store().open);
    QFile kept(text);
    ASSERT_TRUE(kept.open(QIODevice::ReadOnly));
    EXPECT_TRUE(kept.readAll().startsWith("Three lines"));

    const QString good = folder.filePath(QStringLiteral("good.json"));
    write(good, R"({"version": 1, "preset": "tiny", "optimizer": {"learning_rate": 0.003}})");
    drop(program.window, good);
    EXPECT_TRUE(QTest::qWaitFor([&] { return program.window.findChild<LaunchDialog*>() != nullptr; }, kSeenMs));
}

TEST(Scenarios, APlanThatDoesNotFitIsRefusedWithItsNumbers) {
    QTemporaryDir folder;
    Program program(folder, "a");
    ASSERT_TRUE(QTest::qWaitFor([&] { return program.controller.store().open; }, kSeenMs));
    auto spec = mantissa::experiments::presetSpec("gpt2-1558m");
    spec.data.path = "text:generated";
    spec.trainer.batch = 4096;
    mantissa::experiments::JobOptions options;
    options.device.device = "cpu";
    program.controller.start(spec, options);
    ASSERT_TRUE(QTest::qWaitFor(
        [&] { return !program.controller.runs().isEmpty() && program.controller.runs().first().ended(); }, 60000));
    EXPECT_EQ(program.controller.runs().first().state, RunState::Refused);
    EXPECT_TRUE(program.controller.runs().first().message.contains(QStringLiteral("GiB")))
        << program.controller.runs().first().message.toStdString();
    program.window.runList().select(program.controller.runs().first().id);
    program.window.openPage(QStringLiteral("live"));
    EXPECT_TRUE(program.saysSoon(QStringLiteral("Not started")));
}

TEST(Scenarios, ANanIsSaidOnEveryPageThatShowsTheRun) {
    QTemporaryDir folder;
    SyntheticRun run = shortRun("nan");
    run.nonFiniteFrom = 40;
    run.nonFiniteTo = 60;
    run.status = "diverged";
    const QString id =
        QString::fromStdString(addSyntheticRun(folder.filePath(QStringLiteral("runs.mantissa")).toStdString(), run));
    Program program(folder, "a");
    ASSERT_TRUE(QTest::qWaitFor([&] { return program.names().size() == 1; }, kSeenMs));
    program.window.runList().select(id);
    program.window.openPage(QStringLiteral("live"));
    EXPECT_TRUE(program.saysSoon(QStringLiteral("Diverged at step 60")));
    // Numerics says it once, with the first value that was not finite, on each of its views.
    const auto strips = [&] {
        QStringList said;
        for (const MessageStrip* strip : program.window.page(QStringLiteral("numerics"))->findChildren<MessageStrip*>())
            if (strip->isVisible() && strip->parentWidget() == program.window.page(QStringLiteral("numerics")))
                said << strip->headline();
        return said;
    };
    program.window.openPage(QStringLiteral("numerics"));
    EXPECT_TRUE(QTest::qWaitFor(
        [&] {
            return strips() == QStringList{QStringLiteral("Diverged at step 60. First non-finite value: step 40.")};
        },
        kSeenMs))
        << strips().join(QLatin1Char('|')).toStdString();
    EXPECT_EQ(program.banners(), QStringList());
    program.window.openPage(QStringLiteral("trouble"));
    EXPECT_TRUE(QTest::qWaitFor(
        [&] { return strips().size() == 1 && strips().first().contains(QStringLiteral("step 40, h.3")); }, kSeenMs))
        << strips().join(QLatin1Char('|')).toStdString();
    EXPECT_EQ(program.banners(), QStringList());
    EXPECT_TRUE(program.controller.run(id)->nonFinite());
}

/// What has no key of its own stands in a menu or in the palette, which lists all actions.
TEST(Scenarios, EveryActionHasWords) {
    QTemporaryDir folder;
    Program program(folder, "a");
    EXPECT_GE(program.window.allActions().size(), 20);
    for (const QAction* action : program.window.allActions()) EXPECT_FALSE(action->text().isEmpty());
}

TEST(Scenarios, AKilledTrainingProcessReadsInterrupted) {
    const QString program = QStringLiteral(MANTISSA_RUN_PROGRAM);
    if (!QFile::exists(program)) GTEST_SKIP() << "mantissa-run was not built";
    QTemporaryDir folder;
    const QString path = folder.filePath(QStringLiteral("runs.mantissa"));
    QProcess trainer;
    trainer.start(program, {QStringLiteral("run"), QStringLiteral("tiny"), QStringLiteral("--store"), path,
                            QStringLiteral("--quiet"), QStringLiteral("--set"), QStringLiteral("train.steps=1000000"),
                            QStringLiteral("--set"), QStringLiteral("data.path=text:generated")});
    ASSERT_TRUE(trainer.waitForStarted(20000));
    Program shown(folder, "a");
    const auto step = [&] { return shown.controller.runs().isEmpty() ? 0 : shown.controller.runs().first().step; };
    ASSERT_TRUE(QTest::qWaitFor([&] { return step() > 20; }, 60000));
    EXPECT_EQ(shown.controller.runs().first().state, RunState::Running);
    ::kill(pid_t(trainer.processId()), SIGKILL);
    trainer.waitForFinished(20000);
    QElapsedTimer clock;
    clock.start();
    ASSERT_TRUE(QTest::qWaitFor([&] { return shown.controller.runs().first().state == RunState::Interrupted; }, 60000));
    std::printf("kill -9 seen after %lld ms, at step %lld\n", static_cast<long long>(clock.elapsed()),
                static_cast<long long>(step()));
    shown.window.runList().select(shown.controller.runs().first().id);
    shown.window.openPage(QStringLiteral("live"));
    EXPECT_TRUE(shown.saysSoon(QStringLiteral("Interrupted at step")));
}

}  // namespace
