// Products of block128 on a device that multiplies codes with block scales: the reference stands in for it, and trains
// to the same bits as with the codes' values. So the layouts, the copies and their memory are right before a GPU runs.
#include <gtest/gtest.h>

#include <functional>

#include "engine/trainer_core.h"
#include "tests/support/engine_configs.h"
#include "tests/support/forwarding_backend.h"

namespace mantissa::engine {
namespace {

using kernels::Gemm;
using test::tinyConfig;
using test::tokensFor;

/// The reference, which can do either; it takes the products on codes for which `refuses` says nothing.
class BlockDevice final : public test::ForwardingBackend {
  public:
    explicit BlockDevice(kernels::Backend& inner) : ForwardingBackend(inner) {
        onMatmul = [this](kernels::Matmul& op) {
            const bool codes = op.a.blockScaleInv && op.b.blockScaleInv;
            const bool values = op.a.emulates != kernels::DType::None;
            if (codes) ++onCodes[static_cast<int>(op.gemm)];
            if (values) ++onValues[static_cast<int>(op.gemm)];
            if (values && op.emulatedBecause) reason = op.emulatedBecause;
        };
    }
    std::string whyNoBlockCodes(const kernels::Matmul& op) const override { return refuses ? refuses(op) : ""; }

    std::function<std::string(const kernels::Matmul&)> refuses;
    int onCodes[kGemms] = {}, onValues[kGemms] = {};
    std::string reason;
};

struct Outcome {
    uint64_t hash = 0;
    std::vector<double> losses;
    double validation = 0;
    std::shared_ptr<const NumericsRecord> record;
    MemoryPlan memory;
};

Outcome train(BlockDevice& device, const TrainerConfig& config) {
    TrainerCore core(config, device, tokensFor(config));
    Outcome outcome;
    for (int step = 0; step < 3; ++step) {
        const StepMetrics metrics = core.step();
        outcome.losses.push_back(metrics.loss);
        outcome.record = metrics.numerics;
    }
    outcome.validation = core.evaluate().loss;
    outcome.hash = core.stateHash();
    outcome.memory = core.memoryPlan();
    return outcome;
}

TrainerConfig smallConfig() {
    TrainerConfig config = tinyConfig(PrecisionMode::Fp8, RecipeKind::Block128);
    config.model.context = 48, config.model.width = 160, config.model.heads = 5, config.model.ffn = 272;
    config.model.layers = 1;
    config.batch = 3;
    config.evalBatches = 1;
    config.precision.headFp8 = true;
    config.probes.every = 2;
    return config;
}

void expectSame(const Outcome& got, const Outcome& wanted, const std::string& what) {
    EXPECT_EQ(got.losses, wanted.losses) << what;
    EXPECT_EQ(got.validation, wanted.validation) << what;
    EXPECT_EQ(got.hash, wanted.hash) << what;
    ASSERT_EQ(got.record->tensors.size(), wanted.record->tensors.size());
    for (size_t i = 0; i < wanted.record->tensors.size(); ++i) {
        const TensorNumerics &a = got.record->tensors[i], &b = wanted.record->tensors[i];
        EXPECT_EQ(a.amax, b.amax) << what << " tensor " << i;
        EXPECT_EQ(a.scale, b.scale) << what << " tensor " << i;
        for (int c = 0; c < 8; ++c) EXPECT_EQ(a.counters[c], b.counters[c]) << what << " tensor " << i;
    }
}

class BlockProducts : public testing::Test {
  protected:
    std::unique_ptr<kernels::Backend> reference_ = kernels::createReferenceBackend();

