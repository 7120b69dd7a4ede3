#include "experiments/report/tensor_health.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/job/alarms.h"
#include "experiments/store/run_store.h"

namespace mantissa::experiments {

namespace {

constexpr double kFarOver = 1000;  ///< ratio to a limit of 0

/// Values of one tensor in the steps where it was recorded.
std::vector<double> recorded(const NumericsRange& range, size_t tensor) {
    std::vector<double> values;
    const size_t steps = range.steps.size();
    for (size_t i = 0; i < steps && tensor < static_cast<size_t>(range.tensors); ++i)
        if (range.present[tensor * steps + i]) values.push_back(range.values[tensor * steps + i]);
    return values;
}

/// Kurtosis of each tensor in its first probed step from step 100 on; NaN: none.
std::vector<double> kurtosisReference(RunStore& store, const std::string& id, int64_t lastStep, size_t tensors) {
    std::vector<double> reference(tensors, std::numeric_limits<double>::quiet_NaN());
    if (lastStep <= Alarms::kKurtosisReference) return reference;
    const int64_t first = Alarms::kKurtosisReference;
    const NumericsRange range = store.numerics(id, Statistic::Kurtosis, first, std::min(lastStep, first + 99));
    for (size_t t = 0; t < tensors; ++t)
        if (const auto values = recorded(range, t); !values.empty()) reference[t] = values.front();
    return reference;
}

/// How near a value is to its amber limit: 1 at the limit. Shares linearly; ratios, which are 1 when all is well, by
/// their logarithm.
double nearness(AlarmKind kind, const AlarmRule& rule, double standing) {
    if (kind != AlarmKind::Clipped && kind != AlarmKind::Underflow)
        return standing > 1 ? std::log(standing) / std::log(rule.amber) : 0;
    return rule.amber > 0 ? standing / rule.amber : standing > 0 ? kFarOver : 0;
}

void judge(TensorHealth& health, AlarmKind kind, const AlarmRule& rule, const std::vector<double>& values) {
    if (values.empty()) return;
    const double standing = standingValue(rule, values);
    const double ratio = nearness(kind, rule, standing);
    const int level = alarmLevel(rule, standing);
    // Kinds come in the order of their rank: the first that is broken stays, before that the nearest to its limit.
    if (!health.recorded || (health.level == 0 && (level > 0 || ratio > health.ratio))) {
        health.kind = kind;
        health.level = level;
        health.standing = standing;
        health.ratio = ratio;
    }
    health.recorded = true;
}

}  // namespace

RunHealth tensorHealth(RunStore& store, const std::string& id, int window) {
    RunHealth health;
    const auto row = store.run(id);
    if (!row || row->step < 1) return health;
    const RunDocument document = store.document(id);
    const auto& catalogue = document.catalogue;
    const AlarmSpec limits = parseSpec(document.specJson).spec.alarms;
    health.lastStep = row->step;
    health.firstStep = std::max<int64_t>(1, row->step - window + 1);
    const auto read = [&](Statistic statistic) {
        return store.numerics(id, statistic, health.firstStep, health.lastStep);
    };
    const NumericsRange clipped = read(Statistic::ClippedShare), underflow = read(Statistic::UnderflowShare),
                        staleness = read(Statistic::Staleness), kurtosis = read(Statistic::Kurtosis);
    if (clipped.steps.empty()) return health;
    const auto nonFinite = store.heatmap(id, Statistic::UnderflowShare, health.firstStep, health.lastStep, 1).nonFinite;
    const auto reference = kurtosisReference(store, id, health.lastStep, catalogue.size());
    health.tensors.resize(catalogue.size());
    for (size_t t = 0; t < catalogue.size(); ++t) {
        TensorHealth& tensor = health.tensors[t];
        const auto apply = [&](AlarmKind kind, std::vector<double> values) {
            if (alarmApplies(kind, catalogue[t])) judge(tensor, kind, alarmRule(kind, limits), values);
        };
        tensor.nonFinite = t < nonFinite.size() && nonFinite[t];
        apply(AlarmKind::Clipped, recorded(clipped, t));
        apply(AlarmKind::Underflow, recorded(underflow, t));
        std::vector<double> stale = recorded(staleness, t), wasted = stale, growth = recorded(kurtosis, t);
        // An amax of 0 or Inf says nothing about the scale.
        for (double& value : stale) value = value > 0 && std::isfinite(value) ? value : 0;
        for (double& value : wasted) value = value > 0 && std::isfinite(value) ? 1 / value : 0;
        apply(AlarmKind::Stale, std::move(stale));
        apply(AlarmKind::Wasted, std::move(wasted));
        if (!(reference[t] > 0)) continue;
        for (double& value : growth) value /= reference[t];
        apply(AlarmKind::Kurtosis, std::move(growth));
    }
    return health;
}

}  // namespace mantissa::experiments
