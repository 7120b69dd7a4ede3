// Linear and LayerNormLinear against values recorded from Transformer Engine 2.20 on an H200
// (tests/data/te/f_modules.safetensors), and the linear of case C08 worked out by hand.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "engine/checkpoint/safetensors.h"
#include "tests/support/linear_bench.h"

namespace mantissa::engine {
namespace {

using kernels::DType;
using test::bf16Bits;
using test::bf16Value;
using test::LinearBench;

constexpr int64_t kRows = 64, kIn = 64, kOut = 96;
constexpr double kHopperSum = 0x1p-14;

class Recorded {
  public:
    Recorded()
        : file_(std::string(MANTISSA_TEST_DATA) + "/te/f_modules.safetensors"), index_(readSafetensorsIndex(file_)) {}
    std::vector<float> values(const std::string& name) const {
        const SafetensorsEntry* entry = index_.find(name);
        EXPECT_NE(entry, nullptr) << name;
        return readSafetensorsValues(file_, *entry);
    }
    std::vector<uint16_t> bits(const std::string& name) const {
        std::vector<uint16_t> bits;
        for (float value : values(name)) bits.push_back(bf16Bits(value));
        return bits;
    }

  private:
    FileReader file_;
    SafetensorsIndex index_;
};

PrecisionConfig recipe(RecipeKind kind) {
    PrecisionConfig config;
    config.recipe = kind;
    config.historyLength = 4;
    return config;
}

/// One BF16 step (near a midpoint the two sides round apart) and the recorded sum's own error: Hopper's FP8 units keep
/// about 14 bits of a sum (arXiv:2412.19437, section 3.5.2), so 2^-14 of the sum of magnitudes. `extra`: share of the
/// largest value.
void expectNear(const std::vector<float>& got, const std::vector<float>& wanted, const std::vector<double>& magnitudes,
                const std::string& what, double extra = 0) {
    ASSERT_EQ(got.size(), wanted.size()) << what;
    double largest = 0;
    for (float value : wanted) largest = std::max(largest, std::abs(static_cast<double>(value)));
    for (size_t i = 0; i < got.size(); ++i) {
        const double step = std::ldexp(1.0, std::ilogb(std::max(std::abs(wanted[i]), 1e-30f)) - 7);
        const double bound = extra * largest + step + kHopperSum * magnitudes[i];
        ASSERT_NEAR(got[i], wanted[i], bound) << what << " element " << i;
    }
}

/// sum_k |a(i, k)| |b(j, k)| for a (m, k), b (n, k), both given by an accessor.
template <class A, class B>
std::vector<double> sumOfMagnitudes(int64_t m, int64_t n, int64_t k, A a, B b) {
    std::vector<double> sums;
    for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
            double sum = 0;
            for (int64_t c = 0; c < k; ++c) sum += std::abs(static_cast<double>(a(i, c)) * b(j, c));
            sums.push_back(sum);
        }
    return sums;
}

struct Magnitudes {
    std::vector<double> y, dx, dw;
};

Magnitudes magnitudesOf(const std::vector<uint16_t>& x, const std::vector<uint16_t>& w,
                        const std::vector<uint16_t>& dy) {
    const auto at = [](const std::vector<uint16_t>& values, int64_t row, int64_t col, int64_t cols) {
        return bf16Value(values[static_cast<size_t>(row * cols + col)]);
    };
    return {sumOfMagnitudes(
                kRows, kOut, kIn, [&](int64_t i, int64_t c) { return at(x, i, c, kIn); },
                [&](int64_t j, int64_t c) { return at(w, j, c, kIn); }),
            sumOfMagnitudes(
                kRows, kIn, kOut, [&](int64_t i, int64_t c) { return at(dy, i, c, kOut); },
                [&](int64_t j, int64_t c) { return at(w, c, j, kIn); }),
            sumOfMagnitudes(
                kOut, kIn, kRows, [&](int64_t i, int64_t c) { return at(dy, c, i, kOut); },
                [&](int64_t j, int64_t c) { return at(x, c, j, kIn); })};
}

std::vector<float> rounded(const std::vector<float>& values) {
    std::vector<float> out;
    for (float value : values) out.push_back(bf16Value(bf16Bits(value)));
    return out;
}

std::vector<float> widened(const std::vector<uint16_t>& bits) {
    std::vector<float> out;
    for (uint16_t value : bits) out.push_back(bf16Value(value));
    return out;
}

void expectScale(const LinearBench& bench, TensorRole role, float scale, const std::vector<float>& history,
                 size_t column, size_t columns, const std::string& what, int ulps) {
    const auto distance = [](float a, float b) {
        return std::abs(std::bit_cast<int32_t>(a) - std::bit_cast<int32_t>(b));
    };
    EXPECT_LE(distance(bench.entry(role).scale, scale), ulps)
        << what << ": " << bench.entry(role).scale << ", recorded " << scale;
    for (size_t slot = 0; slot < 4; ++slot)
        EXPECT_LE(distance(bench.window(role)[slot], history[slot * columns + column]), ulps)
            << what << " window slot " << slot;
}

/// ulps: how far the scales and windows of input may be off.
void checkScales(const Recorded& recorded, const LinearBench& bench, const std::string& step, int ulps) {
    const auto forward = recorded.values(step + ".scaling_fwd.scale"),
               forwardHistory = recorded.values(step + ".scaling_fwd.amax_history");
    const auto backward = recorded.values(step + ".scaling_bwd.scale"),
               backwardHistory = recorded.values(step + ".scaling_bwd.amax_history");
    expectScale(bench, TensorRole::Input, forward[0], forwardHistory, 0, 3, step + " input", ulps);
    expectScale(bench, TensorRole::Weight, forward[1], forwardHistory, 1, 3, step + " weight", 0);
    expectScale(bench, TensorRole::GradOutput, backward[0], backwardHistory, 0, 2, step + " grad_output", 0);
}

void runLinear(RecipeKind kind, const std::string& module, const std::vector<int>& steps) {
    const Recorded recorded;
    LinearBench bench(kRows, kIn, kOut, recipe(kind));
    const auto weight = recorded.bits(module + ".W"), bias = recorded.bits(module + ".b");
    for (int step : steps) {
        const std::string name = module + ".s" + std::to_string(step);
        const auto x = recorded.bits(name + ".x"), dy = recorded.bits(name + ".dy");
        std::vector<uint16_t> y(kRows * kOut), dx(kRows * kIn);
        std::vector<float> dw(kOut * kIn);
        bench.begin();
        bench.cast(TensorRole::Input, x.data());
        bench.cast(TensorRole::Weight, weight.data());
        bench.forward(bias.data(), y.data(), DType::BF16);
        bench.cast(TensorRole::GradOutput, dy.data());
        bench.backward(dx.data(), DType::BF16, dw.data());
        bench.update();
        const Magnitudes magnitudes = magnitudesOf(x, weight, dy);
        expectNear(widened(y), recorded.values(name + ".y"), magnitudes.y, name + ".y");
        expectNear(widened(dx), recorded.values(name + ".dx"), magnitudes.dx, name + ".dx");
        expectNear(rounded(dw), recorded.values(name + ".dW"), magnitudes.dw, name + ".dW");
        if (kind == RecipeKind::Delayed) checkScales(recorded, bench, name, 0);
    }
}

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
