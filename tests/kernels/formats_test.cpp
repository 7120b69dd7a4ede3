// Codecs against the tables of the CUDA toolkit's host conversions, exhaustively, and the cases C01, N01, N02, N14.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "kernels/formats/fp8.h"
#include "kernels/formats/half.h"
#include "kernels/formats/micro.h"
#include "kernels/simd/philox.h"
#include "tests/support/golden.h"

namespace mantissa::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Equal bits, or both NaN.
bool sameNumber(float a, float b) {
    return (std::isnan(a) && std::isnan(b)) || floatBits(a) == floatBits(b);
}

uint64_t fnv(const std::vector<uint8_t>& bytes) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001b3u;
    return hash;
}

TEST(Formats, AllBf16PatternsEncodeAsTheToolkitDoes) {
    const auto e4m3 = test::goldenBytes("formats/bf16_to_e4m3_satfinite.bin");
    const auto e5m2 = test::goldenBytes("formats/bf16_to_e5m2_satfinite.bin");
    ASSERT_EQ(e4m3.size(), 65536u);
    ASSERT_EQ(e5m2.size(), 65536u);
    for (uint32_t i = 0; i < 65536; ++i) {
        ASSERT_EQ(encodeE4m3(decodeBf16(static_cast<uint16_t>(i))), e4m3[i]) << std::hex << i;
        ASSERT_EQ(encodeE5m2(decodeBf16(static_cast<uint16_t>(i))), e5m2[i]) << std::hex << i;
    }
}

TEST(Formats, AllCodesDecodeAsTheToolkitDoes) {
    const auto e4m3 = test::goldenArray<float>("formats/e4m3_to_f32.bin");
    const auto e5m2 = test::goldenArray<float>("formats/e5m2_to_f32.bin");
    ASSERT_EQ(e4m3.size(), 256u);
    for (int code = 0; code < 256; ++code) {
        const float a = decodeE4m3(static_cast<uint8_t>(code)), b = decodeE5m2(static_cast<uint8_t>(code));
        EXPECT_TRUE(sameNumber(a, e4m3[code])) << code;
        EXPECT_TRUE(sameNumber(b, e5m2[code])) << code;
    }
}

TEST(Formats, CaseC01) {
    const std::pair<float, int> pairs[] = {{0.0f, 0x00},
                                           {-0.0f, 0x80},
                                           {1, 0x38},
                                           {0.3952f, 0x2D},
                                           {-0.1f, 0x9D},
                                           {17, 0x58},
                                           {19, 0x5A},
                                           {448, 0x7E},
                                           {449, 0x7E},
                                           {464, 0x7E},
                                           {465, 0x7E},
                                           {1e30f, 0x7E},
                                           {kInf, 0x7E},
                                           {-kInf, 0xFE},
                                           {kNan, 0x7F},
                                           {0x1p-9f, 0x01},
                                           {0x1p-10f, 0x00},
                                           {std::nextafter(0x1p-10f, 1.0f), 0x01},
                                           {1.5f * 0x1p-9f, 0x02},
                                           {2.5f * 0x1p-9f, 0x02},
                                           {-0x1p-10f, 0x80}};
    for (auto [value, code] : pairs) EXPECT_EQ(encodeE4m3(value), code) << value;
    std::vector<uint8_t> codes(65536);
    int zero = 0, largest = 0;
    for (int i = 0; i < 65536; ++i) {
        codes[i] = encodeE4m3(decodeBf16(static_cast<uint16_t>(i)));
        zero += (codes[i] & 0x7F) == 0;
        largest += (codes[i] & 0x7F) == 0x7E;
    }
    EXPECT_EQ(fnv(codes), 0xd8b2feb674a31125u);
    EXPECT_EQ(zero, 29954);
    EXPECT_EQ(largest, 30546);
}

