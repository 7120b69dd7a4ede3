// A safetensors file made here, its statistics against sums done by hand.
#include "experiments/report/weight_file.h"

#include <gtest/gtest.h>

#include <unistd.h>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "kernels/error.h"

namespace mantissa::experiments {
namespace {

namespace fs = std::filesystem;

class WeightFiles : public ::testing::Test {
  protected:
    void SetUp() override {
        path_ = fs::temp_directory_path() / ("weights-" + std::to_string(::getpid()) + ".safetensors");
        std::vector<engine::SafetensorsEntry> entries(4);
        entries[0] = {"f", "F32", {2, 4}, 0, 0};
        entries[1] = {"b", "BF16", {3}, 0, 0};
        entries[2] = {"codes", "F8_E4M3", {2}, 0, 0};
        entries[3] = {"big", "F32", {4096, 512}, 0, 0};
        const std::string header = engine::makeSafetensorsHeader(entries, {{"step", "7"}});
        std::ofstream file(path_, std::ios::binary);
        file << header;
        const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
        const float f[8] = {0, 1, -2, 4, inf, nan, 0, 0.5f};
        file.write(reinterpret_cast<const char*>(f), sizeof(f));
        const uint16_t b[3] = {0x3F80, 0xC000, 0x0000};  // 1, -2, 0
        file.write(reinterpret_cast<const char*>(b), sizeof(b));
        const uint8_t codes[2] = {0x7E, 0x7F};  // 448, NaN
        file.write(reinterpret_cast<const char*>(codes), sizeof(codes));
        std::vector<float> big(size_t{4096} * 512);
        for (size_t i = 0; i < big.size(); ++i) big[i] = std::ldexp(1.0f, int(i / 512) / 256);  // rows grow
        file.write(reinterpret_cast<const char*>(big.data()), std::streamsize(big.size() * sizeof(float)));
    }
    void TearDown() override { fs::remove(path_); }
    fs::path path_;
};

TEST_F(WeightFiles, StatisticsAreThoseOfAllElements) {
    const WeightFile file(path_);
    ASSERT_EQ(file.entries().size(), 4u);
    EXPECT_EQ(file.metadata().at("step"), "7");
    const WeightStatistics s = file.statistics(0);
    EXPECT_EQ(s.elements, 8u);
    EXPECT_EQ(s.zeros, 2u);
    EXPECT_EQ(s.inf, 1u);
    EXPECT_EQ(s.nan, 1u);
    EXPECT_EQ(s.amax, 4);
    EXPECT_EQ(s.minNonZero, 0.5);
    EXPECT_EQ(s.least, -2);
    EXPECT_EQ(s.greatest, 4);
    EXPECT_DOUBLE_EQ(s.mean, 3.5 / 6);
    EXPECT_DOUBLE_EQ(s.deviation, std::sqrt(21.25 / 6 - 3.5 / 6 * 3.5 / 6));
    EXPECT_DOUBLE_EQ(s.kurtosis, 6 * (1 + 16 + 256 + 0.0625) / (21.25 * 21.25));
    for (const int exponent : {-1, 0, 1, 2})
        EXPECT_EQ(s.exponents.counts[size_t(exponent - s.exponents.firstExponent)], 1u) << exponent;
    const WeightStatistics b = file.statistics(1);
    EXPECT_EQ(b.least, -2);
    EXPECT_EQ(b.zeros, 1u);
    const WeightStatistics codes = file.statistics(2);
    EXPECT_EQ(codes.amax, 448);
    EXPECT_EQ(codes.nan, 1u);
}

TEST_F(WeightFiles, ASampleOfALongTensorComesFromAllOfIt) {
    const WeightFile file(path_);
    const WeightSample part = file.sample(3, 1 << 18);
    EXPECT_FALSE(part.whole);
    EXPECT_EQ(part.rows * part.cols, 1 << 18);
    EXPECT_EQ(part.values.front(), 1.0f);
    EXPECT_EQ(part.values.back(), 32768.0f);
    const WeightSample whole = file.sample(0);
    EXPECT_TRUE(whole.whole);
    EXPECT_EQ(whole.rows, 2);
    EXPECT_EQ(whole.values[3], 4.0f);
}

TEST_F(WeightFiles, WhatIfNamesTheRecipeThatKeepsRowsApart) {
    const WeightFile file(path_);
    double fixed = -1, blocks = -1;
    for (const WeightWhatIf& row : weightWhatIf(file.sample(3))) {
        if (row.setting == "fixed at 1, E4M3") fixed = row.clipped;
        if (row.setting == "blocks 1 × 128, E4M3") blocks = row.clipped;
    }
    EXPECT_NEAR(fixed, 7.0 / 16, 1e-9);  // 512 … 32768 are over 448
    EXPECT_EQ(blocks, 0);
}

TEST_F(WeightFiles, CanBeStopped) {
    const WeightFile file(path_);
    EXPECT_EQ(file.statistics(3, [](double) { return false; }).elements, 0u);
}

TEST_F(WeightFiles, AFileCutShortIsASentenceNotASignal) {
    const WeightFile file(path_);
    fs::resize_file(path_, 4096);
    try {
        file.statistics(3);
        FAIL() << "read beyond the end";
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("cut short"), std::string::npos);
    }
}

}  // namespace
}  // namespace mantissa::experiments
