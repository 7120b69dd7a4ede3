// Checkpoint files at their limits: many gigabytes, and headers that lie.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <random>

#include "engine/checkpoint/safetensors.h"
#include "experiments/report/weight_file.h"
#include "experiments/tensor_input.h"
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

int64_t residentPages() {
    int64_t total = 0, resident = 0;
    std::ifstream("/proc/self/statm") >> total >> resident;
    return resident;
}

/// Pages that were read do not stay: reading a tensor takes no memory worth speaking of, however long it is.
TEST(WeightFileLimits, ReadingALongTensorKeepsMemorySmall) {
    test::TempFolder folder;
    const std::string path = folder / "long.safetensors";
    std::vector<engine::SafetensorsEntry> entries(1);
    entries[0].name = "w";
    entries[0].dtype = "F64";
    entries[0].shape = {1 << 13, 1 << 13};  // 512 MiB, a hole in the file
    test::writeAll(path, engine::makeSafetensorsHeader(entries, {}));
    std::filesystem::resize_file(path, entries[0].offset + entries[0].bytes);
    const WeightFile file(path);
    const int64_t before = residentPages();
    int64_t most = before;
    const WeightStatistics statistics = file.statistics(0, [&](double) {
        most = std::max(most, residentPages());
        return true;
    });
    EXPECT_EQ(statistics.zeros, uint64_t{1} << 26);
    const int64_t megabyte = (1 << 20) / sysconf(_SC_PAGESIZE);
    EXPECT_LT(most - before, 128 * megabyte);
    EXPECT_LT(residentPages() - before, 16 * megabyte);
}

/// Every type of the format is read; a tensor without elements is none that overlaps.
TEST(WeightFileLimits, EveryTypeAndAnEmptyTensor) {
    test::TempFolder folder;
    const std::string path = folder / "types.safetensors";
    const std::pair<const char*, std::string> types[] = {{"F64", std::string("\0\0\0\0\0\0\0\x40", 8)},
                                                         {"F32", std::string("\0\0\0\x40", 4)},
                                                         {"F16", std::string("\0\x40", 2)},
                                                         {"BF16", std::string("\0\x40", 2)},
                                                         {"F8_E4M3", "\x40"},
                                                         {"F8_E5M2", "\x40"},
                                                         {"F8_E8M0", "\x80"},
                                                         {"I64", std::string("\2\0\0\0\0\0\0\0", 8)},
                                                         {"I32", std::string("\2\0\0\0", 4)},
                                                         {"I16", std::string("\2\0", 2)},
                                                         {"I8", "\2"},
                                                         {"U64", std::string("\2\0\0\0\0\0\0\0", 8)},
                                                         {"U32", std::string("\2\0\0\0", 4)},
                                                         {"U16", std::string("\2\0", 2)},
                                                         {"U8", "\2"},
                                                         {"BOOL", "\2"}};
    std::vector<engine::SafetensorsEntry> entries;
    std::string data;
    for (const auto& [type, bytes] : types) {
        entries.push_back({std::string("zz-") + type, type, {0, 5}, 0, 0});  // begins where the next one does
        entries.push_back({type, type, {1}, 0, 0});
        data += bytes;
    }
    test::writeAll(path, engine::makeSafetensorsHeader(entries, {}) + data);
    const WeightFile file(path);
    ASSERT_EQ(file.entries().size(), entries.size());
    for (size_t i = 0; i < entries.size(); ++i) {
        const auto& entry = file.entries()[i];
        const WeightStatistics statistics = file.statistics(i);
        EXPECT_EQ(statistics.amax, entry.count() ? 2 : 0) << entry.name;
        EXPECT_EQ(file.sample(i).values.size(), static_cast<size_t>(entry.count())) << entry.name;
        EXPECT_EQ(weightWhatIf(file.sample(i)).empty(), entry.count() == 0) << entry.name;
        if (entry.count())
            EXPECT_EQ(readTensorFile(path + ":" + entry.name).values, std::vector<float>{2}) << entry.name;
        else
            EXPECT_THAT(test::sentence([&] { readTensorFile(path + ":" + entry.name); }),
                        HasSubstr(entry.name + " holds no values"));
    }
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
    EXPECT_THAT(told(withHeader(entry("F99", "[1]", "[0, 4]"), 4)), HasSubstr("unknown type F99; allowed: F64, F32"));
    EXPECT_THAT(told(withHeader(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, )"
                                R"("a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}})",
                                8)),
                HasSubstr("has two tensors with the name a"));
    EXPECT_THAT(told(withHeader(entry("F32", "[-1]", "[0, 4]"), 4)), HasSubstr("impossible shape"));
    EXPECT_THAT(told(withHeader(entry("F32", "[4000000000, 4000000000, 4000000000]", "[0, 4]"), 4)),
                HasSubstr("impossible shape"));
    EXPECT_THAT(told(withHeader(entry("F32", "[2]", "[0, 4]"), 4)), HasSubstr("offsets do not fit its shape"));
    EXPECT_THAT(told(withHeader(entry("F32", "[2]", "[0, 8]"), 4)), HasSubstr("cut off"));
    EXPECT_THAT(told(withHeader(entry("F32", "[1]", "[18446744073709551612, 0]"), 4)), HasSubstr("bad.safetensors"));
}

