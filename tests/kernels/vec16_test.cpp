// The virtual 16-lane vector: casts of all 16-bit patterns and of many floats, errors of exp and the logistic function
// over all floats of their range, one order of sums on every instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/formats/half.h"
#include "tests/kernels/probes/vec16_probe.h"
#include "tests/support/cpu_run.h"

namespace mantissa::test {
namespace {

using kernels::Isa;
using kernels::vec16Probe;

// Worst errors in units in the last place, as kernels/simd/math16.h states them.
constexpr double kExpUlps = 1.0, kSigmoidUlps = 2.2;

/// Every `step`-th float pattern with sign bit from both halves: all exponents, all kinds; a multiple of 16 of them.
std::vector<float> floatPatterns(uint32_t step) {
    std::vector<float> values;
    for (uint64_t bits = 0; bits < (1ull << 32); bits += step)
        values.push_back(kernels::floatFromBits(static_cast<uint32_t>(bits)));
    values.resize(values.size() / 16 * 16);
    return values;
}

bool sameBits(float a, float b) {
    return kernels::floatBits(a) == kernels::floatBits(b);
}

TEST(Vec16, SixteenBitTypesAsTheScalarCode) {
    std::vector<uint16_t> codes(65536), back(65536);
    for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint16_t>(i);
    std::vector<float> values(65536);
    const std::vector<float> patterns = floatPatterns(4093);
    std::vector<uint16_t> stored(patterns.size());
    for (Isa isa : supportedIsas()) {
        const auto& probe = vec16Probe(isa);
        probe.fromBf16(codes.data(), values.data(), 65536);
        for (size_t i = 0; i < codes.size(); ++i) ASSERT_TRUE(sameBits(values[i], kernels::decodeBf16(codes[i]))) << i;
        probe.fromF16(codes.data(), values.data(), 65536);
        for (size_t i = 0; i < codes.size(); ++i) {
            const float expected = kernels::decodeFp16(codes[i]);
            if (std::isnan(expected))
                ASSERT_TRUE(std::isnan(values[i])) << i;
            else
                ASSERT_TRUE(sameBits(values[i], expected)) << i;
        }
        probe.toBf16(patterns.data(), stored.data(), static_cast<int64_t>(patterns.size()));
        for (size_t i = 0; i < patterns.size(); ++i)
            ASSERT_EQ(stored[i], kernels::encodeBf16(patterns[i])) << patterns[i];
        probe.toF16(patterns.data(), stored.data(), static_cast<int64_t>(patterns.size()));
        for (size_t i = 0; i < patterns.size(); ++i) {
            if (std::isnan(patterns[i]))
                ASSERT_TRUE(std::isnan(kernels::decodeFp16(stored[i])));
            else
                ASSERT_EQ(stored[i], kernels::encodeFp16(patterns[i])) << patterns[i];
        }
    }
}

/// Distance in units in the last place of the exact result.
double ulps(float got, double exact) {
    int exponent;
    std::frexp(exact, &exponent);
    return std::fabs(got - exact) / std::ldexp(1.0, exponent - 24);
}

struct Worst {
    double exp = 0, sigmoid = 0;
};

Worst worstErrors(Isa isa, const std::vector<float>& x) {
    const auto& probe = vec16Probe(isa);
    const auto n = static_cast<int64_t>(x.size());
    std::vector<float> e(x.size()), s(x.size());
    probe.exp(x.data(), e.data(), n);
    probe.sigmoid(x.data(), s.data(), n);
    Worst worst;
    for (size_t i = 0; i < x.size(); ++i) {
        const double exact = std::exp(static_cast<double>(x[i])),
                     logistic = 1 / (1 + std::exp(-static_cast<double>(x[i])));
        if (exact >= 0x1p-126) {
            worst.exp = std::max(worst.exp, ulps(e[i], exact));
        } else {
            EXPECT_LE(e[i], 0x1.01p-126) << x[i];
        }
        if (logistic >= 0x1p-126) worst.sigmoid = std::max(worst.sigmoid, ulps(s[i], logistic));
    }
    return worst;
}

TEST(Vec16, ErrorsOfExpAndSigmoid) {
    std::vector<float> x;
    for (float v : floatPatterns(1021))
        if (std::isfinite(v) && v > -110 && v < 88) x.push_back(v);
    x.resize(x.size() / 16 * 16);
    for (Isa isa : supportedIsas()) {
        const Worst worst = worstErrors(isa, x);
        EXPECT_LE(worst.exp, kExpUlps) << kernels::isaName(isa);
        EXPECT_LE(worst.sigmoid, kSigmoidUlps) << kernels::isaName(isa);
        std::printf("%s: exp %.3f ulp, sigmoid %.3f ulp over %zu floats\n", kernels::isaName(isa), worst.exp,
                    worst.sigmoid, x.size());
    }
}

TEST(Vec16, SpecialValues) {
    const float infinity = HUGE_VALF;
    const float in[16] = {0, -0.0f, 1e-38f, -1e-45f, -infinity, -1000, -88, -87, NAN, -NAN, 87, 50, 1, -1, 12, -12};
    const float far[16] = {infinity, 1000, 1e30f, 89,   30, -infinity, -1000, -1e30f,
                           -89,      -30,  NAN,   -NAN, 0,  -0.0f,     1,     -1};
    float e[16], s[16];
    for (Isa isa : supportedIsas()) {
        vec16Probe(isa).exp(in, e, 16);
        for (int i = 0; i < 4; ++i) EXPECT_EQ(e[i], 1);
        for (int i = 4; i < 7; ++i) EXPECT_EQ(e[i], 0);
        EXPECT_GT(e[7], 0);
        EXPECT_TRUE(std::isnan(e[8]) && std::isnan(e[9]));
        EXPECT_TRUE(std::isfinite(e[10]));
        vec16Probe(isa).sigmoid(far, s, 16);
        for (int i = 0; i < 5; ++i) EXPECT_EQ(s[i], 1);
        for (int i = 5; i < 9; ++i) EXPECT_EQ(s[i], 0);
        EXPECT_GT(s[9], 0);
        EXPECT_TRUE(std::isnan(s[10]) && std::isnan(s[11]));
        EXPECT_EQ(s[12], 0.5f);
        EXPECT_EQ(s[13], 0.5f);
    }
}

TEST(Vec16, SameBitsWithFmaAndOneOrderOfSums) {
    const std::vector<float> patterns = floatPatterns(16381);
    std::vector<float> first(patterns.size()), other(patterns.size());
    bool haveFirst = false;
    for (Isa isa : supportedIsas()) {
        if (isa == Isa::Sse) continue;
        vec16Probe(isa).sigmoid(patterns.data(), other.data(), static_cast<int64_t>(patterns.size()));
        if (!haveFirst) first = other;
        haveFirst = true;
        for (size_t i = 0; i < first.size(); ++i)
            ASSERT_TRUE(sameBits(first[i], other[i]) || std::isnan(first[i])) << patterns[i];
    }
    std::vector<float> row(133);
    for (size_t i = 0; i < row.size(); ++i)
        row[i] = std::sin(static_cast<float>(i)) * std::ldexp(1.0f, static_cast<int>(i % 23));
    for (Isa isa : supportedIsas()) {
        EXPECT_EQ(vec16Probe(isa).sumLanes(row.data()), vec16Probe(Isa::Sse).sumLanes(row.data()));
        float eight[8], four[4];
        for (int i = 0; i < 8; ++i) eight[i] = row[static_cast<size_t>(i)] + row[static_cast<size_t>(i + 8)];
        for (int i = 0; i < 4; ++i) four[i] = eight[i] + eight[i + 4];
        EXPECT_EQ(vec16Probe(isa).sumLanes(row.data()), (four[0] + four[2]) + (four[1] + four[3]));
        EXPECT_EQ(vec16Probe(isa).maxLanes(row.data()), *std::max_element(row.begin(), row.begin() + 16));
        for (int64_t n = 0; n <= 133; ++n) {
            EXPECT_EQ(vec16Probe(isa).sumRow(row.data(), n), vec16Probe(Isa::Sse).sumRow(row.data(), n)) << n;
            double sum = 0, magnitude = 0;
            for (int64_t i = 0; i < n; ++i)
                sum += row[static_cast<size_t>(i)], magnitude += std::fabs(row[static_cast<size_t>(i)]);
            EXPECT_NEAR(vec16Probe(isa).sumRow(row.data(), n), sum, 1e-6 * magnitude) << n;
        }
    }
}

TEST(Vec16, PartsTouchOnlyTheirElements) {
    for (Isa isa : supportedIsas())
        for (int64_t n = 0; n <= 16; ++n) {
            const std::unique_ptr<uint16_t[]> in(new uint16_t[static_cast<size_t>(n)]);  // not one more; never null
            std::fill_n(in.get(), n, uint16_t{0x3F80});
            std::vector<uint16_t> out(18, 0xABCD);
            vec16Probe(isa).copyPart(in.get(), out.data() + 1, n);
            for (int64_t i = 0; i < 18; ++i)
                EXPECT_EQ(out[static_cast<size_t>(i)], i >= 1 && i <= n ? 0x3F80 : 0xABCD) << n << " " << i;
        }
}

}  // namespace
}  // namespace mantissa::test
