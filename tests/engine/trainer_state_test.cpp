// What must not change training state, and what must change nothing else: evaluation, probes, threads, memory sharing,
// skipped steps.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "engine/schedule.h"
#include "engine/trainer_core.h"
#include "kernels/error.h"
#include "tests/support/engine_configs.h"
#include "tests/support/forwarding_backend.h"

namespace mantissa::engine {
namespace {

using test::tinyConfig;
using test::tokensFor;

TrainerConfig shortConfig(PrecisionMode mode, RecipeKind recipe = RecipeKind::Delayed) {
    TrainerConfig config = tinyConfig(mode, recipe);
    config.precision.historyLength = 4;
    return config;
}

const std::pair<PrecisionMode, RecipeKind> kModes[] = {{PrecisionMode::Fp32, RecipeKind::Bf16},
                                                       {PrecisionMode::Fp16, RecipeKind::Bf16},
                                                       {PrecisionMode::Bf16, RecipeKind::Bf16},
                                                       {PrecisionMode::Fp8, RecipeKind::Delayed},
                                                       {PrecisionMode::Fp8, RecipeKind::Current}};

uint64_t hashAfter(const TrainerConfig& config, int steps, int threads = 2) {
    Trainer trainer(config, {"cpu", threads, ""}, tokensFor(config));
    for (int i = 0; i < steps; ++i) trainer.step();
    return trainer.stateHash();
}

TEST(TrainerState, EvaluationLeavesEveryBitAlone) {
    for (const auto& [mode, recipe] : kModes) {
        const TrainerConfig config = shortConfig(mode, recipe);
        Trainer trainer(config, {"cpu", 2, ""}, tokensFor(config));
        for (int i = 0; i < 5; ++i) {
            trainer.step();
            const uint64_t before = trainer.stateHash();
            const EvalResult one = trainer.evaluate(), two = trainer.evaluate();
            EXPECT_EQ(trainer.stateHash(), before);
            EXPECT_EQ(one.loss, two.loss);
            EXPECT_EQ(one.tokens, 2 * 4 * 64);
        }
        EXPECT_EQ(trainer.stateHash(), hashAfter(config, 5)) << "an evaluation changed a later step";
    }
}

ProbeConfig probes(int every, int histograms, bool counters) {
    ProbeConfig config;
    config.every = every;
    config.histograms = histograms;
    config.counters = counters;
    return config;
}

TEST(TrainerState, ProbesChangeNoBit) {
    for (RecipeKind recipe : {RecipeKind::Delayed, RecipeKind::Current}) {
        TrainerConfig config = shortConfig(PrecisionMode::Fp8, recipe);
        config.probes = probes(0, 0, true);
        const uint64_t plain = hashAfter(config, 6);
        config.probes = probes(1, 1, true);
        EXPECT_EQ(hashAfter(config, 6), plain);
        config.probes = probes(3, 3, true);
        EXPECT_EQ(hashAfter(config, 6), plain);
        config.probes = probes(0, 0, false);
        EXPECT_EQ(hashAfter(config, 6), plain);
    }
}

TEST(TrainerState, ProbedStepsCarryTheDearSet) {
    for (RecipeKind recipe : {RecipeKind::Delayed, RecipeKind::Current}) {
        TrainerConfig config = shortConfig(PrecisionMode::Fp8, recipe);
        config.probes = probes(2, 4, true);
        Trainer trainer(config, {"cpu", 2, ""}, tokensFor(config));
        for (int step = 1; step <= 5; ++step) {
            if (step == 5) trainer.setProbes(probes(1, 1, true));
            const auto record = trainer.step().numerics;
            ASSERT_EQ(record->step, step);
            ASSERT_EQ(record->tensors.size(), trainer.catalogue().size());
            const bool dear = step % 2 == 0 || step == 5, histogram = step % 4 == 0 || step == 5;
            EXPECT_EQ(record->probed, dear);
            for (size_t i = 0; i < record->tensors.size(); ++i) {
                const TensorNumerics& tensor = record->tensors[i];
                const CatalogueEntry& entry = trainer.catalogue()[i];
                if (entry.layer == "lm_head") {
                    EXPECT_EQ(tensor.counters[0], 0u);
                    continue;
                }
                EXPECT_EQ(tensor.counters[0], static_cast<uint64_t>(entry.rows * entry.cols)) << tensorName(entry);
                EXPECT_GT(tensor.amax, 0) << tensorName(entry);
                EXPECT_EQ(tensor.dear, dear);
                EXPECT_EQ(tensor.exponents.empty(), !histogram);
                if (dear) {
                    EXPECT_GT(tensor.kurtosis, 1) << tensorName(entry);
                    EXPECT_LE(tensor.minNonZero, tensor.amax);
                    EXPECT_GT(tensor.sqnrDb, 3) << tensorName(entry) << " step " << step;
                }
            }
        }
    }
}

TEST(TrainerState, SameBitsOnAnyNumberOfThreads) {
    for (const auto& [mode, recipe] : kModes) {
        TrainerConfig config = shortConfig(mode, recipe);
        config.model = {96, 96, 3, 2, 160, 48, true};  // sizes that fill no tile
        config.batch = 3;
        const uint64_t one = hashAfter(config, 3, 1);
        for (int threads : {2, 3, 16})
            EXPECT_EQ(hashAfter(config, 3, threads), one) << threads << " threads, mode " << modeName(mode);
    }
}

TEST(TrainerState, StepsReadOneLateAreTheSame) {
    for (const auto& [mode, recipe] : kModes) {
        TrainerConfig config = shortConfig(mode, recipe);
        config.probes.every = 2;
        config.probes.opChecks = false, config.probes.flightSteps = 0;  // else a CPU runs no step ahead
        Trainer plain(config, {"cpu", 2, ""}, tokensFor(config)), late(config, {"cpu", 2, ""}, tokensFor(config));
        for (int step = 1; step <= 6; ++step) {
            const StepMetrics now = plain.step(), then = late.step(step < 6);
            EXPECT_EQ(now.step, then.step);
            EXPECT_EQ(now.loss, then.loss);
            EXPECT_EQ(now.numerics->probed, then.numerics->probed);
            if (!late.stepAhead()) continue;
            EXPECT_EQ(late.stepIndex(), step);
            EXPECT_THROW(late.evaluate(), Error);
            EXPECT_THROW(late.stateHash(), Error);
        }
        EXPECT_FALSE(late.stepAhead());
        EXPECT_EQ(plain.stateHash(), late.stateHash());
    }
}

TEST(TrainerState, StochasticRoundingIsReproducible) {
    for (RecipeKind recipe : {RecipeKind::Delayed, RecipeKind::Current}) {
        TrainerConfig config = shortConfig(PrecisionMode::Fp8, recipe);
        const uint64_t nearest = hashAfter(config, 3, 1);
        config.precision.stochasticRounding = true;
        const uint64_t stochastic = hashAfter(config, 3, 1);
        EXPECT_NE(stochastic, nearest);
        EXPECT_EQ(hashAfter(config, 3, 3), stochastic);
        config.seed = 2;
        EXPECT_NE(hashAfter(config, 3, 1), stochastic);
    }
}

uint64_t hashOnMemory(const TrainerConfig& config, bool shareMemory, MemoryPlan& plan) {
    kernels::SerialExecutor executor;
    const auto backend = kernels::createCpuBackend(executor);
    TrainerCore core(config, *backend, tokensFor(config), shareMemory);
    for (int i = 0; i < 3; ++i) core.step();
    core.evaluate();
    core.step();
    plan = core.memoryPlan();
    return core.stateHash();
}

void expectSharingChangesNothing(const TrainerConfig& config, const std::string& what) {
    MemoryPlan shared, apart;
    EXPECT_EQ(hashOnMemory(config, true, shared), hashOnMemory(config, false, apart)) << what;
    EXPECT_LT(shared.total(), apart.total()) << what;
    EXPECT_EQ(shared.gradients == 0, config.accumulation == 1) << what;
}

TEST(TrainerState, SharedMemoryChangesNoBit) {
    for (const auto& [mode, recipe] : kModes)
        for (int accumulation : {1, 2}) {
            TrainerConfig config = shortConfig(mode, recipe);
            config.accumulation = accumulation;
            expectSharingChangesNothing(config, modeName(mode));
        }
}

TEST(TrainerState, SharedMemoryChangesNoBitUnderRules) {
    for (RecipeKind recipe : {RecipeKind::Delayed, RecipeKind::Current})
        for (uint8_t gemms = 1; gemms < 7; ++gemms) {
            TrainerConfig config = shortConfig(PrecisionMode::Fp8, recipe);
            config.model.layers = 3;
            config.model.tiedHead = gemms % 2 == 0;
            config.precision.headFp8 = gemms > 3;
            config.precision.rules = {{"h.1.*", gemms, RecipeKind::Bf16},
                                      {"lm_head", gemms, RecipeKind::Bf16},
                                      {"h.2.mlp.*", 7, RecipeKind::Bf16}};
            expectSharingChangesNothing(
                config, std::string(recipeName(recipe)) + " rules of products " + std::to_string(gemms));
        }
}

TEST(TrainerState, PlanIsTheTrainersOwn) {
    const TrainerConfig config = shortConfig(PrecisionMode::Fp8);
    const DeviceChoice device{"cpu", 2, ""};
    Trainer trainer(config, device, tokensFor(config));
    const MemoryPlan plan = Trainer::plan(config, device, 0);
    EXPECT_EQ(plan.total(), trainer.memoryPlan().total());
    EXPECT_EQ(plan.note, trainer.memoryPlan().note);
}

TEST(TrainerState, TooLargeAPlanIsRefusedBeforeAllocating) {
    TrainerConfig config = shortConfig(PrecisionMode::Bf16);
    config.model = {50257, 8192, 64, 200, 32768, 2048, true};
    try {
        Trainer trainer(config, {"cpu", 1, ""}, tokensFor(config));
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::OutOfMemory);
        const std::string text = error.what();
        EXPECT_EQ(text.rfind("Not started: the plan needs ", 0), 0u) << text;
        EXPECT_NE(text.find("train.batch"), std::string::npos) << text;
    }
}

TEST(TrainerState, MicroBatchesMergeByMaximumAndAddUp) {
    TrainerConfig whole = shortConfig(PrecisionMode::Fp8), split = whole;
    split.batch = 2;
    split.accumulation = 2;
    Trainer one(whole, {"cpu", 1, ""}, tokensFor(whole)), two(split, {"cpu", 1, ""}, tokensFor(split));
    const StepMetrics a = one.step(), b = two.step();
    EXPECT_NEAR(a.loss, b.loss, 1e-6);
    EXPECT_NEAR(a.gradientNorm, b.gradientNorm, 1e-3 * a.gradientNorm);
    for (size_t i = 0; i < one.catalogue().size(); ++i) {
        if (one.catalogue()[i].role == TensorRole::GradOutput) continue;
        EXPECT_EQ(a.numerics->tensors[i].amax, b.numerics->tensors[i].amax) << tensorName(one.catalogue()[i]);
        for (int counter = 0; counter < 8; ++counter)
            EXPECT_EQ(a.numerics->tensors[i].counters[counter], b.numerics->tensors[i].counters[counter]);
    }
}

TEST(TrainerState, UnscaledRunDiffersInRecipeAndScaleOnly) {
    const TrainerConfig healthy = shortConfig(PrecisionMode::Fp8),
                        unscaled = shortConfig(PrecisionMode::Fp8, RecipeKind::Fixed);
    Trainer one(healthy, {"cpu", 1, ""}, tokensFor(healthy)), two(unscaled, {"cpu", 1, ""}, tokensFor(unscaled));
    // A fresh delayed run casts with scale 1 too, so step 1 is the same to the last bit.
    const StepMetrics a = one.step(), b = two.step();
    EXPECT_EQ(a.loss, b.loss);
    EXPECT_EQ(a.gradientNorm, b.gradientNorm);
    const auto left = one.effectivePrecision(), right = two.effectivePrecision();
    ASSERT_EQ(left.size(), right.size());
    for (size_t i = 0; i < left.size(); ++i) {
        EXPECT_EQ(left[i].a + left[i].b + left[i].out, right[i].a + right[i].b + right[i].out);
        EXPECT_EQ(left[i].recipe == "delayed", right[i].recipe == "fixed");
    }
    EXPECT_NE(one.step().loss, two.step().loss);
}

/// A core on a backend in which single ops can be changed.
struct Watched {
    explicit Watched(const TrainerConfig& config)
        : inner(kernels::createCpuBackend(executor)), backend(*inner), core(config, backend, tokensFor(config)) {}
    kernels::SerialExecutor executor;
    std::unique_ptr<kernels::Backend> inner;
    test::ForwardingBackend backend;
    TrainerCore core;
};

TEST(NonFinite, SkippedStepKeepsWeightsAndTheirScales) {
    TrainerConfig config = shortConfig(PrecisionMode::Fp8);
    Watched run(config);
    for (int i = 0; i < 3; ++i) run.core.step();
    const auto weights = run.core.weight("h.0.mlp.fc1.weight");
    const int input = 0, weight = 1;
    const WindowState before = run.core.window(weight), inputBefore = run.core.window(input);
    static const float nan = std::numeric_limits<float>::quiet_NaN();
    run.backend.onCrossEntropy = [](kernels::CrossEntropy& op) { op.gradientScale = &nan; };
    const StepMetrics bad = run.core.step();
    EXPECT_FALSE(bad.finite);
    EXPECT_FALSE(bad.applied);
    EXPECT_EQ(run.core.weight("h.0.mlp.fc1.weight"), weights);
    EXPECT_EQ(run.core.window(weight).scale, before.scale);
    EXPECT_EQ(run.core.window(weight).history, before.history);
    EXPECT_NE(run.core.window(input).history, inputBefore.history);
    run.backend.onCrossEntropy = nullptr;
    const StepMetrics good = run.core.step();
    EXPECT_TRUE(good.applied);
    EXPECT_TRUE(std::isfinite(good.loss));
    // The skipped step's codes were used again: their amax rolls into the window now.
    EXPECT_EQ(run.core.window(weight).updates, before.updates + 1);
    EXPECT_GT(good.numerics->tensors[weight].counters[0], 0u);
}

/// A backend that is not the CPU's by name, so that steps run ahead.
struct ElsewhereBackend : test::ForwardingBackend {
    explicit ElsewhereBackend(kernels::Backend& inner) : ForwardingBackend(inner), info_(inner.info()) {
        info_.id = "elsewhere";
    }
    const kernels::DeviceInfo& info() const override { return info_; }
    kernels::DeviceInfo info_;
};

/// The passes of the next step run ahead of the news that a step is not finite, its update does not: what the report
/// looks at, what is recorded and what training goes on from are the same as where nothing ran ahead.
TEST(NonFinite, AStepThatRanAheadOfATroubleIsDroppedAndDoneAgain) {
    for (const auto& [mode, recipe] : kModes) {
        if (mode == PrecisionMode::Fp16) continue;  // never ahead
        TrainerConfig config = shortConfig(mode, recipe);
        config.accumulation = 2;
        kernels::SerialExecutor executor;
        const auto inner = kernels::createCpuBackend(executor);
        std::string texts[2];
        std::vector<double> numbers[2];
        std::vector<uint64_t> hashes[2];
        int passes[2] = {0, 0};
        for (const bool another : {false, true}) {
            ElsewhereBackend backend(*inner);
            TrainerCore core(config, backend, tokensFor(config));
            uint64_t under = 0;  // the step whose passes run
            backend.onStepBegin = [&](kernels::StepBegin& op) {
                under = op.parameters->step;
                ++passes[another];
            };
            static const float huge = 1e38f;
            backend.onCrossEntropy = [&](kernels::CrossEntropy& op) {
                if (under == 3) op.gradientScale = &huge;
            };
            for (int step = 1; step <= 6; ++step) {
                const StepMetrics metrics = core.step(another && step < 6);
                ASSERT_EQ(metrics.step, step);
                EXPECT_EQ(metrics.finite, step != 3);
                EXPECT_EQ(metrics.applied, step != 3);
                numbers[another].push_back(metrics.loss);
                for (const TensorNumerics& tensor : metrics.numerics->tensors) {
                    numbers[another].push_back(tensor.scale);
                    numbers[another].push_back(tensor.amax);
                    numbers[another].push_back(static_cast<double>(tensor.counters[2]));
                    numbers[another].push_back(tensor.dear ? tensor.mse : 0);
                }
                if (step == 3) {
                    ASSERT_NE(metrics.trouble, nullptr);
                    texts[another] = metrics.trouble->text;
                    EXPECT_FALSE(core.stepAhead()) << "its update would move what the report looks at";
                }
                if (!core.stepAhead() && (step == 3 || step == 6)) hashes[another].push_back(core.stateHash());
            }
        }
        EXPECT_EQ(passes[1], passes[0] + 1) << "step 4 began twice";
        EXPECT_EQ(texts[1], texts[0]);
        EXPECT_NE(texts[0].find("backward"), std::string::npos) << texts[0];
        EXPECT_EQ(numbers[1], numbers[0]);
        EXPECT_EQ(hashes[1], hashes[0]);
        ASSERT_EQ(hashes[0].size(), 2u);
    }
}

TEST(NonFinite, ContinuePolicyUpdatesWeights) {
    TrainerConfig config = shortConfig(PrecisionMode::Bf16);
    config.nonfinite = NonfinitePolicy::Continue;
    Watched run(config);
    static const float inf = std::numeric_limits<float>::infinity();
    run.backend.onCrossEntropy = [](kernels::CrossEntropy& op) { op.gradientScale = &inf; };
    const StepMetrics bad = run.core.step();
    EXPECT_FALSE(bad.finite);
    EXPECT_TRUE(bad.applied);
}

TEST(NonFinite, CaseN13OneNanShows) {
    TrainerConfig config = shortConfig(PrecisionMode::Fp8);
    Watched run(config);
    run.core.step();
    bool planted = false;
    run.backend.onActivationForward = [&planted](kernels::ActivationForward& op) {
        if (planted) return;
        planted = true;
        static_cast<uint16_t*>(const_cast<void*>(op.in))[5 * op.cols + 3] = 0x7fc0;
    };
    bool rowChecked = false;
    run.backend.onNormForward = [&](kernels::NormForward& op) {
        if (!planted || rowChecked) return;
        rowChecked = true;  // the norm after fc2 reads its output as delta
        const auto* delta = static_cast<const uint16_t*>(op.delta);
        for (int64_t row = 0; row < op.rows; ++row)
            for (int64_t col = 0; col < op.cols; ++col)
                ASSERT_EQ((delta[row * op.cols + col] & 0x7fff) > 0x7f80, row == 5) << row << " " << col;
    };
    const StepMetrics metrics = run.core.step();
    EXPECT_TRUE(rowChecked);
    EXPECT_TRUE(std::isnan(metrics.loss));
    EXPECT_FALSE(metrics.finite);
    EXPECT_FALSE(metrics.applied);
    const int fc2Input = 6;
    ASSERT_EQ(tensorName(run.core.catalogue()[fc2Input]), "h.0/mlp.fc2/input");
    EXPECT_EQ(metrics.numerics->tensors[fc2Input].counters[7], 1u);
    EXPECT_TRUE(std::isfinite(run.core.step().loss));
}

TEST(NonFinite, Fp16LossScaleAnswersOverflow) {
    TrainerConfig config = shortConfig(PrecisionMode::Fp16);
    Watched run(config);
    const StepMetrics good = run.core.step();
    EXPECT_EQ(good.lossScale, 65536);
    EXPECT_TRUE(good.applied);
    static const float huge = 1e30f;
    run.backend.onCrossEntropy = [](kernels::CrossEntropy& op) { op.gradientScale = &huge; };
    const StepMetrics bad = run.core.step();
    EXPECT_FALSE(bad.applied);
    EXPECT_TRUE(bad.finite);
    run.backend.onCrossEntropy = nullptr;
    const StepMetrics next = run.core.step();
    EXPECT_EQ(next.lossScale, 32768);
    EXPECT_TRUE(next.applied);
    EXPECT_NEAR(next.gradientNorm, good.gradientNorm, 0.5 * good.gradientNorm);
}

class WatchedTokens final : public TokenSource {
  public:
    explicit WatchedTokens(std::shared_ptr<const TokenSource> inner) : inner_(std::move(inner)) {}
    int64_t trainTokens() const override { return inner_->trainTokens(); }
    int64_t validationTokens() const override { return inner_->validationTokens(); }
    int64_t trainWindows() const override { return inner_->trainWindows(); }
    int64_t validationWindows() const override { return inner_->validationWindows(); }
    int vocabulary() const override { return inner_->vocabulary(); }
    void trainWindow(int64_t index, int32_t* out) const override {
        seen.push_back(index), inner_->trainWindow(index, out);
    }
    void validationWindow(int64_t index, int32_t* out) const override { inner_->validationWindow(index, out); }
    std::optional<double> entropyRate() const override { return inner_->entropyRate(); }
    int64_t replacedCharacters() const override { return 0; }
    std::string description() const override { return inner_->description(); }
    uint64_t bytesInMemory() const override { return 0; }
    mutable std::vector<int64_t> seen;

