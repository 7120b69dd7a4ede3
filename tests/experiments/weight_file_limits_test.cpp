// Checkpoint files at their limits: many gigabytes, and headers that lie.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <random>

#include "engine/checkpoint/safetensors.h"
#include "experiments/report/weight_file.h"
#include "tests/experiments/support.h"

namespace mantissa::experiments {
namespace {

using testing::HasSubstr;

std::string withHeader(const std::string& header, size_t dataBytes) {
    const uint64_t length = header.size();
    std::string bytes(sizeof length, '\0');
    std::memcpy(bytes.data(), &length, sizeof length);
    return bytes + header + std::string(dataBytes, '\1');
}

TEST(WeightFileLimits, SixGigabytesOpenAtOnceAndTheLastTensorIsRead) {
    test::TempFolder folder;
    const std::string path = folder / "large.safetensors";
    std::vector<engine::SafetensorsEntry> entries(2);
    entries[0].name = "embedding";
    entries[0].dtype = "BF16";
    entries[0].shape = {50000, 64000};  // 6.4 GB, a hole in the file
    entries[1].name = "last";
    entries[1].dtype = "F32";
    entries[1].shape = {2, 3};
    const std::string header = engine::makeSafetensorsHeader(entries, {{"format", "pt"}});
    const float values[] = {1, -2, 0, 4, 0.5f, NAN};
    {
        std::ofstream file(path, std::ios::binary);
        file << header;
        file.seekp(static_cast<std::streamoff>(entries[1].offset));
        file.write(reinterpret_cast<const char*>(values), sizeof values);
    }
    const auto start = std::chrono::steady_clock::now();
    const WeightFile file(path);
    ASSERT_EQ(file.entries().size(), 2u);
    EXPECT_GT(file.bytes(), 6'400'000'000u);
    const WeightStatistics last = file.statistics(1);
    EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 5.0);
    EXPECT_EQ(last.elements, 6u);
    EXPECT_EQ(last.zeros, 1u);
    EXPECT_EQ(last.nan, 1u);
    EXPECT_EQ(last.amax, 4);
    EXPECT_EQ(last.minNonZero, 0.5);
    EXPECT_DOUBLE_EQ(last.mean, 3.5 / 5);
    const WeightSample sample = file.sample(0, 4096);
    EXPECT_LE(sample.values.size(), 4096u);
    EXPECT_FALSE(sample.whole);
}

TEST(WeightFileLimits, HeadersThatLieAreOneSentenceWithThePath) {
    test::TempFolder folder;
    const std::string path = folder / "bad.safetensors";
    const auto told = [&](const std::string& bytes) {
        test::writeAll(path, bytes);
        const std::string text = test::sentence([&] { WeightFile file(path); });
        EXPECT_THAT(text, HasSubstr(path));
        EXPECT_EQ(text.find('\n'), std::string::npos);
        return text;
    };
    EXPECT_THAT(told(""), HasSubstr("bad.safetensors"));
    EXPECT_THAT(told(std::string(8, '\xff')), HasSubstr("is not a safetensors file"));
    EXPECT_THAT(told(withHeader("[1, 2]", 0)), HasSubstr("is not a safetensors file"));
    EXPECT_THAT(told(withHeader("{\"a\": 3}", 0)), HasSubstr("damaged safetensors header"));
    const auto entry = [](const char* dtype, const char* shape, const char* offsets) {
        return std::string("{\"t\": {\"dtype\": \"") + dtype + "\", \"shape\": " + shape +
               ", \"data_offsets\": " + offsets + "}}";
    };
    EXPECT_THAT(told(withHeader(entry("F99", "[1]", "[0, 4]"), 4)), HasSubstr("unknown type F99"));
    EXPECT_THAT(told(withHeader(entry("F32", "[-1]", "[0, 4]"), 4)), HasSubstr("impossible shape"));
    EXPECT_THAT(told(withHeader(entry("F32", "[4000000000, 4000000000, 4000000000]", "[0, 4]"), 4)),
                HasSubstr("impossible shape"));
    EXPECT_THAT(told(withHeader(entry("F32", "[2]", "[0, 4]"), 4)), HasSubstr("offsets do not fit its shape"));
    EXPECT_THAT(told(withHeader(entry("F32", "[2]", "[0, 8]"), 4)), HasSubstr("cut off"));
    EXPECT_THAT(told(withHeader(entry("F32", "[1]", "[18446744073709551612, 0]"), 4)), HasSubstr("bad.safetensors"));
}

/// Random damage to a good file: it opens and all its tensors can be read, or there is one sentence; never a crash.
TEST(WeightFileLimits, SurvivesRandomDamage) {
    test::TempFolder folder;
    const std::string path = folder / "fuzz.safetensors";
    std::vector<engine::SafetensorsEntry> entries(3);
    const char* types[] = {"F32", "BF16", "F8_E4M3"};
    for (size_t i = 0; i < 3; ++i) {
        entries[i].name = "layer." + std::to_string(i) + ".weight";
        entries[i].dtype = types[i];
        entries[i].shape = {4, 8};
    }
    std::string good = engine::makeSafetensorsHeader(entries, {{"note", "fuzz"}});
    good += std::string(32 * 7, '\x3a');
    std::mt19937 random(7);
    int opened = 0, refused = 0;
    for (int round = 0; round < 2000; ++round) {
        std::string bytes = good;
        for (int changes = 1 + static_cast<int>(random() % 3); changes > 0 && !bytes.empty(); --changes) {
            const size_t at = random() % bytes.size();
            if (random() % 4 == 0)
                bytes.resize(at);
            else if (random() % 3 == 0)
                bytes.insert(at, 1 + random() % 9, static_cast<char>(random() & 0xff));
            else
                bytes[at] = static_cast<char>(random() & 0xff);
        }
        test::writeAll(path, bytes);
        const std::string text = test::sentence([&] {
            const WeightFile file(path);
            for (size_t i = 0; i < file.entries().size(); ++i) {
                const WeightStatistics statistics = file.statistics(i);
                EXPECT_EQ(statistics.elements, static_cast<uint64_t>(file.entries()[i].count()));
            }
        });
        (text.empty() ? opened : refused)++;
        if (!text.empty()) {
            EXPECT_EQ(text.find('\n'), std::string::npos);
            EXPECT_THAT(text, HasSubstr(path));
        }
    }
    EXPECT_GT(opened, 100);
    EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace mantissa::experiments
