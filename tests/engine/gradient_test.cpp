// Backward of the whole model against finite differences of its loss, parameter tensor by parameter tensor, in FP32;
// planted mistakes must be seen. Ops have such tests of their own (tests/kernels); here the question is how the model
// puts them together.
#include <gtest/gtest.h>

#include "tests/support/model_gradient.h"

namespace mantissa::engine {
namespace {

using test::kGradientBound;
using test::ModelGradient;

TEST(Gradient, TiedHeadAgreesWithDifferences) {
    std::string worst;
    ModelGradient model(true);
    const double error = model.check(worst);
    EXPECT_LT(error, kGradientBound) << worst;
}

TEST(Gradient, UntiedHeadAgreesWithDifferences) {
    std::string worst;
    ModelGradient model(false);
    const double error = model.check(worst);
    EXPECT_LT(error, kGradientBound) << worst;
}

class PlantedMistake : public testing::TestWithParam<test::Mistake> {};

TEST_P(PlantedMistake, IsSeen) {
    std::string worst;
    ModelGradient model(true);
    GetParam().plant(model.backend());
    EXPECT_GT(model.check(worst), 5 * kGradientBound);
}

INSTANTIATE_TEST_SUITE_P(Gradient, PlantedMistake, testing::ValuesIn(test::plantedMistakes()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace mantissa::engine
