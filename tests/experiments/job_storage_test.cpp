// What a job leaves on disk when the disk, or who copies it, does not do as it should.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "experiments/job/training_job.h"
#include "experiments/store/database.h"
#include "tests/experiments/support.h"

namespace mantissa::experiments {
namespace {

using test::fakeOptions;
using test::fakeSpec;
using test::runFake;
using test::Script;
using test::TempFolder;

/// What cannot be written at the last step is tried once more in the end, and told once.
TEST(DiskFull, ACheckpointThatFailsIsToldOnce) {
    class NoRoom : public test::FakeStepper {
      public:
        using FakeStepper::FakeStepper;
        void saveCheckpoint(const std::string&) const override { throw Error(ErrorCode::Io, "no room"); }
    };
    TempFolder folder;
    JobOptions options = fakeOptions(folder / "s");
    options.makeStepper = [](const RunSpec& spec, const engine::DeviceChoice&,
                             const std::function<void(const std::string&)>&) {
        return std::make_unique<NoRoom>(spec, Script{});
    };
    std::string id;
    EXPECT_EQ(runFake(fakeSpec(200), options, &id).status, RunStatus::Finished);
    RunStore store(folder / "s", RunStore::Mode::ReadOnly);
    const auto alerts = store.alerts(id);
    const auto failed = std::count_if(alerts.begin(), alerts.end(),
                                      [](const RunEvent& event) { return event.alert == "checkpoint_failed"; });
    EXPECT_EQ(failed, 2) << "of step 100 and of step 200";
}

/// Backup tools often copy the file and not its WAL: it holds a run up to its newest checkpoint.
TEST(LostWal, TheFileAloneHoldsTheRunUpToItsCheckpoint) {
    TempFolder folder;
    Script script;
    script.seconds = 0.002;
    TrainingJob job(fakeSpec(1000000), fakeOptions(folder / "s", script));
    RunStore store(folder / "s", RunStore::Mode::ReadOnly);
    const auto reached = [&](auto condition) {
        for (int i = 0; i < 2000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
        return condition();
    };
    ASSERT_TRUE(reached([&] { return !store.events(job.runId()).empty() && store.run(job.runId())->step > 105; }));
    job.pause();
    ASSERT_TRUE(reached([&] { return store.run(job.runId())->status == RunStatus::Paused; }));
    std::filesystem::copy_file(folder / "s", folder / "copy");
    job.stopNow();
    job.join();
    RunStore copy(folder / "copy", RunStore::Mode::ReadOnly);
    ASSERT_EQ(copy.runs().size(), 1u);
    EXPECT_GE(copy.runs()[0].step, 100);
    EXPECT_GE(copy.database().integer("SELECT count(*) FROM checkpoint"), 1);
}

/// With the WAL the rows of the newest checkpoints are gone; their folders are found, and resume goes on from them.
TEST(LostWal, CheckpointsOnDiskAreFound) {
    TempFolder folder;
    std::string id;
    runFake(fakeSpec(250), fakeOptions(folder / "s"), &id);
    std::filesystem::create_directories(folder / "s.d" + std::string("/") + id + "/step-00000260.tmp");
    {
        RunStore store(folder / "s", RunStore::Mode::ReadWrite);
        store.database().exec("DELETE FROM checkpoint WHERE step > 100");
        const auto rows = store.checkpoints(id);
        ASSERT_EQ(rows.size(), 3u) << "100, which keep removed, then 200 and 250";
        EXPECT_EQ(rows[1].step, 200);
        EXPECT_EQ(rows[2].step, 250);
        EXPECT_TRUE(rows[2].onDisk);
        EXPECT_GT(rows[2].bytes, 0u);
        EXPECT_GT(rows[2].timeMs, 1'500'000'000'000);
    }
    JobOptions options = fakeOptions(folder / "s");
    options.resumeRun = id;
    EXPECT_EQ(runFake(fakeSpec(270), options).step, 270);
    RunStore store(folder / "s", RunStore::Mode::ReadOnly);
    EXPECT_EQ(store.checkpoints(id).back().step, 270);
}

}  // namespace
}  // namespace mantissa::experiments
