// Linear and LayerNormLinear against values recorded from Transformer Engine 2.20 on an H200
// (tests/data/te/f_modules.safetensors), and the linear of case C08 worked out by hand.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "tests/support/te_modules.h"

namespace mantissa::engine {
namespace {

using kernels::DType;
using namespace test::recorded;
using test::bf16Bits;
using test::bf16Value;
using test::LinearBench;

TEST(TeModules, LinearDelayedFourSteps) {
    runLinear(RecipeKind::Delayed, "linear.delayed", {0, 1, 2, 3});
}
TEST(TeModules, LinearCurrent) {
    runLinear(RecipeKind::Current, "linear.current", {0, 3});
}

TEST(TeModules, LayerNormLinearDelayedCastsFromF32) {
    runLayerNormLinearDelayed();
}
TEST(TeModules, LayerNormLinearCurrent) {
    runLayerNormLinearCurrent();
}
TEST(TeModules, LinearBlock) {
    runBlockLinear("linear.block", false);
}
TEST(TeModules, LayerNormLinearBlock) {
    runBlockLinear("lnlinear.block", true);
}

TEST(LinearByHand, CaseC08) {
    runCaseC08();
}

TEST(LinearByHand, OneChangedCodeChangesTheProductByItsWorth) {
    LinearBench bench(16, 16, 16, recipe(RecipeKind::Current));
    std::vector<uint16_t> x(256), w(256);
    for (size_t i = 0; i < 256; ++i)
        x[i] = bf16Bits(static_cast<float>(i % 7)), w[i] = bf16Bits(static_cast<float>(i % 3));  // exact in E4M3
    bench.begin();
    bench.cast(TensorRole::Input, x.data());
    bench.cast(TensorRole::Weight, w.data());
    std::vector<float> before(256), after(256);
    bench.forward(nullptr, before.data(), DType::F32);
    ASSERT_EQ(bench.xCodes[3], 0x76);  // 3 * 448 / 6 = 224
    bench.xCodes[3] = 0x7E;            // 448: worth 3 more
    bench.forward(nullptr, after.data(), DType::F32);
    for (size_t col = 0; col < 16; ++col)
        EXPECT_NEAR(after[col] - before[col], 3 * bf16Value(w[col * 16 + 3]), 1e-4) << col;
    for (size_t i = 16; i < 256; ++i) EXPECT_EQ(after[i], before[i]) << i;
}

}  // namespace
}  // namespace mantissa::engine
