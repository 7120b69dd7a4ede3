// What looking costs: measured by training the same steps with and without statistics, and read from a run's own steps.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "engine/trainer.h"
#include "experiments/spec/run_spec.h"
#include "experiments/store/run_store.h"

namespace mantissa::experiments {

/// Steps of the same training, interleaved, in turn: without statistics, with the cheap set (counters, amax), with
/// everything (dear set, exponents, op checks, shadow products of every linear).
struct ProbeCost {
    int rounds = 0;                                     ///< each one turn of every kind
    int turnSteps = 1;                                  ///< steps of a turn; on a CPU one
    double plainMs = 0, cheapMs = 0, everythingMs = 0;  ///< medians
    double cheap = 0, cheapLow = 0, cheapHigh = 0;      ///< median of the rounds' ratios less 1, and its 95 % interval
    double everything = 0, everythingLow = 0, everythingHigh = 0;  ///< the same, with everything against the cheap set
    /// Whether a share can be told from the noise: half its interval is at most the share itself, or 1 %.
    static bool told(double share, double low, double high) {
        return high - low <= 2 * std::max(std::abs(share), 0.01);
    }
    bool cheapTold() const { return rounds > 0 && told(cheap, cheapLow, cheapHigh); }
    bool everythingTold() const { return cheapTold() && told(everything, everythingLow, everythingHigh); }
    bool identical = true;  ///< every loss and gradient norm to the last bit, and the state in the end
    struct Audit {
        std::string what;                ///< "an evaluation"
        uint64_t before = 0, after = 0;  ///< hashes of masters, moments, scales, windows and step state
        bool untouched() const { return before == after; }
    };
    std::vector<Audit> audits;  ///< what looks at a run between two steps, done once each after the last round
    /// Longer than without statistics when everything is taken at one step in n.
    double at(int n) const { return (1 + cheap) * (1 + everything / n) - 1; }
};
/// Trains three copies for about `seconds` after a warm-up; stop() is asked between steps. Three times the memory of a
/// run. `onRound` may be empty.
ProbeCost measureProbeCost(const RunSpec& spec, const engine::DeviceChoice& device, double seconds,
                           const std::function<bool()>& stop, const std::function<void(int)>& onRound = {});

/// From a run's newest steps, up to `last` of them: how much longer a probed step takes than one that is not, and what
/// that makes over all. rate 0: there are too few steps of both kinds since the last change of the probes.
struct ProbedSteps {
    double probedMs = 0, plainMs = 0;  ///< medians
    double rate = 0;                   ///< share of steps that were probed
    double share() const { return rate > 0 ? rate * (probedMs / plainMs - 1) : 0; }
};
ProbedSteps probedSteps(RunStore& store, const std::string& id, int64_t last = 2000);

}  // namespace mantissa::experiments
