// Changes of a run while it goes, with a scripted trainer: applied all or none, logged with old and new value, stored.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/what_if.h"
#include "experiments/tensor_input.h"
#include "tests/experiments/support.h"

namespace mantissa::experiments {
namespace {

using test::fakeOptions;
using test::fakeSpec;
using test::Script;
using test::TempFolder;
using testing::Contains;
using testing::HasSubstr;

/// A job that goes on until it is told to stop, and a second connection to its store.
class LiveChange : public testing::Test {
  protected:
    void start(RunSpec spec = fakeSpec(1000000)) {
        Script script;
        script.seconds = 0.002;
        job_ = std::make_unique<TrainingJob>(spec, fakeOptions(folder_ / "s", script));
        store_ = std::make_unique<RunStore>(folder_ / "s", RunStore::Mode::ReadWrite);
        waitFor([&] { return store_->run(job_->runId())->step > 3; });
    }
    template <typename Condition>
    bool waitFor(Condition condition) {
        for (int i = 0; i < 2000; ++i, std::this_thread::sleep_for(std::chrono::milliseconds(5)))
            if (condition()) return true;
        return false;
    }
    std::vector<std::string> texts(const std::string& kind) {
        std::vector<std::string> list;
        for (const auto& event : store_->events(job_->runId()))
            if (event.kind == kind) list.push_back(event.text);
        return list;
    }
    RunSpec inForce() { return parseSpec(store_->document(job_->runId()).specJson).spec; }

