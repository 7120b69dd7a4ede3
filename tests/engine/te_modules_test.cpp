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
    const Recorded recorded;
    const std::string module = "lnlinear.delayed";
    LinearBench bench(kRows, kIn, kOut, recipe(RecipeKind::Delayed));
    const auto weight = recorded.bits(module + ".W"), bias = recorded.bits(module + ".b");
    const auto gain = recorded.bits(module + ".ln_w"), shift = recorded.bits(module + ".ln_b");
    for (int step = 0; step < 4; ++step) {
        const std::string name = module + ".s" + std::to_string(step);
        const auto x = recorded.bits(name + ".x"), dy = recorded.bits(name + ".dy");
        std::vector<uint16_t> y(kRows * kOut), dNorm(kRows * kIn), dx(kRows * kIn);
        std::vector<float> dw(kOut * kIn), mean(kRows), rstd(kRows), dGain(kIn), dShift(kIn);
        bench.begin();
        kernels::NormForward norm;
        norm.rows = kRows;
        norm.cols = kIn;
        norm.type = DType::BF16;
        norm.residualIn = x.data();
        norm.gain = gain.data();
        norm.bias = shift.data();
        norm.cast = bench.target(TensorRole::Input);
        norm.castFromF32 = true;
        norm.mean = mean.data();
        norm.rstd = rstd.data();
        bench.backend().run(norm);
        bench.readCodes(TensorRole::Input);
        bench.cast(TensorRole::Weight, weight.data());
        bench.forward(bias.data(), y.data(), DType::BF16);
        bench.cast(TensorRole::GradOutput, dy.data());
        bench.backward(dNorm.data(), DType::BF16, dw.data());
        kernels::NormBackward back;
        back.rows = kRows;
        back.cols = kIn;
        back.type = DType::BF16;
        back.dOut = dNorm.data();
        back.residual = x.data();
        back.gain = gain.data();
        back.bias = shift.data();
        back.mean = mean.data();
        back.rstd = rstd.data();
        back.dResidual = dx.data();
        back.dGain = dGain.data();
        back.dBias = dShift.data();
        bench.backend().run(back);
        bench.update();
        // A scale or a value off by an ulp moves a few codes by one step, 1/16 of the value: it shows in single
        // elements of the sums.
        const std::vector<double> none(kRows * kOut, 0.0);
        expectNear(widened(y), recorded.values(name + ".y"), none, name + ".y", 0.004);
        expectNear(rounded(dw), recorded.values(name + ".dW"), none, name + ".dW", 0.004);
        expectNear(widened(dx), recorded.values(name + ".dx"), none, name + ".dx", 0.008);
        expectNear(rounded(dGain), recorded.values(name + ".dln_w"), none, name + ".dln_w", 0.008);
        expectNear(rounded(dShift), recorded.values(name + ".dln_b"), none, name + ".dln_b", 0.008);
        checkScales(recorded, bench, name, 4);
    }
}

TEST(TeModules, LayerNormLinearCurrent) {
    const Recorded recorded;
    const std::string module = "lnlinear.current";
    LinearBench bench(kRows, kIn, kOut, recipe(RecipeKind::Current));
    const auto weight = recorded.bits(module + ".W"), bias = recorded.bits(module + ".b");
    const auto gain = recorded.bits(module + ".ln_w"), shift = recorded.bits(module + ".ln_b");
    for (int step : {0, 3}) {
        const std::string name = module + ".s" + std::to_string(step);
        const auto x = recorded.bits(name + ".x"), dy = recorded.bits(name + ".dy");
        std::vector<uint16_t> norm(kRows * kIn), y(kRows * kOut), dNorm(kRows * kIn);
        std::vector<float> dw(kOut * kIn), mean(kRows), rstd(kRows);
        bench.begin();
        kernels::NormForward op;
        op.rows = kRows;
        op.cols = kIn;
        op.type = DType::BF16;
        op.residualIn = x.data();
        op.gain = gain.data();
        op.bias = shift.data();
        op.out = norm.data();
        op.cast = bench.target(TensorRole::Input);
        op.mean = mean.data();
        op.rstd = rstd.data();
        bench.backend().run(op);
        bench.finish(TensorRole::Input, norm.data(), kRows, kIn);
        bench.cast(TensorRole::Weight, weight.data());
        bench.forward(bias.data(), y.data(), DType::BF16);
        bench.cast(TensorRole::GradOutput, dy.data());
        bench.backward(dNorm.data(), DType::BF16, dw.data());
        const std::vector<double> none(kRows * kOut, 0.0);
        expectNear(widened(y), recorded.values(name + ".y"), none, name + ".y", 0.004);
        expectNear(rounded(dw), recorded.values(name + ".dW"), none, name + ".dW", 0.004);
    }
}

TEST(TeModules, LinearBlock) {
    runBlockLinear("linear.block", false);
}
TEST(TeModules, LayerNormLinearBlock) {
    runBlockLinear("lnlinear.block", true);
}

TEST(LinearByHand, CaseC08) {
    LinearBench bench(16, 16, 16, recipe(RecipeKind::Current));
    std::vector<uint16_t> x(256), w(256), dy(256);
    const float xs[] = {1, 2, 3, 4}, ws[] = {.125f, .25f, .375f, .5f};
    for (size_t i = 0; i < 4; ++i) x[i] = bf16Bits(xs[i]), w[i] = bf16Bits(ws[i]);
    dy[0] = bf16Bits(0.375f);
    std::vector<float> y(256), dx(256), dw(256);
    bench.begin();
    bench.cast(TensorRole::Input, x.data());
    bench.cast(TensorRole::Weight, w.data());
    bench.forward(nullptr, y.data(), DType::F32);
    bench.cast(TensorRole::GradOutput, dy.data());
    bench.backward(dx.data(), DType::F32, dw.data());

    EXPECT_EQ(bench.entry(TensorRole::Input).scale, 112);
    EXPECT_EQ(bench.entry(TensorRole::Weight).scale, 896);
    EXPECT_FLOAT_EQ(bench.entry(TensorRole::GradOutput).scale, 152917.33f);
    const std::vector<uint8_t> codes = {0x6E, 0x76, 0x7A, 0x7E};
    for (size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(bench.xCodes[i], codes[i]);
        EXPECT_EQ(bench.wCodes[i], codes[i]);
    }
    EXPECT_EQ(bench.dyCodes[0], 0x7B);
    EXPECT_NEAR(y[0], 3.64540816, 3.64540816e-6);
    const double dxs[] = {.046875, .09375, .133928567, .1875}, dws[] = {.375, .75, 1.07142854, 1.5};
    for (size_t i = 0; i < 4; ++i) {
        EXPECT_NEAR(dx[i], dxs[i], 1e-6 * dxs[i]);
        EXPECT_NEAR(dw[i], dws[i], 1e-6 * dws[i]);
    }
    // Shadow: signal to noise of y against the exact 3.75.
    EXPECT_NEAR(20 * std::log10(3.75 / std::abs(y[0] - 3.75)), 31.1, 0.05);
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
