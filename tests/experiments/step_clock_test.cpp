// The time of a step where several results may be read at once.
#include <gtest/gtest.h>

#include "experiments/job/run_median.h"
#include "experiments/job/step_clock.h"

namespace mantissa::experiments {
namespace {

TEST(RunMedian, StaysTheRunsHoweverLong) {
    RunMedian few, many;
    EXPECT_EQ(few.median(), 0);
    for (const double value : {5.0, 1.0, 3.0}) few.add(value);
    EXPECT_EQ(few.median(), 3);
    // A burst at the end, twenty of 100,000, moves nothing.
    for (int i = 0; i < 100'000; ++i) many.add(i < 99'980 ? 1000 + i % 7 : 5000);
    EXPECT_NEAR(many.median(), 1003, 1);
    // The second half weighs as much as the first.
    RunMedian slower;
    for (int i = 0; i < 100'000; ++i) slower.add(i < 45'000 ? 1000 : 500);
    EXPECT_EQ(slower.median(), 500);
}

TEST(StepClock, EvenStepsKeepTheirTime) {
    StepClock clock;
    for (int i = 0; i < 100; ++i) EXPECT_NEAR(clock.add(0.026), 0.026, 1e-12);
}

TEST(StepClock, ALateReadingIsNoFastStep) {
    StepClock clock;
    for (int i = 0; i < 20; ++i) clock.add(0.026);
    // The thread wrote to the store for 20 ms more; the next result was there already.
    const double late = clock.add(0.046), early = clock.add(0.006);
    EXPECT_LT(late, 0.029);
    EXPECT_NEAR(early, 0.026, 0.0005);
}

TEST(StepClock, TheFirstStepWithItsSetUpStandsAlone) {
    StepClock clock;
    EXPECT_EQ(clock.add(0.9), 0.9);
    EXPECT_NEAR(clock.add(0.026), 0.026, 1e-12);
}

TEST(StepClock, AChangeOfPaceShowsWithinTheWindow) {
    StepClock clock;
    for (int i = 0; i < 50; ++i) clock.add(0.010);
    double seconds = 0;
    for (double time = 0; time < StepClock::kWindowSeconds + 0.02; time += 0.020) seconds = clock.add(0.020);
    EXPECT_NEAR(seconds, 0.020, 1e-9);
}

}  // namespace
}  // namespace mantissa::experiments
