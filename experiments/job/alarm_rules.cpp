#include "experiments/job/alarm_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mantissa::experiments {

AlarmRule alarmRule(AlarmKind kind, const AlarmSpec& limits) {
    constexpr double kNever = std::numeric_limits<double>::infinity();
    switch (kind) {
        case AlarmKind::Clipped:
            return {"clipped", limits.clipped, 10 * limits.clipped, limits.clippedSteps};
        case AlarmKind::Underflow:
            return {"underflow", limits.underflow, 5 * limits.underflow, limits.underflowSteps};
        case AlarmKind::Stale:
            return {"staleness", limits.staleness, 8 * limits.staleness, 3};
        case AlarmKind::Wasted:
            return {"wasted_range", 16, kNever, 16};
        default:
            return {"kurtosis", 10, kNever, 1};
    }
}

bool alarmApplies(AlarmKind kind, const engine::CatalogueEntry& entry) {
    if (entry.format != "e4m3" && entry.format != "e5m2") return false;
    switch (kind) {
        case AlarmKind::Underflow:
            return entry.role == engine::TensorRole::GradOutput;
        case AlarmKind::Kurtosis:
            return entry.role != engine::TensorRole::GradOutput;
        case AlarmKind::Stale:
        case AlarmKind::Wasted:
            return entry.recipe == "delayed";
        default:
            return true;
    }
}

double standingValue(const AlarmRule& rule, std::span<const double> values) {
    const size_t steps = static_cast<size_t>(rule.steps);
    double best = 0;
    size_t start = 0;  // of the stretch without NaN
    for (size_t i = 0; i < values.size(); ++i) {
        if (std::isnan(values[i])) start = i + 1;
        if (i + 1 < start + steps) continue;
        best = std::max(best, *std::min_element(values.begin() + static_cast<std::ptrdiff_t>(i + 1 - steps),
                                                values.begin() + static_cast<std::ptrdiff_t>(i + 1)));
    }
    return best;
}

int alarmLevel(const AlarmRule& rule, double standing) {
    return standing > rule.red ? 2 : standing > rule.amber ? 1 : 0;
}

}  // namespace mantissa::experiments
