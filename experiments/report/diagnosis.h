// Turns what was recorded about a run into sentences a person can act on: what, where, since when, why, what helps.
// Plain value types for the Diagnosis page and `mantissa-run diagnose`.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "experiments/store/run_store.h"

namespace mantissa::experiments {

/// A number and where it stands: the series of a chart and a step in it.
struct Evidence {
    std::string text;    ///< "clipped 3.1 % of the elements at step 60, 0 before"
    std::string series;  ///< "numerics/h.1/mlp.fc1/input/clipped_share", "loss"; "" when there is none
    int64_t step = 0;
    double value = std::numeric_limits<double>::quiet_NaN();
};

/// One field of the spec, as `set RUN PATH=VALUE` and `fork --set PATH=VALUE` take it.
struct SpecChange {
    std::string path, value;  ///< value: JSON text
    std::string before;       ///< JSON text of the value in force
};

/// A change that would help, with the figure the what-if expects of it.
struct ProposedChange {
    std::string title;     ///< "history length 1024 → 16"
    std::string expected;  ///< "clipped 3.1 % → 0"
    std::string figure;    ///< statistic the expectation is about: "clipped_share", "underflow_share", …; "" for none
    double before = std::numeric_limits<double>::quiet_NaN(), after = before;
    std::vector<SpecChange> sets;  ///< empty: nothing to change but where the run goes on from
    bool live = false;             ///< the running job can take it between two steps
    bool needsFork = false;        ///< the state is spoilt: only going on from before the trouble helps
    int64_t forkStep = -1;         ///< newest checkpoint on disk before the trouble; −1: there is none
};

/// A change that was made after the trouble began, and what it brought.
struct AppliedChange {
    std::string text;  ///< "precision.history_length: 1024 → 16"
    std::string run;   ///< ULID of the run it was made in: this one, or a fork
    std::string runName;
    int64_t step = 0;
    std::string brought;  ///< "clipped 3.1 % → 0 over the 40 steps since; loss 2.41 → 2.13"
    std::string figure;
    double before = std::numeric_limits<double>::quiet_NaN(), after = before;
    bool ended = false;  ///< the trouble has not come back since
};

struct Finding {
    /// non_finite, frozen_scale, never_updated, stale_weight, outlier, clipped, underflow, staleness, loss_jump,
    /// audit
    std::string kind;
    int severity = 1;                   ///< 1 amber, 2 red
    std::string layer, linear, tensor;  ///< "h.1", "mlp.fc1", "input"; "" when of the whole run
    int tensorIndex = -1;               ///< in the catalogue
    int64_t firstStep = 0, lastStep = 0;
    bool ongoing = false;  ///< still so in the newest step
    std::string what;      ///< "h.1 mlp.fc1 input: one value in 4,096 is 900 × the typical one, since step 60."
    std::string cause;     ///< "An outlier channel sets the scale of the whole tensor; …"
    std::vector<Evidence> evidence;
    std::vector<ProposedChange> changes;  ///< best first
    std::vector<AppliedChange> applied;   ///< oldest first
    std::string place() const;            ///< "h.1 mlp.fc1 input"; "the run"
};

struct Diagnosis {
    std::string run;
    int64_t steps = 0;              ///< newest recorded step
    std::string summary;            ///< one sentence: "Nothing stands out in 600 steps." or the first finding's
    std::vector<Finding> findings;  ///< the one that explains most first
};

/// Reads the run's series; a run of 100,000 steps and 50 tensors takes a second or two: not for the GUI thread.
Diagnosis diagnose(RunStore& store, const std::string& id);

}  // namespace mantissa::experiments
