// store salvage: what can be read of a damaged file, and that it ends.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <filesystem>

#include "experiments/store/run_store.h"
#include "tests/experiments/filled_store.h"
#include "tests/experiments/support.h"

namespace mantissa::experiments {
namespace {

using test::goodStore;
using test::readAll;
using test::sentence;
using test::TempFolder;
using test::writeAll;
using testing::HasSubstr;

TEST(Salvage, CopiesWhatCanBeReadIntoANewFile) {
    TempFolder folder;
    std::string damaged = goodStore(folder / "a", false);
    for (size_t page = damaged.size() / 16384 / 2; page < damaged.size() / 16384 / 2 + 3; ++page)
        for (size_t i = 0; i < 16384; ++i) damaged[page * 16384 + i] = 0x55;
    writeAll(folder / "bad", damaged);
    const SalvageReport report = salvageStore(folder / "bad", folder / "new");
    EXPECT_EQ(report.runs, 1);
    EXPECT_EQ(readAll(folder / "bad"), damaged);
    EXPECT_TRUE(checkStore(folder / "new").ok);
    RunStore store(folder / "new", RunStore::Mode::ReadOnly);
    const auto steps = store.series(store.runs().at(0).id, "loss").steps.size();
    EXPECT_GT(steps, 300u);
    EXPECT_LE(steps, 1200u);
    EXPECT_THAT(sentence([&] { salvageStore(folder / "bad", folder / "new"); }), HasSubstr("exists already"));
}

/// A file that lost its end (a full disk, a copy that broke off) is no dead loss.
TEST(Salvage, ReadsAFileThatIsCutOff) {
    TempFolder folder;
    const std::string whole = goodStore(folder / "a", false);
    int64_t last = 0;
    for (const size_t percent : {40, 70, 95}) {
        const std::string bad = folder / fmt::format("bad{}", percent),
                          rescued = folder / fmt::format("new{}", percent);
        writeAll(bad, whole.substr(0, whole.size() * percent / 100));
        const SalvageReport report = salvageStore(bad, rescued);
        EXPECT_EQ(report.runs, 1) << percent;
        if (percent < 50) {
            EXPECT_FALSE(report.problems.empty()) << "something was lost and is named";
        }
        EXPECT_GE(report.rows, last) << percent;
        last = report.rows;
        EXPECT_TRUE(checkStore(rescued).ok) << percent;
    }
    EXPECT_GT(last, 100);
    writeAll(folder / "short", whole.substr(0, 100));
    const std::string nothing = sentence([&] { salvageStore(folder / "short", folder / "none"); });
    EXPECT_THAT(nothing, HasSubstr("short: nothing of a run store can be read"));
    EXPECT_FALSE(std::filesystem::exists(folder / "none"));
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
        EXPECT_EQ(entry.path().string().find(".salvage-"), std::string::npos) << entry.path();
}

/// Makes a child pointer in the middle of every large interior page of a rowid table lead back to the page itself.
int tieKnots(std::string& bytes) {
    constexpr size_t kPage = 16384;
    int knots = 0;
    const auto at = [&bytes](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(bytes[i])); };
    for (size_t page = 1; page < bytes.size() / kPage; ++page) {
        const size_t start = page * kPage, cells = at(start + 3) << 8 | at(start + 4);
        if (at(start) != 5 || cells < 4) continue;  // 5: interior page of a table
        const size_t entry = start + 12 + cells / 2 * 2, cell = start + (at(entry) << 8 | at(entry + 1));
        for (size_t i = 0; i < 4; ++i) bytes[cell + i] = static_cast<char>((page + 1) >> (8 * (3 - i)));
        ++knots;
    }
    return knots;
}

/// A damaged pointer can lead back to pages that were read already: reading on from there would never end.
TEST(Salvage, EndsWhenPagesPointBack) {
    TempFolder folder;
    std::string damaged = goodStore(folder / "a", false);
    ASSERT_GT(tieKnots(damaged), 0);
    writeAll(folder / "knot", damaged);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    bool late = false;
    const SalvageReport report = salvageStore(folder / "knot", folder / "new", [&](int64_t, int64_t) {
        late = late || std::chrono::steady_clock::now() > end;
        return !late;
    });
    ASSERT_FALSE(late) << "salvage follows the knot";
    EXPECT_EQ(report.runs, 1);
    EXPECT_TRUE(checkStore(folder / "new").ok);
    RunStore store(folder / "new", RunStore::Mode::ReadOnly);
    const auto steps = store.series(store.runs().at(0).id, "loss").steps;
    ASSERT_EQ(report.problems.size(), 1u) << "one leaf of one table is behind the knot";
    long long first = 0, last = 0;
    ASSERT_EQ(std::sscanf(report.problems[0].c_str(),
                          "table step_blob (metrics of single steps): rows %lld to %lld cannot be read", &first, &last),
              2)
        << report.problems[0];
    EXPECT_LT(last - first, 300);
    EXPECT_EQ(static_cast<long long>(steps.size()), 1200 - (last - first + 1)) << "all others are read from both sides";
    EXPECT_EQ(steps.back(), 1200);
}

/// A row can be read and still hold nothing: the new file has only what store check finds good.
TEST(Salvage, LeavesOutWhatCannotBeDecoded) {
    TempFolder folder;
    goodStore(folder / "a");
    {
        Database database(folder / "a", Database::Access::ReadWrite, false);
        database.exec("UPDATE step_blob SET data = x'0102' WHERE step = 1150");
        database.exec("UPDATE chunk SET data = x'ff' WHERE id = 3");
        ASSERT_EQ(database.changes(), 1);
        database.checkpoint(0, true);
    }
    const SalvageReport report = salvageStore(folder / "a", folder / "new");
    EXPECT_EQ(report.lostRows, 2);
    ASSERT_EQ(report.problems.size(), 2u);
    EXPECT_EQ(report.problems[0], "run a run: the metrics of step 1150 cannot be read");
    EXPECT_THAT(report.problems[1], HasSubstr("run a run: a block of series "));
    EXPECT_TRUE(checkStore(folder / "new").ok);
}

TEST(Salvage, CanBeCancelledAndLeavesNoWorkingCopy) {
    TempFolder folder;
    goodStore(folder / "a", false);
    const SalvageReport report = salvageStore(folder / "a", folder / "new", [](int64_t, int64_t) { return false; });
    ASSERT_FALSE(report.problems.empty());
    EXPECT_THAT(report.problems.back(), HasSubstr("cancelled"));
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
        EXPECT_EQ(entry.path().string().find(".salvage-"), std::string::npos) << entry.path();
}

}  // namespace
}  // namespace mantissa::experiments
