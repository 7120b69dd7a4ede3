// Inside of the diagnosis: what is read of a run, the detectors, the changes and their what-if.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/report/diagnosis.h"
#include "experiments/report/what_if.h"
#include "experiments/spec/run_spec.h"

namespace mantissa::experiments::diagnosis {

/// A setting and the steps it was in force from.
struct Setting {
    int64_t firstStep = 1;
    RunSpec spec;
    std::vector<engine::CatalogueEntry> catalogue;
};

/// What is read of a run once, for all detectors.
struct Reading {
    RunSummary run;
    RunDocument document;
    std::vector<Setting> settings;  ///< never empty
    std::vector<RunEvent> events;
    std::vector<CheckpointRow> checkpoints;
    Series loss, applied;
    /// Per tensor over `steps`: value(statistic, tensor, i), NaN where nothing was recorded.
    std::vector<int64_t> steps;
    std::map<Statistic, NumericsRange> ranges;
    NumericsRange kurtosis;  ///< probed steps alone
    std::vector<StaleRow> stale;
    std::vector<OpRow> ops;

    float value(Statistic statistic, int tensor, size_t i) const;
    const Setting& at(int64_t step) const;
    /// The first cast under a setting that the delayed rule has no amax for yet: scale 1, right for nobody.
    bool isFresh(int tensor, size_t i) const;
    const engine::CatalogueEntry& entry(int tensor) const { return document.catalogue[static_cast<size_t>(tensor)]; }
    int tensors() const { return static_cast<int>(document.catalogue.size()); }
    int64_t lastStep() const { return steps.empty() ? run.step : steps.back(); }
    std::string series(int tensor, Statistic statistic) const { return numericsName(entry(tensor), statistic); }
};
Reading readRun(RunStore& store, const std::string& id);

/// All that stands out, most explanatory first, without changes; later ones that an earlier one explains are merged
/// into its evidence.
std::vector<Finding> findTroubles(const Reading& reading);

/// Changes that would help, best first, with what the what-if expects.
void proposeChanges(RunStore& store, const Reading& reading, Finding& finding);
/// Changes that were made in this run or in forks after the trouble began, with what they brought.
void findApplied(RunStore& store, const Reading& reading, Finding& finding);

Finding findingAt(const Reading& reading, const char* kind, int severity, int tensor, int64_t firstStep);
std::string placeOf(const engine::CatalogueEntry& entry);  ///< "h.1 mlp.fc1 input"
std::string percentText(double share);                     ///< "3.1 %", "0", "0.0042 %"
/// Mean of a share over recorded steps first … last of one tensor; NaN: none.
double meanShare(const Reading& reading, Statistic statistic, int tensor, int64_t first, int64_t last);
double meanLoss(const Series& loss, int64_t first, int64_t last);

/// Limits above which a share is a trouble. Of a grad_output the limit is that of the alert (alarms.underflow).
inline constexpr double kClippedLimit = 1e-4, kUnderflowLimit = 0.01;
double underflowLimit(const Reading& reading, int tensor);

}  // namespace mantissa::experiments::diagnosis
