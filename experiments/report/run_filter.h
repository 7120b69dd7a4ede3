// Filter expressions of the run list: "loss < 2 and recipe = delayed", also used by the desktop program's filter field.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "experiments/store/run_types.h"

namespace mantissa::experiments {

/// Words: and, or, not, ( ), comparisons field OP value with OP in = != < <= > >= ~ (contains), "quoted text". A bare
/// word matches runs whose name, tags, model, recipe or status contain it. A text field equals a value when it or one
/// of its words is the value. A number that is NaN or not there matches no comparison. Throws InvalidConfig with the
/// place and what is allowed.
std::function<bool(const RunSummary&)> compileFilter(const std::string& expression);

/// Columns of lists, filters and sorting: run, name, status, step, steps, loss, val_loss, device, started, tags, model,
/// recipe, preset, seed, tokens, tokens_per_s, seconds, plan_bytes, peak_bytes, alerts, note, parent.
const std::vector<std::string>& runColumns();
/// Numbers of numeric columns; NaN where there is none. isNumber false: use textColumn.
struct ColumnValue {
    bool isNumber = false;
    double number = 0;
    std::string text;
};
ColumnValue columnValue(const RunSummary& run, const std::string& column);
/// Sorts by a column, NaN and "not there" last either way; "-loss" descends. Throws InvalidConfig for an unknown
/// column.
void sortRuns(std::vector<RunSummary>& runs, const std::string& column);

}  // namespace mantissa::experiments
