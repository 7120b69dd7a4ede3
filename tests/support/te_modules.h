// Linear modules recorded from Transformer Engine 2.20 on an H200 (tests/data/te/f_modules.safetensors), and the checks
// against them, for any backend.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "engine/checkpoint/safetensors.h"
#include "tests/support/cuda_twin.h"
#include "tests/support/linear_bench.h"

namespace mantissa::test::recorded {

using engine::FileReader;
using engine::PrecisionConfig;
using engine::readSafetensorsIndex;
using engine::readSafetensorsValues;
using engine::RecipeKind;
using engine::SafetensorsEntry;
using engine::SafetensorsIndex;
using engine::TensorRole;
using kernels::DType;

constexpr int64_t kRows = 64, kIn = 64, kOut = 96;
constexpr double kHopperSum = 0x1p-14;

class Recorded {
  public:
    explicit Recorded(const std::string& file = "f_modules")
        : file_(std::string(MANTISSA_TEST_DATA) + "/te/" + file + ".safetensors"),
          index_(readSafetensorsIndex(file_)) {}
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

inline PrecisionConfig recipe(RecipeKind kind) {
    PrecisionConfig config;
    config.recipe = kind;
    config.historyLength = 4;
    return config;
}

/// One BF16 step (near a midpoint the two sides round apart) and the recorded sum's own error: Hopper's FP8 units keep
/// about 14 bits of a sum (arXiv:2412.19437, section 3.5.2), so 2^-14 of the sum of magnitudes. `extra`: share of the
/// largest value.
inline void expectNear(const std::vector<float>& got, const std::vector<float>& wanted,
                       const std::vector<double>& magnitudes, const std::string& what, double extra = 0) {
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

inline Magnitudes magnitudesOf(const std::vector<uint16_t>& x, const std::vector<uint16_t>& w,
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

inline std::vector<float> rounded(const std::vector<float>& values) {
    std::vector<float> out;
    for (float value : values) out.push_back(bf16Value(bf16Bits(value)));
    return out;
}

inline std::vector<float> widened(const std::vector<uint16_t>& bits) {
    std::vector<float> out;
    for (uint16_t value : bits) out.push_back(bf16Value(value));
    return out;
}

inline void expectScale(const LinearBench& bench, TensorRole role, float scale, const std::vector<float>& history,
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
inline void checkScales(const Recorded& recorded, const LinearBench& bench, const std::string& step, int ulps) {
    const auto forward = recorded.values(step + ".scaling_fwd.scale"),
               forwardHistory = recorded.values(step + ".scaling_fwd.amax_history");
    const auto backward = recorded.values(step + ".scaling_bwd.scale"),
               backwardHistory = recorded.values(step + ".scaling_bwd.amax_history");
    expectScale(bench, TensorRole::Input, forward[0], forwardHistory, 0, 3, step + " input", ulps);
    expectScale(bench, TensorRole::Weight, forward[1], forwardHistory, 1, 3, step + " weight", 0);
    expectScale(bench, TensorRole::GradOutput, backward[0], backwardHistory, 0, 2, step + " grad_output", 0);
}

/// backend: nullptr for the CPU.
inline void runLinear(RecipeKind kind, const std::string& module, const std::vector<int>& steps,
                      kernels::Backend* backend = nullptr) {
    const Recorded recorded;
    LinearBench bench(kRows, kIn, kOut, recipe(kind), backend);
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

/// The norm in front of a recorded LayerNormLinear, with memory on the bench's device.
struct RecordedNorm {
    RecordedNorm(const Recorded& recorded, const std::string& module, LinearBench& bench)
        : bench(bench), gain(recorded.bits(module + ".ln_w")), shift(recorded.bits(module + ".ln_b")) {}
    /// Writes the codes of input; with finish also the second pass of current scaling.
    void forward(const std::vector<uint16_t>& x, bool castFromF32, bool finish) {
        Twins twins(bench.backend());
        twins.addAll(x, gain, shift, out);
        twins.add(mean), twins.add(rstd);
        kernels::NormForward op;
        op.rows = kRows, op.cols = kIn;
        op.type = DType::BF16;
        op.residualIn = x.data();
        op.gain = gain.data(), op.bias = shift.data();
        op.out = finish ? out.data() : nullptr;
        op.cast = bench.target(TensorRole::Input);
        op.castFromF32 = castFromF32;
        op.mean = mean.data(), op.rstd = rstd.data();
        twins.run(op);
        mean = twins.get(mean), rstd = twins.get(rstd);
        bench.bindWorkspace();
        if (finish) bench.finish(TensorRole::Input, twins.deviceOf(out), kRows, kIn);
        bench.readCodes(TensorRole::Input);
    }
    /// dx, dGain and dShift from the gradient of the norm's output.
    void backward(const std::vector<uint16_t>& x, const std::vector<uint16_t>& dNorm) {
        Twins twins(bench.backend());
        twins.addAll(x, gain, shift, dNorm, dx);
        twins.addAll(mean, rstd, dGain, dShift);
        kernels::NormBackward op;
        op.rows = kRows, op.cols = kIn;
        op.type = DType::BF16;
        op.dOut = dNorm.data(), op.residual = x.data();
        op.gain = gain.data(), op.bias = shift.data();
        op.mean = mean.data(), op.rstd = rstd.data();
        op.dResidual = dx.data();
        op.dGain = dGain.data(), op.dBias = dShift.data();
        twins.run(op);
        dx = twins.get(dx), dGain = twins.get(dGain), dShift = twins.get(dShift);
        bench.bindWorkspace();
    }

    LinearBench& bench;
    std::vector<uint16_t> gain, shift, out = std::vector<uint16_t>(kRows * kIn), dx = out;
    std::vector<float> mean = std::vector<float>(kRows), rstd = mean, dGain = std::vector<float>(kIn), dShift = dGain;
};

/// With the test-only cast from F32. A scale or a value off by an ulp moves a few codes by one step, 1/16 of the value:
/// it shows in single elements of the sums.
inline void runLayerNormLinearDelayed(kernels::Backend* backend = nullptr) {
    const Recorded recorded;
    const std::string module = "lnlinear.delayed";
    LinearBench bench(kRows, kIn, kOut, recipe(RecipeKind::Delayed), backend);
    RecordedNorm norm(recorded, module, bench);
    const auto weight = recorded.bits(module + ".W"), bias = recorded.bits(module + ".b");
    const std::vector<double> none(kRows * kOut, 0.0);
    for (int step = 0; step < 4; ++step) {
        const std::string name = module + ".s" + std::to_string(step);
        const auto x = recorded.bits(name + ".x"), dy = recorded.bits(name + ".dy");
        std::vector<uint16_t> y(kRows * kOut), dNorm(kRows * kIn);
        std::vector<float> dw(kOut * kIn);
        bench.begin();
        norm.forward(x, true, false);
        bench.cast(TensorRole::Weight, weight.data());
        bench.forward(bias.data(), y.data(), DType::BF16);
        bench.cast(TensorRole::GradOutput, dy.data());
        bench.backward(dNorm.data(), DType::BF16, dw.data());
        norm.backward(x, dNorm);
        bench.update();
        expectNear(widened(y), recorded.values(name + ".y"), none, name + ".y", 0.004);
        expectNear(rounded(dw), recorded.values(name + ".dW"), none, name + ".dW", 0.004);
        expectNear(widened(norm.dx), recorded.values(name + ".dx"), none, name + ".dx", 0.008);
        expectNear(rounded(norm.dGain), recorded.values(name + ".dln_w"), none, name + ".dln_w", 0.008);
        expectNear(rounded(norm.dShift), recorded.values(name + ".dln_b"), none, name + ".dln_b", 0.008);
        checkScales(recorded, bench, name, 4);
    }
}

inline void runLayerNormLinearCurrent(kernels::Backend* backend = nullptr) {
    const Recorded recorded;
    const std::string module = "lnlinear.current";
    LinearBench bench(kRows, kIn, kOut, recipe(RecipeKind::Current), backend);
    RecordedNorm norm(recorded, module, bench);
    const auto weight = recorded.bits(module + ".W"), bias = recorded.bits(module + ".b");
    const std::vector<double> none(kRows * kOut, 0.0);
    for (int step : {0, 3}) {
        const std::string name = module + ".s" + std::to_string(step);
        const auto x = recorded.bits(name + ".x"), dy = recorded.bits(name + ".dy");
        std::vector<uint16_t> y(kRows * kOut), dNorm(kRows * kIn);
        std::vector<float> dw(kOut * kIn);
        bench.begin();
        norm.forward(x, false, true);
        bench.cast(TensorRole::Weight, weight.data());
        bench.forward(bias.data(), y.data(), DType::BF16);
        bench.cast(TensorRole::GradOutput, dy.data());
        bench.backward(dNorm.data(), DType::BF16, dw.data());
        expectNear(widened(y), recorded.values(name + ".y"), none, name + ".y", 0.004);
        expectNear(rounded(dw), recorded.values(name + ".dW"), none, name + ".dW", 0.004);
    }
}

/// Share of the largest dx. Hopper cuts each group of 32 products 13 bits below its largest one, towards zero, so where
/// a few products outweigh the others the error is a share of those, not of the sum of magnitudes.
constexpr double kFewLargeProducts = 0x1p-12;

/// Block scaling, 128 x 128 throughout. norm: the input comes out of a LayerNorm, which writes BF16 before the cast.
inline void runBlockLinear(const std::string& module, bool norm, kernels::Backend* backend = nullptr) {
    constexpr int64_t kSize = 128;
    const Recorded recorded("f_block");
    LinearBench bench(kSize, kSize, kSize, recipe(RecipeKind::Block128), backend);
    const std::string name = module + ".s0";
    const auto weight = recorded.bits(module + ".W"), bias = recorded.bits(module + ".b");
    auto x = recorded.bits(name + ".x");
    const auto dy = recorded.bits(name + ".dy");
    std::vector<uint16_t> y(kSize * kSize), dx(kSize * kSize);
    std::vector<float> dw(kSize * kSize), mean(kSize), rstd(kSize);
    bench.begin();
    if (norm) {
        const auto gain = recorded.bits(module + ".ln_w"), shift = recorded.bits(module + ".ln_b");
        std::vector<uint16_t> out(x.size());
        Twins twins(bench.backend());
        twins.addAll(x, gain, shift, out);
        twins.add(mean), twins.add(rstd);
        kernels::NormForward op;
        op.rows = op.cols = kSize;
        op.type = DType::BF16;
        op.residualIn = x.data(), op.gain = gain.data(), op.bias = shift.data();
        op.out = out.data(), op.mean = mean.data(), op.rstd = rstd.data();
        twins.run(op);
        out = twins.get(out);
        bench.bindWorkspace();
        x = out;
    }
    bench.cast(TensorRole::Input, x.data());
    bench.cast(TensorRole::Weight, weight.data());
    bench.forward(bias.data(), y.data(), DType::BF16);
    bench.cast(TensorRole::GradOutput, dy.data());
    bench.backward(dx.data(), DType::BF16, dw.data());
    const auto at = [](const std::vector<uint16_t>& values, int64_t row, int64_t col) {
        return bf16Value(values[static_cast<size_t>(row * kSize + col)]);
    };
    const auto sums = [&](auto a, auto b) { return sumOfMagnitudes(kSize, kSize, kSize, a, b); };
    const double extra = norm ? 0.004 : 0;  // a norm's value off by an ulp moves a code by a step
    expectNear(
        widened(y), recorded.values(name + ".y"),
        sums([&](int64_t i, int64_t c) { return at(x, i, c); }, [&](int64_t j, int64_t c) { return at(weight, j, c); }),
        name + ".y", extra);
    expectNear(
        rounded(dw), recorded.values(name + ".dW"),
        sums([&](int64_t i, int64_t c) { return at(dy, c, i); }, [&](int64_t j, int64_t c) { return at(x, c, j); }),
        name + ".dW", extra);
    if (norm) return;
    expectNear(widened(dx), recorded.values(name + ".dx"),
               sums([&](int64_t i, int64_t c) { return at(dy, i, c); },
                    [&](int64_t j, int64_t c) { return at(weight, c, j); }),
               name + ".dx", kFewLargeProducts);
}

/// Case C08. backend: nullptr for the CPU.
inline void runCaseC08(kernels::Backend* backend = nullptr) {
    LinearBench bench(16, 16, 16, recipe(RecipeKind::Current), backend);
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

}  // namespace mantissa::test::recorded