TEST(Formats, CasesN01AndN02) {
    const int rows[][3] = {{0x3F80, 0x38, 0x3C}, {0x3DCD, 0x1D, 0x2E}, {0x43E8, 0x7E, 0x5F}, {0x3A80, 0x00, 0x14},
                           {0x3A81, 0x01, 0x14}, {0x3B40, 0x02, 0x1A}, {0x3700, 0x00, 0x00}, {0x3701, 0x00, 0x01},
                           {0x8000, 0x80, 0x80}, {0x7F80, 0x7E, 0x7B}, {0xFF80, 0xFE, 0xFB}, {0x7FC0, 0x7F, 0x7F},
                           {0xFFC0, 0x7F, 0x7F}};
    for (const auto& row : rows) {
        EXPECT_EQ(encodeE4m3(decodeBf16(static_cast<uint16_t>(row[0]))), row[1]);
        EXPECT_EQ(encodeE5m2(decodeBf16(static_cast<uint16_t>(row[0]))), row[2]);
    }
    EXPECT_EQ(decodeE4m3(0x01), 0.001953125f);
    EXPECT_EQ(decodeE4m3(0x07), 0.013671875f);
    EXPECT_EQ(decodeE4m3(0x55), 13.0f);
    EXPECT_EQ(decodeE4m3(0xC3), -2.75f);
    EXPECT_EQ(decodeE5m2(0x55), 80.0f);
    EXPECT_EQ(decodeE5m2(0xC3), -3.5f);
    EXPECT_EQ(decodeE5m2(0x7B), 57344.0f);
    EXPECT_EQ(decodeE5m2(0x7C), kInf);
    EXPECT_TRUE(std::isnan(decodeE4m3(0x7F)) && std::isnan(decodeE4m3(0xFF)));
}

TEST(Formats, EdgesOfFp8FromFp32) {
    const std::tuple<uint32_t, int, int> rows[] = {
        {0x3DCCCCCDu, 0x1D, 0x2E}, {0x3EAAAAABu, 0x2B, 0x35}, {0x43E7FFFFu, 0x7E, 0x5F}, {0x43E80001u, 0x7E, 0x5F},
        {0x476FFFFFu, 0x7E, 0x7B}, {0x47700000u, 0x7E, 0x7B}, {0x3C7FFFFFu, 0x08, 0x24}, {0x3A800001u, 0x01, 0x14},
        {0x37000001u, 0x00, 0x01}, {0x37C00000u, 0x00, 0x02}, {0x00000001u, 0x00, 0x00}, {0x3F880000u, 0x38, 0x3C},
        {0x3F880001u, 0x39, 0x3C}, {0x3F980000u, 0x3A, 0x3D}, {0xB9D1B717u, 0x80, 0x8F}, {0x7F7FFFFFu, 0x7E, 0x7B},
        {0xFFC00000u, 0x7F, 0x7F}, {0x7F800001u, 0x7F, 0x7F}, {0x3B400000u, 0x02, 0x1A}, {0x3BA00000u, 0x02, 0x1D}};
    for (auto [bits, e4m3, e5m2] : rows) {
        EXPECT_EQ(encodeE4m3(floatFromBits(bits)), e4m3) << std::hex << bits;
        EXPECT_EQ(encodeE5m2(floatFromBits(bits)), e5m2) << std::hex << bits;
    }
}

TEST(Formats, Bf16RoundsToNearestEven) {
    const uint32_t rows[][2] = {{0x3F808000u, 0x3F80}, {0x3F818000u, 0x3F82}, {0x3F808001u, 0x3F81},
                                {0x7F7FFFFFu, 0x7F80}, {0x7F7F7C95u, 0x7F7F}, {0x80000001u, 0x8000},
                                {0x7F800000u, 0x7F80}};
    for (const auto& row : rows) EXPECT_EQ(encodeBf16(floatFromBits(row[0])), row[1]) << std::hex << row[0];
    EXPECT_TRUE(std::isnan(decodeBf16(encodeBf16(floatFromBits(0x7F800001u)))));
}

