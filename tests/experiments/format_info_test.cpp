// What the Formats page shows of one number.
#include <gtest/gtest.h>

#include <cmath>

#include "experiments/format_info.h"

namespace mantissa::experiments {
namespace {

TEST(FormatInfo, OneTenthInEveryFormat) {
    const CodedNumber e4m3 = encodeNumber(NumberFormat::E4m3, 0.1);
    EXPECT_EQ(e4m3.code.hex, "0x1D");
    EXPECT_EQ(e4m3.code.sign + " " + e4m3.code.exponent + " " + e4m3.code.fraction, "0 0011 101");
    EXPECT_EQ(e4m3.value, 0.1015625);
    EXPECT_NEAR(e4m3.error, 1.5625e-3, 1e-8);
    EXPECT_NEAR(e4m3.relativeError, 0.015625, 1e-6);
    EXPECT_EQ(e4m3.below->value, 0.09375);
    EXPECT_EQ(e4m3.above->value, 0.109375);
    const CodedNumber e5m2 = encodeNumber(NumberFormat::E5m2, 0.1);
    EXPECT_EQ(e5m2.code.hex, "0x2E");
    EXPECT_EQ(e5m2.below->value, 0.078125);
    EXPECT_EQ(e5m2.above->value, 0.109375);
    const CodedNumber e2m1 = encodeNumber(NumberFormat::E2m1, 0.1);
    EXPECT_EQ(e2m1.code.hex, "0x0");
    EXPECT_EQ(e2m1.below->value, -0.5);
    EXPECT_EQ(e2m1.above->value, 0.5);
    EXPECT_EQ(encodeNumber(NumberFormat::Bf16, 0.1).code.hex, "0x3DCD");
    EXPECT_EQ(encodeNumber(NumberFormat::Fp16, 0.1).code.hex, "0x2E66");
    EXPECT_EQ(encodeNumber(NumberFormat::E8m0, 0.1).value, 0.125);
    EXPECT_EQ(encodeNumber(NumberFormat::E8m0, 0.1, 1, Rounding::Down).value, 0.0625);
}

TEST(FormatInfo, FactsAgreeWithTheCodes) {
    for (NumberFormat format : allFormats()) {
        const FormatFacts& facts = formatFacts(format);
        EXPECT_EQ(facts.bits, facts.signBits + facts.exponentBits + facts.fractionBits) << facts.name;
        EXPECT_EQ(formatByKey(facts.key), format);
        double largest = 0, smallest = INFINITY, smallestNormal = INFINITY;
        bool infinity = false, nan = false;
        for (uint32_t code = 0; code < 1u << facts.bits; ++code) {
            const FormatCode one = describeCode(format, code);
            infinity |= one.kind == NumberKind::Infinity;
            nan |= one.kind == NumberKind::Nan;
            if (!std::isfinite(one.value) || one.value <= 0) continue;
            largest = std::max(largest, one.value);
            smallest = std::min(smallest, one.value);
            const bool exponentSet = one.exponent.find('1') != std::string::npos;
            if (exponentSet) smallestNormal = std::min(smallestNormal, one.value);
            EXPECT_EQ(one.kind == NumberKind::Normal, exponentSet || format == NumberFormat::E8m0)
                << facts.name << one.hex;
        }
        EXPECT_EQ(largest, facts.largest) << facts.name;
        EXPECT_EQ(smallest, facts.smallest) << facts.name;
        EXPECT_EQ(format == NumberFormat::E8m0 ? smallest : smallestNormal, facts.smallestNormal) << facts.name;
        EXPECT_EQ(infinity, facts.hasInfinity) << facts.name;
        EXPECT_EQ(nan, facts.hasNan) << facts.name;
    }
}

TEST(FormatInfo, NeighboursAreTheNextValues) {
    for (NumberFormat format : {NumberFormat::E4m3, NumberFormat::E5m2, NumberFormat::E2m1, NumberFormat::E8m0}) {
        uint64_t total = 0;
        const auto line = codesBetween(format, -1e39, 1e39, 1000, total);
        ASSERT_EQ(line.size(), total);
        for (size_t i = 0; i < line.size(); ++i) {
            ASSERT_TRUE(i == 0 || line[i - 1].value < line[i].value);
            const CodedNumber number = encodeNumber(format, line[i].value);
            EXPECT_EQ(number.value, line[i].value);
            EXPECT_EQ(number.error, 0);
            EXPECT_EQ(number.chanceUp, 0);
            EXPECT_EQ(number.below.has_value(), i > 0);
            EXPECT_EQ(number.above.has_value(), i + 1 < line.size());
            EXPECT_TRUE(!number.below || number.below->value == line[i - 1].value);
            EXPECT_TRUE(!number.above || number.above->value == line[i + 1].value);
        }
    }
    uint64_t total = 0;
    EXPECT_EQ(codesBetween(NumberFormat::E4m3, 0.07, 0.13, 100, total).size(), 8u);
    EXPECT_TRUE(codesBetween(NumberFormat::Fp16, 0.07, 0.13, 100, total).empty());
    EXPECT_GT(total, 900u);
    EXPECT_TRUE(codesBetween(NumberFormat::E4m3, NAN, 1, 100, total).empty());
}

TEST(FormatInfo, ScaleSaturationAndRounding) {
    const CodedNumber scaled = encodeNumber(NumberFormat::E4m3, 3, 149.333328f);
    EXPECT_EQ(scaled.code.code, 0x7Eu);
    EXPECT_NEAR(scaled.value, 3, 1e-6);
    EXPECT_FALSE(scaled.saturated);
    EXPECT_FALSE(encodeNumber(NumberFormat::E4m3, 464).saturated);
    EXPECT_TRUE(encodeNumber(NumberFormat::E4m3, 465).saturated);
    EXPECT_TRUE(encodeNumber(NumberFormat::Fp16, 65520).saturated);
    EXPECT_EQ(encodeNumber(NumberFormat::Fp16, 65520).code.kind, NumberKind::Infinity);
    EXPECT_EQ(encodeNumber(NumberFormat::Fp16, 65520, 1, Rounding::Down).value, 65504);
    EXPECT_EQ(encodeNumber(NumberFormat::E4m3, 0.1, 1, Rounding::Down).value, 0.09375);
    EXPECT_EQ(encodeNumber(NumberFormat::E4m3, -0.1, 1, Rounding::Up).value, -0.1015625);
    EXPECT_EQ(encodeNumber(NumberFormat::E5m2, 0.1, 1, Rounding::Up).value, 0.109375);
    EXPECT_EQ(encodeNumber(NumberFormat::E5m2, 1e9, 1, Rounding::Up).value, 57344);
    EXPECT_TRUE(std::isnan(encodeNumber(NumberFormat::E4m3, NAN).error));
    EXPECT_FALSE(encodeNumber(NumberFormat::E4m3, NAN).below.has_value());
    EXPECT_NEAR(encodeNumber(NumberFormat::E4m3, 0.1).chanceUp, 0.8, 1e-6);
    int up = 0;
    for (uint64_t seed = 0; seed < 10000; ++seed)
        up += encodeNumber(NumberFormat::E4m3, 0.1, 1, Rounding::Stochastic, seed).value == 0.1015625;
    EXPECT_NEAR(up / 1e4, 0.8, 0.02);
}

TEST(FormatInfo, Parsing) {
    EXPECT_EQ(parseNumber(" 0.1 "), 0.1);
    EXPECT_EQ(parseNumber("-1e-3"), -1e-3);
    EXPECT_EQ(parseNumber("+2"), 2.0);
    EXPECT_EQ(parseNumber("0x1p-9"), 0x1p-9);
    EXPECT_EQ(parseNumber("-inf"), -INFINITY);
    EXPECT_EQ(parseNumber("1e999"), INFINITY);
    EXPECT_EQ(parseNumber("-1e-999"), 0.0);
    EXPECT_TRUE(std::isnan(*parseNumber("nan")));
    for (const char* bad : {"", " ", "x", "1x", "1,5", "--1", "+-1", "-", "0x", "1 2", "e5"})
        EXPECT_FALSE(parseNumber(bad)) << bad;
    EXPECT_EQ(parseCode(NumberFormat::E4m3, "1D"), 0x1Du);
    EXPECT_EQ(parseCode(NumberFormat::Bf16, "0x3dcd"), 0x3DCDu);
    for (const char* bad : {"", "100", "G1", "0x", "-1", "123456789"})
        EXPECT_FALSE(parseCode(NumberFormat::E4m3, bad)) << bad;
    EXPECT_FALSE(parseCode(NumberFormat::E2m1, "10"));
}

}  // namespace
}  // namespace mantissa::experiments
