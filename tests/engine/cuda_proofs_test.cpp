// Proofs on the GPU: the counters of a run equal a recount of captured tensors (P03), and backward agrees with finite
// differences of the loss and shows planted mistakes (P08).
#include <gtest/gtest.h>

#include "engine/trainer.h"
#include "tests/support/cuda_twin.h"
#include "tests/support/model_gradient.h"
#include "tests/support/recount.h"

namespace mantissa::engine {
namespace {

class CountersOnGpu : public test::CudaTest, public testing::WithParamInterface<RecipeKind> {};

uint16_t bf16BitsOf(float value) {
    return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
}

TEST_P(CountersOnGpu, OfARunEqualARecountOfCapturedTensors) {
    TrainerConfig config = test::tinyConfig(PrecisionMode::Fp8, GetParam());
    config.precision.historyLength = 4;
    Trainer trainer(config, {"cuda", 0, ""}, test::tokensFor(config));
    const std::vector<CatalogueEntry>& catalogue = trainer.catalogue();
    std::vector<test::Counters> reported(catalogue.size()), counted(catalogue.size());
    for (int step = 0; step < 6; ++step) {
        std::vector<std::vector<float>> captured;
        for (size_t i = 0; i < catalogue.size(); ++i) captured.push_back(trainer.captureTensor(static_cast<int>(i)));
        const auto record = trainer.step().numerics;
        for (size_t i = 0; i < catalogue.size(); ++i) {
            if (catalogue[i].format == "bf16") continue;
            const auto format = catalogue[i].format == "e4m3" ? kernels::DType::E4M3 : kernels::DType::E5M2;
            for (const float value : captured[i])
                test::count(counted[i], bf16BitsOf(value), record->tensors[i].scale, format);
            for (size_t k = 0; k < 8; ++k) reported[i][k] += record->tensors[i].counters[k];
        }
    }
    uint64_t small = 0, elements = 0;
    for (size_t i = 0; i < catalogue.size(); ++i) {
        EXPECT_EQ(reported[i], counted[i]) << tensorName(catalogue[i]);
        small += reported[i][2] + reported[i][3], elements += reported[i][0];
    }
    EXPECT_GT(small, 0u) << "nothing to count, the test says nothing";
    std::printf("%llu values of six steps counted again, %llu of them underflow or subnormal\n",
                static_cast<unsigned long long>(elements), static_cast<unsigned long long>(small));
}

INSTANTIATE_TEST_SUITE_P(Recipes, CountersOnGpu,
                         testing::Values(RecipeKind::Delayed, RecipeKind::Current, RecipeKind::Fixed));

class GradientOnGpu : public test::CudaTest {};

TEST_F(GradientOnGpu, AgreesWithDifferences) {
    for (const bool tied : {true, false}) {
        std::string worst;
        const double error = test::ModelGradient(tied, gpu_).check(worst);
        std::printf("%s head: largest relative error %.1e, of %s\n", tied ? "tied" : "untied", error, worst.c_str());
        EXPECT_LT(error, test::kGradientBound) << worst;
    }
}

TEST_F(GradientOnGpu, PlantedMistakesAreSeen) {
    for (const test::Mistake& mistake : test::plantedMistakes()) {
        std::string worst;
        test::ModelGradient model(true, gpu_);
        mistake.plant(model.backend());
        const double error = model.check(worst);
        std::printf("%s: relative error %.1e, of %s\n", mistake.name, error, worst.c_str());
        EXPECT_GT(error, 5 * test::kGradientBound) << mistake.name;
    }
}

}  // namespace
}  // namespace mantissa::engine
