// Planted faults: each is found and named with its place and first step by the diagnosis, and the change it ranks
// first, applied, ends the trouble. Tiny models on the engine itself, on the CPU and on the GPU where there is one.
#include "experiments/report/diagnosis.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>

#include "experiments/job/stepper.h"
#include "tests/experiments/support.h"
#include "tests/support/cuda_twin.h"

namespace mantissa::experiments {
namespace {

using testing::HasSubstr;

/// The engine's trainer, with a call after each step on the job's thread.
class WatchedStepper final : public Stepper {
  public:
    WatchedStepper(std::unique_ptr<Stepper> inner, std::function<void(int64_t)> after)
        : inner_(std::move(inner)), after_(std::move(after)) {}
    engine::StepMetrics step() override {
        engine::StepMetrics metrics = inner_->step();
        after_(metrics.step);
        return metrics;
    }
    engine::EvalResult evaluate() override { return inner_->evaluate(); }
    int64_t stepIndex() const override { return inner_->stepIndex(); }
    int64_t tokensSeen() const override { return inner_->tokensSeen(); }
    engine::MemoryPlan memoryPlan() const override { return inner_->memoryPlan(); }
    std::vector<engine::CatalogueEntry> catalogue() const override { return inner_->catalogue(); }
    std::vector<engine::EffectivePrecision> effectivePrecision() const override { return inner_->effectivePrecision(); }
    void setLearningRateFactor(double factor) override { inner_->setLearningRateFactor(factor); }
    void setProbes(const engine::ProbeConfig& probes) override { inner_->setProbes(probes); }
    std::vector<std::string> setPrecision(const engine::PrecisionConfig& precision) override {
        return inner_->setPrecision(precision);
    }
    std::vector<float> captureTensor(int index) override { return inner_->captureTensor(index); }
    engine::WindowState window(int index) const override { return inner_->window(index); }
    void saveCheckpoint(const std::string& directory) const override { inner_->saveCheckpoint(directory); }
    engine::LoadNote loadCheckpoint(const std::string& directory, bool otherClass) override {
        return inner_->loadCheckpoint(directory, otherClass);
    }
    Facts facts() const override { return inner_->facts(); }

