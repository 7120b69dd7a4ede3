// What a run will need, known before it starts: memory by category from the engine's plan, time from steps measured
// before.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "engine/trainer.h"
#include "experiments/spec/run_spec.h"

namespace mantissa::experiments {

class RunStore;

struct Forecast {
    uint64_t bytes = 0;
    std::map<std::string, uint64_t> by;  ///< weights, gradients, moments, activations, workspace, host
    std::string note;
    uint64_t availableBytes = 0;  ///< memory free on the device now
    bool fits = true;
    int64_t parameters = 0;
    int64_t tokensPerStep = 0, totalTokens = 0;
    double seconds = 0, tokensPerSecond = 0;  ///< 0: no basis yet
    std::string basis;             ///< "from run nano-bf16-s1 on this machine", "from products timed on this CPU"
    uint64_t checkpointBytes = 0;  ///< of one checkpoint
    uint64_t storeBytes = 0;       ///< of the run's series, estimated
    uint64_t diskFreeBytes = 0;
};

/// Fast (below 10 ms but for the first call, which times a product for about 0.3 s) when `store` has a like run; no
/// store: null. Never throws for a valid spec; an unavailable device shows as note with fits = false. Thread: any, but
/// `store` is one connection.
Forecast forecast(const RunSpec& spec, const engine::DeviceChoice& device, RunStore* store);

/// Planned precision of every product before a run: rows as in EffectivePrecision with native and algorithm left empty.
/// Same order.
std::vector<engine::EffectivePrecision> plannedPrecision(const RunSpec& spec);

}  // namespace mantissa::experiments
