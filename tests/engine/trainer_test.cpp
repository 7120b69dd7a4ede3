// The training loop as a whole: it learns in every precision, evaluation and probes leave state alone, threads do not
// matter.
#include "engine/trainer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/engine_configs.h"

namespace mantissa::engine {
namespace {

using test::tinyConfig;
using test::tokensFor;

struct Case {
    const char* name;
    PrecisionMode mode;
    RecipeKind recipe;
};
void PrintTo(const Case& c, std::ostream* out) {
    *out << c.name;
}

class EveryPrecision : public testing::TestWithParam<Case> {
  protected:
    TrainerConfig config() const { return tinyConfig(GetParam().mode, GetParam().recipe); }
};

INSTANTIATE_TEST_SUITE_P(Trainer, EveryPrecision,
                         testing::Values(Case{"fp32", PrecisionMode::Fp32, RecipeKind::Bf16},
                                         Case{"tf32", PrecisionMode::Tf32, RecipeKind::Bf16},
                                         Case{"fp16", PrecisionMode::Fp16, RecipeKind::Bf16},
                                         Case{"bf16", PrecisionMode::Bf16, RecipeKind::Bf16},
                                         Case{"delayed", PrecisionMode::Fp8, RecipeKind::Delayed},
                                         Case{"current", PrecisionMode::Fp8, RecipeKind::Current},
                                         Case{"fixed", PrecisionMode::Fp8, RecipeKind::Fixed}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(EveryPrecision, LossFalls) {
    TrainerConfig config = this->config();
    Trainer trainer(config, {"cpu", 2, ""}, tokensFor(config));
    double first = 0, last = 0;
    for (int64_t step = 1; step <= config.steps; ++step) {
        const StepMetrics metrics = trainer.step();
        ASSERT_TRUE(metrics.finite) << step;
        ASSERT_EQ(metrics.step, step);
        ASSERT_EQ(metrics.tokens, 256);
        if (step == 1) first = metrics.loss;
        last = metrics.loss;
    }
    std::printf("%s: loss %.4f -> %.4f\n", GetParam().name, first, last);
    EXPECT_NEAR(first, std::log(96.0), 0.1);
    // All scales 1 lose the gradients: that run learns little, as it should; the others get far.
    if (GetParam().recipe != RecipeKind::Fixed) {
        EXPECT_LT(last, 3.0);
    }
    EXPECT_EQ(trainer.stepIndex(), config.steps);
    EXPECT_EQ(trainer.tokensSeen(), config.steps * 256);
}

}  // namespace
}  // namespace mantissa::engine
