// The run store: what goes in comes out, segments, several connections, bad files.
#include "experiments/store/run_store.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <random>

#include "experiments/store/database.h"
#include "experiments/store/run_writer.h"
#include "experiments/store/series_chunk.h"
#include "experiments/store/store_open.h"
#include "experiments/store/ulid.h"
#include "tests/experiments/filled_store.h"
#include "tests/experiments/support.h"

namespace mantissa::experiments {
namespace {

using test::documentOf;
using test::Filled;
using test::goodStore;
using test::numericsOf;
using test::readAll;
using test::scalars;
using test::sentence;
using test::TempFolder;
using test::writeAll;
using testing::HasSubstr;

TEST(RunStore, IsMadeWithItsPragmas) {
    TempFolder folder;
    RunStore store(folder / "a.mantissa", RunStore::Mode::ReadWrite);
    Database& database = store.database();
    EXPECT_EQ(database.integer("PRAGMA application_id"), 0x4D4E5453);
    EXPECT_EQ(database.integer("PRAGMA user_version"), RunStore::kSchema);
    EXPECT_EQ(database.integer("PRAGMA page_size"), 16384);
    EXPECT_EQ(database.integer("PRAGMA foreign_keys"), 1);
    EXPECT_GE(database.integer("PRAGMA busy_timeout"), 5000);
    Statement mode = database.prepare("PRAGMA journal_mode");
    ASSERT_TRUE(mode.step());
    EXPECT_EQ(mode.text(0), "wal");
}

TEST(RunStore, SeriesComeBackExactlyBeforeAndAfterCompaction) {
    for (const bool compact : {false, true}) {
        TempFolder folder;
        Filled filled(folder / "a.mantissa");
        filled.write(1, 1000, 0, compact);
        if (compact) {
            EXPECT_GT(filled.store.database().integer("SELECT count(*) FROM chunk_range"), 1);
            EXPECT_LT(filled.store.database().integer("SELECT count(*) FROM step_blob"), 520);
        }
        const Series loss = filled.store.series(filled.id, "loss");
        ASSERT_EQ(loss.steps.size(), 1000u);
        for (size_t i = 0; i < 1000; ++i) {
            ASSERT_EQ(loss.steps[i], static_cast<int64_t>(i) + 1);
            ASSERT_EQ(loss.values[i], 1.0 / static_cast<double>(i + 1));
        }
        const Series amax = filled.store.series(filled.id, "numerics/lm_head/head/weight/amax"),
                     under = filled.store.series(filled.id, "numerics/h.0/attn.qkv/input/underflow"),
                     nan = filled.store.series(filled.id, "numerics/h.0/attn.qkv/input/nan"),
                     share = filled.store.series(filled.id, "numerics/h.0/attn.qkv/input/underflow_share"),
                     mse = filled.store.series(filled.id, "numerics/h.0/attn.qkv/input/mse");
        ASSERT_EQ(amax.values.size(), 1000u);
        ASSERT_EQ(mse.steps.size(), 100u);
        EXPECT_EQ(mse.steps[7], 80);
        EXPECT_EQ(mse.values[7], static_cast<double>(1e-8f * 80.0f));
        EXPECT_EQ(amax.values[499], 500.25);
        EXPECT_EQ(under.values[499], 1500);
        EXPECT_EQ(nan.values[0], std::ldexp(1.0, 40));
        EXPECT_EQ(share.values[9], 0.03);
        EXPECT_EQ(filled.store.series(filled.id, "loss", 990).steps.size(), 11u);
        EXPECT_TRUE(filled.store.series(filled.id, "no such").steps.empty());

        const auto record = filled.store.record(filled.id, 500);
        ASSERT_TRUE(record);
        EXPECT_TRUE(record->probed);
        EXPECT_EQ(record->tensors[1].amax, 500.25f);
        EXPECT_EQ(record->tensors[0].counters[2], 1500u);
        EXPECT_FALSE(filled.store.record(filled.id, 1001));

        const NumericsRange range = filled.store.numerics(filled.id, Statistic::Underflow, 101, 200);
        ASSERT_EQ(range.steps.size(), 100u);
        EXPECT_EQ(range.values[100 + 4], 105 * 3 + 1);
    }
}

TEST(RunStore, HeatmapShowsTheWorstValueOfEachColumn) {
    TempFolder folder;
    Filled filled(folder / "a.mantissa");
    filled.write(1, 1000, 0, true);
    const Heatmap map = filled.store.heatmap(filled.id, Statistic::Underflow, 1, -1, 10);
    ASSERT_EQ(map.columns, 10);
    ASSERT_EQ(map.lastStep, 1000);
    EXPECT_EQ(map.values[0], 300) << "steps 1 … 100, largest 100 · 3";
    EXPECT_EQ(map.values[9], 3000);
    EXPECT_EQ(map.values[19], 3001);
    EXPECT_EQ(map.steps[3], 100u);
    EXPECT_EQ(map.nonFinite[0], 1) << "the NaN counter is never 0 here";
}

TEST(RunStore, KeepsNaNAndInfinity) {
    TempFolder folder;
    Filled filled(folder / "a.mantissa");
    RunWriter writer(filled.store, filled.id, 1);
    const double values[] = {1, NAN, INFINITY, -INFINITY, 2};
    for (int64_t step = 1; step <= 5; ++step) writer.addStep(scalars(step, values[step - 1]), nullptr);
    writer.addEvaluation(5, NAN);
    ASSERT_TRUE(writer.flush());
    const Series loss = filled.store.series(filled.id, "loss");
    EXPECT_TRUE(std::isnan(loss.values[1]));
    EXPECT_EQ(loss.values[2], INFINITY);
    EXPECT_EQ(loss.values[3], -INFINITY);
    EXPECT_TRUE(std::isnan(filled.store.series(filled.id, "val_loss").values.at(0)));
    const MetricSummary summary = filled.store.summary(filled.id).at("loss");
    EXPECT_EQ(summary.nonFinite, 3);
    EXPECT_EQ(summary.min, 1);
    EXPECT_EQ(summary.max, 2);
    const RunSummary row = *filled.store.run(filled.id);
    EXPECT_EQ(row.lastFiniteLoss, 2);
    EXPECT_TRUE(row.hasValidation);
    EXPECT_TRUE(std::isnan(row.validationLoss));
}

/// S09: resume from step 900 after logging to 1,000: the newest segment rules, the old tail stays.
TEST(RunStore, NewestSegmentRules) {
    for (const bool compact : {false, true}) {
        TempFolder folder;
        Filled filled(folder / "a.mantissa");
        filled.write(1, 1000, 0, compact);
        filled.write(901, 1100, 5, compact);
        const Series loss = filled.store.series(filled.id, "loss");
        ASSERT_EQ(loss.steps.size(), 1100u);
        EXPECT_EQ(loss.values[899], 1.0 / 900);
        EXPECT_EQ(loss.values[900], 1.0 / 901 + 5);
        ASSERT_EQ(loss.tails.size(), 1u);
        EXPECT_EQ(loss.tails[0].steps.front(), 901);
        EXPECT_EQ(loss.tails[0].steps.back(), 1000);
        EXPECT_EQ(loss.tails[0].values[0], 1.0 / 901);
        EXPECT_EQ(loss.resumes, std::vector<int64_t>{901});
        const MetricSummary summary = filled.store.summary(filled.id).at("loss");
        EXPECT_EQ(summary.count, 1100);
        EXPECT_EQ(summary.last, 1.0 / 1100 + 5);
        EXPECT_EQ(summary.min, 1.0 / 900) << "the superseded tail counts no more";
        EXPECT_EQ(filled.store.run(filled.id)->segments, 2);
    }
}

/// C02 by recorded amaxes: 2, 8, 1, 0.5, 0.25 × 4 with a window of 4; the 8 rules updates 2 to 5 and leaves at
/// update 6.
TEST(RunStore, WindowFollowsTheDelayedRule) {
    TempFolder folder;
    RunStore store(folder / "a.mantissa", RunStore::Mode::ReadWrite);
    RunSpec spec = presetSpec("tiny");
    spec.trainer.precision.historyLength = 4;
    const std::string id = makeUlid();
    insertRun(store, id, spec, "c02", {}, "cpu");
    RunWriter writer(store, id, 1);
    writer.setDocument(documentOf(spec));
    const float amax[] = {2, 8, 1, 0.5f, 0.25f, 0.25f, 0.25f, 0.25f};
    const float used[] = {1, 224, 56, 56, 56, 56, 448, 896};
    for (int64_t step = 1; step <= 8; ++step) {
        engine::NumericsRecord record = numericsOf(step);
        for (auto& tensor : record.tensors) tensor.amax = amax[step - 1], tensor.scale = used[step - 1];
        writer.addStep({step, false, {{Metric::Loss, 1}, {Metric::Applied, 1}}, {}}, &record);
    }
    ASSERT_TRUE(writer.flush());
    const float next[] = {224, 56, 56, 56, 56, 448, 896, 1792};
    for (int64_t step = 1; step <= 8; ++step) {
        const AmaxWindow window = store.window(id, 0, step);
        EXPECT_EQ(window.scaleUsed, used[step - 1]) << step;
        EXPECT_EQ(window.scaleNext, next[step - 1]) << step;
        if (step >= 2 && step <= 5) {
            ASSERT_GE(window.ruling, 0);
            EXPECT_EQ(window.entries[static_cast<size_t>(window.ruling)], 8) << step;
            EXPECT_EQ(window.leavesIn, 6 - step) << step;
        }
    }
    EXPECT_EQ(store.window(id, 0, 5).entries, (std::vector<float>{8, 1, 0.5f, 0.25f}));
    EXPECT_EQ(store.window(id, 0, 5).age, 3);
}

TEST(RunStore, WindowNamesAFrozenScale) {
    TempFolder folder;
    RunStore store(folder / "a.mantissa", RunStore::Mode::ReadWrite);
    RunSpec spec = presetSpec("tiny");
    spec.trainer.precision.historyLength = 4;
    const std::string id = makeUlid();
    insertRun(store, id, spec, "frozen", {}, "cpu");
    RunWriter writer(store, id, 1);
    writer.setDocument(documentOf(spec));
    const float amax[] = {2, INFINITY, 1};
    for (int64_t step = 1; step <= 3; ++step) {
        engine::NumericsRecord record = numericsOf(step);
        for (auto& tensor : record.tensors) tensor.amax = amax[step - 1], tensor.scale = step == 1 ? 1 : 224;
        writer.addStep({step, false, {{Metric::Applied, 1}}, {}}, &record);
    }
    ASSERT_TRUE(writer.flush());
    EXPECT_EQ(store.window(id, 0, 2).frozenFor, 4);
    EXPECT_EQ(store.window(id, 0, 3).frozenFor, 3);
    EXPECT_EQ(store.window(id, 0, 3).ruling, -1);
    EXPECT_EQ(store.window(id, 0, 3).scaleNext, 224);
}

/// S02: a second connection sees edits and deletes, and is told about a run that is gone.
TEST(RunStore, TwoConnectionsSeeEachOther) {
    TempFolder folder;
    Filled a(folder / "a.mantissa");
    a.write(1, 20);
    RunStore b(folder / "a.mantissa", RunStore::Mode::ReadWrite);
    ASSERT_EQ(b.runs().size(), 1u);
    const int64_t before = b.dataVersion();
    a.store.rename(a.id, "another name");
    a.store.setTags(a.id, {"p", "q"});
    a.store.setBaseline(a.id);
    EXPECT_NE(b.dataVersion(), before);
    EXPECT_EQ(b.run(a.id)->name, "another name");
    EXPECT_EQ(b.run(a.id)->tags, (std::vector<std::string>{"p", "q"}));
    EXPECT_TRUE(b.run(a.id)->baseline);
    b.setNote(a.id, "from b");
    EXPECT_EQ(a.store.run(a.id)->note, "from b");
    a.store.deleteRun(a.id);
    EXPECT_TRUE(b.runs().empty());
    EXPECT_FALSE(b.run(a.id));
    EXPECT_TRUE(b.series(a.id, "loss").steps.empty() || !sentence([&] { b.series(a.id, "loss"); }).empty());
    EXPECT_THAT(sentence([&] { b.rename(a.id, "x"); }), testing::Not(testing::IsEmpty()));
    EXPECT_EQ(a.store.database().integer("SELECT count(*) FROM step_blob"), 0);
}

TEST(RunStore, FindsByIdPrefixAndName) {
    TempFolder folder;
    Filled filled(folder / "a.mantissa");
    EXPECT_EQ(filled.store.find(filled.id).id, filled.id);
    EXPECT_EQ(filled.store.find(filled.id.substr(0, 20)).id, filled.id);
    EXPECT_EQ(filled.store.find("a run").id, filled.id);
    EXPECT_THAT(sentence([&] { filled.store.find("nobody"); }), HasSubstr("there is no run \"nobody\""));
}

TEST(RunStore, RunWithoutAProcessIsInterrupted) {
    TempFolder folder;
    Filled filled(folder / "a.mantissa");
    RunWriter writer(filled.store, filled.id, 1);
    writer.addStep(scalars(1, 2), nullptr);
    writer.setStatus(RunStatus::Running);
    ASSERT_TRUE(writer.flush());
    FileLock lock;
    ASSERT_TRUE(lock.acquire(runLockPath(filled.store, filled.id), 0));
    EXPECT_EQ(filled.store.run(filled.id)->status, RunStatus::Running);
    EXPECT_THAT(sentence([&] { filled.store.deleteRun(filled.id); }), HasSubstr("is going"));
    lock.release();
    EXPECT_EQ(filled.store.run(filled.id)->status, RunStatus::Interrupted);
    EXPECT_EQ(filled.store.runs()[0].statusText, "interrupted at step 1");
}

// S06
// -------------------------------------------------------------------------------------------------------------------

void expectRefused(const std::string& path, const std::string& cause) {
    const std::string before = readAll(path);
    for (const auto mode : {RunStore::Mode::ReadWrite, RunStore::Mode::ReadOnly}) {
        const std::string text = sentence([&] { RunStore store(path, mode); });
        EXPECT_THAT(text, HasSubstr(path));
        EXPECT_THAT(text, HasSubstr(cause));
    }
    EXPECT_EQ(readAll(path), before) << "never written to";
    EXPECT_FALSE(checkStore(path).ok);
    EXPECT_EQ(readAll(path), before);
}

TEST(BadFiles, AreRefusedWithACauseAndNeverWrittenTo) {
    TempFolder folder;
    writeAll(folder / "zero", "");
    expectRefused(folder / "zero", "0 bytes");
    std::mt19937 random(7);
    std::string noise(100000, 0);
    for (char& c : noise) c = static_cast<char>(random());
    writeAll(folder / "noise", noise);
    expectRefused(folder / "noise", "not a run store");
    writeAll(folder / "text", "hello\n");
    expectRefused(folder / "text", "not a run store");
    const std::string good = goodStore(folder / "good");
    writeAll(folder / "short", good.substr(0, good.size() / 2));
    expectRefused(folder / "short", "cut off");
    std::string damaged = good;
    for (size_t i = 3 * 16384; i < damaged.size(); i += 512)
        if (i / 16384 % 3 == 0) damaged[i] = static_cast<char>(damaged[i] ^ 0x5A);
    writeAll(folder / "damaged", damaged);
    expectRefused(folder / "damaged", "damaged");
    sqlite3* other = nullptr;
    ASSERT_EQ(sqlite3_open((folder / "other").c_str(), &other), SQLITE_OK);
    sqlite3_exec(other, "CREATE TABLE t(x); INSERT INTO t VALUES (1)", nullptr, nullptr, nullptr);
    sqlite3_close(other);
    expectRefused(folder / "other", "another program");
    EXPECT_THAT(sentence([&] { RunStore store(folder.path(), RunStore::Mode::ReadWrite); }), HasSubstr("folder"));
    EXPECT_THAT(sentence([&] { RunStore store(folder / "none", RunStore::Mode::ReadOnly); }),
                HasSubstr("no such store"));
    EXPECT_FALSE(std::filesystem::exists(folder / "none"));
}

TEST(BadFiles, NewerSchemaOpensForReadingOnly) {
    TempFolder folder;
    goodStore(folder / "a");
    {
        RunStore store(folder / "a", RunStore::Mode::ReadWrite);
        store.database().exec("PRAGMA user_version=7");
        store.database().checkpoint(0, true);
    }
    const std::string before = readAll(folder / "a");
    RunStore store(folder / "a", RunStore::Mode::ReadWrite);
    EXPECT_TRUE(store.readOnly());
    EXPECT_THAT(store.readOnlyReason(), HasSubstr("newer version (schema 7, this program knows 1)"));
    EXPECT_EQ(store.runs().size(), 1u);
    EXPECT_EQ(store.series(store.runs()[0].id, "loss").steps.size(), 1200u);
    EXPECT_FALSE(sentence([&] { store.rename(store.runs()[0].id, "x"); }).empty());
    EXPECT_EQ(readAll(folder / "a"), before);
}

TEST(BadFiles, OlderSchemaIsMigratedAfterABackup) {
    TempFolder folder;
    goodStore(folder / "a");
    RunStore store(folder / "a", RunStore::Mode::ReadWrite);
    migrateStore(store.database(), 1, {{2, "ALTER TABLE run ADD COLUMN mood TEXT NOT NULL DEFAULT 'calm'"}});
    EXPECT_EQ(store.database().integer("PRAGMA user_version"), 2);
    EXPECT_EQ(store.database().integer("SELECT count(*) FROM run WHERE mood = 'calm'"), 1);
    RunStore backup(folder / "a.schema1.bak", RunStore::Mode::ReadOnly);
    EXPECT_EQ(backup.schema(), 1);
    EXPECT_EQ(backup.runs().size(), 1u);
    EXPECT_FALSE(sentence([&] { migrateStore(store.database(), 2, {{3, "no such statement"}}); }).empty());
    EXPECT_EQ(store.database().integer("PRAGMA user_version"), 2) << "a step that fails changes nothing";
}

TEST(StoreTools, CheckFindsAGoodStoreGoodAndCompactKeepsEverything) {
    TempFolder folder;
    std::string id;
    {
        Filled filled(folder / "a");
        filled.write(1, 2000);
        id = filled.id;
    }
    EXPECT_TRUE(checkStore(folder / "a").ok) << checkStore(folder / "a").problems.at(0);
    const StoreInfo before = storeInfo(folder / "a");
    compactStore(folder / "a");
    EXPECT_TRUE(checkStore(folder / "a").ok);
    EXPECT_LT(storeInfo(folder / "a").bytes, before.bytes);
    RunStore store(folder / "a", RunStore::Mode::ReadOnly);
    EXPECT_EQ(store.series(id, "loss").steps.size(), 2000u);
}

/// Random bytes in a store: an answer or a sentence, no crash, and the file stays as it was.
TEST(BadFiles, SurviveRandomDamage) {
    TempFolder folder;
    const std::string good = goodStore(folder / "a");
    std::mt19937 random(3);
    for (int round = 0; round < 40; ++round) {
        std::string bytes = good;
        for (int changes = 1 + static_cast<int>(random() % 40); changes > 0; --changes)
            bytes[random() % bytes.size()] = static_cast<char>(random());
        const std::string path = folder / ("f" + std::to_string(round));
        writeAll(path, bytes);
        sentence([&] {
            RunStore store(path, RunStore::Mode::ReadOnly);
            for (const auto& run : store.runs()) {
                store.document(run.id);
                store.series(run.id, "loss");
                store.heatmap(run.id, Statistic::Amax, 1, -1, 50);
                store.record(run.id, 100);
            }
        });
        checkStore(path);
        EXPECT_EQ(readAll(path), bytes);
    }
}

TEST(Chunks, SurviveRandomBytes) {
    std::mt19937 random(5);
    for (int round = 0; round < 20000; ++round) {
        std::vector<uint8_t> steps(random() % 20), data(random() % 200);
        for (auto* bytes : {&steps, &data})
            for (auto& byte : *bytes) byte = static_cast<uint8_t>(random());
        std::vector<int64_t> outSteps;
        std::vector<double> outValues;
        const int64_t series = random() % 200;
        decodeChunk(series, static_cast<int64_t>(random()), random() % 64, {steps.data(), steps.size()},
                    {data.data(), data.size()}, outSteps, outValues);
        ASSERT_EQ(outSteps.size(), outValues.size());
        decodeStep({data.data(), data.size()}, 1);
        decodeExponents({data.data(), data.size()}, 3);
    }
}

}  // namespace
}  // namespace mantissa::experiments
