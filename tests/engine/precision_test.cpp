// The precision plan, the effective map (C09, P01), counts and sizes (N08, N09).
#include <gtest/gtest.h>

#include "engine/plan/parameter_layout.h"
#include "engine/plan/precision_plan.h"
#include "engine/trainer_core.h"
#include "kernels/error.h"
#include "tests/support/engine_configs.h"
#include "tests/support/forwarding_backend.h"

namespace mantissa::engine {
namespace {

using test::tinyConfig;
using test::tokensFor;

TrainerConfig sixLayers() {
    TrainerConfig config = tinyConfig(PrecisionMode::Fp8);
    config.model = {96, 32, 2, 6, 64, 16, true};
    config.batch = 2;
    config.precision.firstLayersBf16 = config.precision.lastLayersBf16 = 1;
    return config;
}

int countFp8(const std::vector<EffectivePrecision>& rows) {
    return static_cast<int>(
        std::count_if(rows.begin(), rows.end(), [](const auto& row) { return row.recipe == "delayed"; }));
}

std::vector<EffectivePrecision> mapAfterOneStep(const TrainerConfig& config) {
    Trainer trainer(config, {"cpu", 1, ""}, tokensFor(config));
    EXPECT_TRUE(trainer.effectivePrecision().empty());
    trainer.step();
    return trainer.effectivePrecision();
}

TEST(EffectivePrecision, CaseC09) {
    TrainerConfig config = sixLayers();
    const auto rows = mapAfterOneStep(config);
    ASSERT_EQ(rows.size(), 75u);
    EXPECT_EQ(countFp8(rows), 48);
    for (const EffectivePrecision& row : rows) {
        const bool inner = row.layer != "h.0" && row.layer != "h.5" && row.layer != "lm_head";
        EXPECT_EQ(row.recipe, inner ? "delayed" : "bf16") << row.layer << row.linear << row.gemm;
        EXPECT_EQ(row.a, !inner ? "bf16" : row.gemm == "fprop" ? "e4m3" : "e5m2");
        EXPECT_EQ(row.b, inner ? "e4m3" : "bf16");
    }
    config.precision.firstLayersBf16 = config.precision.lastLayersBf16 = 0;
    const auto all = mapAfterOneStep(config);
    EXPECT_EQ(countFp8(all), 72);
    EXPECT_EQ(all.size(), 75u);
}

TEST(EffectivePrecision, IsFilledByTheCallItself) {
    const TrainerConfig config = sixLayers();
    kernels::SerialExecutor executor;
    const auto inner = kernels::createCpuBackend(executor);
    test::ForwardingBackend backend(*inner);
    TrainerCore core(config, backend, tokensFor(config));
    std::vector<uint16_t> plain(65536);
    backend.onMatmul = [&plain](kernels::Matmul& op) {
        // One product of one linear (h.1 attn.proj's fprop: the only FP8 one of this shape) takes BF16 operands behind
        // the plan's back.
        if (op.gemm != kernels::Gemm::Fprop || op.n != 32 || op.k != 32 || op.a.type != kernels::DType::E4M3) return;
        op.a = {plain.data(), kernels::DType::BF16, true, op.k, nullptr, nullptr};
        op.b = {plain.data(), kernels::DType::BF16, true, op.k, nullptr, nullptr};
    };
    core.step();
    const auto rows = core.program().effective().rows(core.program().precision());
    EXPECT_EQ(countFp8(rows), 48 - 4);  // proj of h.1 ... h.4
    for (const EffectivePrecision& row : rows)
        if (row.linear == "attn.proj" && row.gemm == "fprop") {
            EXPECT_EQ(row.a, "bf16") << row.layer;
            EXPECT_EQ(row.recipe, "bf16") << row.layer;
        }
}

TEST(EffectivePrecision, RulesReachSingleProducts) {
    TrainerConfig config = sixLayers();
    config.precision.firstLayersBf16 = config.precision.lastLayersBf16 = 0;
    config.precision.rules = {
        {"h.*.mlp.*", 4, RecipeKind::Bf16}, {"h.2.*", 7, RecipeKind::Bf16}, {"h.2.mlp.fc2", 1, RecipeKind::Delayed}};
    const auto rows = mapAfterOneStep(config);
    EXPECT_EQ(countFp8(rows), 72 - 12 - 12 + 2 + 1);
    for (const EffectivePrecision& row : rows)
        if (row.layer == "h.2") {
            EXPECT_EQ(row.recipe, row.linear == "mlp.fc2" && row.gemm == "fprop" ? "delayed" : "bf16");
        }
}

TEST(EffectivePrecision, HeadInFp8) {
    for (RecipeKind recipe : {RecipeKind::Delayed, RecipeKind::Current}) {
        TrainerConfig config = tinyConfig(PrecisionMode::Fp8, recipe);
        config.precision.headFp8 = true;
        Trainer trainer(config, {"cpu", 1, ""}, tokensFor(config));
        const double first = trainer.step().loss;
        double last = first;
        for (int i = 0; i < 19; ++i) last = trainer.step().loss;
        EXPECT_LT(last, first - 0.5);
        for (const EffectivePrecision& row : trainer.effectivePrecision()) EXPECT_EQ(row.recipe, recipeName(recipe));
    }
}

TEST(PrecisionPlan, RefusesTwoRecipesInOneLinear) {
    TrainerConfig config = sixLayers();
    config.precision.rules = {{"h.3.attn.qkv", 2, RecipeKind::Current}};
    try {
        makePrecisionPlan(config.model, config.precision);
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::InvalidConfig);
        EXPECT_NE(std::string(error.what()).find("h.3.attn.qkv"), std::string::npos) << error.what();
    }
}

TEST(PrecisionPlan, CatalogueOrder) {
    const TrainerConfig config = tinyConfig(PrecisionMode::Fp8);
    const auto catalogue = makePrecisionPlan(config.model, config.precision).catalogue(256);
    ASSERT_EQ(catalogue.size(), 27u);
    EXPECT_EQ(tensorName(catalogue[0]), "h.0/attn.qkv/input");
    EXPECT_EQ(tensorName(catalogue[1]), "h.0/attn.qkv/weight");
    EXPECT_EQ(tensorName(catalogue[2]), "h.0/attn.proj/input");
    EXPECT_EQ(tensorName(catalogue[16]), "lm_head/head/input");
    EXPECT_EQ(tensorName(catalogue[18]), "h.0/attn.qkv/grad_output");
    EXPECT_EQ(tensorName(catalogue[26]), "lm_head/head/grad_output");
    EXPECT_EQ(catalogue[0].format, "e4m3");
    EXPECT_EQ(catalogue[18].format, "e5m2");
    EXPECT_EQ(catalogue[26].format, "bf16");
    EXPECT_EQ(catalogue[1].rows, 192);
    EXPECT_EQ(catalogue[18].rows, 256);
    EXPECT_EQ(catalogue[18].cols, 192);
}

TEST(PrecisionPlan, Globs) {
    EXPECT_TRUE(globMatches("h.*.mlp.*", "h.13.mlp.fc1"));
    EXPECT_FALSE(globMatches("h.*.mlp.*", "h.13.attn.qkv"));
    EXPECT_TRUE(globMatches("h.?.attn.qkv", "h.3.attn.qkv"));
    EXPECT_FALSE(globMatches("h.?.attn.qkv", "h.13.attn.qkv"));
    EXPECT_TRUE(globMatches("*", ""));
    EXPECT_FALSE(globMatches("", "h.0"));
}

TEST(Counts, CaseN08) {
    const ModelConfig gpt2{50257, 768, 12, 12, 3072, 1024, true};
    EXPECT_EQ(Trainer::parameterCount(gpt2), 124439808);
    EXPECT_EQ(makeParameterLayout(gpt2).size, 124475904);
    EXPECT_EQ(makeParameterLayout(gpt2).size * 16, 1991614464);
    const ModelConfig minigpt{96, 768, 12, 4, 3072, 256, true};
    EXPECT_EQ(Trainer::parameterCount(minigpt), 28623360);
}

TEST(Counts, CaseN09) {
    // The peers' form takes the vocabulary as it is multiplied: padded to 50,304.
    EXPECT_EQ(Trainer::flopsPerToken({50257, 768, 12, 12, 3072, 1024, true}), 798031872.0);
}

}  // namespace
}  // namespace mantissa::engine
