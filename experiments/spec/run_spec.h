// The run spec: one JSON document that says what a training run is. Read, checked, changed by path, written back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config.h"
#include "engine/data/token_source.h"

namespace mantissa::experiments {

/// One field that cannot be used. path: "optimizer.learning_rate", "precision.rules[1].match"; message: a sentence with
/// the value; allowed: the allowed values or the range in words ("0 … 1", "fp32", "bf16"), never empty for a field of
/// the spec.
struct SpecError {
    std::string path, message;
    std::vector<std::string> allowed;
};

struct CheckpointSpec {
    int64_t every = 0;  ///< steps; 0: only the one at the end
    int keep = 2;       ///< newest N are kept (the final one counts); 0: all
};

/// When single products are moved between FP8 recipes and BF16 while a run goes (experiments/job/auto_precision.h).
struct AutoPrecisionSpec {
    bool enabled = false;
    std::vector<std::string> ladder = {"current", "bf16"};  ///< tried in this order after the run's own recipe
    double underflow = 0.02;  ///< share of a tensor's elements above which its products move
    double clipped = 0.001;   ///< likewise
    double staleness = 16;    ///< amax ÷ amax that the scale was made from
    double shadowDb = 15;     ///< output SQNR of a product below which it moves; 0: not looked at
    int patience = 8;         ///< steps running (shadow: measurements) before a move
    int hold = 200;           ///< good steps before one rung back is tried; doubles each time that fails
    bool operator==(const AutoPrecisionSpec&) const = default;
};

/// Limits of the alerts; why they have these defaults stands in experiments/job/alarm_rules.h.
struct AlarmSpec {
    double underflow = 0.01;  ///< share of a grad_output's elements, amber; five times it is red
    int underflowSteps = 16;  ///< steps running
    double clipped = 1e-4;    ///< share of the elements, amber; ten times it is red
    int clippedSteps = 3;     ///< steps running
    double staleness = 2;     ///< amax ÷ amax that the scale was made from, amber; eight times it is red
    double lossJump = 6;      ///< standard deviations above the mean of the last 64 losses; 0: never
    bool operator==(const AlarmSpec&) const = default;
};

/// A run spec as values. `trainer` and `data` are what the engine takes; both are complete (data.vocabulary is filled
/// from the model).
struct RunSpec {
    static constexpr int kVersion = 1;
    std::string preset = "nano";  ///< the preset it came from, also after changes; "" for a spec from nowhere
    engine::TrainerConfig trainer;
    engine::DataConfig data;
    CheckpointSpec checkpoint;
    int64_t evalEvery = 50;  ///< steps; 0: never (the evaluation at the end stays)
    AutoPrecisionSpec autoPrecision;
    AlarmSpec alarms;
    /// Share of the run's time that audits may take: training state hashed before and after an evaluation, a checkpoint,
    /// a capture, a change of probes. 0: none, 1: every one.
    double auditShare = 0.01;

    /// The whole document, every field present, keys in a fixed order. indent < 0: one line.
    std::string toJson(int indent = 2) const;
    /// "gpt2-124m", "nano", or "d128 L4" for a model of no preset: the group of the run list.
    std::string modelName() const;
    /// "fp8 delayed", "fp8 current", "fp8 fixed 1", "bf16", "fp32" …: the recipe column.
    std::string recipeName() const;
    /// Name for a run when the user gives none: "nano-fp8-delayed-s1".
    std::string defaultName() const;
};

struct ParsedSpec {
    RunSpec spec;  ///< usable only when `errors` is empty
    std::vector<SpecError> errors;
    bool ok() const { return errors.empty(); }
};

/// Fields that are missing take the values of the preset named by "preset" (default nano). Every unknown field is an
/// error that names the nearest allowed one. Never throws.
ParsedSpec parseSpec(const std::string& json);
/// Reads a file; a file that cannot be read is one error with path "".
ParsedSpec readSpecFile(const std::string& path);
/// All rules between fields (width divisible by heads, head width 32, 64 or 128, rules that match a linear, …). Empty:
/// good.
std::vector<SpecError> validate(const RunSpec& spec);
/// Sets one field. path: "optimizer.learning_rate"; value: JSON, or a bare word for a string ("bf16"). Several values
/// set together are validated together only if the caller does so: setPath checks the field's own type and range.
/// Returns the errors (empty: set).
std::vector<SpecError> setPath(RunSpec& spec, const std::string& path, const std::string& value);
/// The value at a path as JSON text; "" for an unknown path.
std::string getPath(const RunSpec& spec, const std::string& path);
/// All paths of the spec in document order, for completion and for forms.
std::vector<std::string> specPaths();
/// What a path takes, in words: {"fp32", "tf32", …} or {"above 0 to 10"}.
std::vector<std::string> allowedValues(const std::string& path);

/// Paths whose values differ, with both values as JSON text. Order of the document.
struct SpecDifference {
    std::string path, left, right;
};
std::vector<SpecDifference> differences(const RunSpec& left, const RunSpec& right);

struct PresetInfo {
    std::string name;     ///< "nano", "nano-bf16", …
    std::string summary;  ///< "0.8 M parameters, 96 characters, learns in a minute"
    int64_t parameters = 0;
    bool isBase = false;  ///< without a precision suffix; the launch dialog lists these
};
/// All presets of this version, bases in order of size, each followed by its precisions.
std::vector<PresetInfo> presets();
/// Throws InvalidConfig with the nearest names when there is no such preset.
RunSpec presetSpec(const std::string& name);

}  // namespace mantissa::experiments
