// The training job with a scripted trainer: life of a run, commands, policies, alerts, full disk, killed process.
#include "experiments/job/training_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <algorithm>

#include <atomic>

#include "experiments/job/alarms.h"
#include "experiments/job/run_queue.h"
#include "experiments/report/compare.h"
#include "experiments/report/diagnosis.h"
#include "experiments/report/tensor_health.h"
#include "experiments/store/database.h"
#include "experiments/store/run_writer.h"
#include "experiments/store/ulid.h"
#include "tests/experiments/support.h"

namespace mantissa::experiments {
namespace {

using test::fakeOptions;
using test::fakeSpec;
using test::runFake;
using test::Script;
using test::sentence;
using test::TempFolder;
using testing::HasSubstr;

int countAlerts(RunStore& store, const std::string& id, const std::string& kind) {
    int count = 0;
    for (const auto& event : store.alerts(id)) count += event.alert == kind;
    return count;
}

TEST(TrainingJob, RunsToItsEnd) {
    TempFolder folder;
    std::string id;
    std::vector<JobMessage> messages;
    const JobEnded ended = runFake(fakeSpec(250), fakeOptions(folder / "s"), &id, &messages);
    EXPECT_EQ(ended.status, RunStatus::Finished);
    EXPECT_EQ(ended.step, 250);
    RunStore store(folder / "s", RunStore::Mode::ReadOnly);
    const RunSummary run = *store.run(id);
    EXPECT_EQ(run.status, RunStatus::Finished);
    EXPECT_EQ(run.step, 250);
    EXPECT_EQ(run.tokens, 250 * 256);
    EXPECT_EQ(run.tokensPerSecond, ended.tokensPerSecond) << "the list, compare and the end's line say one figure";
    const auto rates = store.series(id, "tokens_per_s").values;
    std::vector<double> sorted(rates.begin(), rates.end());
    std::sort(sorted.begin(), sorted.end());
    EXPECT_NEAR(run.tokensPerSecond / sorted[sorted.size() / 2], 1, 1e-6) << "of the whole run, not of its last steps";
    const Comparison alone = compareRuns(store, {id}, "", Axis::Step, 0.02, 0);
    const auto& final = alone.runs.at(0).final;
    EXPECT_NEAR(final.at("step_ms") * final.at("tokens_per_s"), 256e3, 1) << "two figures of one measurement";
    EXPECT_EQ(store.series(id, "loss").steps.size(), 250u);
    EXPECT_EQ(store.series(id, "val_loss").steps, (std::vector<int64_t>{50, 100, 150, 200, 250}));
    std::vector<int64_t> onDisk, all;
    for (const auto& row : store.checkpoints(id)) {
        all.push_back(row.step);
        if (row.onDisk) onDisk.push_back(row.step);
    }
    EXPECT_EQ(all, (std::vector<int64_t>{100, 200, 250}));
    EXPECT_EQ(onDisk, (std::vector<int64_t>{200, 250})) << "checkpoint.keep is 2";
    EXPECT_EQ(store.document(id).precision.size(), 1u);
    EXPECT_EQ(store.document(id).parameters, 1234);
    EXPECT_EQ(store.exponents(id, 0, 250).counts.at(150), 250u);
    size_t steps = 0;
    for (const auto& message : messages) steps += std::holds_alternative<JobStep>(message);
    EXPECT_EQ(steps, 250u) << "every step is told, none is skipped";
    EXPECT_TRUE(std::holds_alternative<JobEnded>(messages.back()));
}

TEST(TrainingJob, ResumeOpensASegmentAndForkARun) {
    TempFolder folder;
    std::string id, fork;
    runFake(fakeSpec(250), fakeOptions(folder / "s"), &id);
    JobOptions options = fakeOptions(folder / "s");
    options.resumeRun = id;
    EXPECT_THAT(sentence([&] { TrainingJob job(fakeSpec(250), options); }), HasSubstr("has done all of its 250 steps"));
    options.resumeStep = 123;
    EXPECT_THAT(sentence([&] { TrainingJob job(fakeSpec(300), options); }),
                HasSubstr("no checkpoint at step 123; there are: 200, 250"));
    options.resumeStep = 200;
    EXPECT_EQ(runFake(fakeSpec(300), options).status, RunStatus::Finished);
    options.resumeRun.clear();
    options.forkRun = id;
    options.resumeStep = 300;
    runFake(fakeSpec(320), options, &fork);
    RunStore store(folder / "s", RunStore::Mode::ReadOnly);
    EXPECT_EQ(store.run(id)->segments, 2);
    EXPECT_EQ(store.series(id, "loss").resumes, std::vector<int64_t>{201});
    EXPECT_EQ(store.series(id, "loss").steps.size(), 300u);
    EXPECT_EQ(store.run(fork)->parent, id);
    EXPECT_EQ(store.run(fork)->parentStep, 300);
    EXPECT_EQ(store.series(fork, "loss").steps.front(), 301);
}

TEST(TrainingJob, PausesResumesChangesTheRateAndStops) {
    TempFolder folder;
    Script script;
    script.seconds = 0.002;
    TrainingJob job(fakeSpec(1000000), fakeOptions(folder / "s", script));
    RunStore store(folder / "s", RunStore::Mode::ReadWrite);
    auto waitFor = [&](auto condition) {
        for (int i = 0; i < 1000; ++i, std::this_thread::sleep_for(std::chrono::milliseconds(10)))
            if (condition(*store.run(job.runId()))) return true;
        return false;
    };
    ASSERT_TRUE(waitFor([](const RunSummary& run) { return run.step > 5; }));
    job.pause();
    ASSERT_TRUE(waitFor([](const RunSummary& run) { return run.status == RunStatus::Paused; }));
    const int64_t at = store.run(job.runId())->step;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    EXPECT_EQ(store.run(job.runId())->step, at);
    store.sendCommand(job.runId(), "learning_rate", "0.01");  // as another process does it
    store.sendCommand(job.runId(), "nonsense", "");
    store.sendCommand(job.runId(), "pause");
    store.sendCommand(job.runId(), "resume");
    store.sendCommand(job.runId(), "resume");
    ASSERT_TRUE(waitFor([at](const RunSummary& run) { return run.status == RunStatus::Running && run.step > at + 5; }));
    job.checkpoint();
    job.stop();
    job.join();
    const RunSummary run = *store.run(job.runId());
    EXPECT_EQ(run.status, RunStatus::Stopped);
    EXPECT_EQ(store.checkpoints(job.runId()).back().step, run.step);
    std::string events;
    for (const auto& event : store.events(job.runId())) events += event.kind + ":" + event.text + "\n";
    for (const char* text : {"Paused.", "Paused already.", "Resumed.", "Going on already.",
                             "optimizer.learning_rate: 0.002 → 0.01", "not understood: nonsense", "Asked to stop."})
        EXPECT_THAT(events, HasSubstr(text));
    const size_t stopped = events.find("Stopped by the user");
    ASSERT_NE(stopped, std::string::npos) << events;
    EXPECT_EQ(events.find("Stopped by the user", stopped + 1), std::string::npos) << "said once\n" << events;
    const Series rate = store.series(job.runId(), "lr");
    EXPECT_DOUBLE_EQ(rate.values.back(), 0.001 * (static_cast<double>(0.01f) / static_cast<double>(0.002f)));
}

TEST(TrainingJob, CommitsWithinASecond) {
    TempFolder folder;
    Script script;
    script.seconds = 0.02;
    TrainingJob job(fakeSpec(1000000), fakeOptions(folder / "s", script));
    RunStore store(folder / "s", RunStore::Mode::ReadOnly);
    int64_t told = 0;
    for (int i = 0; i < 30; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        for (const auto& message : job.drain())
            if (const auto* step = std::get_if<JobStep>(&message)) told = step->metrics.step;
    }
    std::this_thread::sleep_for(std::chrono::seconds(1));
    EXPECT_GE(store.run(job.runId())->step, told);
    EXPECT_GE(static_cast<int64_t>(store.series(job.runId(), "loss").steps.size()), told);
    job.stopNow();
}

// Non-finite policies
// ----------------------------------------------------------------------------------------------------

JobEnded runWithNaN(const TempFolder& folder, engine::NonfinitePolicy policy, int64_t first, int64_t last,
                    std::string* id) {
    Script script;
    script.loss = [=](int64_t step) { return step >= first && step <= last ? NAN : 2.0; };
    RunSpec spec = fakeSpec(400);
    spec.trainer.nonfinite = policy;
    return runFake(spec, fakeOptions(folder / "s", script), id);
}

/// S03: exactly one alert with its step; the table shows the last finite value.
TEST(NonFinite, SkipGivesOneAlertAStretch) {
    TempFolder folder;
    std::string id;
    EXPECT_EQ(runWithNaN(folder, engine::NonfinitePolicy::Skip, 100, 150, &id).status, RunStatus::Finished);
    RunStore store(folder / "s", RunStore::Mode::ReadOnly);
    EXPECT_EQ(countAlerts(store, id, "non_finite"), 1);
    for (const auto& alert : store.alerts(id)) EXPECT_TRUE(alert.alert != "non_finite" || alert.step == 100);
    EXPECT_EQ(store.summary(id).at("loss").nonFinite, 51);
}

TEST(NonFinite, SkipEndsDivergedAfterAHundred) {
    TempFolder folder;
    std::string id;
    const JobEnded ended = runWithNaN(folder, engine::NonfinitePolicy::Skip, 100, 400, &id);
    EXPECT_EQ(ended.status, RunStatus::Diverged);
    EXPECT_EQ(ended.step, 199);
    RunStore store(folder / "s", RunStore::Mode::ReadOnly);
    EXPECT_TRUE(std::isnan(store.run(id)->loss));
    EXPECT_EQ(store.run(id)->lastFiniteLoss, 2.0);
}

TEST(NonFinite, StopEndsAtOnceWithACheckpoint) {
    TempFolder folder;
    std::string id;
    for (const auto policy :
         {engine::NonfinitePolicy::Stop, engine::NonfinitePolicy::Pause}) {  // headless: pause acts as stop
        const JobEnded ended = runWithNaN(folder, policy, 100, 400, &id);
        EXPECT_EQ(ended.status, RunStatus::Diverged);
        EXPECT_EQ(ended.step, 100);
        EXPECT_THAT(ended.reason, HasSubstr("NaN"));
        RunStore store(folder / "s", RunStore::Mode::ReadOnly);
        EXPECT_EQ(store.checkpoints(id).back().step, 100);
    }
}

TEST(NonFinite, ContinueGoesOn) {
    TempFolder folder;
    std::string id;
    EXPECT_EQ(runWithNaN(folder, engine::NonfinitePolicy::Continue, 100, 390, &id).status, RunStatus::Finished);
}

// Audit
// -----------------------------------------------------------------------------------------------------------------

/// An evaluation that moves training state is an alert and the first finding of the diagnosis; one that does not is
/// counted among the proofs.
TEST(Audit, AnEvaluationThatMovesTheStateIsShown) {
    for (const bool moves : {false, true}) {
        TempFolder folder;
        std::optional<uint64_t> hash = 77;
        int evaluations = 0;
        Script script;
        script.hash = &hash;
        script.evaluated = [&] { hash = *hash + (++evaluations == 2 && moves ? 1 : 0); };
        RunSpec spec = fakeSpec(200);
        spec.auditShare = 1;
        std::string id;
        EXPECT_EQ(runFake(spec, fakeOptions(folder / "s", script), &id).status, RunStatus::Finished);
        RunStore store(folder / "s", RunStore::Mode::ReadOnly);
        ASSERT_EQ(countAlerts(store, id, "audit"), moves ? 1 : 0);
        std::string proof;
        for (const auto& event : store.events(id))
            if (event.kind == "audit") proof = event.text;
        EXPECT_THAT(proof, HasSubstr(moves ? "2 checkpoints, 3 evaluations" : "2 checkpoints, 4 evaluations"));
        const Diagnosis found = diagnose(store, id);
        ASSERT_FALSE(found.findings.empty());  // the scripted scales never follow their windows
        EXPECT_EQ(found.findings.front().kind == "audit", moves);
        if (!moves) continue;
        for (const auto& alert : store.alerts(id)) EXPECT_TRUE(alert.alert != "audit" || alert.step == 100);
        const Finding& finding = found.findings.front();
        EXPECT_EQ(finding.kind, "audit");
        EXPECT_EQ(finding.firstStep, 100);
        EXPECT_THAT(found.summary, HasSubstr("The evaluation after step 100 changed training state: its hash was "
                                             "000000000000004d and is 000000000000004e"));
        ASSERT_FALSE(finding.changes.empty());
        EXPECT_TRUE(finding.changes.front().needsFork);
    }
}

/// Hashes of a large model take seconds: none before the share of the run's time allows two, none at all at 0.
TEST(Audit, KeepsToItsShareOfTime) {
    for (const double share : {0.0, 1e-9}) {
        TempFolder folder;
        std::optional<uint64_t> hash = 1;
        Script script;
        script.hash = &hash;
        script.evaluated = [&] { ++*hash; };
        RunSpec spec = fakeSpec(100);
        spec.auditShare = share;
        std::string id;
        runFake(spec, fakeOptions(folder / "s", script), &id);
        RunStore store(folder / "s", RunStore::Mode::ReadOnly);
        EXPECT_EQ(countAlerts(store, id, "audit"), 0);
    }
}

// Alerts
// ----------------------------------------------------------------------------------------------------------------

TEST(Alerts, FireOnceForAStretchWithTheTensor) {
    TempFolder folder;
    Script script;
    script.numerics = [](engine::NumericsRecord& record) {
        auto& gradient = record.tensors[4];
        gradient.counters[2] = record.step >= 50 && record.step < 90 ? gradient.counters[0] / 50 : 0;  // 2 %
        if (record.step >= 200) gradient.counters[2] = gradient.counters[0] / 10;                      // 10 %
        auto& weight = record.tensors[1];
        if (record.step == 20 || record.step == 21)
            weight.counters[5] = weight.counters[0] / 100 + 1;  // no stretch yet
        if (record.step >= 30 && record.step < 40) weight.counters[5] = weight.counters[0] / 5000 + 1;  // 0.02 %
        if (record.step >= 100 && record.step < 140) weight.counters[5] = 1;  // single elements are no alarm
        for (auto& tensor : record.tensors) tensor.amax = 4;                  // nothing stale: 448 / 112
        record.tensors[4].amax = record.tensors[5].amax = 512;
        if (record.step == 120) record.tensors[0].amax = INFINITY, record.tensors[0].counters[6] = 1;
    };
    std::string id;
    runFake(fakeSpec(250), fakeOptions(folder / "s", script), &id);
    RunStore store(folder / "s", RunStore::Mode::ReadOnly);
    std::vector<std::string> seen;
    for (const auto& alert : store.alerts(id))
        seen.push_back(std::to_string(alert.step) + " " + alert.alert + " " + std::to_string(alert.severity) + " " +
                       alert.layer + " " + alert.tensor);
    EXPECT_THAT(seen, testing::UnorderedElementsAre(
                          "32 clipped 1 h.0 mlp.fc1/weight", "65 underflow 1 h.0 mlp.fc1/grad_output",
                          "120 non_finite 2 h.0 mlp.fc1/input", "120 frozen_scale 1 h.0 mlp.fc1/input",
                          "215 underflow 2 h.0 mlp.fc1/grad_output"));
    EXPECT_EQ(store.run(id)->worstAlert, 2);
    EXPECT_EQ(store.run(id)->alerts, 5);
    // Health is the same rules over the last steps: the gradient alone.
    const RunHealth health = tensorHealth(store, id, 100);
    ASSERT_EQ(health.tensors.size(), store.document(id).catalogue.size());
    for (size_t t = 0; t < health.tensors.size(); ++t) EXPECT_EQ(health.tensors[t].level, t == 4 ? 2 : 0) << t;
    EXPECT_EQ(health.tensors[4].kind, AlarmKind::Underflow);
    EXPECT_NEAR(health.tensors[4].standing, 0.1, 0.01);
}

TEST(Alerts, AValueMustStandForTheStepsOfItsRule) {
    const double share = 4e-4, none = 0;
    const std::vector<double> twice{none, share, share, none, share, share}, thrice{none, share, 2 * share, share};
    EXPECT_EQ(standingValue(alarmRule(AlarmKind::Clipped), twice), 0);
    EXPECT_EQ(standingValue(alarmRule(AlarmKind::Clipped), thrice), share);
    EXPECT_EQ(standingValue(alarmRule(AlarmKind::Clipped), std::vector<double>{share, share, NAN, share, share}), 0);
    EXPECT_EQ(standingValue(alarmRule(AlarmKind::Clipped), std::vector<double>{share}), 0);
    EXPECT_EQ(standingValue(alarmRule(AlarmKind::Kurtosis), std::vector<double>{3, 40, 3}), 40);
    EXPECT_EQ(alarmLevel(alarmRule(AlarmKind::Clipped), share), 1);
    EXPECT_EQ(alarmLevel(alarmRule(AlarmKind::Clipped), 5 * share), 2);
    EXPECT_EQ(alarmLevel(alarmRule(AlarmKind::Kurtosis), 1e30), 1);
}

TEST(Alerts, MissingFp8StateIsSaid) {
    TempFolder folder;
    std::string id;
    runFake(fakeSpec(100), fakeOptions(folder / "s"), &id);
    Script script;
    script.fp8StateMissing = true;
    JobOptions options = fakeOptions(folder / "s", script);
    options.resumeRun = id;
    runFake(fakeSpec(110), options);
    RunStore store(folder / "s", RunStore::Mode::ReadOnly);
    EXPECT_EQ(countAlerts(store, id, "fp8_state_missing"), 1);
}

// Queue
// -----------------------------------------------------------------------------------------------------------------

TEST(RunQueue, SecondStartWaitsAndSaysSo) {
    TempFolder folder;
    Script slow;
    slow.seconds = 0.005;
    RunQueue queue;
    JobOptions first = fakeOptions(folder / "s", slow), second = fakeOptions(folder / "s");
    first.name = "first";
    second.name = "second";
    auto a = queue.start(fakeSpec(1000000), first);
    auto b = queue.start(fakeSpec(20), second);
    ASSERT_EQ(queue.items().size(), 2u);
    EXPECT_EQ(queue.items()[1].waitsFor, "first");
    EXPECT_EQ(queue.items()[1].place, 1);
    std::string said;
    for (int i = 0; i < 200 && said.find("first") == std::string::npos;
         ++i, std::this_thread::sleep_for(std::chrono::milliseconds(10)))
        for (const auto& message : b->drain())
            if (const auto* phase = std::get_if<JobPhase>(&message)) said += phase->text;
    EXPECT_THAT(said, HasSubstr("Waiting for cpu: first is going"));
    RunStore store(folder / "s", RunStore::Mode::ReadOnly);
    EXPECT_EQ(store.run(b->runId())->status, RunStatus::Queued);
    a->stop();
    b->join();
    EXPECT_EQ(store.run(b->runId())->status, RunStatus::Finished);
    a->join();
    EXPECT_TRUE(queue.idle());
}

// Trouble
// ---------------------------------------------------------------------------------------------------------------

/// S07: the disk is full for a while. Nothing is lost, writing goes on, the store stays sound.
TEST(DiskFull, PointsWaitInMemory) {
    TempFolder folder;
    RunStore store(folder / "s", RunStore::Mode::ReadWrite);
    const std::string id = makeUlid();
    insertRun(store, id, fakeSpec(100), "full", {}, "cpu");
    RunWriter writer(store, id, 1);
    ASSERT_TRUE(writer.flush());
    bool full = true;
    store.database().beforeCommit = [&] { return full ? SQLITE_FULL : 0; };
    for (int64_t step = 1; step <= 50; ++step) {
        writer.addStep({step, false, {{Metric::Loss, 1.0}}, {}}, nullptr);
        EXPECT_FALSE(writer.flush());
    }
    EXPECT_THAT(writer.problem(), HasSubstr("the disk is full"));
    EXPECT_GT(writer.bufferedBytes(), 0u);
    full = false;
    ASSERT_TRUE(writer.flush());
    EXPECT_EQ(store.series(id, "loss").steps.size(), 50u);
    EXPECT_TRUE(writer.lost().empty());
    EXPECT_TRUE(checkStore(folder / "s").ok);
}

TEST(DiskFull, BeyondTheLimitTheLostRangeIsMarked) {
    TempFolder folder;
    RunStore store(folder / "s", RunStore::Mode::ReadWrite);
    const std::string id = makeUlid();
    insertRun(store, id, fakeSpec(100), "full", {}, "cpu");
    RunWriter writer(store, id, 1, 20000);
    bool full = true;
    store.database().beforeCommit = [&] { return full ? SQLITE_FULL : 0; };
    for (int64_t step = 1; step <= 500; ++step) {
        writer.addStep({step, false, {{Metric::Loss, 1.0}}, {}}, nullptr);
        EXPECT_LE(writer.bufferedBytes(), 20000u);
    }
    EXPECT_FALSE(writer.flush());
    full = false;
    ASSERT_TRUE(writer.flush());
    ASSERT_TRUE(writer.flush());
    const auto steps = store.series(id, "loss").steps;
    ASSERT_FALSE(steps.empty());
    EXPECT_EQ(steps.back(), 500);
    std::string events;
    for (const auto& event : store.events(id)) events += event.alert + ": " + event.text;
    EXPECT_THAT(events, HasSubstr("lost_range: Steps 1 to " + std::to_string(steps.front() - 1) + " were lost"));
}

/// S01: kill -9 in the middle of writing; the store opens, steps are contiguous, the run reads interrupted, resume is
/// offered.
TEST(Killed, StoreOpensAndTheRunIsInterrupted) {
    for (int round = 0; round < 4; ++round) {
        TempFolder folder;
        const std::string path = folder / "s";
        { RunStore store(path, RunStore::Mode::ReadWrite); }
        const pid_t child = fork();
        if (child == 0) {
            Script script;
            script.seconds = 0.0005;
            TrainingJob job(fakeSpec(1000000), fakeOptions(path, script));
            job.join();
            _exit(0);
        }
        // At an arbitrary moment once compaction and checkpoints have begun.
        for (int64_t step = 0; step < 600; std::this_thread::sleep_for(std::chrono::milliseconds(5))) {
            const auto runs = RunStore(path, RunStore::Mode::ReadOnly).runs();
            if (!runs.empty()) step = runs[0].step;
            ASSERT_EQ(waitpid(child, nullptr, WNOHANG), 0) << "the child ended by itself";
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(37 * round));
        kill(child, SIGKILL);
        int status = 0;
        waitpid(child, &status, 0);
        ASSERT_TRUE(WIFSIGNALED(status));
        EXPECT_TRUE(checkStore(path).ok);
        RunStore store(path, RunStore::Mode::ReadWrite);
        const RunSummary run = store.runs().at(0);
        EXPECT_EQ(run.status, RunStatus::Interrupted);
        EXPECT_THAT(run.statusText, HasSubstr("interrupted at step"));
        EXPECT_GT(run.step, 100);
        const auto steps = store.series(run.id, "loss").steps;
        ASSERT_EQ(static_cast<int64_t>(steps.size()), run.step);
        EXPECT_EQ(steps.front(), 1);
        EXPECT_EQ(steps.back(), run.step);
        JobOptions options = fakeOptions(path);
        options.resumeRun = run.id;
        EXPECT_EQ(runFake(fakeSpec(run.step + 50), options).status, RunStatus::Finished);
        EXPECT_EQ(static_cast<int64_t>(store.series(run.id, "loss").steps.size()), run.step + 50);
    }
}

/// S02 with load: several processes write runs into one store and edit it meanwhile.
TEST(ManyProcesses, ShareOneStore) {
    TempFolder folder;
    const std::string path = folder / "s";
    { RunStore store(path, RunStore::Mode::ReadWrite); }
    std::vector<pid_t> children;
    for (int i = 0; i < 3; ++i) {
        const pid_t child = fork();
        if (child == 0) {
            JobOptions options = fakeOptions(path);
            options.beside = true;
            _exit(runFake(fakeSpec(600), options).status == RunStatus::Finished ? 0 : 1);
        }
        children.push_back(child);
    }
    RunStore store(path, RunStore::Mode::ReadWrite);
    for (int i = 0; i < 50; ++i) {
        for (const auto& run : store.runs()) store.setNote(run.id, std::to_string(i));
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    for (const pid_t child : children) {
        int status = 0;
        waitpid(child, &status, 0);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    ASSERT_EQ(store.runs().size(), 3u);
    for (const auto& run : store.runs()) EXPECT_EQ(store.series(run.id, "loss").steps.size(), 600u);
    EXPECT_TRUE(checkStore(path).ok);
}

}  // namespace
}  // namespace mantissa::experiments