  private:
    std::unique_ptr<Stepper> inner_;
    std::function<void(int64_t)> after_;
};

class PlantedFaults : public testing::TestWithParam<const char*> {
  protected:
    void SetUp() override {
        std::string reason;
        if (std::string(GetParam()) == "cuda" && mantissa::test::cudaBackend(reason) == nullptr) GTEST_SKIP() << reason;
    }
    static RunSpec tiny(int64_t steps, const std::vector<SpecSet>& sets) {
        RunSpec spec = presetSpec("tiny");
        std::vector<SpecSet> all = {{"data.path", "text:generated"},
                                    {"train.steps", std::to_string(steps)},
                                    {"probes.every", "5"},
                                    {"probes.histograms", "5"},
                                    {"checkpoint.every", "10"},
                                    {"checkpoint.keep", "0"},
                                    {"eval.every", "0"}};
        all.insert(all.end(), sets.begin(), sets.end());
        for (const auto& [path, value] : all)
            for (const auto& error : setPath(spec, path, value)) ADD_FAILURE() << error.path << ": " << error.message;
        for (const auto& error : validate(spec)) ADD_FAILURE() << error.path << ": " << error.message;
        return spec;
    }
    JobOptions options() const {
        JobOptions options;
        options.store = folder_ / "s";
        options.headless = true;
        options.device.device = GetParam();
        options.device.threads = 2;
        return options;
    }
    std::string run(const RunSpec& spec) {
        std::string id;
        test::runFake(spec, options(), &id);
        return id;
    }
    Diagnosis diagnosisOf(const std::string& id) {
        RunStore store(folder_ / "s", RunStore::Mode::ReadOnly);
        return diagnose(store, id);
    }
    /// Forks from before the trouble with the change ranked first, and says what that run's diagnosis finds.
    Diagnosis applyFirst(const std::string& id, const Finding& finding, int64_t steps, std::string* child = nullptr) {
        EXPECT_FALSE(finding.changes.empty());
        if (finding.changes.empty()) return {};
        const ProposedChange& change = finding.changes.front();
        RunSpec spec;
        {
            RunStore store(folder_ / "s", RunStore::Mode::ReadOnly);
            spec = parseSpec(store.document(id).specJson).spec;
        }
        spec.trainer.steps = steps;
        for (const auto& set : change.sets) EXPECT_TRUE(setPath(spec, set.path, set.value).empty()) << set.path;
        JobOptions fork = options();
        fork.forkRun = id;
        fork.resumeStep = std::max<int64_t>(0, change.forkStep);
        std::string made;
        test::runFake(spec, fork, &made);
        if (child != nullptr) *child = made;
        return diagnosisOf(made);
    }
    static std::string told(const Diagnosis& diagnosis) {
        std::string text = diagnosis.summary;
        for (const auto& finding : diagnosis.findings) {
            text += "\n" + finding.kind + ": " + finding.what;
            for (const auto& one : finding.evidence) text += "\n  - " + one.text;
            for (const auto& change : finding.changes) text += "\n  > " + change.title + ": " + change.expected;
            for (const auto& one : finding.applied) text += "\n  = " + one.text + ": " + one.brought;
        }
        return text;
    }
    /// The change ranked first, made in a fork, is said to have ended the trouble, and the fork is clean.
    void expectForkHelps(const std::string& id, const Finding& finding, int64_t steps) {
        const Diagnosis after = applyFirst(id, finding, steps);
        for (const auto& one : after.findings)
            EXPECT_FALSE(one.kind == finding.kind && one.place() == finding.place()) << told(after);
        const Diagnosis again = diagnosisOf(id);
        ASSERT_FALSE(again.findings.empty());
        ASSERT_EQ(again.findings.front().applied.size(), 1u) << told(again);
        EXPECT_TRUE(again.findings.front().applied.front().ended) << told(again);
        std::printf("%s: %s: %s\n", finding.place().c_str(), again.findings.front().applied.front().text.c_str(),
                    again.findings.front().applied.front().brought.c_str());
    }
    /// The same training again; the change ranked first is made in the running job after step `at`.
    void expectLiveChangeHelps(const RunSpec& spec, const Finding& finding, int64_t at) {
        ASSERT_FALSE(finding.changes.empty());
        const ProposedChange& change = finding.changes.front();
        ASSERT_TRUE(change.live) << change.title;
        std::vector<SpecSet> sets;
        for (const auto& set : change.sets) sets.push_back({set.path, set.value});
        const std::string id = runWithChange(spec, at, sets);
        const Diagnosis after = diagnosisOf(id);
        ASSERT_FALSE(after.findings.empty()) << "what was is still told";
        const auto again = std::find_if(after.findings.begin(), after.findings.end(), [&](const Finding& one) {
            return one.kind == finding.kind && one.place() == finding.place();
        });
        ASSERT_NE(again, after.findings.end()) << told(after);
        EXPECT_EQ(again->firstStep, finding.firstStep);
        EXPECT_FALSE(again->ongoing) << told(after);
        ASSERT_EQ(again->applied.size(), 1u) << told(after);
        EXPECT_EQ(again->applied[0].step, at + 1);
        EXPECT_TRUE(again->applied[0].ended) << told(after);
        for (const auto& one : after.findings) EXPECT_FALSE(one.ongoing && one.severity == 2) << told(after);
    }
    /// Runs to the end; `sets` are given to the job while step `at` is going, so that step at + 1 has them.
    std::string runWithChange(const RunSpec& spec, int64_t at, const std::vector<SpecSet>& sets) {
        std::atomic<TrainingJob*> job{nullptr};
        JobOptions options = this->options();
        options.makeStepper = [&](const RunSpec& given, const engine::DeviceChoice& device,
                                  const std::function<void(const std::string&)>& phase) {
            return std::make_unique<WatchedStepper>(makeEngineStepper(given, device, phase), [&](int64_t step) {
                while (job == nullptr) std::this_thread::yield();
                if (step == at) job.load()->set(sets);
            });
        };
        TrainingJob running(spec, options);
        job = &running;
        running.join();
        return running.runId();
    }