    Outcome onValues(const TrainerConfig& config) {
        BlockDevice device(*reference_);
        device.refuses = [](const kernels::Matmul&) { return "values wanted"; };
        const Outcome outcome = train(device, config);
        for (int gemm = 0; gemm < kGemms; ++gemm) EXPECT_EQ(device.onCodes[gemm], 0);
        EXPECT_EQ(device.reason, "values wanted");
        return outcome;
    }
};

TEST_F(BlockProducts, CodesWithScalesTrainToTheBitsOfTheirValues) {
    const TrainerConfig config = smallConfig();
    const Outcome wanted = onValues(config);
    BlockDevice device(*reference_);
    const Outcome got = train(device, config);
    expectSame(got, wanted, "all products on codes");
    for (int gemm = 0; gemm < kGemms; ++gemm) {
        EXPECT_GT(device.onCodes[gemm], 0) << gemm;
        EXPECT_EQ(device.onValues[gemm], 0) << gemm;
    }
    EXPECT_LT(got.memory.activations, wanted.memory.activations) << "a code takes half the memory of its value";
}

/// A device may take some of the products alone; each copy of a tensor then has the form that its reader wants.
TEST_F(BlockProducts, EachProductIsChosenByItself) {
    const TrainerConfig config = smallConfig();
    const Outcome wanted = onValues(config);
    for (int mask = 1; mask < 7; ++mask) {
        BlockDevice device(*reference_);
        device.refuses = [mask](const kernels::Matmul& op) {
            return mask >> static_cast<int>(op.gemm) & 1 ? "" : "not this product";
        };
        expectSame(train(device, config), wanted, "products " + std::to_string(mask) + " on codes");
        for (int gemm = 0; gemm < kGemms; ++gemm) {
            EXPECT_EQ(device.onCodes[gemm] > 0, mask >> gemm & 1) << mask << " " << gemm;
            EXPECT_EQ(device.onValues[gemm] == 0, mask >> gemm & 1) << mask << " " << gemm;
        }
        EXPECT_EQ(device.reason, "not this product");
    }
}

/// Single products in BF16 by a rule, micro-batches, changes of the recipe while training.
TEST_F(BlockProducts, WithRulesAndMicroBatches) {
    for (uint8_t gemms : {2, 5}) {
        TrainerConfig config = smallConfig();
        config.precision.rules = {{"*.attn.*", gemms, RecipeKind::Bf16}};
        config.accumulation = 2;
        const Outcome wanted = onValues(config);
        BlockDevice device(*reference_);
        expectSame(train(device, config), wanted, "rule " + std::to_string(gemms));
    }
}

TEST_F(BlockProducts, OtherBlockRecipesKeepTheirValuesAndSayWhy) {
    for (RecipeKind recipe : {RecipeKind::Mxfp8, RecipeKind::Nvfp4}) {
        TrainerConfig config = smallConfig();
        config.precision.recipe = recipe;
        BlockDevice device(*reference_);
        train(device, config);
        for (int gemm = 0; gemm < kGemms; ++gemm) EXPECT_EQ(device.onCodes[gemm], 0);
        EXPECT_NE(device.reason.find(recipeName(recipe)), std::string::npos) << device.reason;
    }
}

/// The question is about the product as it will run: sizes, output, layout.
TEST_F(BlockProducts, TheDeviceIsAskedAboutTheProductItself) {
    const TrainerConfig config = smallConfig();
    BlockDevice device(*reference_);
    int asked = 0;
    device.refuses = [&](const kernels::Matmul& op) {
        ++asked;
        EXPECT_TRUE(op.a.blockScaleInv && op.b.blockScaleInv && op.a.kContiguous && op.b.kContiguous);
        EXPECT_EQ(op.b.squareBlocks, op.gemm != Gemm::Wgrad);
        EXPECT_EQ(op.outType, op.gemm == Gemm::Wgrad ? kernels::DType::F32 : kernels::DType::BF16);
        EXPECT_EQ(op.gemm == Gemm::Wgrad ? op.k : op.m, 144);
        checkMatmul(op);
        return "";
    };
    TrainerCore core(config, device, tokensFor(config));
    EXPECT_EQ(asked, 5 * 4);  // five linears; wgrad with and without adding up
}

}  // namespace
}  // namespace mantissa::engine
