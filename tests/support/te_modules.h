// Linear modules recorded from Transformer Engine 2.20 on an H200 (tests/data/te/f_modules.safetensors), and the checks
// against them, for any backend.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "engine/checkpoint/safetensors.h"
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

/// Share of the largest dx. Hopper cuts each group of 32 products 13 bits below its largest one, towards zero, so where
/// a few products outweigh the others the error is a share of those, not of the sum of magnitudes.
constexpr double kFewLargeProducts = 0x1p-12;

/// Block scaling, 128 x 128 throughout. norm: the input comes out of a LayerNorm, which writes BF16 before the cast (on
/// the CPU: backend is nullptr).
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
        kernels::NormForward op;
        op.rows = op.cols = kSize;
        op.type = DType::BF16;
        op.residualIn = x.data(), op.gain = gain.data(), op.bias = shift.data();
        op.out = out.data(), op.mean = mean.data(), op.rstd = rstd.data();
        bench.backend().run(op);
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

}  // namespace mantissa::test::recorded