/// Independent search: the nearest of the format's values, ties to the even code.
uint16_t nearestFp16(double value) {
    uint16_t best = 0;
    for (uint32_t code = 0; code < 0x7C00; ++code) {
        const double distance = std::fabs(decodeFp16(static_cast<uint16_t>(code)) - value);
        const double bestDistance = std::fabs(decodeFp16(best) - value);
        if (distance < bestDistance || (distance == bestDistance && code % 2 == 0)) best = static_cast<uint16_t>(code);
    }
    return best;
}

TEST(Formats, Fp16) {
    for (uint32_t code = 0; code < 65536; ++code) {
        const float value = decodeFp16(static_cast<uint16_t>(code));
        EXPECT_TRUE(std::isnan(value) ? std::isnan(decodeFp16(encodeFp16(value))) : encodeFp16(value) == code) << code;
    }
    EXPECT_EQ(decodeFp16(0x7BFF), 65504.0f);
    EXPECT_EQ(decodeFp16(0x0001), 0x1p-24f);
    EXPECT_EQ(encodeFp16(65519.996f), 0x7BFF);
    EXPECT_EQ(encodeFp16(65520.0f), 0x7C00);
    EXPECT_EQ(encodeFp16(-1e9f), 0xFC00);
    std::mt19937 random(5);
    for (int i = 0; i < 60; ++i) {
        const float value =
            std::ldexp(1.0f + static_cast<float>(random() & 0x7FFFFF) * 0x1p-23f, static_cast<int>(random() % 38) - 25);
        if (value >= 65504) continue;
        EXPECT_EQ(encodeFp16(value), nearestFp16(value)) << value;
    }
}

TEST(Formats, CaseN14MicroFormats) {
    EXPECT_EQ(encodeE8m0(1.0f / 448, false), 0x76);
    EXPECT_EQ(encodeE8m0(1.0f / 448, true), 0x77);
    EXPECT_EQ(encodeE8m0(1.0f, true), 0x7F);
    EXPECT_EQ(encodeE8m0(1.0000001f, true), 0x80);
    EXPECT_EQ(encodeE8m0(3.0f, false), 0x80);
    EXPECT_EQ(encodeE8m0(-3.0f, true), 0x81);
    EXPECT_EQ(encodeE8m0(0.0f, true), 0x00);
    EXPECT_EQ(encodeE8m0(0x1p-128f, true), 0x00);
    EXPECT_EQ(encodeE8m0(floatFromBits(0x00403ECDu), true), 0x01);
    EXPECT_EQ(encodeE8m0(floatFromBits(kFloatMaxFinite), true), 0xFE);
    EXPECT_EQ(encodeE8m0(kInf, true), 0xFE);
    EXPECT_EQ(encodeE8m0(kNan, false), 0xFF);
    EXPECT_EQ(decodeE8m0(0x00), 0x1p-127f);
    EXPECT_EQ(decodeE8m0(0x76), 0x1p-9f);
    EXPECT_TRUE(std::isnan(decodeE8m0(0xFF)));
    const std::pair<float, int> e2m1[] = {{2.5f, 4},  {3.5f, 6},  {5, 6},     {0.25f, 0},      {0.2500001f, 1},
                                          {0.75f, 2}, {1.25f, 2}, {1.75f, 4}, {5.0000005f, 7}, {kInf, 7},
                                          {-5, 0xE},  {kNan, 7},  {-0.0f, 8}, {1e9f, 7}};
    for (auto [value, code] : e2m1) EXPECT_EQ(encodeE2m1(value), code) << value;
    for (int code = 0; code < 16; ++code) EXPECT_EQ(encodeE2m1(decodeE2m1(static_cast<uint8_t>(code))), code);
}

