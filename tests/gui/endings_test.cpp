// How runs and the program end: signals, a ladder that goes, a disk that stays full, a wrong environment.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <QApplication>
#include <QDir>
#include <QFile>
#include <QMessageBox>
#include <QProcess>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>
#include <memory>

#include "experiments/spec/run_spec.h"
#include "experiments/store/run_store.h"
#include "gui/heartbeat.h"
#include "gui/main_window.h"
#include "gui/pages/ladder_page.h"
#include "gui/pages/live_health.h"
#include "gui/pages/live_page.h"
#include "gui/widgets/figures_card.h"
#include "gui/widgets/note_list.h"

namespace {

using namespace mantissa::gui;
namespace experiments = mantissa::experiments;

struct Program {
    explicit Program(const QTemporaryDir& folder)
        : settings(folder.filePath(QStringLiteral("layout.json"))), window(controller, settings) {
        window.show();
        controller.openStore(folder.filePath(QStringLiteral("runs.mantissa")));
        EXPECT_TRUE(QTest::qWaitFor([&] { return controller.store().open; }, 20000));
    }
    Settings settings;
    RunController controller;
    MainWindow window;
};

/// More steps than any test waits for, on text that needs no package.
experiments::RunSpec longRun(const char* steps) {
    experiments::RunSpec spec = experiments::presetSpec("tiny");
    for (const auto& [path, value] : std::initializer_list<std::pair<const char*, const char*>>{
             {"train.steps", steps}, {"data.path", "text:generated"}, {"checkpoint.every", "0"}})
        EXPECT_TRUE(experiments::setPath(spec, path, value).empty());
    return spec;
}

/// A text of its own, so that no package has to be there.
void writeText() {
    static const QTemporaryDir data;
    qputenv("XDG_DATA_HOME", data.path().toLocal8Bit());
    QDir(data.path()).mkpath(QStringLiteral("mantissa/text"));
    QFile text(data.filePath(QStringLiteral("mantissa/text/kjv.txt")));
    ASSERT_TRUE(text.open(QIODevice::WriteOnly));
    for (int line = 0; line < 40000; ++line)
        text.write(QByteArray::number(line) + " and the evening and the morning were\n");
}

/// The program itself, training a preset until a signal comes.
class Signalled : public testing::TestWithParam<int> {
  protected:
    void SetUp() override {
        writeText();
        QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
        environment.insert(QStringLiteral("QT_QPA_PLATFORM"), QStringLiteral("offscreen"));
        environment.insert(QStringLiteral("XDG_CONFIG_HOME"), folder_.path());
        environment.insert(QStringLiteral("MANTISSA_DEVICE"), QStringLiteral("cpu"));
        environment.insert(QStringLiteral("MANTISSA_HEARTBEAT"), folder_.filePath(QStringLiteral("beat")));
        program_.setProcessEnvironment(environment);
    }
    void TearDown() override {
        program_.kill();
        program_.waitForFinished();
    }
    std::optional<experiments::RunSummary> run() const {
        try {
            experiments::RunStore store(path_, experiments::RunStore::Mode::ReadOnly);
            const auto runs = store.runs();
            return runs.empty() ? std::nullopt : std::optional(runs.front());
        } catch (const std::exception&) {
            return std::nullopt;  // not made yet
        }
    }
    QTemporaryDir folder_;
    std::string path_ = folder_.filePath(QStringLiteral("runs.mantissa")).toStdString();
    QProcess program_;
};

TEST_P(Signalled, StopsTheRunWithACheckpointAndEnds) {
    program_.start(QStringLiteral(MANTISSA_PROGRAM),
                   {QStringLiteral("--store"), QString::fromStdString(path_), QStringLiteral("--preset"),
                    QStringLiteral("nano-bf16"), QStringLiteral("--start")});
    ASSERT_TRUE(QTest::qWaitFor([&] { return run() && run()->step >= 5; }, 120000))
        << program_.readAllStandardError().toStdString();
    ASSERT_EQ(run()->status, experiments::RunStatus::Running);
    ASSERT_GT(program_.processId(), 0);
    ASSERT_EQ(::kill(static_cast<pid_t>(program_.processId()), GetParam()), 0);
    ASSERT_TRUE(program_.waitForFinished(60000));
    EXPECT_EQ(program_.exitStatus(), QProcess::NormalExit);
    EXPECT_EQ(program_.exitCode(), 130);
    ASSERT_TRUE(run());
    EXPECT_EQ(run()->status, experiments::RunStatus::Stopped);
    experiments::RunStore store(path_, experiments::RunStore::Mode::ReadOnly);
    const auto checkpoints = store.checkpoints(run()->id);
    ASSERT_FALSE(checkpoints.empty());
    EXPECT_EQ(checkpoints.back().step, run()->step);
}

INSTANTIATE_TEST_SUITE_P(Endings, Signalled, testing::Values(SIGTERM, SIGINT, SIGHUP));

TEST(Endings, ASignalWithNothingGoingEndsAtOnce) {
    QTemporaryDir folder;
    Program program(folder);
    QTimer::singleShot(0, &program.window, [&] { program.window.quit(1); });
    EXPECT_EQ(QApplication::exec(), 0);
}

/// Everything that goes stops, and the window goes on meanwhile.
TEST(Endings, QuitStopsRunsAndALadderWithoutBlockingTheWindow) {
    writeText();
    QTemporaryDir folder;
    Program program(folder);
    auto* ladder = static_cast<LadderPage*>(program.window.page(QStringLiteral("ladder")));
    ladder->choosePreset(QStringLiteral("tiny"));
    program.controller.start(longRun("1000000"), {});
    EXPECT_TRUE(program.controller.ownsGoingRuns()) << "also before the run is in the list";
    ASSERT_TRUE(QTest::qWaitFor(
        [&] { return !program.controller.runs().isEmpty() && program.controller.runs().first().step > 3; }, 60000));
    ladder->runRungs();
    ASSERT_TRUE(ladder->busy());
    program.controller.start(longRun("1000000"), {});  // not in the list yet
    Heartbeat heart((QString()));
    QTimer::singleShot(0, &program.window, [&] {
        heart.takeGap();
        program.window.quit(1);
    });
    EXPECT_EQ(QApplication::exec(), 130);
    EXPECT_LT(heart.takeGap().cpuMs, 200);
    EXPECT_FALSE(program.controller.ownsGoingRuns());
    EXPECT_FALSE(ladder->busy());
    experiments::RunStore store(folder.filePath(QStringLiteral("runs.mantissa")).toStdString(),
                                experiments::RunStore::Mode::ReadOnly);
    for (const auto& run : store.runs()) EXPECT_EQ(run.status, experiments::RunStatus::Stopped) << run.name;
}

/// Closing the window asks about a ladder too: "Stay" leaves it alone, the other button stops it and then closes.
TEST(Endings, ClosingAsksBeforeALadderIsStopped) {
    writeText();
    QTemporaryDir folder;
    Program program(folder);
    auto* ladder = static_cast<LadderPage*>(program.window.page(QStringLiteral("ladder")));
    ladder->choosePreset(QStringLiteral("tiny"));
    QString asked;
    const auto answer = [&](const QString& button) {
        QTimer::singleShot(200, &program.window, [&asked, button] {
            auto* box = qobject_cast<QMessageBox*>(QApplication::activeModalWidget());
            if (!box) return;
            asked = box->text();
            for (auto* one : box->buttons())
                if (one->text().remove(QLatin1Char('&')) == button) one->click();
        });
    };
    ladder->runRungs();
    answer(QStringLiteral("Stay"));
    program.window.close();
    EXPECT_TRUE(asked.contains(QStringLiteral("A ladder is being measured"))) << asked.toStdString();
    EXPECT_TRUE(program.window.isVisible());
    EXPECT_TRUE(ladder->busy());
    answer(QStringLiteral("Stop the ladder and quit"));
    program.window.close();
    EXPECT_TRUE(QTest::qWaitFor([&] { return !program.window.isVisible(); }, 60000));
    EXPECT_FALSE(ladder->busy());
}

/// What a run of this window wrote last (its last evaluation, checkpoint and end) is shown without a click.
TEST(Endings, LiveShowsTheEndOfARunOfThisWindow) {
    QTemporaryDir folder;
    Program program(folder);
    experiments::RunSpec spec = longRun("40");
    ASSERT_TRUE(experiments::setPath(spec, "checkpoint.every", "20").empty());
    ASSERT_TRUE(experiments::setPath(spec, "eval.every", "20").empty());
    QSignalSpy ended(&program.controller, &RunController::runEnded);
    program.controller.start(spec, {});
    ASSERT_TRUE(QTest::qWaitFor([&] { return ended.count() > 0; }, 120000));
    auto* live = static_cast<LivePage*>(program.window.page(QStringLiteral("live")));
    const QString id = ended[0][0].toString();
    EXPECT_EQ(live->run(), id);
    experiments::RunStore store(program.controller.store().path.toStdString(), experiments::RunStore::Mode::ReadOnly);
    const auto stored = store.series(id.toStdString(), "val_loss");
    ASSERT_FALSE(stored.steps.empty());
    ASSERT_EQ(stored.steps.back(), 40);
    const auto shown = [&](const QString& name) {
        for (const PlotCurve& curve : live->lossView()->content().curves)
            if (curve.name == name) return curve.data;
        return std::shared_ptr<const SeriesPyramid>();
    };
    EXPECT_TRUE(QTest::qWaitFor(
        [&] {
            const auto curve = shown(QStringLiteral("validation"));
            return curve && curve->size() == stored.steps.size();
        },
        5000))
        << "validation up to step " << shown(QStringLiteral("validation"))->lastX();
    EXPECT_TRUE(live->figuresCard()->figures()[1].meaning.contains(QStringLiteral("40")))
        << live->figuresCard()->figures()[1].meaning.toStdString();
    QStringList events;
    for (const NoteList* list : live->health()->findChildren<NoteList*>())
        for (const Note& note : list->notes()) events << note.title;
    EXPECT_TRUE(events.join(QLatin1Char('|')).contains(QStringLiteral("Finished after 40 steps.")))
        << events.join(QLatin1Char('|')).toStdString();
    const auto& rates = live->rateView()->content().curves;
    EXPECT_EQ(rates.size(), 1u) << "a plan of a run that is over";
    EXPECT_EQ(rates[0].data->lastX(), 40);
}

/// S07 to the bitter end: the disk never has room again. The window says what is lost.
TEST(Endings, AnEndThatIsNotStoredIsSaid) {
    QTemporaryDir folder;
    Program program(folder);
    QSignalSpy told(&program.controller, &RunController::endNotStored);
    ::signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const rlimit small{400 << 10, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    program.controller.start(longRun("200"), {});
    const bool ended = QTest::qWaitFor([&] { return told.count() > 0; }, 120000);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    ASSERT_TRUE(ended);
    QStringList titles;
    for (const Banner* banner : program.window.findChildren<Banner*>()) titles << banner->title();
    EXPECT_TRUE(titles.join(QLatin1Char('|')).contains(QStringLiteral("the end of the run are not in the store")))
        << titles.join(QLatin1Char('|')).toStdString();
}

TEST(Endings, AWrongEnvironmentIsOneSentence) {
    const std::pair<const char*, const char*> wrong[] = {{"MANTISSA_ISA", "allowed: sse"},
                                                         {"MANTISSA_DEVICE", "allowed: auto, cpu, cuda, cuda:N"}};
    const QTemporaryDir runtime;  // without a folder of its own Qt has a line to say, too
    for (const auto& [name, allowed] : wrong) {
        QProcess program;
        QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
        environment.insert(QStringLiteral("QT_QPA_PLATFORM"), QStringLiteral("offscreen"));
        environment.insert(QStringLiteral("XDG_RUNTIME_DIR"), runtime.path());
        environment.insert(QLatin1String(name), QStringLiteral("foo"));
        program.setProcessEnvironment(environment);
        program.start(QStringLiteral(MANTISSA_PROGRAM), QStringList());
        ASSERT_TRUE(program.waitForFinished(30000)) << name;
        EXPECT_EQ(program.exitCode(), 2);
        const QString text = QString::fromUtf8(program.readAllStandardError());
        EXPECT_TRUE(text.startsWith(QStringLiteral("error: %1: \"foo\" is not").arg(QLatin1String(name))))
            << text.toStdString();
        EXPECT_TRUE(text.contains(QLatin1String(allowed))) << text.toStdString();
        EXPECT_EQ(text.count(QLatin1Char('\n')), 1);
        program.kill();
    }
}

/// One sentence that names the way without a window, and no abort by Qt.
TEST(Endings, WithoutADisplayIsASentence) {
    for (const char* platform : {"", "xcb", "wayland"}) {
        QProcess program;
        QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
        environment.remove(QStringLiteral("DISPLAY"));
        environment.remove(QStringLiteral("WAYLAND_DISPLAY"));
        environment.insert(QStringLiteral("QT_QPA_PLATFORM"), QLatin1String(platform));
        program.setProcessEnvironment(environment);
        program.start(QStringLiteral(MANTISSA_PROGRAM), QStringList());
        ASSERT_TRUE(program.waitForFinished(30000)) << platform;
        EXPECT_EQ(program.exitStatus(), QProcess::NormalExit) << platform;
        EXPECT_EQ(program.exitCode(), 4) << platform;
        const QString text = QString::fromUtf8(program.readAllStandardError());
        EXPECT_TRUE(text.startsWith(QStringLiteral("error: mantissa: there is no display"))) << text.toStdString();
        EXPECT_TRUE(text.contains(QStringLiteral("mantissa-run"))) << text.toStdString();
        EXPECT_TRUE(text.contains(QStringLiteral("./start"))) << text.toStdString();
        EXPECT_EQ(text.count(QLatin1Char('\n')), 1);
    }
}

TEST(Endings, HelpAndVersionNeedNoDisplay) {
    for (const auto& [word, answer] : {std::pair{"--help", "--store"}, {"--version", "mantissa"}, {"-h", "--page"}}) {
        QProcess program;
        QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
        for (const char* name : {"DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"})
            environment.remove(QLatin1String(name));
        program.setProcessEnvironment(environment);
        program.start(QStringLiteral(MANTISSA_PROGRAM), {QLatin1String(word)});
        ASSERT_TRUE(program.waitForFinished(30000)) << word;
        EXPECT_EQ(program.exitCode(), 0) << word;
        EXPECT_TRUE(program.readAllStandardOutput().contains(answer)) << word;
    }
}

/// DISPLAY names a server that is not there.
TEST(Endings, ADisplayThatDoesNotAnswerIsASentence) {
    QProcess program;
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    environment.remove(QStringLiteral("WAYLAND_DISPLAY"));
    environment.remove(QStringLiteral("QT_QPA_PLATFORM"));
    environment.insert(QStringLiteral("DISPLAY"), QStringLiteral("unix:61234"));
    program.setProcessEnvironment(environment);
    program.start(QStringLiteral(MANTISSA_PROGRAM), QStringList());
    ASSERT_TRUE(program.waitForFinished(30000));
    EXPECT_EQ(program.exitStatus(), QProcess::NormalExit);
    EXPECT_EQ(program.exitCode(), 4);
    const QString text = QString::fromUtf8(program.readAllStandardError());
    EXPECT_TRUE(text.startsWith(QStringLiteral("error: mantissa: there is no display: DISPLAY \"unix:61234\"")))
        << text.toStdString();
    EXPECT_EQ(text.count(QLatin1Char('\n')), 1) << text.toStdString();
}

}  // namespace