  private:
    std::shared_ptr<const TokenSource> inner_;
};

TEST(Data, WindowsDependOnTheirIndexAlone) {
    TrainerConfig config = shortConfig(PrecisionMode::Fp32);
    config.batch = 3;
    config.accumulation = 2;
    const auto tokens = std::make_shared<WatchedTokens>(tokensFor(config));
    Trainer trainer(config, {"cpu", 1, ""}, tokens);
    for (int i = 0; i < 2; ++i) trainer.step();
    // Two steps of six windows; the micro-batch after them may have been read ahead.
    ASSERT_GE(tokens->seen.size(), 12u);
    ASSERT_LE(tokens->seen.size(), 15u);
    for (size_t i = 0; i < tokens->seen.size(); ++i) EXPECT_EQ(tokens->seen[i], static_cast<int64_t>(i));
}

TEST(Schedule, WarmsUpAndEndsAtTheFinalFraction) {
    const ScheduleConfig cosine{ScheduleKind::Cosine, 40, 0.1f}, linear{ScheduleKind::Linear, 40, 0.1f},
        flat{ScheduleKind::Constant, 40, 0.1f};
    EXPECT_DOUBLE_EQ(scheduledRate(cosine, 5e-3, 1, 600), 5e-3 / 40);
    EXPECT_DOUBLE_EQ(scheduledRate(cosine, 5e-3, 40, 600), 5e-3);
    EXPECT_NEAR(scheduledRate(cosine, 5e-3, 320, 600), 5e-3 * 0.55, 1e-9);
    EXPECT_NEAR(scheduledRate(cosine, 5e-3, 600, 600), 5e-4, 1e-10);
    EXPECT_NEAR(scheduledRate(linear, 5e-3, 320, 600), 5e-3 * 0.55, 1e-9);
    EXPECT_NEAR(scheduledRate(linear, 5e-3, 700, 600), 5e-4, 1e-10);
    EXPECT_DOUBLE_EQ(scheduledRate(flat, 5e-3, 599, 600), 5e-3);
    EXPECT_DOUBLE_EQ(scheduledRate({ScheduleKind::Cosine, 0, 0.1f}, 1, 1, 1), 0.1f);
}

}  // namespace
}  // namespace mantissa::engine
