// The engine's switches: a norm and an optimizer that are written out take more passes and memory and give the same
// bits.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "engine/model/unfused_ops.h"
#include "engine/trainer_core.h"
#include "tests/support/elementwise_cases.h"
#include "tests/support/engine_configs.h"
#include "tests/support/forwarding_backend.h"

namespace mantissa::engine {
namespace {

using test::NormBackwardData;
using test::NormForwardData;
using test::RowsCase;

/// A CPU backend with room for any op of the cases.
class Bench {
  public:
    explicit Bench(kernels::Isa isa) : backend_(kernels::createCpuBackend(executor_, kernels::isaName(isa))) {
        constexpr size_t kBytes = 64 << 20;
        workspace_ = backend_->allocate(kBytes);
        backend_->bindWorkspace(workspace_, kBytes);
    }
    ~Bench() { backend_->release(workspace_); }
    kernels::Backend& backend() { return *backend_; }
    float* scratch(const RowsCase& c) {
        scratch_.assign(unfusedNormBytes(c.rows, c.cols) / sizeof(float) + 64, -7.0f);
        return scratch_.data();
    }

  private:
    test::ThreadExecutor executor_{3};
    std::unique_ptr<kernels::Backend> backend_;
    void* workspace_ = nullptr;
    std::vector<float> scratch_;
};

/// The dear sums are added in blocks that depend on the op: they are compared within rounding.
void expectSameCast(const test::CastData& got, const test::CastData& expected, const std::string& what) {
    EXPECT_EQ(got.codes.bytes, expected.codes.bytes) << what;
    EXPECT_EQ(got.slot.amax, expected.slot.amax) << what;
    EXPECT_EQ(std::memcmp(&got.slot.counters, &expected.slot.counters, sizeof expected.slot.counters), 0) << what;
    EXPECT_NEAR(got.slot.dear.sumSquaredError, expected.slot.dear.sumSquaredError,
                1e-12 * expected.slot.dear.sumSquaredError)
        << what;
}

TEST(Unfused, NormForwardHasTheFusedBits) {
    for (kernels::Isa isa : test::supportedIsas()) {
        Bench bench(isa);
        for (const RowsCase& c : test::rowsCases())
            for (kernels::NormKind kind : {kernels::NormKind::LayerNorm, kernels::NormKind::RmsNorm})
                for (bool delta : {true, false}) {
                    NormForwardData fused(c, kind, delta), stages = fused;
                    bench.backend().run(fused.op());
                    runWrittenOut(bench.backend(), stages.op(), bench.scratch(c));
                    const std::string what = c.name() + " " + kernels::isaName(isa);
                    EXPECT_EQ(stages.residualOut.bytes, fused.residualOut.bytes) << what;
                    EXPECT_EQ(stages.out.bytes, fused.out.bytes) << what;
                    EXPECT_EQ(stages.rstd.bytes, fused.rstd.bytes) << what;
                    if (kind == kernels::NormKind::LayerNorm) {
                        EXPECT_EQ(stages.mean.bytes, fused.mean.bytes) << what;
                    }
                    expectSameCast(stages.cast, fused.cast, what);
                }
    }
}

TEST(Unfused, NormBackwardHasTheFusedBits) {
    for (kernels::Isa isa : test::supportedIsas()) {
        Bench bench(isa);
        for (const RowsCase& c : test::rowsCases())
            for (kernels::NormKind kind : {kernels::NormKind::LayerNorm, kernels::NormKind::RmsNorm}) {
                NormBackwardData fused(c, kind);
                fused.withAgain = true, fused.withResidual = c.rows != 64;
                NormBackwardData stages = fused;
                bench.backend().run(fused.op());
                runWrittenOut(bench.backend(), stages.op(), bench.scratch(c));
                const std::string what = c.name() + " " + kernels::isaName(isa);
                EXPECT_EQ(stages.dResidual.bytes, fused.dResidual.bytes) << what;
                EXPECT_EQ(stages.dGain.bytes, fused.dGain.bytes) << what;
                EXPECT_EQ(stages.dBias.bytes, fused.dBias.bytes) << what;
                EXPECT_EQ(stages.dLinearBias.bytes, fused.dLinearBias.bytes) << what;
                EXPECT_EQ(stages.again.bytes, fused.again.bytes) << what;
                expectSameCast(stages.cast, fused.cast, what);
            }
    }
}

struct Trained {
    uint64_t hash = 0;
    double loss = 0;
    int fusedNorms = 0, fusedUpdates = 0, normPasses = 0, updatePasses = 0;
    MemoryPlan plan;
};

Trained train(TrainerConfig config, EngineSwitches switches, int steps = 4) {
    config.switches = switches;
    test::ThreadExecutor executor(2);
    const auto cpu = kernels::createCpuBackend(executor);
    test::ForwardingBackend backend(*cpu);
    Trained result;
    backend.onNormForward = [&](kernels::NormForward&) { ++result.fusedNorms; };
    backend.onNormBackward = [&](kernels::NormBackward&) { ++result.fusedNorms; };
    backend.onNormPass = [&](kernels::NormPass&) { ++result.normPasses; };
    backend.onAdamW = [&](kernels::AdamW& op) { result.fusedUpdates += op.castOnly ? 0 : 1; };
    backend.onAdamWPass = [&](kernels::AdamWPass&) { ++result.updatePasses; };
    TrainerCore core(config, backend, test::tokensFor(config));
    for (int i = 0; i < steps; ++i) result.loss = core.step().loss;
    result.loss += core.evaluate().loss;
    result.hash = core.stateHash();
    result.plan = core.memoryPlan();
    return result;
}

TEST(Unfused, SwitchesChangeThePassesAndNoBit) {
    const std::pair<PrecisionMode, RecipeKind> modes[] = {{PrecisionMode::Fp32, RecipeKind::Bf16},
                                                          {PrecisionMode::Fp16, RecipeKind::Bf16},
                                                          {PrecisionMode::Bf16, RecipeKind::Bf16},
                                                          {PrecisionMode::Fp8, RecipeKind::Delayed},
                                                          {PrecisionMode::Fp8, RecipeKind::Current}};
    for (const auto& [mode, recipe] : modes)
        for (int accumulation : {1, 2}) {
            TrainerConfig config = test::tinyConfig(mode, recipe);
            config.accumulation = accumulation;
            const Trained fused = train(config, {});
            const Trained noNorm = train(config, {.fusedNorm = false}), noAdam = train(config, {true, false});
            const Trained none = train(config, {false, false});
            for (const Trained* other : {&noNorm, &noAdam, &none}) {
                EXPECT_EQ(other->hash, fused.hash) << static_cast<int>(mode) << " accumulation " << accumulation;
                EXPECT_EQ(other->loss, fused.loss);
                EXPECT_GT(other->plan.total(), fused.plan.total()) << "what lies between the stages takes memory";
            }
            EXPECT_EQ(fused.normPasses + fused.updatePasses, 0);
            EXPECT_EQ(noNorm.fusedNorms, 0);
            EXPECT_GT(noNorm.normPasses, 4 * fused.fusedNorms);
            EXPECT_EQ(noNorm.fusedUpdates, fused.fusedUpdates);
            EXPECT_EQ(noAdam.fusedUpdates, 0);
            EXPECT_EQ(noAdam.fusedNorms, fused.fusedNorms);
            EXPECT_GT(noAdam.updatePasses, 9 * fused.fusedUpdates);
            EXPECT_EQ(none.fusedNorms + none.fusedUpdates, 0);
        }
}

TEST(Unfused, SkippedUpdatesStaySkipped) {
    const auto run = [](EngineSwitches switches) {
        TrainerConfig config = test::tinyConfig(PrecisionMode::Fp8);
        config.switches = switches;
        test::ThreadExecutor executor(2);
        const auto cpu = kernels::createCpuBackend(executor);
        test::ForwardingBackend backend(*cpu);
        int step = 0;
        backend.onCrossEntropy = [&](kernels::CrossEntropy& op) {
            static const float kInfinite = std::numeric_limits<float>::infinity();
            if (step == 2 && op.backward) op.gradientScale = &kInfinite;
        };
        TrainerCore core(config, backend, test::tokensFor(config));
        std::vector<bool> applied;
        for (step = 1; step <= 4; ++step) applied.push_back(core.step().applied);
        EXPECT_EQ(applied, (std::vector<bool>{true, false, true, true}));
        return core.stateHash();
    };
    EXPECT_EQ(run({false, false}), run({true, true}));
}

}  // namespace
}  // namespace mantissa::engine