TEST(WeightFileLimits, AHeaderBeyondTheFormatsLimitSaysSo) {
    test::TempFolder folder;
    const std::string path = folder / "header.safetensors";
    const uint64_t length = 150'000'000;
    test::writeAll(path, std::string(reinterpret_cast<const char*>(&length), sizeof length));
    std::filesystem::resize_file(path, length + 100);
    EXPECT_THAT(test::sentence([&] { WeightFile file(path); }),
                HasSubstr("its header of 150000000 bytes is too long; allowed: up to 100000000"));
}

/// Every part of opening is at most n log n in the number of tensors; a quadratic one took 30 s and more for these.
TEST(WeightFileLimits, FortyThousandTensorsOpenAtOnce) {
    test::TempFolder folder;
    std::string header = "{";
    constexpr int kTensors = 40000;
    for (int i = 0; i < kTensors; ++i)
        header += fmt::format(R"({}"t{:05}":{{"dtype":"F32","shape":[1],"data_offsets":[{},{}]}})", i == 0 ? "" : ",",
                              i, i * 4, i * 4 + 4);
    test::writeAll(folder / "many.safetensors", withHeader(header + "}", kTensors * 4));
    const auto start = std::chrono::steady_clock::now();
    const WeightFile file(folder / "many.safetensors");
    EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 5.0);
    ASSERT_EQ(file.entries().size(), static_cast<size_t>(kTensors));
    EXPECT_EQ(file.entries().back().name, "t39999");
    header.replace(header.find("t39999"), 6, "t20000");
    test::writeAll(folder / "twice.safetensors", withHeader(header + "}", kTensors * 4));
    EXPECT_THAT(test::sentence([&] { WeightFile(folder / "twice.safetensors"); }),
                HasSubstr("has two tensors with the name t20000"));
}

TEST(WeightFileLimits, TheTensorBenchRefusesWhatDoesNotFit) {
    test::TempFolder folder;
    const std::string path = folder / "large.safetensors";
    std::vector<engine::SafetensorsEntry> entries(1);
    entries[0].name = "w";
    entries[0].dtype = "F32";
    entries[0].shape = {1 << 15, 1 << 15};
    test::writeAll(path, engine::makeSafetensorsHeader(entries, {}));
    std::filesystem::resize_file(path, entries[0].offset + entries[0].bytes);
    EXPECT_THAT(test::sentence([&] { readTensorFile(path); }),
                HasSubstr("tensor w has 1073741824 elements; allowed: up to 268435456"));
}

TEST(WeightFileLimits, ACsvFileOfASpreadsheetMayBeginWithAMark) {
    test::TempFolder folder;
    test::writeAll(folder / "a.csv",
                   "\xEF\xBB\xBF"
                   "1,2\r\n3,nan\r\n");
    const TensorValues values = readTensorFile(folder / "a.csv");
    EXPECT_EQ(values.rows, 2);
    EXPECT_EQ(values.values.front(), 1);
    EXPECT_TRUE(std::isnan(values.values.back()));
    test::writeAll(folder / "b.csv", "amax,scale\n1,2\n");
    EXPECT_THAT(test::sentence([&] { readTensorFile(folder / "b.csv"); }),
                HasSubstr("value 1 \"amax\" is not a number; allowed: decimal numbers, nan, inf, -inf"));
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
