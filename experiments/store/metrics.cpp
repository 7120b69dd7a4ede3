#include "experiments/store/metrics.h"

namespace mantissa::experiments {

namespace {

struct MetricName {
    Metric metric;
    const char* name;
};
constexpr MetricName kMetrics[] = {{Metric::Loss, "loss"},
                                   {Metric::GradNorm, "grad_norm"},
                                   {Metric::LearningRate, "lr"},
                                   {Metric::Tokens, "tokens"},
                                   {Metric::TokensPerSecond, "tokens_per_s"},
                                   {Metric::StepMs, "step_ms"},
                                   {Metric::MemoryBytes, "memory_bytes"},
                                   {Metric::PhaseMatmul, "phase/matmul_ms"},
                                   {Metric::PhaseAttention, "phase/attention_ms"},
                                   {Metric::PhaseElementwise, "phase/elementwise_ms"},
                                   {Metric::PhaseOptimizer, "phase/optimizer_ms"},
                                   {Metric::PhaseGap, "phase/gap_ms"},
                                   {Metric::LossScale, "loss_scale"},
                                   {Metric::Seconds, "seconds"},
                                   {Metric::TimeMs, "time_ms"},
                                   {Metric::Applied, "applied"},
                                   {Metric::PowerWatts, "power_w"},
                                   {Metric::EnergyJoules, "energy_j"},
                                   {Metric::SmMhz, "sm_mhz"},
                                   {Metric::MemoryMhz, "memory_mhz"},
                                   {Metric::Celsius, "celsius"},
                                   {Metric::ValidationLoss, "val_loss"}};

constexpr const char* kStatistics[] = {"amax",
                                       "scale",
                                       "elements",
                                       "zeros",
                                       "underflow",
                                       "subnormal",
                                       "over_range",
                                       "clipped",
                                       "inf",
                                       "nan",
                                       "min_nonzero",
                                       "mse",
                                       "sqnr_db",
                                       "kurtosis",
                                       "zeros_share",
                                       "underflow_share",
                                       "subnormal_share",
                                       "over_range_share",
                                       "clipped_share",
                                       "inf_share",
                                       "nan_share",
                                       "scale_inv",
                                       "staleness",
                                       "unused_range",
                                       "dynamic_range"};
static_assert(std::size(kStatistics) == static_cast<size_t>(Statistic::Count));

constexpr const char* kStatuses[] = {"queued",      "running", "paused",   "finished", "stopped",
                                     "interrupted", "failed",  "diverged", "refused"};

}  // namespace

const char* metricName(Metric metric) {
    for (const auto& entry : kMetrics)
        if (entry.metric == metric) return entry.name;
    return "";
}

std::optional<Metric> metricFromName(const std::string& name) {
    for (const auto& entry : kMetrics)
        if (name == entry.name) return entry.metric;
    return std::nullopt;
}

const char* statisticName(Statistic statistic) {
    return statistic < Statistic::Count ? kStatistics[static_cast<int>(statistic)] : "?";
}

std::optional<Statistic> statisticFromName(const std::string& name) {
    for (size_t i = 0; i < std::size(kStatistics); ++i)
        if (name == kStatistics[i]) return static_cast<Statistic>(i);
    return std::nullopt;
}

const char* statusName(RunStatus status) {
    return kStatuses[static_cast<int>(status)];
}

std::optional<RunStatus> statusFromName(const std::string& name) {
    for (size_t i = 0; i < std::size(kStatuses); ++i)
        if (name == kStatuses[i]) return static_cast<RunStatus>(i);
    return std::nullopt;
}

std::string numericsName(const engine::CatalogueEntry& entry, Statistic statistic) {
    return "numerics/" + engine::tensorName(entry) + "/" + statisticName(statistic);
}

}  // namespace mantissa::experiments
