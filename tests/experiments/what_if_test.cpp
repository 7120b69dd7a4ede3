// Replays of recorded amaxes against what the engine did, and against the cases' traces.
#include "experiments/report/what_if.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/spec/run_spec.h"
#include "tests/experiments/support.h"

namespace mantissa::experiments {
namespace {

using testing::HasSubstr;

/// A series of amaxes as cases C02, C03 give them.
AmaxSeries seriesOf(const std::vector<float>& amaxes) {
    AmaxSeries series;
    for (size_t i = 0; i < amaxes.size(); ++i) {
        AmaxSeries::Point point;
        point.step = static_cast<int64_t>(i) + 1;
        point.amax = amaxes[i];
        series.points.push_back(point);
    }
    return series;
}

std::vector<float> scales(const Replay& replay) {
    std::vector<float> list;
    for (const auto& step : replay.steps) list.push_back(step.scale);
    return list;
}

ScalingChoice delayed(int length, const char* algorithm = "max") {
    ScalingChoice choice;
    choice.historyLength = length;
    choice.algorithm = algorithm;
    return choice;
}

TEST(WhatIf, FollowsTheDelayedTraces) {
    const AmaxSeries c02 = seriesOf({2, 8, 1, 0.5, 0.25, 0.25, 0.25, 0.25});
    EXPECT_EQ(scales(replay(c02, delayed(4))), (std::vector<float>{1, 224, 56, 56, 56, 56, 448, 896}));
    EXPECT_EQ(scales(replay(c02, delayed(4, "most_recent"))),
              (std::vector<float>{1, 224, 56, 448, 896, 1792, 1792, 1792}));
    const Replay clipped = replay(c02, delayed(4));
    EXPECT_TRUE(clipped.steps[1].clips) << "8 × 224";
    EXPECT_EQ(clipped.total.clippedSteps, 1);
    EXPECT_EQ(replay(c02, delayed(1)).total.clippedSteps, 1);
    const AmaxSeries c03 = seriesOf({4, 0, 0, 2});
    EXPECT_EQ(scales(replay(c03, delayed(3))), (std::vector<float>{1, 112, 112, 112}));
    ScalingChoice margin = delayed(4);
    margin.margin = 1;
    EXPECT_EQ(scales(replay(c02, margin))[1], 112);
}

TEST(WhatIf, CurrentAndFixedScalesAndFrozenWindows) {
    ScalingChoice current;
    current.recipe = "current";
    EXPECT_EQ(scales(replay(seriesOf({1, 3, 448, 0, INFINITY}), current)),
              (std::vector<float>{448, 448.0f / 3, 1, 1, 1}));
    current.powerOfTwo = true;
    EXPECT_EQ(scales(replay(seriesOf({3}), current)), std::vector<float>{128});
    ScalingChoice fixed;
    fixed.recipe = "fixed";
    fixed.scale = 2;
    const Replay clips = replay(seriesOf({232, 232.5f}), fixed);
    EXPECT_FALSE(clips.steps[0].clips) << "464 is a tie and rounds down to 448";
    EXPECT_TRUE(clips.steps[1].clips);
    fixed.format = "e5m2";
    fixed.scale = 1;
    EXPECT_TRUE(replay(seriesOf({61440}), fixed).steps[0].clips) << "the tie rounds up";
    const AmaxSeries inf = seriesOf({2, INFINITY, 1, 1, 1, 1, 1});
    EXPECT_EQ(replay(inf, delayed(4)).total.frozenSteps, 4) << "steps 3 to 6; the Inf leaves with the update of step 6";
    EXPECT_EQ(replay(inf, delayed(4, "most_recent")).total.frozenSteps, 1);
}

TEST(WhatIf, SharesFromAHistogramAreBoundedAndExactAtPowersOfTwo) {
    // Case C06: 2^0 … 2^−31, one value a bin.
    AmaxSeries series = seriesOf({1});
    series.firstExponent = -31;
    series.points[0].elements = 32;
    series.points[0].scale = -1;  // never the one in force
    series.points[0].exponents.assign(32, 1);
    const auto underflow = [&](const char* recipe, const char* format, float scale = 1) {
        ScalingChoice choice;
        choice.recipe = recipe;
        choice.format = format;
        choice.scale = scale;
        const ReplayStep step = replay(series, choice).steps[0];
        EXPECT_LE(step.underflowLow, step.underflow);
        EXPECT_LE(step.underflow, step.underflowHigh);
        return std::make_pair(step.underflowLow * 32, step.underflowHigh * 32);
    };
    // The histogram cannot tell where in its bin a value lies: the true counts of C06 are within the bounds.
    const auto current = underflow("current", "e4m3"), wide = underflow("current", "e5m2"),
               one = underflow("fixed", "e4m3"), oneWide = underflow("fixed", "e5m2");
    for (const auto& [bounds, truth] : {std::make_pair(current, 13.0), std::make_pair(wide, 0.0),
                                        std::make_pair(one, 22.0), std::make_pair(oneWide, 15.0)}) {
        EXPECT_LE(bounds.first, truth);
        EXPECT_GE(bounds.second, truth);
        EXPECT_LE(bounds.second - bounds.first, 1.0);
    }
    EXPECT_GE(underflow("mxfp8", "e4m3").second, 14.0) << "an upper bound for blocks";
    EXPECT_EQ(underflow("bf16", "e4m3").second, 0.0);
}

TEST(WhatIf, UnusableChoicesAreSentences) {
    ScalingChoice choice;
    choice.recipe = "fp7";
    EXPECT_THAT(problemOf(choice), HasSubstr("recipe: \"fp7\" is unknown; allowed: delayed, current"));
    choice = {};
    choice.historyLength = 0;
    EXPECT_THAT(test::sentence([&] { replay(seriesOf({1}), choice); }),
                HasSubstr("history length: 0 is out of range; allowed: whole number 1 … 65536"));
}

/// The engine's own training, recorded and replayed.
class WhatIfRun : public testing::Test {
  protected:
    std::string run(const std::vector<SpecSet>& sets) {
        RunSpec spec = presetSpec("tiny");
        for (const auto& [path, value] : sets) EXPECT_TRUE(setPath(spec, path, value).empty()) << path;
        EXPECT_TRUE(setPath(spec, "data.path", "text:generated").empty());
        JobOptions options;
        options.store = folder_ / "s";
        options.headless = true;
        options.device.device = "cpu";
        options.device.threads = 2;
        std::string id;
        EXPECT_EQ(test::runFake(spec, options, &id).status, RunStatus::Finished);
        return id;
    }
    test::TempFolder folder_;
};

TEST_F(WhatIfRun, TheRecordedSettingGivesTheRecordedScalesBitForBit) {
    for (const char* algorithm : {"max", "most_recent"}) {
        const std::string id = run({{"train.steps", "30"},
                                    {"precision.history_length", "4"},
                                    {"precision.algorithm", algorithm},
                                    {"precision.margin", "1"},
                                    {"probes.every", "5"},
                                    {"probes.histograms", "5"}});
        RunStore store(folder_ / "s", RunStore::Mode::ReadOnly);
        const int tensors = static_cast<int>(store.document(id).catalogue.size());
        int compared = 0;
        for (int tensor = 0; tensor < tensors; ++tensor) {
            const AmaxSeries series = amaxSeries(store, id, tensor);
            if (series.recorded.recipe != "delayed") continue;
            const Replay again = replay(series, series.recorded);
            ASSERT_EQ(again.steps.size(), 30u);
            for (size_t i = 0; i < again.steps.size(); ++i, ++compared)
                ASSERT_EQ(again.steps[i].scale, series.points[i].scale) << series.name << " step " << i + 1;
            const ReplaySummary ran = recordedReplay(series).total;
            EXPECT_EQ(again.total.clippedShare, ran.clippedShare) << series.name;
            EXPECT_EQ(again.total.underflowShare, ran.underflowShare) << series.name;
        }
        EXPECT_EQ(compared, 24 * 30) << "two layers of four linears of three tensors";
    }
}

TEST_F(WhatIfRun, TheEstimateFromAHistogramHoldsAgainstARunThatDidIt) {
    // Fixed scale 1 against fixed scale 4, same seed: the first step casts the same tensors.
    const std::vector<SpecSet> common = {
        {"train.steps", "2"}, {"precision.recipe", "fixed"}, {"probes.every", "1"}, {"probes.histograms", "1"}};
    std::vector<SpecSet> four = common;
    four.push_back({"precision.scale", "4"});
    const std::string a = run(common), b = run(four);
    RunStore store(folder_ / "s", RunStore::Mode::ReadOnly);
    for (const char* name : {"h.0/attn.qkv/input", "h.0/attn.qkv/weight", "h.0/mlp.fc1/input"}) {
        const AmaxSeries one = amaxSeries(store, a, findTensor(store, a, name)),
                         truth = amaxSeries(store, b, findTensor(store, b, name));
        ScalingChoice choice = one.recorded;
        choice.scale = 4;
        const ReplayStep step = replay(one, choice).steps[0];
        const double ran = recordedReplay(truth).steps[0].underflow;
        EXPECT_FALSE(step.exact);
        EXPECT_LE(step.underflowLow, ran) << name;
        EXPECT_GE(step.underflowHigh, ran) << name;
        EXPECT_NEAR(step.underflow, ran, 0.25 * (step.underflowHigh - step.underflowLow) + 5e-4) << name;
    }
}

}  // namespace
}  // namespace mantissa::experiments