    test::TempFolder folder_;
};

TEST_P(PlantedFaults, AHealthyRunHasNoFinding) {
    const Diagnosis diagnosis = diagnosisOf(run(tiny(60, {})));
    EXPECT_TRUE(diagnosis.findings.empty()) << told(diagnosis);
    EXPECT_EQ(diagnosis.summary, "Nothing stands out in 60 steps.");
}

/// The rate is as good as 0: what is seen is the casts' doing, not that of a training that the fault threw off.
TEST_P(PlantedFaults, OutlierChannel) {
    const RunSpec spec = tiny(60, {{"optimizer.learning_rate", "1e-9"},
                                   {"optimizer.weight_decay", "0"},
                                   {"faults", R"([{"kind": "outlier_channel", "step": 31, "target": "h.1.mlp.fc1/input",
                                  "channel": 5, "value": 1000}])"}});
    const Diagnosis diagnosis = diagnosisOf(run(spec));
    ASSERT_FALSE(diagnosis.findings.empty());
    const Finding& finding = diagnosis.findings.front();
    EXPECT_EQ(finding.kind, "outlier") << told(diagnosis);
    EXPECT_EQ(finding.place(), "h.1 mlp.fc1 input");
    EXPECT_EQ(finding.firstStep, 31);
    EXPECT_TRUE(finding.ongoing);
    ASSERT_FALSE(finding.changes.empty());
    EXPECT_TRUE(finding.changes.front().live);
    EXPECT_THAT(finding.changes.front().expected, HasSubstr("underflow"));
    for (const auto& other : diagnosis.findings) EXPECT_EQ(other.place(), finding.place()) << told(diagnosis);
    expectLiveChangeHelps(spec, finding, 40);
}

TEST_P(PlantedFaults, ScaleFrozenByAnInf) {
    const RunSpec spec = tiny(50, {{"faults", R"([{"kind": "freeze_scale_inf", "step": 21,
                                                         "target": "h.0.mlp.fc2/input"}])"}});
    const Diagnosis diagnosis = diagnosisOf(run(spec));
    ASSERT_FALSE(diagnosis.findings.empty());
    const Finding& finding = diagnosis.findings.front();
    EXPECT_EQ(finding.kind, "frozen_scale") << told(diagnosis);
    EXPECT_EQ(finding.place(), "h.0 mlp.fc2 input");
    EXPECT_NEAR(static_cast<double>(finding.firstStep), 21, 1);
    ASSERT_FALSE(finding.changes.empty());
    EXPECT_EQ(finding.changes.front().expected, "updates with a frozen scale 16 → 0");
    expectLiveChangeHelps(spec, finding, 28);
    expectForkHelps(diagnosis.run, finding, 50);
}

TEST_P(PlantedFaults, WeightSetToNan) {
    const std::string id = run(tiny(40, {{"faults", R"([{"kind": "weight_nan", "step": 26,
                                                         "target": "h.1.attn.proj/weight", "channel": 70}])"}}));
    const Diagnosis diagnosis = diagnosisOf(id);
    ASSERT_EQ(diagnosis.findings.size(), 1u) << told(diagnosis);
    const Finding& finding = diagnosis.findings.front();
    EXPECT_EQ(finding.kind, "non_finite");
    EXPECT_EQ(finding.place(), "h.1 attn.proj weight") << told(diagnosis);
    EXPECT_EQ(finding.firstStep, 26);
    ASSERT_FALSE(finding.changes.empty());
    EXPECT_TRUE(finding.changes.front().needsFork);
    EXPECT_EQ(finding.changes.front().forkStep, 20);
    expectForkHelps(id, finding, 40);
}

TEST_P(PlantedFaults, ALayerWhoseScaleNeverUpdates) {
    const RunSpec spec = tiny(40, {{"faults", R"([{"kind": "never_update", "step": 1,
                                                         "target": "h.0.attn.qkv/weight"}])"}});
    const Diagnosis diagnosis = diagnosisOf(run(spec));
    ASSERT_FALSE(diagnosis.findings.empty());
    const Finding& finding = diagnosis.findings.front();
    EXPECT_EQ(finding.kind, "never_updated") << told(diagnosis);
    EXPECT_EQ(finding.place(), "h.0 attn.qkv weight");
    EXPECT_EQ(finding.firstStep, 1);
    EXPECT_THAT(finding.what, HasSubstr("has never been updated"));
    ASSERT_FALSE(finding.changes.empty());
    EXPECT_TRUE(finding.changes.front().live);
    expectLiveChangeHelps(spec, finding, 20);
    {
        RunStore store(folder_ / "s", RunStore::Mode::ReadOnly);
        const AmaxWindow stuck = store.window(diagnosis.run, finding.tensorIndex, 30);
        EXPECT_FALSE(stuck.everUpdated) << "its window holds amaxes, and none of them rules";
        EXPECT_EQ(stuck.entries.size(), 16u);
        EXPECT_EQ(stuck.ruling, -1);
        EXPECT_EQ(stuck.scaleNext, 1);
        const AmaxWindow other = store.window(diagnosis.run, finding.tensorIndex - 1, 30);
        EXPECT_TRUE(other.everUpdated);
        EXPECT_GE(other.ruling, 0);
    }
    EXPECT_EQ(finding.changes.front().forkStep, -1) << "it was so from the first step on";
    expectForkHelps(diagnosis.run, finding, 50);
    // The fork went ten steps on: the losses told are those of the forty that both have.
    const Diagnosis again = diagnosisOf(diagnosis.run);
    RunStore store(folder_ / "s", RunStore::Mode::ReadOnly);
    const AppliedChange& fork = again.findings.front().applied.front();
    const auto mean = [&](const std::string& id) {
        const Series loss = store.series(id, "loss");
        return std::accumulate(loss.values.begin(), loss.values.begin() + 40, 0.0) / 40;
    };
    EXPECT_THAT(fork.brought, HasSubstr(fmt::format("loss {:.4g} → {:.4g} over 40 steps of both",
                                                    mean(diagnosis.run), mean(fork.run))));
}

/// So small a model spreads its gradients over few binades: the limit is lowered for it.
TEST_P(PlantedFaults, GradientsInE4m3Underflow) {
    const RunSpec spec = tiny(60, {{"precision.format", "e4m3"}, {"alarms.underflow", "0.001"}});
    const Diagnosis diagnosis = diagnosisOf(run(spec));
    ASSERT_FALSE(diagnosis.findings.empty()) << told(diagnosis);
    const Finding& finding = diagnosis.findings.front();
    EXPECT_EQ(finding.kind, "underflow") << told(diagnosis);
    EXPECT_EQ(finding.tensor, "grad_output");
    EXPECT_EQ(finding.linear, "attn.qkv");
    EXPECT_LE(finding.firstStep, 8);
    ASSERT_FALSE(finding.changes.empty());
    EXPECT_EQ(finding.changes.front().title, "format e4m3 → hybrid");
    expectLiveChangeHelps(spec, finding, 40);
}

TEST_P(PlantedFaults, AStaleWeightCopy) {
    const RunSpec spec = tiny(40, {{"probes.every", "1"}, {"faults", R"([{"kind": "stale_weight", "step": 16,
                                                         "target": "h.1.mlp.fc2/weight"}])"}});
    const Diagnosis diagnosis = diagnosisOf(run(spec));
    ASSERT_FALSE(diagnosis.findings.empty());
    const Finding& finding = diagnosis.findings.front();
    EXPECT_EQ(finding.kind, "stale_weight") << told(diagnosis);
    EXPECT_EQ(finding.place(), "h.1 mlp.fc2 weight");
    EXPECT_NEAR(static_cast<double>(finding.firstStep), 16, 1);
    ASSERT_FALSE(finding.changes.empty());
    EXPECT_THAT(finding.changes.front().expected, HasSubstr("→ 0"));
    expectLiveChangeHelps(spec, finding, 25);
    EXPECT_EQ(finding.changes.front().forkStep, 10);
    expectForkHelps(diagnosis.run, finding, 40);
}

/// Two planted outlier channels in a trained model: the policy moves exactly their linears, and the loss is back. The
/// rate is as good as 0 then, so that what is seen is the casts' doing alone.
TEST_P(PlantedFaults, AutomaticPrecisionFindsThePlantedPlacesAndBringsTheLossBack) {
    const SpecSet faults = {"faults", R"([{"kind": "outlier_channel", "step": 211, "target": "h.0.attn.qkv/input",
                                           "channel": 3, "value": 1000000},
                                          {"kind": "outlier_channel", "step": 211, "target": "h.1.mlp.fc1/input",
                                           "channel": 5, "value": 1000000}])"};
    const std::string parent = run(tiny(200, {}));
    const auto forked = [&](const std::vector<SpecSet>& sets) {
        std::vector<SpecSet> all = {{"optimizer.learning_rate", "1e-9"}, {"optimizer.weight_decay", "0"}};
        all.insert(all.end(), sets.begin(), sets.end());
        JobOptions options = this->options();
        options.forkRun = parent;
        options.resumeStep = 200;
        std::string id;
        EXPECT_EQ(test::runFake(tiny(260, all), options, &id).status, RunStatus::Finished);
        return id;
    };
    const std::string healthy = forked({}), fp8 = forked({faults}),
                      automatic = forked({faults,
                                          {"precision.auto.enabled", "true"},
                                          {"precision.auto.ladder", "[\"bf16\"]"},
                                          {"precision.auto.patience", "4"}});
    RunStore store(folder_ / "s", RunStore::Mode::ReadOnly);
    std::vector<std::string> moved;
    for (const auto& event : store.events(automatic))
        if (event.kind == "auto") {
            moved.push_back(event.layer + " " + event.tensor);
            EXPECT_GE(event.step, 211 + 3);
            EXPECT_LE(event.step, 211 + 8) << event.text;
            EXPECT_THAT(event.text, HasSubstr("input underflow"));
        }
    EXPECT_THAT(moved, testing::UnorderedElementsAre("h.0 attn.qkv/input", "h.1 mlp.fc1/input"));
    // What ran, read back: fprop and wgrad of the two linears alone are BF16 beside the head.
    std::vector<std::string> plain;
    for (const auto& row : store.document(automatic).precision)
        if (row.a == "bf16" && row.layer != "lm_head") plain.push_back(row.layer + " " + row.linear + " " + row.gemm);
    EXPECT_THAT(plain, testing::UnorderedElementsAre("h.0 attn.qkv fprop", "h.0 attn.qkv wgrad", "h.1 mlp.fc1 fprop",
                                                     "h.1 mlp.fc1 wgrad"));
    // The plan can be saved and used by another run.
    const RunSpec plan = parseSpec(store.document(automatic).specJson).spec;
    EXPECT_TRUE(validate(plan).empty());
    EXPECT_EQ(plan.trainer.precision.rules.size(), 6u) << "for each linear its own recipe and two products in BF16";
    const auto late = [&](const std::string& id) {
        const Series loss = store.series(id, "loss");
        double sum = 0;
        for (size_t i = loss.values.size() - 30; i < loss.values.size(); ++i) sum += loss.values[i] / 30;
        return sum;
    };
    const double wanted = late(healthy), hurt = late(fp8), healed = late(automatic);
    const std::string losses =
        "healthy " + std::to_string(wanted) + ", FP8 " + std::to_string(hurt) + ", automatic " + std::to_string(healed);
    std::printf("loss: %s; moved: %s, %s\n", losses.c_str(), moved[0].c_str(), moved[1].c_str());
    EXPECT_GT(hurt - wanted, 0.005) << "the fault does harm: " << losses;
    EXPECT_LT(std::abs(healed - wanted), 0.2 * (hurt - wanted)) << losses;
}

INSTANTIATE_TEST_SUITE_P(OnEachDevice, PlantedFaults, testing::Values("cpu", "cuda"),
                         [](const auto& device) { return std::string(device.param); });

}  // namespace
}  // namespace mantissa::experiments
