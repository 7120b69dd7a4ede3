// Two and more runs side by side: config difference, final values, where they part, verdicts over seeds.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "experiments/store/run_store.h"

namespace mantissa::experiments {

enum class Axis : uint8_t { Step, Tokens, Time };

struct ComparedRun {
    RunSummary run;
    /// val_loss, loss, grad_norm where Comparison::at says; tokens_per_s, step_ms, seconds, peak_bytes of the whole
    /// run.
    std::map<std::string, double> final;
    std::map<std::string, double> difference;  ///< this − baseline
    std::map<std::string, double> ratio;       ///< this ÷ baseline
};
struct ConfigRow {
    std::string path;
    std::vector<std::string> values;  ///< JSON text, one a run, in the order of the runs
};
/// First step and tensor (in order of execution) where a statistic leaves the tolerance against the baseline.
struct PartingPoint {
    std::string run;
    int64_t step = 0;  ///< 0: they never part within the common steps
    std::string tensor, statistic;
    double value = 0, baseline = 0;
};
/// Seeds of one setting against the baseline's group; rule of the Compare page.
struct GroupVerdict {
    std::string name;  ///< "nano · fp8 delayed"
    std::vector<std::string> runs;
    int pairs = 0;            ///< seeds that both have
    double mean = 0, sd = 0;  ///< validation loss of the group (finite ones), as in ComparedRun::final
    double difference = 0, differenceSd = 0, low = 0, high = 0, p = 1;  ///< paired, 95 % t interval
    double speedRatio = 0;
    std::string verdict;  ///< "no difference seen", "within 0.01 nats", "worse by 0.04", "not decided, n = 3", "does
                          ///< not train", ""
};
struct Comparison {
    std::string baseline;
    std::vector<ComparedRun> runs;
    std::vector<ConfigRow> config;
    std::vector<PartingPoint> parts;   ///< of runs with the baseline's seed, or of the only other one
    std::vector<GroupVerdict> groups;  ///< baseline's group first
    Axis axis = Axis::Step;
    double limit = 0;  ///< largest x that all have reached
    /// x of the values of val_loss, loss and grad_norm: the largest within the limit that all have. Not there: they
    /// have none in common (as on the axis of time), and each one's last within the limit was taken.
    std::map<std::string, double> at;
    bool sameEnd = true;  ///< all end at `limit`
};

/// ids: ULIDs. baseline "": the pinned one if it is among them, else the first. tolerance: relative, of amax and scale.
/// Losses and gradient norms are those at the largest x that all have (Comparison::at). A run that failed or diverged
/// does not hold the others back: it counts with its last value up to there.
Comparison compareRuns(RunStore& store, const std::vector<std::string>& ids, const std::string& baseline = "",
                       Axis axis = Axis::Step, double limit = 0.01, double tolerance = 0.1);

/// Where the values stand, in a sentence ("Values at step 160, validation loss at step 150: …"); "" where all runs end
/// at one x and every value is of their end.
std::string comparedAt(const Comparison& comparison);

/// A series on another x axis: x[i] for steps[i] (tokens seen, or seconds since the start without pauses). Same length
/// as series.steps.
std::vector<double> axisValues(RunStore& store, const std::string& id, const Series& series, Axis axis);

}  // namespace mantissa::experiments
