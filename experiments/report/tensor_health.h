// How the tensors of a run fare in its last steps, by the rules of the alerts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/job/alarm_rules.h"

namespace mantissa::experiments {

class RunStore;

/// One tensor. kind: the rule it breaks (the first by rank), or else the one it comes nearest to; standing: the value
/// that stood for the rule's number of steps; ratio: how near it is to the amber limit, above 1 an alarm (shares:
/// standing ÷ limit; staleness, wasted range and kurtosis, which are 1 when all is well: log standing ÷ log limit).
/// recorded: false when no rule applies to it or nothing was recorded.
struct TensorHealth {
    AlarmKind kind = AlarmKind::Clipped;
    int level = 0;  ///< 0 quiet, 1 amber, 2 red
    double standing = 0, ratio = 0;
    bool recorded = false, nonFinite = false;
};

struct RunHealth {
    int64_t firstStep = 0, lastStep = 0;
    std::vector<TensorHealth> tensors;  ///< in the order of the catalogue; empty before the first step
    bool empty() const { return tensors.empty(); }
};

/// Replays the alarm rules over the last `window` recorded steps. Throws what the store throws.
RunHealth tensorHealth(RunStore& store, const std::string& id, int window);

}  // namespace mantissa::experiments
