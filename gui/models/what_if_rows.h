// What-if of one tensor as rows of a table, and the change of the spec that each row stands for.
#pragma once

#include <QString>
#include <optional>
#include <vector>

#include "experiments/report/what_if.h"
#include "gui/widgets/what_if_table.h"

namespace mantissa::gui {

/// Replays of one tensor's recorded amax series. Read on the background thread.
struct WhatIfReport {
    int tensor = -1;
    int64_t firstStep = 0, lastStep = 0;  ///< replayed range
    experiments::ScalingChoice recorded;
    std::vector<std::pair<experiments::ScalingChoice, experiments::ReplaySummary>> rows;  ///< as recorded first
};
/// Over the last `updates` steps up to `step` (< 0: the newest). Tensor -1 in the result: nothing to replay.
WhatIfReport readWhatIf(experiments::RunStore& store, const std::string& id, int tensor, int64_t step, int64_t updates);

/// "max of 16", "current scaling", "MXFP8", "BF16"; the format only where it differs from the recorded one.
QString choiceName(const experiments::ScalingChoice& choice, const experiments::ScalingChoice& recorded);
std::vector<WhatIfRow> whatIfRows(const WhatIfReport& report, const experiments::RunSpec& spec,
                                  const engine::CatalogueEntry& entry);

/// The spec with the choice for this tensor's linear: length, algorithm and margin hold for the whole run, another
/// recipe becomes a rule for the linear. Empty with a sentence in `why` when the spec cannot say it.
std::optional<experiments::RunSpec> withChoice(const experiments::RunSpec& spec, const engine::CatalogueEntry& entry,
                                               const experiments::ScalingChoice& recorded,
                                               const experiments::ScalingChoice& choice, QString* why);

}  // namespace mantissa::gui