TEST(Formats, RandomFp32EncodesToTheNearestCode) {
    std::mt19937 random(7);
    for (DType type : {DType::E4M3, DType::E5M2}) {
        const Fp8Traits format = fp8Traits(type);
        for (int i = 0; i < 200000; ++i) {
            const float value = floatFromBits(random());
            if (std::isnan(value)) continue;
            const uint8_t code = encodeFp8(value, format);
            const double error = std::fabs(decodeFp8(code, format) - static_cast<double>(value));
            if (std::fabs(value) > maxFinite(type)) {
                EXPECT_EQ(code & 0x7F, format.maxCode);
                continue;
            }
            const uint8_t magnitude = code & 0x7F, sign = code & 0x80;
            for (int other : {magnitude - 1, magnitude + 1}) {
                if (other < 0 || other > format.maxCode) continue;
                const double otherError =
                    std::fabs(decodeFp8(static_cast<uint8_t>(other | sign), format) - static_cast<double>(value));
                EXPECT_TRUE(error < otherError || (error == otherError && code % 2 == 0)) << value;
            }
        }
    }
}

TEST(Formats, StochasticRoundingIsUnbiased) {
    for (DType type : {DType::E4M3, DType::E5M2}) {
        const Fp8Traits format = fp8Traits(type);
        for (float value : {1.03f, 300.0f, 0.0171f, 0x1.3p-8f, 0x1.8p-11f, -2.9f, 0x1p-15f, 0x1.4p-20f}) {
            const uint8_t floorCode = encodeFp8Stochastic(value, format, 0);
            const uint8_t ceilCode = encodeFp8Stochastic(value, format, 0xFFFFFFFFu);
            const double low = decodeFp8(floorCode, format), high = decodeFp8(ceilCode, format);
            const int n = 200000;
            double sum = 0;
            for (int i = 0; i < n; ++i) {
                const Philox4 random = philoxBlock(99, static_cast<uint64_t>(i) / 4, 3);
                const uint8_t code = encodeFp8Stochastic(value, format, random.value[i % 4]);
                ASSERT_TRUE(code == floorCode || code == ceilCode) << value;
                sum += decodeFp8(code, format);
            }
            ASSERT_LE(std::min(low, high), value);
            ASSERT_GE(std::max(low, high), value);
            const double p = low == high ? 0 : (value - low) / (high - low);
            EXPECT_NEAR(sum / n, value, 5 * std::fabs(high - low) * std::sqrt(p * (1 - p) / n) + 1e-12) << value;
        }
        EXPECT_EQ(encodeFp8Stochastic(1.0f, format, 0xFFFFFFFFu), encodeFp8(1.0f, format));
        EXPECT_EQ(encodeFp8Stochastic(1e30f, format, 0), format.maxCode);
        EXPECT_EQ(encodeFp8Stochastic(-kInf, format, 12345), format.maxCode | 0x80);
        EXPECT_EQ(encodeFp8Stochastic(kNan, format, 12345), 0x7F);
        EXPECT_EQ(encodeFp8Stochastic(-0.0f, format, 0xFFFFFFFFu), 0x80);
        EXPECT_EQ(encodeFp8Stochastic(floatFromBits(1), format, 0xFFFFFFFFu), 0);
    }
    const float value = 1.0f + 0.3f * 0x1p-7f;
    int up = 0;
    for (int i = 0; i < 100000; ++i)
        up += encodeBf16Stochastic(value, philoxBlock(1, static_cast<uint64_t>(i), 0).value[0]) == 0x3F81;
    EXPECT_NEAR(up / 1e5, 0.3, 0.008);
}

TEST(Formats, PhiloxKnownAnswers) {
    // Random123's kat_vectors for philox4x32-10.
    const Philox4 zero = philox4x32({{0, 0, 0, 0}}, 0);
    EXPECT_EQ(zero.value[0], 0x6627e8d5u);
    EXPECT_EQ(zero.value[1], 0xe169c58du);
    EXPECT_EQ(zero.value[2], 0xbc57ac4cu);
    EXPECT_EQ(zero.value[3], 0x9b00dbd8u);
    const Philox4 pi = philox4x32({{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}}, 0x299f31d0a4093822u);
    EXPECT_EQ(pi.value[0], 0xd16cfe09u);
    EXPECT_EQ(pi.value[1], 0x94fdccebu);
    EXPECT_EQ(pi.value[2], 0x5001e420u);
    EXPECT_EQ(pi.value[3], 0x24126ea1u);
}

}  // namespace
}  // namespace mantissa::kernels
