// A store with invented runs for GUI tests and pictures: loss curves, statistics with a spike, events. Nothing in it
// was trained.
#pragma once

#include <cstdint>
#include <string>

namespace mantissa::tests {

struct SyntheticRun {
    std::string name = "synthetic", preset = "nano";
    int64_t steps = 600;  ///< of the plan
    int64_t done = 600;   ///< steps written
    uint64_t seed = 1;
    double lossOffset = 0;  ///< added to the whole curve
    double speed = 1;       ///< tokens per second against the plain run
    int fastLast = 0;       ///< the last steps that take a third of the time of those before
    bool fp8 = true;
    int64_t spikeAt = 0;  ///< one dy tensor has a spike here that rules its window afterwards; 0: none
    int64_t nonFiniteFrom = 0, nonFiniteTo = 0;  ///< loss NaN and one tensor with NaN in these steps; 0: none
    int historyLength = 256;
    bool exponents = true;     ///< histograms on probed steps
    bool scalarsOnly = false;  ///< no statistics of tensors and only loss, tokens and seconds: for stores of many runs
    std::string status = "finished";
    std::string trouble;  ///< JSON of the first trouble, as a job stores it
};

/// Adds the run to the store at `path` (made when absent) and gives back its id.
std::string addSyntheticRun(const std::string& path, const SyntheticRun& run);

}  // namespace mantissa::tests
