// Values that go in and out of the run store. Plain, immutable once handed out.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/data/token_source.h"
#include "engine/numerics.h"

namespace mantissa::experiments {

enum class RunStatus : uint8_t { Queued, Running, Paused, Finished, Stopped, Interrupted, Failed, Diverged, Refused };
const char* statusName(RunStatus status);  ///< "queued", …
std::optional<RunStatus> statusFromName(const std::string& name);
/// Running, paused: a process should be behind it.
inline bool isActive(RunStatus status) {
    return status == RunStatus::Running || status == RunStatus::Paused;
}

/// One row of the run list; read from small tables only. Losses are NaN both for "NaN" and "not yet": `hasLoss` tells
/// which.
struct RunSummary {
    std::string id;  ///< ULID
    std::string name;
    RunStatus status = RunStatus::Queued;
    std::string statusText;  ///< reason of failed, diverged, refused; "" otherwise
    int64_t step = 0, steps = 0;
    bool hasLoss = false, hasValidation = false;
    double loss = std::numeric_limits<double>::quiet_NaN();
    double lastFiniteLoss = std::numeric_limits<double>::quiet_NaN();
    double validationLoss = std::numeric_limits<double>::quiet_NaN();
    double lastFiniteValidation = std::numeric_limits<double>::quiet_NaN();
    int64_t validationStep = 0;
    double tokensPerSecond = 0;  ///< median of the last steps, in the end of all; 0: not yet
    int64_t tokens = 0;
    std::string device, deviceName;     ///< "cpu", "Intel(R) Xeon(R) …"
    std::string model, recipe, preset;  ///< group of the list, recipe column
    uint64_t seed = 0;
    int64_t createdMs = 0, startedMs = 0, endedMs = 0;  ///< Unix time in ms; 0: not yet
    double seconds = 0;                                 ///< training time so far, pauses left out
    uint64_t planBytes = 0, peakBytes = 0;              ///< forecast; measured (0: not measured)
    std::vector<std::string> tags;
    std::string note;
    int colour = 0;  ///< index of the run's colour, dash and marker, 0-based, kept for ever
    bool baseline = false;
    int alerts = 0;      ///< number of alerts
    int worstAlert = 0;  ///< 0 none, 1 amber, 2 red
    std::string parent;  ///< ULID of the run it was forked from
    int64_t parentStep = 0;
    int segments = 1;  ///< 1 + number of resumes
};

/// Something that happened. Newest last. command: applied; refused: a command that could not be; auto: a decision of
/// automatic precision with its evidence; capture: a tensor was kept.
struct RunEvent {
    int64_t id = 0;  ///< grows within a store
    int64_t step = 0, timeMs = 0;
    std::string kind;  ///< "started", "resumed", "command", "refused", "auto", "capture", "checkpoint", "alert",
                       ///< "notice", "ended"
    std::string text;  ///< a sentence
    // Only for kind "alert":
    std::string alert;          ///< "non_finite", "loss_jump", "underflow", "clipped", "staleness", "frozen_scale",
                                ///< "never_updated", "stale_weight", "fp8_state_missing", "disk_full", "audit", …
    int severity = 0;           ///< 1 amber, 2 red
    std::string layer, tensor;  ///< "h.3", "mlp.fc1/input"; "" when of the whole run
    int tensorIndex = -1;       ///< in the catalogue
};

struct CheckpointRow {
    int64_t step = 0, timeMs = 0;
    std::string path;  ///< absolute folder
    uint64_t bytes = 0;
    bool onDisk = true;  ///< false: removed by checkpoint.keep
};

/// What belongs to a run besides its series.
struct RunDocument {
    std::string specJson;
    std::string determinismClass, isa;
    int threads = 0;
    int64_t parameters = 0;
    std::map<std::string, uint64_t>
        planBytes;  ///< by category: weights, gradients, moments, activations, workspace, host
    std::string planNote;
    std::string dataDescription;         ///< "KJV Bible, 4.30 M characters, …"
    std::optional<double> entropyFloor;  ///< nats/token, generated text only
    std::optional<engine::CorpusIdentity>
        corpus;  ///< of the tokens; nothing: made on demand, or an older version's run
    double flopsPerToken = 0;
    std::vector<engine::CatalogueEntry> catalogue;
    std::vector<engine::EffectivePrecision> precision;  ///< read back from what ran; empty before the first step
    int notBitIdenticalFrom = 0;                        ///< step of a resume on another class; 0: never
    /// (first step, spec) of every spec that was in force, oldest first; a change while running adds one. specJson is
    /// the last of them.
    std::vector<std::pair<int64_t, std::string>> specs;
    std::string trouble;  ///< JSON of the first trouble (experiments/job/first_trouble.h); "" when there was none
};

/// One metric over steps. The newest segment rules; what an older segment logged past the resume is in `tails`.
struct Series {
    struct Tail {
        int segment = 0;
        std::vector<int64_t> steps;
        std::vector<double> values;
    };
    std::vector<int64_t> steps;    ///< ascending, each once
    std::vector<double> values;    ///< NaN and Inf as recorded
    std::vector<Tail> tails;       ///< superseded ends, drawn dimmed
    std::vector<int64_t> resumes;  ///< steps at which a later segment begins
};

/// min, max and best skip non-finite values; last is the very last, NaN included.
struct MetricSummary {
    double last = 0, min = 0, max = 0, best = 0, lastFinite = 0;
    int64_t lastStep = 0, count = 0, nonFinite = 0;
};

/// Statistics of a tensor. Counters are exact; the rest float32. Names as in exports.
enum class Statistic : uint8_t {
    Amax,
    Scale,
    Elements,
    Zeros,
    Underflow,
    Subnormal,
    OverRange,
    Clipped,
    Inf,
    Nan,  // stored, every step
    MinNonZero,
    Mse,
    SqnrDb,
    Kurtosis,  // stored, probed steps
    ZerosShare,
    UnderflowShare,
    SubnormalShare,
    OverRangeShare,
    ClippedShare,
    InfShare,
    NanShare,  // derived: ÷ elements
    ScaleInv,
    Staleness,
    UnusedRange,
    DynamicRange,
    Count  // derived from amax, scale, format, smallest non-zero
};
const char* statisticName(Statistic statistic);  ///< "amax", "underflow", "underflow_share", "sqnr_db", …
std::optional<Statistic> statisticFromName(const std::string& name);
/// "numerics/h.3/mlp.fc1/input/amax"; the linear of lm_head is "head".
std::string numericsName(const engine::CatalogueEntry& entry, Statistic statistic);

/// One statistic of all tensors over a range of steps. values[tensor * steps.size() + i]; present 0: not recorded in
/// that step.
struct NumericsRange {
    std::vector<int64_t> steps;
    int tensors = 0;
    std::vector<float> values;
    std::vector<uint8_t> present;
};

/// The same, reduced to `columns` equal ranges of steps. A cell is the worst value of its steps (max, or min for
/// sqnr_db, scale: the last). nonFinite: an Inf or NaN element was counted in one of its steps. steps: how many steps
/// of the cell were recorded.
struct Heatmap {
    int64_t firstStep = 1, lastStep = 0;
    int tensors = 0, columns = 0;
    std::vector<float> values;  ///< [tensor * columns + column], NaN where nothing was recorded
    std::vector<uint8_t> nonFinite;
    std::vector<uint32_t> steps;
};

/// What set the scale of a tensor: the amaxes of the last `history` updates up to and with the one of `step`, by the
/// delayed rule, made from the recorded amaxes. (In the engine's own window the oldest of them has just rolled out and
/// slot 0 is open again.)
struct AmaxWindow {
    std::vector<float> entries;  ///< oldest … newest, at most `history` long; empty unless the recipe is delayed
    std::vector<int64_t> steps;  ///< the step each entry came from
    int history = 0;             ///< length of the window
    int ruling = -1;        ///< index of the entry that gives scaleNext; −1: none (fresh, frozen, or not delayed)
    int64_t leavesIn = 0;   ///< updates until the ruling entry drops out
    float scaleUsed = 1;    ///< by the cast of this step
    float scaleNext = 1;    ///< after this step's update
    int64_t age = 0;        ///< updates since the scale last changed; 0: this step's update changed it
    int64_t frozenFor = 0;  ///< > 0: an Inf in the window holds the scale for so many updates
    bool everUpdated = false;
};

/// One product done again in higher precision: how far the output is off.
struct ShadowRow {
    int64_t step = 0;
    std::string layer, linear, gemm;  ///< "h.3", "mlp.fc1" ("" for lm_head), fprop, dgrad, wgrad
    float sqnrDb = 0;                 ///< 10 log10(Σ exact² ÷ Σ error²) of the output
    float relativeError = 0;          ///< √(Σ error² ÷ Σ exact²)
};

/// Non-finite values in what one op wrote in one step.
struct OpRow {
    int64_t step = 0;
    engine::OpCheck check;
};

/// Codes in use of one weight that were not made from its present values.
struct StaleRow {
    int64_t step = 0;
    int tensorIndex = -1;  ///< in the catalogue
    uint64_t codes = 0;
};

/// Exponent histogram of one tensor: counts[i] of non-zero finite values with floor(log2|x|) == firstExponent + i.
struct Exponents {
    int64_t step = 0;
    int firstExponent = 0;
    std::vector<uint32_t> counts;
};

}  // namespace mantissa::experiments
