// What looking costs: three copies of a training in turn, and the steps of a run.
#include "experiments/report/probe_cost.h"
#include "experiments/report/shadow_rank.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <thread>
#include <tuple>

#include "tests/experiments/support.h"

namespace mantissa::experiments {
namespace {

TEST(ProbeCost, LookingChangesNothingAndIsMeasuredInTurn) {
    RunSpec spec = presetSpec("tiny");
    EXPECT_TRUE(setPath(spec, "data.path", "text:generated").empty());
    int rounds = 0;
    const ProbeCost cost = measureProbeCost(spec, {"cpu", 2, ""}, 0.3, {}, [&](int) { ++rounds; });
    EXPECT_TRUE(cost.identical) << "the losses and gradient norms of all three are the same bits";
    ASSERT_EQ(cost.audits.size(), 3u);
    for (const auto& audit : cost.audits) EXPECT_TRUE(audit.untouched()) << audit.what;
    EXPECT_NE(cost.audits[0].before, 0u);
    EXPECT_GE(cost.rounds, 5);
    EXPECT_EQ(cost.rounds, rounds);
    EXPECT_GT(cost.everything, 0.1) << "every product again, every value looked at";
    EXPECT_LE(cost.cheapLow, cost.cheap);
    EXPECT_GE(cost.cheapHigh, cost.cheap);
    EXPECT_NEAR(cost.at(100), (1 + cost.cheap) * (1 + cost.everything / 100) - 1, 1e-12);
    std::printf("tiny: cheap %+.1f %% (%+.1f to %+.1f), a step with everything %.1f x, %d rounds\n", 100 * cost.cheap,
                100 * cost.cheapLow, 100 * cost.cheapHigh, 1 + cost.everything, cost.rounds);
    EXPECT_LT(measureProbeCost(spec, {"cpu", 1, ""}, 60, [] { return true; }).rounds, 1) << "stopped at once";
}

TEST(ProbeCost, AnIntervalWiderThanTheShareIsNoResult) {
    ProbeCost cost;
    EXPECT_FALSE(cost.cheapTold()) << "nothing was measured";
    cost.rounds = 40;
    cost.cheap = -0.88, cost.cheapLow = -0.96, cost.cheapHigh = 19.7;
    EXPECT_FALSE(cost.cheapTold());
    cost.cheap = 0.002, cost.cheapLow = -0.004, cost.cheapHigh = 0.006;
    EXPECT_TRUE(cost.cheapTold()) << "under one per cent is an answer";
    cost.everything = 3, cost.everythingLow = 2.5, cost.everythingHigh = 3.4;
    EXPECT_TRUE(cost.everythingTold());
    cost.cheap = 0.03, cost.cheapLow = -0.02, cost.cheapHigh = 0.06;
    EXPECT_FALSE(cost.cheapTold());
    EXPECT_FALSE(cost.everythingTold());
}

TEST(ProbeCost, OfARunComesFromItsOwnSteps) {
    test::TempFolder folder;
    RunSpec spec = test::fakeSpec(100);
    spec.trainer.probes.every = 10;
    test::Script script;
    script.before = [](int64_t step) {
        std::this_thread::sleep_for(std::chrono::milliseconds(step % 10 == 0 ? 8 : 2));
    };
    std::string id;
    test::runFake(spec, test::fakeOptions(folder / "s", script), &id);
    RunStore store(folder / "s", RunStore::Mode::ReadOnly);
    const ProbedSteps steps = probedSteps(store, id);
    EXPECT_NEAR(steps.rate, 0.1, 0.01);
    EXPECT_GT(steps.probedMs, 7);
    EXPECT_LT(steps.plainMs, 7);
    EXPECT_NEAR(steps.share(), steps.rate * (steps.probedMs / steps.plainMs - 1), 1e-12);
    EXPECT_EQ(probedSteps(store, id, 10).rate, 0) << "one probed step is too few";
}

/// The product that loses most stands first, whatever the order of execution.
TEST(ShadowRank, LargestErrorFirst) {
    test::TempFolder folder;
    test::Script script;
    script.numerics = [](engine::NumericsRecord& record) {
        if (record.step % 2) return;
        for (const auto& [linear, gemm, error] :
             {std::tuple(0, 0, 0.02f), std::tuple(1, 1, 0.2f), std::tuple(1, 2, record.step == 6 ? 0.3f : 0.01f)}) {
            engine::ShadowRow row;
            row.linear = linear, row.gemm = gemm, row.relativeError = error, row.rows = 8;
            row.sqnrDb = -20 * std::log10(error);
            record.shadow.push_back(row);
        }
    };
    std::string id;
    test::runFake(test::fakeSpec(10), test::fakeOptions(folder / "s", script), &id);
    RunStore store(folder / "s", RunStore::Mode::ReadOnly);
    const auto ranks = rankShadows(store, id);
    ASSERT_EQ(ranks.size(), 3u);
    EXPECT_EQ(ranks[0].layer + " " + ranks[0].linear + " " + ranks[0].gemm, "h.1 mlp.fc1 dgrad");
    EXPECT_NEAR(ranks[0].meanError, 0.2, 1e-6);
    EXPECT_EQ(ranks[1].gemm, "wgrad") << "one bad step of five";
    EXPECT_EQ(ranks[1].worstStep, 6);
    EXPECT_NEAR(ranks[1].worstError, 0.3, 1e-6);
    EXPECT_EQ(ranks[1].measured, 5);
    EXPECT_EQ(rankShadows(store, id, 7, 10)[1].layer, "h.0");
}

}  // namespace
}  // namespace mantissa::experiments
