// Learning rate of a step.
#pragma once

#include <cstdint>

#include "engine/config.h"

namespace mantissa::engine {

/// Rate of step `step` (1-based) of `steps`: peak * step / warmup up to the end of the warm-up, then constant, or down
/// to finalFraction * peak at the last step and from there on.
double scheduledRate(const ScheduleConfig& schedule, double peak, int64_t step, int64_t steps);

}  // namespace mantissa::engine
