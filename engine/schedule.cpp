#include "engine/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace mantissa::engine {

double scheduledRate(const ScheduleConfig& schedule, double peak, int64_t step, int64_t steps) {
    if (step <= schedule.warmup) return peak * static_cast<double>(step) / schedule.warmup;
    if (schedule.kind == ScheduleKind::Constant || steps <= schedule.warmup) return peak;
    const double span = static_cast<double>(steps - schedule.warmup);
    const double progress = std::min(1.0, static_cast<double>(step - schedule.warmup) / span);
    const double left =
        schedule.kind == ScheduleKind::Linear ? 1 - progress : 0.5 * (1 + std::cos(std::numbers::pi * progress));
    return peak * (schedule.finalFraction + (1 - schedule.finalFraction) * left);
}

}  // namespace mantissa::engine
