// Numbers of series inside the store. They are part of the file format: entries are only ever added.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "experiments/store/run_types.h"

namespace mantissa::experiments {

/// Scalars of a step, float64. Evaluation lives in its own table, as it comes from another moment.
enum class Metric : uint8_t {
    Loss = 1,
    GradNorm,
    LearningRate,
    Tokens,
    TokensPerSecond,
    StepMs,
    MemoryBytes,
    PhaseMatmul,
    PhaseAttention,
    PhaseElementwise,
    PhaseOptimizer,
    PhaseGap,
    LossScale,
    Seconds,
    TimeMs,
    Applied,
    PowerWatts,
    EnergyJoules,
    SmMhz,
    MemoryMhz,
    Celsius,
    End,
    ValidationLoss = 63,
};
const char* metricName(Metric metric);  ///< "loss", "phase/matmul_ms", …; "" for a number of a later version
std::optional<Metric> metricFromName(const std::string& name);

/// Series number: a scalar's own, or kNumericsBase + tensor * kStatisticSlots + statistic.
constexpr int64_t kNumericsBase = 64, kStatisticSlots = 32;
constexpr int kStoredStatistics = static_cast<int>(Statistic::Kurtosis) + 1;
inline int64_t numericsSeries(int tensor, Statistic statistic) {
    return kNumericsBase + tensor * kStatisticSlots + static_cast<int>(statistic);
}
inline bool isStored(Statistic statistic) {
    return static_cast<int>(statistic) < kStoredStatistics;
}
/// Elements … Nan: exact integers.
inline bool isCounter(Statistic statistic) {
    return statistic >= Statistic::Elements && statistic <= Statistic::Nan;
}
inline bool isDear(Statistic statistic) {
    return statistic >= Statistic::MinNonZero && statistic <= Statistic::Kurtosis;
}

/// A counter that was read as a double; damaged data may hold anything, which must not become an undefined conversion.
inline uint64_t toCount(double value) {
    return value > 0 ? static_cast<uint64_t>(value < 9e15 ? value : 9e15) : 0;
}

}  // namespace mantissa::experiments
