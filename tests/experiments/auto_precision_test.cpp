// The policy of automatic precision, fed by hand: it moves what is bad, nothing else, and comes back with hysteresis.
#include "experiments/job/auto_precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/plan/precision_plan.h"

namespace mantissa::experiments {
namespace {

using engine::RecipeKind;
using engine::TensorRole;
using testing::HasSubstr;

constexpr int kUnderflow = 2;

class AutoPrecisionTest : public testing::Test {
  protected:
    AutoPrecisionTest() {
        spec_.enabled = true;
        spec_.patience = 4;
        spec_.hold = 10;
        for (int layer = 0; layer < 2; ++layer)
            for (const TensorRole role : {TensorRole::Input, TensorRole::Weight})
                catalogue_.push_back({"h." + std::to_string(layer), "mlp.fc1", role, "e4m3", "delayed", 64, 64});
        for (int layer = 0; layer < 2; ++layer)
            catalogue_.push_back(
                {"h." + std::to_string(layer), "mlp.fc1", TensorRole::GradOutput, "e5m2", "delayed", 64, 64});
    }
    AutoPrecision make() const { return AutoPrecision(spec_, base_, catalogue_); }
    /// One step in which `tensor` (−1: none) has the given underflow share.
    std::vector<AutoPrecision::Decision> feed(AutoPrecision& policy, int tensor, double share, int linear = -1,
                                              double decibels = 30) {
        auto record = std::make_shared<engine::NumericsRecord>();
        for (size_t i = 0; i < catalogue_.size(); ++i) {
            engine::TensorNumerics numerics;
            numerics.amax = 1;
            numerics.scale = 448;
            numerics.counters[0] = 10000;
            if (static_cast<int>(i) == tensor) numerics.counters[kUnderflow] = static_cast<uint64_t>(share * 10000);
            record->tensors.push_back(numerics);
        }
        if (linear >= 0) record->shadow.push_back({linear, 0, decibels, 0.1, 64});
        engine::StepMetrics metrics;
        metrics.step = ++step_;
        metrics.numerics = record;
        return policy.observe(metrics);
    }
    RecipeKind recipeOf(const AutoPrecision& policy, int layer, kernels::Gemm gemm) const {
        engine::ModelConfig model;
        model.layers = 2;
        const auto plan = engine::makePrecisionPlan(model, policy.precision());
        return plan.linears[static_cast<size_t>(plan.linear(layer, engine::LinearKind::Fc1))]
            .recipe[static_cast<int>(gemm)];
    }

    AutoPrecisionSpec spec_;
    engine::PrecisionConfig base_;
    std::vector<engine::CatalogueEntry> catalogue_;
    int64_t step_ = 0;
};

TEST_F(AutoPrecisionTest, AHealthyRunIsLeftAlone) {
    AutoPrecision policy = make();
    for (int i = 0; i < 500; ++i) EXPECT_TRUE(feed(policy, 1, 0.019).empty());
    EXPECT_TRUE(policy.precision().rules.empty());
}

TEST_F(AutoPrecisionTest, ClimbsTheLadderOnlyWhereItIsBad) {
    AutoPrecision policy = make();
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(feed(policy, 2, 0.1).empty()) << "patience is 4";
    feed(policy, -1, 0);  // one good step: the count begins anew
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(feed(policy, 2, 0.1).empty());
    auto decisions = feed(policy, 2, 0.1);
    ASSERT_EQ(decisions.size(), 1u);
    EXPECT_EQ(decisions[0].text, "h.1 mlp.fc1: delayed → current: input underflow 10 % (limit 2 %) for 4 steps.");
    EXPECT_EQ(recipeOf(policy, 1, kernels::Gemm::Fprop), RecipeKind::Current);
    EXPECT_EQ(recipeOf(policy, 0, kernels::Gemm::Fprop), RecipeKind::Delayed);
    for (int i = 0; i < 3; ++i) feed(policy, 2, 0.1);
    decisions = feed(policy, 2, 0.1);
    ASSERT_EQ(decisions.size(), 1u);
    EXPECT_THAT(decisions[0].text, HasSubstr("h.1 mlp.fc1 fprop and wgrad: current → bf16"));
    // The input is read by fprop and wgrad; dgrad stays in FP8.
    EXPECT_EQ(recipeOf(policy, 1, kernels::Gemm::Fprop), RecipeKind::Bf16);
    EXPECT_EQ(recipeOf(policy, 1, kernels::Gemm::Wgrad), RecipeKind::Bf16);
    EXPECT_EQ(recipeOf(policy, 1, kernels::Gemm::Dgrad), RecipeKind::Current);
    for (int i = 0; i < 9; ++i) EXPECT_TRUE(feed(policy, 2, 0.1).empty()) << "nothing safer is left";
}

TEST_F(AutoPrecisionTest, ComesBackOnTrialAndWaitsTwiceAsLongWhenThatFails) {
    spec_.ladder = {"bf16"};
    AutoPrecision policy = make();
    const auto spoil = [&] {
        int steps = 1;
        while (feed(policy, 0, 0.5).empty()) ++steps;
        return steps;
    };
    const auto heal = [&] {
        int steps = 1;
        while (feed(policy, -1, 0).empty()) ++steps;
        return steps;
    };
    EXPECT_EQ(spoil(), 4);
    EXPECT_EQ(heal(), 10);
    EXPECT_EQ(recipeOf(policy, 0, kernels::Gemm::Fprop), RecipeKind::Delayed) << "on trial";
    EXPECT_EQ(spoil(), 4);
    EXPECT_EQ(heal(), 20);
    EXPECT_EQ(spoil(), 4);
    EXPECT_EQ(heal(), 40);
}

TEST_F(AutoPrecisionTest, ShadowErrorMovesTheProductItWasMeasuredIn) {
    spec_.ladder = {"bf16"};
    AutoPrecision policy = make();
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(feed(policy, -1, 0, 1, 25).empty());
    const auto decisions = feed(policy, -1, 0, 1, 9);
    ASSERT_EQ(decisions.size(), 1u);
    EXPECT_THAT(decisions[0].text,
                HasSubstr("h.1 mlp.fc1 fprop: delayed → bf16: fprop output SQNR 9 dB (limit 15 dB)"));
    EXPECT_EQ(recipeOf(policy, 1, kernels::Gemm::Fprop), RecipeKind::Bf16);
    EXPECT_EQ(recipeOf(policy, 1, kernels::Gemm::Wgrad), RecipeKind::Delayed);
}

TEST_F(AutoPrecisionTest, ThePlanStandsAboveTheBaseSetting) {
    base_.rules.push_back({"h.0.*", 7, RecipeKind::Bf16});
    catalogue_[0].recipe = catalogue_[1].recipe = catalogue_[4].recipe = "bf16";
    AutoPrecision policy = make();
    for (int i = 0; i < 8; ++i) feed(policy, 0, 0.5);
    EXPECT_EQ(policy.precision().rules.size(), 1u) << "what is BF16 already is not watched";
    base_.historyLength = 3;
    for (int i = 0; i < 4; ++i) feed(policy, 2, 0.5);
    policy.setBase(base_);
    EXPECT_EQ(policy.precision().historyLength, 3);
    EXPECT_EQ(recipeOf(policy, 1, kernels::Gemm::Fprop), RecipeKind::Current);
}

}  // namespace
}  // namespace mantissa::experiments
