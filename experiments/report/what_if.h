// What another way of scaling would have done to a tensor: a recorded amax series replayed, a captured tensor cast.
// Plain value types for the Diagnosis page, the inspector and `mantissa-run what-if`.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "engine/config.h"
#include "experiments/store/run_store.h"
#include "experiments/tensor_bench.h"

namespace mantissa::experiments {

/// One way to scale and cast a tensor. Words as in the spec.
struct ScalingChoice {
    std::string recipe = "delayed";  ///< delayed, current, fixed, block128, mxfp8, nvfp4, bf16
    std::string format = "e4m3";     ///< e4m3, e5m2; what nvfp4 and bf16 store does not depend on it
    int historyLength = 1024;        ///< delayed, 1 … 65536
    std::string algorithm = "max";   ///< delayed: max, most_recent
    int margin = 0;                  ///< delayed
    bool powerOfTwo = false;         ///< current
    float epsilon = 0;               ///< current
    float scale = 1;                 ///< fixed

    /// "delayed e4m3, history 16, max", "current e5m2, power of two".
    std::string text() const;
    bool operator==(const ScalingChoice&) const = default;
};
/// Empty: usable. Else one sentence naming the field, the value and what is allowed.
std::string problemOf(const ScalingChoice& choice);

/// What was recorded about one tensor, oldest first: the input of a replay.
struct AmaxSeries {
    struct Point {
        int64_t step = 0;
        float amax = 0, scale = 1;                          ///< scale: that of this step's cast
        bool update = true;                                 ///< false: a weight in a step whose optimizer was skipped
        uint64_t elements = 0, underflow = 0, clipped = 0;  ///< counters of this step's cast
        std::vector<uint32_t> exponents;  ///< counts by floor(log2|x|) from firstExponent on; empty: not a probed step
    };
    std::string name;  ///< "h.1/mlp.fc1/input"
    int firstExponent = 0;
    ScalingChoice recorded;     ///< as the run had it at its end
    bool fromStart = true;      ///< the first point is step 1: scale 1, empty window
    std::vector<Point> points;  ///< of a fork: with the parent's steps before it
    /// (first step, setting) of every setting the run had, first to last; a change while running adds one.
    std::vector<std::pair<int64_t, ScalingChoice>> settings;
};
/// tensor: catalogue index. Steps of parents of a fork come first. Throws InvalidConfig: no such tensor.
AmaxSeries amaxSeries(RunStore& store, const std::string& id, int tensor);
/// Catalogue index of "h.1/mlp.fc1/input" or "h.1.mlp.fc1.input"; throws InvalidConfig naming the nearest.
int findTensor(RunStore& store, const std::string& id, const std::string& name);

/// One step of a replay. Shares are of all elements; NaN where they cannot be known.
struct ReplayStep {
    int64_t step = 0;
    float amax = 0;
    float scale = 1;      ///< used by the cast of this step
    bool clips = false;   ///< amax · scale rounds above the largest value: exact
    bool frozen = false;  ///< an Inf in the window holds the scale
    double staleness = std::numeric_limits<double>::quiet_NaN();  ///< amax · scale · 2^margin ÷ M
    /// From the counters where the scale is the recorded one, else from the step's exponents: the threshold cuts one
    /// bin, which is divided log-uniformly. low, high: without that assumption.
    double clipped = std::numeric_limits<double>::quiet_NaN(), clippedLow = clipped, clippedHigh = clipped;
    double underflow = std::numeric_limits<double>::quiet_NaN(), underflowLow = underflow, underflowHigh = underflow;
    bool exact = false;   ///< low == high by knowledge, not by luck
    bool probed = false;  ///< the step has a histogram
};

/// Means and counts over the steps firstStep … lastStep of a replay. Where some of them have histograms, the mean
/// underflow is over those alone, so that it is over the same steps whatever the rule.
struct ReplaySummary {
    int64_t steps = 0, known = 0;  ///< steps; those that the mean underflow is over
    int64_t clippedSteps = 0;      ///< steps in which an element clips: exact
    int64_t frozenSteps = 0;
    double clippedShare = 0;  ///< mean over known steps; 0 where no step clips
    double underflowShare = std::numeric_limits<double>::quiet_NaN();
    double worstStaleness = 0;  ///< finite amaxes only
    bool upperBound = false;    ///< underflow is at most this (block recipes from a histogram)
};

struct Replay {
    ScalingChoice choice;
    std::vector<ReplayStep> steps;
    ReplaySummary total;
};
/// Feeds the recorded amaxes through another rule. Block recipes keep their scale per block, which no amax series
/// holds: clipping is 0 by their rule, underflow at most that of one power-of-two scale for the tensor. bf16: 0, 0.
/// Throws InvalidConfig: problemOf().
Replay replay(const AmaxSeries& series, const ScalingChoice& choice);
/// What the run itself did, from its counters: scales and shares as recorded.
Replay recordedReplay(const AmaxSeries& series);
ReplaySummary summarise(const Replay& replay, int64_t firstStep, int64_t lastStep);

/// The choices worth showing beside the recorded one: other lengths, most_recent, current, the other FP8 format, the
/// block recipes, bf16. The recorded one first.
std::vector<ScalingChoice> usualChoices(const ScalingChoice& recorded);

/// A tensor kept by `capture`: its file in the run's folder.
struct CapturedTensor {
    std::string name, path;  ///< "h.1/mlp.fc1/input"; a safetensors file with one tensor
    int64_t step = 0;
};
std::vector<CapturedTensor> capturedTensors(RunStore& store, const std::string& id);  ///< by step, then name

/// The scaling of a role's tensors that a precision setting asks for (rules are not looked at).
ScalingChoice choiceOf(const engine::PrecisionConfig& precision, const engine::CatalogueEntry& entry);

}  // namespace mantissa::experiments
