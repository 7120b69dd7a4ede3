// The block recipes in training: they learn like BF16, run emulated with exact codes, keep no state, and the change of
// precision between two steps is what a run resumed from a checkpoint would do.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "engine/trainer.h"
#include "kernels/error.h"
#include "kernels/formats/half.h"
#include "kernels/quantize/block_quantize.h"
#include "tests/support/engine_configs.h"

namespace mantissa::engine {
namespace {

using test::tinyConfig;
using test::tokensFor;

double trained(Trainer& trainer, int64_t steps) {
    double loss = 0;
    for (int64_t i = 0; i < steps; ++i) loss = trainer.step().loss;
    return loss;
}

class BlockRecipe : public testing::TestWithParam<RecipeKind> {
  protected:
    TrainerConfig config() const { return tinyConfig(PrecisionMode::Fp8, GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Training, BlockRecipe,
                         testing::Values(RecipeKind::Block128, RecipeKind::Mxfp8, RecipeKind::Nvfp4),
                         [](const auto& info) {
                             return std::string(info.param == RecipeKind::Block128 ? "block128"
                                                : info.param == RecipeKind::Mxfp8  ? "mxfp8"
                                                                                   : "nvfp4");
                         });

TEST_P(BlockRecipe, LearnsLikeBf16) {
    TrainerConfig reference = tinyConfig(PrecisionMode::Bf16);
    const TrainerConfig config = this->config();
    Trainer bf16(reference, {"cpu", 2, ""}, tokensFor(reference)), block(config, {"cpu", 2, ""}, tokensFor(config));
    const double wanted = trained(bf16, 40), got = trained(block, 40);
    std::printf("loss after 40 steps: bf16 %.4f, here %.4f\n", wanted, got);
    EXPECT_NEAR(got, wanted, GetParam() == RecipeKind::Nvfp4 ? 0.3 : 0.05);
    EXPECT_NE(got, wanted);
    for (const EffectivePrecision& row : block.effectivePrecision()) {
        if (row.layer == "lm_head") continue;
        EXPECT_EQ(row.a, GetParam() == RecipeKind::Nvfp4 ? "e2m1" : "e4m3");
        EXPECT_EQ(row.recipe, GetParam() == RecipeKind::Block128 ? "block128"
                              : GetParam() == RecipeKind::Mxfp8  ? "mxfp8"
                                                                 : "nvfp4");
        EXPECT_FALSE(row.native);
        EXPECT_NE(row.algorithm.find("emulated"), std::string::npos) << row.algorithm;
    }
}

TEST_P(BlockRecipe, CountsEveryCast) {
    TrainerConfig config = this->config();
    config.probes.every = 2;
    config.precision.headFp8 = true;
    Trainer trainer(config, {"cpu", 2, ""}, tokensFor(config));
    trainer.step();
    const auto record = trainer.step().numerics;
    for (size_t i = 0; i < record->tensors.size(); ++i) {
        const TensorNumerics& tensor = record->tensors[i];
        const CatalogueEntry& entry = trainer.catalogue()[i];
        EXPECT_EQ(tensor.counters[0], static_cast<uint64_t>(entry.rows * entry.cols)) << tensorName(entry);
        EXPECT_GT(tensor.amax, 0) << tensorName(entry);
        EXPECT_GT(tensor.scale, 0) << tensorName(entry);
        EXPECT_TRUE(tensor.dear);
        EXPECT_GT(tensor.sqnrDb, GetParam() == RecipeKind::Nvfp4 ? 12 : 25) << tensorName(entry);
    }
}

/// A rule may take single products back: the tensor is then cast for the other direction alone, and still counted.
TEST_P(BlockRecipe, SingleProducts) {
    for (uint8_t gemms : {1, 2, 4, 5, 6}) {
        TrainerConfig config = this->config();
        config.precision.rules = {{"*", gemms, RecipeKind::Bf16}};
        config.precision.headFp8 = true;
        Trainer trainer(config, {"cpu", 1, ""}, tokensFor(config));
        const StepMetrics metrics = trainer.step();
        EXPECT_TRUE(metrics.finite);
        for (size_t i = 0; i < trainer.catalogue().size(); ++i)
            EXPECT_EQ(metrics.numerics->tensors[i].counters[0] > 0, trainer.catalogue()[i].recipe != "bf16")
                << tensorName(trainer.catalogue()[i]) << " with products " << int{gemms} << " in bf16";
    }
}

TEST_P(BlockRecipe, EveryInstructionSetOfAClassAndThreadCountAgrees) {
    const TrainerConfig config = this->config();
    Trainer one(config, {"cpu", 1, ""}, tokensFor(config)), three(config, {"cpu", 3, ""}, tokensFor(config));
    trained(one, 3), trained(three, 3);
    EXPECT_EQ(one.stateHash(), three.stateHash());
}

TEST_P(BlockRecipe, BlockScalesAreThoseOfTheCast) {
    TrainerConfig config = this->config();
    Trainer trainer(config, {"cpu", 1, ""}, tokensFor(config));
    trained(trainer, 2);
    for (int i : {0, 1, static_cast<int>(trainer.catalogue().size()) - 2}) {
        const BlockScales scales = trainer.blockScales(i);
        const CatalogueEntry& entry = trainer.catalogue()[static_cast<size_t>(i)];
        EXPECT_EQ(scales.rows, (entry.rows + scales.blockRows - 1) / scales.blockRows);
        EXPECT_EQ(scales.cols, (entry.cols + scales.blockCols - 1) / scales.blockCols);
        ASSERT_EQ(scales.scale.size(), static_cast<size_t>(scales.rows) * static_cast<size_t>(scales.cols));
        const float smallest = *std::min_element(scales.scale.begin(), scales.scale.end());
        Trainer again(config, {"cpu", 1, ""}, tokensFor(config));
        trained(again, 2);
        EXPECT_EQ(smallest, again.step().numerics->tensors[static_cast<size_t>(i)].scale) << tensorName(entry);
    }
}

TEST(Nvfp4, HadamardAndStochasticRoundingChangeTheRun) {
    TrainerConfig plain = tinyConfig(PrecisionMode::Fp8, RecipeKind::Nvfp4), turned = plain, rounded = plain;
    turned.precision.hadamard = true;
    rounded.precision.stochasticRounding = true;
    double losses[3];
    int i = 0;
    for (const TrainerConfig* config : {&plain, &turned, &rounded}) {
        Trainer trainer(*config, {"cpu", 2, ""}, tokensFor(*config));
        losses[i++] = trained(trainer, 20);
    }
    EXPECT_NE(losses[0], losses[1]);
    EXPECT_NE(losses[0], losses[2]);
    EXPECT_NEAR(losses[0], losses[1], 0.3);
    EXPECT_NEAR(losses[0], losses[2], 0.3);
}

TEST(Limited14, TrainsAndIsLabelled) {
    TrainerConfig config = tinyConfig(PrecisionMode::Fp8, RecipeKind::Current), exact = config;
    config.precision.accumulation = Accumulation::Limited14;
    Trainer trainer(config, {"cpu", 2, ""}, tokensFor(config)), other(exact, {"cpu", 2, ""}, tokensFor(exact));
    const double got = trained(trainer, 3), wanted = trained(other, 3);
    EXPECT_NE(got, wanted);
    EXPECT_NEAR(got, wanted, 0.05);
    EXPECT_EQ(trainer.effectivePrecision()[0].algorithm, "14-bit partial sums (emulated)");
}

/// The state after setPrecision and some steps, and of a new run that loads a checkpoint taken at the same moment.
void expectLikeResumed(const TrainerConfig& before, const PrecisionConfig& after) {
    const std::string directory = testing::TempDir() + "mantissa_set_precision";
    Trainer changed(before, {"cpu", 1, ""}, tokensFor(before));
    trained(changed, 4);
    changed.saveCheckpoint(directory);
    const uint64_t hash = changed.stateHash();
    const std::vector<std::string> sentences = changed.setPrecision(after);
    EXPECT_FALSE(sentences.empty());
    TrainerConfig next = before;
    next.precision = after;
    Trainer resumed(next, {"cpu", 1, ""}, tokensFor(next));
    resumed.loadCheckpoint(directory, false);
    EXPECT_EQ(changed.stateHash(), resumed.stateHash()) << sentences[0];
    (void)hash;
    for (int i = 0; i < 3; ++i) EXPECT_EQ(changed.step().loss, resumed.step().loss) << sentences[0];
    EXPECT_EQ(changed.stateHash(), resumed.stateHash()) << sentences[0];
    std::filesystem::remove_all(directory);
}

TEST(SetPrecision, IsAResumeUnderTheNewPrecision) {
    const TrainerConfig delayed = tinyConfig(PrecisionMode::Fp8);
    for (RecipeKind recipe :
         {RecipeKind::Current, RecipeKind::Fixed, RecipeKind::Block128, RecipeKind::Mxfp8, RecipeKind::Nvfp4}) {
        PrecisionConfig after = delayed.precision;
        after.recipe = recipe;
        expectLikeResumed(delayed, after);
        TrainerConfig other = delayed;
        other.precision.recipe = recipe;
        expectLikeResumed(other, delayed.precision);
    }
    PrecisionConfig shorter = delayed.precision, longer = delayed.precision, rule = delayed.precision,
                    bf16 = delayed.precision;
    shorter.historyLength = 4, longer.historyLength = 40;
    rule.rules = {{"h.1.mlp.*", 4, RecipeKind::Bf16}};
    bf16.mode = PrecisionMode::Bf16;
    for (const PrecisionConfig& after : {shorter, longer, rule, bf16}) expectLikeResumed(delayed, after);
    TrainerConfig ruled = delayed;
    ruled.precision = rule;
    expectLikeResumed(ruled, delayed.precision);
}

TEST(SetPrecision, KeepsWhatItMayAndRefusesWithoutAChange) {
    const TrainerConfig config = tinyConfig(PrecisionMode::Fp8);
    Trainer trainer(config, {"cpu", 1, ""}, tokensFor(config));
    trained(trainer, 6);
    const uint64_t hash = trainer.stateHash();
    const std::vector<float> weight = trainer.weight("h.0.mlp.fc1.weight");
    PrecisionConfig wrong = config.precision;
    wrong.rules = {{"h.0.*", 1, RecipeKind::Current}};  // two FP8 recipes in one linear
    EXPECT_THROW(trainer.setPrecision(wrong), Error);
    wrong.rules = {{"h.7.*", 7, RecipeKind::Bf16}};  // no such layer
    EXPECT_THROW(trainer.setPrecision(wrong), Error);
    EXPECT_EQ(trainer.stateHash(), hash);

    const WindowState before = trainer.window(0);
    PrecisionConfig after = config.precision;
    after.historyLength = 4;
    after.rules = {{"h.1.attn.proj", 7, RecipeKind::Bf16}};
    trainer.setPrecision(after);
    const WindowState now = trainer.window(0);
    EXPECT_EQ(now.scale, before.scale);
    EXPECT_EQ(now.updates, before.updates);
    EXPECT_TRUE(std::equal(now.history.begin() + 1, now.history.end(), before.history.end() - 3));
    EXPECT_EQ(trainer.weight("h.0.mlp.fc1.weight"), weight);
    trained(trainer, 2);
    trainer.setPrecision(config.precision);
    for (size_t i = 0; i < trainer.catalogue().size(); ++i) {
        if (trainer.catalogue()[i].layer != "h.1" || trainer.catalogue()[i].linear != "attn.proj") continue;
        EXPECT_EQ(trainer.window(static_cast<int>(i)).updates, 0u);  // back from BF16: fresh
        EXPECT_EQ(trainer.window(static_cast<int>(i)).scale, 1);
    }
}

}  // namespace
}  // namespace mantissa::engine
