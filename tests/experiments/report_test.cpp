// Filters, statistics, comparison and export.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/compare.h"
#include "experiments/report/export.h"
#include "experiments/report/forecast.h"
#include "experiments/report/peak.h"
#include "experiments/report/run_filter.h"
#include "experiments/report/statistics.h"
#include "experiments/text/number_text.h"
#include "tests/experiments/support.h"

namespace mantissa::experiments {
namespace {

using test::fakeOptions;
using test::fakeSpec;
using test::runFake;
using test::sentence;
using test::TempFolder;
using testing::HasSubstr;

RunSummary runOf(const std::string& name, const std::string& recipe, double loss, bool has = true) {
    RunSummary run;
    run.name = name;
    run.recipe = recipe;
    run.model = "nano";
    run.hasLoss = has;
    run.loss = loss;
    run.tags = {"paper", "x1"};
    return run;
}

TEST(Filter, Understands) {
    const RunSummary good = runOf("nano-1", "fp8 delayed", 1.9), bad = runOf("nano-2", "bf16", NAN),
                     fresh = runOf("nano-3", "bf16", NAN, false);
    auto matches = [](const std::string& text, const RunSummary& run) { return compileFilter(text)(run); };
    EXPECT_TRUE(matches("", good));
    EXPECT_TRUE(matches("loss < 2 and recipe = delayed", good));
    EXPECT_FALSE(matches("loss < 2 and recipe = current", good));
    EXPECT_TRUE(matches("recipe = \"fp8 delayed\"", good));
    EXPECT_TRUE(matches("not (loss>2 or recipe=bf16)", good));
    EXPECT_FALSE(matches("loss < 0.1", bad)) << "S03: NaN matches no comparison";
    EXPECT_FALSE(matches("loss != 1", bad));
    EXPECT_FALSE(matches("loss < 100", fresh));
    EXPECT_TRUE(matches("tags = paper", good));
    EXPECT_TRUE(matches("paper and nano", good));
    EXPECT_TRUE(matches("name ~ O-1", good));
    EXPECT_TRUE(matches("status = queued", good));
}

TEST(Filter, NamesMistakes) {
    EXPECT_THAT(sentence([] { compileFilter("los < 2"); }), HasSubstr("nearest is loss"));
    EXPECT_THAT(sentence([] { compileFilter("loss < two"); }), HasSubstr("character 8: \"two\" is not a number"));
    EXPECT_THAT(sentence([] { compileFilter("loss <"); }), HasSubstr("is no value"));
    EXPECT_THAT(sentence([] { compileFilter("(loss < 2"); }), HasSubstr("bracket"));
    EXPECT_THAT(sentence([] { compileFilter("loss < 2 3"); }), HasSubstr("allowed: and, or"));
    EXPECT_THAT(sentence([] { compileFilter("name = \"x"); }), HasSubstr("not closed"));
    EXPECT_THAT(sentence([] { compileFilter(std::string(100000, '(')); }), HasSubstr("nested"));
}

TEST(Sort, PutsNaNLastBothWays) {
    for (const char* column : {"loss", "-loss"}) {
        std::vector<RunSummary> runs = {runOf("a", "", NAN), runOf("b", "", 2), runOf("c", "", 1)};
        sortRuns(runs, column);
        EXPECT_EQ(runs[2].name, "a") << column;
        EXPECT_EQ(runs[0].name, column[0] == '-' ? "b" : "c");
    }
    std::vector<RunSummary> none;
    EXPECT_THAT(sentence([&] { sortRuns(none, "lost"); }), HasSubstr("allowed: run, name"));
}

TEST(Statistics, StudentsTAgreesWithTables) {
    EXPECT_NEAR(studentQuantile95(1), 12.7062, 1e-3);
    EXPECT_NEAR(studentQuantile95(2), 4.30265, 1e-4);
    EXPECT_NEAR(studentQuantile95(10), 2.22814, 1e-4);
    EXPECT_NEAR(studentP(1, 1), 0.5, 1e-9);
    EXPECT_NEAR(studentP(2.0, 5), 0.101939, 1e-5);
    const MeanSd result = meanSd({1, 2, 4});
    EXPECT_NEAR(result.mean, 7.0 / 3, 1e-12);
    EXPECT_NEAR(result.sd, 1.527525, 1e-6);
}

TEST(NumberText, IsShortAndExact) {
    EXPECT_EQ(numberText(0.1), "0.1");
    EXPECT_EQ(numberText(0.1f), "0.1");
    EXPECT_EQ(numberText(static_cast<double>(0.1f)), "0.10000000149011612");
    EXPECT_EQ(numberText(NAN), "NaN");
    EXPECT_EQ(numberText(-INFINITY), "-Infinity");
    EXPECT_EQ(durationText(1070), "17 min 50 s");
    EXPECT_EQ(bytesText(1600ull << 20), "1.56 GiB");
}

/// Three seeds each of a baseline, one just as good, one worse by 0.5 and one that does not train.
TEST(Compare, GivesVerdictsOverSeeds) {
    TempFolder folder;
    std::vector<std::string> ids;
    struct Setting {
        const char* mode;
        double offset;
        bool fails;
    };
    for (const Setting& setting : {Setting{"bf16", 0, false}, Setting{"fp16", 0.001, false},
                                   Setting{"tf32", 0.1, false}, Setting{"fp32", 0, true}})
        for (int seed = 1; seed <= 3; ++seed) {
            RunSpec spec = fakeSpec(100);
            setPath(spec, "precision.mode", setting.mode);
            spec.trainer.seed = static_cast<uint64_t>(seed);
            test::Script script;
            script.loss = [=](int64_t step) {
                if (setting.fails) return step > 5 ? 9.0 : 3.0;
                return 2 + 2 / static_cast<double>(step) + 0.05 * seed + setting.offset * (1 + 0.01 * seed);
            };
            std::string id;
            runFake(spec, fakeOptions(folder / "s", script), &id);
            ids.push_back(id);
        }
    RunStore store(folder / "s", RunStore::Mode::ReadOnly);
    const Comparison result = compareRuns(store, ids, ids[0]);
    ASSERT_EQ(result.groups.size(), 4u);
    EXPECT_EQ(result.groups[0].verdict, "");
    EXPECT_EQ(result.groups[1].verdict, "within 0.01 nats");
    EXPECT_NEAR(result.groups[1].difference, 0.00102, 1e-6);
    EXPECT_EQ(result.groups[1].pairs, 3);
    EXPECT_EQ(result.groups[2].verdict, "worse by 0.1");
    EXPECT_EQ(result.groups[3].verdict, "does not train");
    EXPECT_EQ(result.config[0].path, "seed");
    EXPECT_EQ(result.config[1].path, "precision.mode");
    EXPECT_NEAR(result.runs[6].difference.at("val_loss"), 0.101, 1e-9);
}

/// A seed counts once, and runs that differ in more than the seed are not one group.
TEST(Compare, GroupsAreSettingsNotNames) {
    TempFolder folder;
    std::vector<std::string> ids;
    for (const int64_t steps : {50, 50, 100}) {
        ids.emplace_back();
        runFake(fakeSpec(steps), fakeOptions(folder / "s"), &ids.back());
    }
    RunStore store(folder / "s", RunStore::Mode::ReadOnly);
    const Comparison comparison = compareRuns(store, ids);
    ASSERT_EQ(comparison.groups.size(), 2u);
    EXPECT_EQ(comparison.groups[0].runs, std::vector<std::string>{ids[0]}) << "the same seed twice";
    EXPECT_THAT(comparison.groups[0].name, HasSubstr("train.steps 50"));
    EXPECT_EQ(comparison.groups[1].runs, std::vector<std::string>{ids[2]});
    EXPECT_THAT(comparison.groups[1].name, HasSubstr("train.steps 100"));
    const Comparison early = compareRuns(store, {ids[0], ids[2]}, "", Axis::Tokens);
    EXPECT_TRUE(early.runs[1].final.contains("val_loss"));
}

/// Runs of different length meet at the last x that both have, on every axis, and the verdict uses the same values.
TEST(Compare, ReadsValuesWhereAllHaveThem) {
    TempFolder folder;
    std::vector<std::string> ids(3);
    RunSpec spec = fakeSpec(160);
    spec.evalEvery = 40;
    test::Script script;
    script.loss = [](int64_t step) { return 5 - 0.01 * static_cast<double>(step); };
    runFake(spec, fakeOptions(folder / "s", script), &ids[0]);
    spec.trainer.steps = 600;
    spec.evalEvery = 60;
    script.loss = [](int64_t step) { return 6 - 0.01 * static_cast<double>(step); };
    runFake(spec, fakeOptions(folder / "s", script), &ids[1]);
    RunStore store(folder / "s", RunStore::Mode::ReadOnly);
    const std::vector<std::string> two = {ids[0], ids[1]};
    for (const Axis axis : {Axis::Step, Axis::Tokens}) {
        const double unit = axis == Axis::Tokens ? 256 : 1;
        const Comparison result = compareRuns(store, two, "", axis);
        EXPECT_EQ(result.limit, 160 * unit);
        EXPECT_EQ(result.at.at("loss"), 160 * unit);
        EXPECT_EQ(result.at.at("val_loss"), 120 * unit) << "the one at 160 has no partner";
        EXPECT_NEAR(result.runs[1].difference.at("loss"), 1, 1e-9);
        EXPECT_NEAR(result.runs[1].difference.at("val_loss"), 1, 1e-9);
        EXPECT_NEAR(result.groups.at(1).difference, 1, 1e-9);
    }
    EXPECT_EQ(comparedAt(compareRuns(store, two)),
              "Values at step 160, validation loss at step 120: the last that all have.");
    const Comparison time = compareRuns(store, two, "", Axis::Time);
    EXPECT_TRUE(time.runs[1].final.contains("loss"));
    EXPECT_EQ(comparedAt(compareRuns(store, {ids[0]})), "") << "all of it is of the end";

    spec.trainer.nonfinite = engine::NonfinitePolicy::Stop;
    script.metrics = [](engine::StepMetrics& metrics) { metrics.finite = metrics.step < 30; };
    runFake(spec, fakeOptions(folder / "s", script), &ids[2]);
    ASSERT_EQ(store.run(ids[2])->status, RunStatus::Diverged);
    const Comparison three = compareRuns(store, ids);
    EXPECT_EQ(three.limit, 160) << "a run that broke off does not hold the others back";
    EXPECT_TRUE(three.runs[2].final.contains("loss"));
}

TEST(Compare, FindsWhereTwoRunsPart) {
    TempFolder folder;
    std::string a, b;
    runFake(fakeSpec(1500), fakeOptions(folder / "s"), &a);
    test::Script script;
    script.numerics = [](engine::NumericsRecord& record) {
        if (record.step >= 1234) record.tensors[3].amax *= 1.5f, record.tensors[5].amax *= 2;
    };
    runFake(fakeSpec(1500), fakeOptions(folder / "s", script), &b);
    RunStore store(folder / "s", RunStore::Mode::ReadOnly);
    const Comparison result = compareRuns(store, {a, b});
    ASSERT_EQ(result.parts.size(), 1u);
    EXPECT_EQ(result.parts[0].step, 1234);
    EXPECT_EQ(result.parts[0].tensor, "h.1/mlp.fc1/weight");
    EXPECT_EQ(result.parts[0].statistic, "amax");
    EXPECT_TRUE(compareRuns(store, {a, a}).parts.empty());
}

TEST(Export, NamesDerivedStatisticsToo) {
    TempFolder folder;
    std::string id;
    runFake(fakeSpec(20), fakeOptions(folder / "s"), &id);
    RunStore store(folder / "s", RunStore::Mode::ReadOnly);
    EXPECT_EQ(matchingSeries(store, id, "numerics/h.?/mlp.fc1/grad_output/staleness").size(), 2u);
    EXPECT_EQ(matchingSeries(store, id, "loss,lr").size(), 2u);
    EXPECT_EQ(exportText(store, id, {"numerics/h.0/mlp.fc1/weight/amax"}, ExportFormat::Csv).substr(0, 17),
              "step,value\n1,0.5\n");
    EXPECT_THAT(exportText(store, id, {"loss", "lr"}, ExportFormat::Csv), HasSubstr("series,step,value\nloss,1,4\n"));
    const std::string npy = exportText(store, id, {"loss"}, ExportFormat::Npy);
    EXPECT_EQ(npy.substr(1, 5), "NUMPY");
    EXPECT_EQ((npy.size() - 20 * 16) % 64, 0u);
}

/// C09, as planned: 48 of 75 products in FP8, the head's in BF16.
TEST(Peak, NamesItsDivisor) {
    // N09: 524,288 tokens of GPT-2 124M in 0.140 s on 8 GPUs by the form 6N + 6LCT.
    const double perGpu = 803478528.0 * 524288 / 0.140 / 8;
    const auto bf16 = namedPeak("NVIDIA H100 80GB HBM3", engine::PrecisionMode::Bf16);
    ASSERT_TRUE(bf16);
    EXPECT_NEAR(perGpu / bf16->flops, 0.380, 0.0005);
    EXPECT_THAT(bf16->name, testing::AllOf(HasSubstr("BF16"), HasSubstr("H100"), HasSubstr("989.4")));
    EXPECT_EQ(namedPeak("NVIDIA H200", engine::PrecisionMode::Fp8)->flops, 1978.9e12);
    EXPECT_EQ(namedPeak("NVIDIA A100-SXM4-80GB", engine::PrecisionMode::Fp8)->format, "BF16") << "no FP8 units";
    EXPECT_FALSE(namedPeak("Intel(R) Xeon(R) Processor", engine::PrecisionMode::Bf16));
    EXPECT_NEAR(engine::Trainer::flopsPerToken(presetSpec("gpt2-124m").trainer.model), 798031872.0, 1);
}

TEST(Forecast, PlansTheProducts) {
    RunSpec spec = presetSpec("tiny");
    spec.trainer.model.layers = 6;
    spec.trainer.precision.firstLayersBf16 = spec.trainer.precision.lastLayersBf16 = 1;
    int fp8 = 0;
    const auto rows = plannedPrecision(spec);
    for (const auto& row : rows) fp8 += row.a == "e4m3" || row.a == "e5m2";
    EXPECT_EQ(rows.size(), 75u);
    EXPECT_EQ(fp8, 48);
}

}  // namespace
}  // namespace mantissa::experiments