    TempFolder folder_;
    std::unique_ptr<TrainingJob> job_;
    std::unique_ptr<RunStore> store_;
};

TEST_F(LiveChange, FieldsOfTheSpecAreAppliedTogetherAndLogged) {
    start();
    job_->set({{"precision.history_length", "4"}, {"precision.margin", "1"}, {"optimizer.learning_rate", "0.001"}});
    ASSERT_TRUE(waitFor([&] { return texts("command").size() == 3; }));
    EXPECT_THAT(texts("command"), Contains("precision.history_length: 16 → 4"));
    EXPECT_THAT(texts("command"), Contains("precision.margin: 0 → 1"));
    EXPECT_THAT(texts("command"), Contains("optimizer.learning_rate: 0.002 → 0.001"));
    EXPECT_THAT(texts("notice"), Contains("Scripted: windows kept."));
    EXPECT_EQ(inForce().trainer.precision.historyLength, 4);
    const auto specs = store_->document(job_->runId()).specs;
    ASSERT_EQ(specs.size(), 2u);
    EXPECT_EQ(specs[0].first, 1);
    EXPECT_GT(specs[1].first, 3);
    EXPECT_EQ(parseSpec(specs[0].second).spec.trainer.precision.historyLength, 16) << "the old one is kept";
    // The window of a step before the change is that of its own setting.
    EXPECT_EQ(store_->window(job_->runId(), 0, 2).history, 16);
    ASSERT_TRUE(waitFor([&] { return store_->run(job_->runId())->step > specs[1].first + 2; }));
    EXPECT_EQ(store_->window(job_->runId(), 0, specs[1].first + 1).history, 4);
}

TEST_F(LiveChange, ShadowProductsSwitchedOnShowInTheMemoryPlan) {
    start();
    EXPECT_EQ(store_->document(job_->runId()).planBytes.at("workspace"), 0u);
    const uint64_t before = store_->run(job_->runId())->planBytes;
    job_->set({{"probes.shadow_every", "10"}});
    ASSERT_TRUE(waitFor([&] { return store_->document(job_->runId()).planBytes.at("workspace") == 500; }));
    EXPECT_TRUE(waitFor([&] { return store_->run(job_->runId())->planBytes == before + 500; }));
    EXPECT_EQ(inForce().trainer.probes.shadowEvery, 10);
}

TEST_F(LiveChange, ARefusedChangeIsAnEventWithTheReasonAndChangesNothing) {
    start();
    job_->set({{"precision.margin", "1"}, {"precision.recipe", "fp7"}});
    job_->set({{"model.width", "128"}});
    job_->set({{"precision.rules", R"([{"match": "h.9.*", "recipe": "bf16"}])"}});
    job_->set({{"precision.margin", "62"}});  // the trainer itself refuses
    ASSERT_TRUE(waitFor([&] { return texts("refused").size() == 4; }));
    const auto refused = texts("refused");
    EXPECT_THAT(refused[0], HasSubstr("precision.recipe: \"fp7\" is not one of the allowed words; allowed: delayed"));
    EXPECT_THAT(refused[1], HasSubstr("model.width cannot change while a run goes; allowed: precision.*"));
    EXPECT_THAT(refused[2], HasSubstr("precision.rules[0].match: \"h.9.*\" matches no linear"));
    EXPECT_THAT(refused[3], HasSubstr("takes no such margin"));
    EXPECT_EQ(inForce().trainer.precision.margin, 0);
    EXPECT_EQ(store_->document(job_->runId()).specs.size(), 1u);
    EXPECT_TRUE(texts("command").empty());
}

TEST_F(LiveChange, AnotherProcessChangesByTheStore) {
    start();
    store_->sendCommand(job_->runId(), "set",
                        R"({"precision.algorithm": "most_recent", "probes.every": 3,
                            "precision.rules": [{"match": "h.1.*", "gemm": "wgrad", "recipe": "bf16"}]})");
    store_->sendCommand(job_->runId(), "set", "[]");
    ASSERT_TRUE(waitFor([&] { return texts("command").size() == 3; }));
    ASSERT_TRUE(waitFor([&] { return !texts("notice").empty(); }));
    EXPECT_EQ(inForce().trainer.precision.algorithm, engine::Algorithm::MostRecent);
    EXPECT_EQ(inForce().trainer.probes.every, 3);
    ASSERT_EQ(inForce().trainer.precision.rules.size(), 1u);
    EXPECT_EQ(inForce().trainer.precision.rules[0].gemms, 4);
    ASSERT_TRUE(waitFor([&] {
        for (const auto& text : texts("notice"))
            if (text.find("not understood: set []") != std::string::npos) return true;
        return false;
    }));
}

TEST_F(LiveChange, AResumeGoesOnWithTheChangedSpec) {
    start();
    job_->set({{"precision.margin", "2"}});
    ASSERT_TRUE(waitFor([&] { return !texts("command").empty(); }));
    const int64_t changed = store_->run(job_->runId())->step;
    ASSERT_TRUE(waitFor([&] { return store_->run(job_->runId())->step > changed + 2; }));
    job_->stop();
    job_->join();
    const std::string id = job_->runId();
    const RunSpec spec = inForce();
    EXPECT_EQ(spec.trainer.precision.margin, 2);
    RunSpec more = spec;
    more.trainer.steps = store_->run(id)->step + 5;
    JobOptions options = fakeOptions(folder_ / "s");
    options.resumeRun = id;
    EXPECT_EQ(test::runFake(more, options).status, RunStatus::Finished);
    const auto specs = store_->document(id).specs;
    ASSERT_EQ(specs.size(), 3u) << "at the start, after the change, with the resume's longer run";
    EXPECT_EQ(parseSpec(specs[2].second).spec.trainer.precision.margin, 2);
}

TEST_F(LiveChange, ACapturedTensorIsAFileOfTheRun) {
    start();
    job_->capture("h.1/mlp.fc1/input");
    job_->capture("h.1/mlp.fc9/input");
    ASSERT_TRUE(waitFor([&] { return texts("capture").size() == 1 && texts("refused").size() == 1; }));
    EXPECT_THAT(texts("refused")[0], HasSubstr("nearest is \"h.1/mlp.fc1/input\""));
    const auto kept = capturedTensors(*store_, job_->runId());
    ASSERT_EQ(kept.size(), 1u);
    EXPECT_EQ(kept[0].name, "h.1/mlp.fc1/input");
    EXPECT_GT(kept[0].step, 3);
    const auto values = readTensorFile(kept[0].path);
    EXPECT_EQ(values.rows, 256);
    EXPECT_EQ(values.cols, 64);
    EXPECT_EQ(values.values[0], 2.5f) << "tensor 2 of the scripted catalogue";
}

TEST_F(LiveChange, AForkKeepsItsCheckpointWhileTheParentDropsIt) {
    RunSpec spec = fakeSpec(1000000);
    spec.checkpoint.every = 0;
    spec.checkpoint.keep = 1;
    start(spec);
    job_->checkpoint();
    ASSERT_TRUE(waitFor([&] { return store_->checkpoints(job_->runId()).size() == 1; }));
    const CheckpointRow row = store_->checkpoints(job_->runId())[0];
    JobOptions options = fakeOptions(folder_ / "s");
    options.forkRun = job_->runId();
    options.resumeStep = row.step;
    RunSpec child = fakeSpec(row.step + 3);
    TrainingJob fork(child, options);  // waits for the device
    job_->checkpoint();
    ASSERT_TRUE(waitFor([&] { return !std::filesystem::exists(row.path); }));
    job_->stop();
    job_->join();
    fork.join();
    EXPECT_EQ(store_->run(fork.runId())->status, RunStatus::Finished);
    EXPECT_EQ(store_->run(fork.runId())->step, row.step + 3);
}

}  // namespace
}  // namespace mantissa::experiments
