// Linear modules on the GPU against values recorded from Transformer Engine 2.20: scales and windows exactly, outputs
// within the bound of the chip's own sums.
#include "tests/support/cuda_twin.h"
#include "tests/support/te_modules.h"

namespace mantissa::engine {
namespace {

using namespace test::recorded;
using TeModulesOnGpu = test::CudaTest;

TEST_F(TeModulesOnGpu, LinearDelayedFourSteps) {
    runLinear(RecipeKind::Delayed, "linear.delayed", {0, 1, 2, 3}, gpu_);
}
TEST_F(TeModulesOnGpu, LinearCurrent) {
    runLinear(RecipeKind::Current, "linear.current", {0, 3}, gpu_);
}
TEST_F(TeModulesOnGpu, LinearBlock) {
    runBlockLinear("linear.block", false, gpu_);
}
TEST_F(TeModulesOnGpu, LayerNormLinearDelayedCastsFromF32) {
    runLayerNormLinearDelayed(gpu_);
}
TEST_F(TeModulesOnGpu, LayerNormLinearCurrent) {
    runLayerNormLinearCurrent(gpu_);
}
TEST_F(TeModulesOnGpu, LayerNormLinearBlock) {
    runBlockLinear("lnlinear.block", true, gpu_);
}
TEST_F(TeModulesOnGpu, LinearByHandCaseC08) {
    runCaseC08(gpu_);
}

}  // namespace
}  // namespace mantissa::engine
