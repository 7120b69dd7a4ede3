// The first value of a run that was not finite: where it arose, how it reached the loss, what was normal before, and
// from where the run can go on.
#pragma once

#include <QString>
#include <memory>
#include <vector>

#include "experiments/store/run_store.h"
#include "gui/theme/theme.h"

namespace mantissa::gui {

/// One station on the way from the first non-finite value to the optimizer.
struct TroubleLink {
    QString what, detail, right;
    Token token = Token::Text3;  ///< of the dot and of `right`
    int tensor = -1;
};

/// A value of the last healthy steps.
struct TroubleFact {
    QString name, value, tooltip;
};

/// All that the store says about the first non-finite step of a run. Made on the background thread.
struct TroubleReport {
    int64_t step = 0;            ///< 0: everything was finite
    int tensor = -1;             ///< first in order of execution; -1: no recorded tensor, only loss or gradient norm
    std::vector<int> order;      ///< catalogue indices in order of execution: x and w forward, dy backward
    std::vector<int64_t> steps;  ///< recorded steps up to `step`, oldest first, at most 12
    std::vector<std::shared_ptr<const engine::NumericsRecord>> records;  ///< of `steps`
    std::vector<TroubleLink> chain;
    std::vector<TroubleFact> before;
    QString headline, outcome;
    int64_t checkpoint = -1;  ///< newest one on disk from before `step`; -1: none
    bool applied = false;     ///< the optimizer ran in `step`
};

/// True when a tensor holds NaN or Inf in that record.
bool notFinite(const engine::TensorNumerics& tensor);
/// Order of execution of a catalogue: per linear x then w, forward; then dy from the last linear to the first.
std::vector<int> executionOrder(const std::vector<engine::CatalogueEntry>& catalogue);
/// The value of a stored or derived statistic in one record; NaN when it was not recorded.
double valueOf(const engine::TensorNumerics& tensor, experiments::Statistic statistic, const std::string& format,
               int margin);

TroubleReport readTrouble(experiments::RunStore& store, const std::string& id);

}  // namespace mantissa::gui
