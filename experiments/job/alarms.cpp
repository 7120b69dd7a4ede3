#include "experiments/job/alarms.h"

#include <fmt/format.h>

#include <cmath>

#include "experiments/store/derived.h"
#include "experiments/text/number_text.h"

namespace mantissa::experiments {

namespace {

constexpr int kCounterUnderflow = 2, kCounterClipped = 5, kCounterInf = 6, kCounterNan = 7;

std::string percent(double share) {
    return share >= 0.0995 ? fmt::format("{:.0f} %", share * 100) : fmt::format("{:.2g} %", share * 100);
}

}  // namespace

Alarms::Alarms(const engine::PrecisionConfig& precision, std::vector<engine::CatalogueEntry> catalogue,
               const AlarmSpec& limits)
    : precision_(precision), catalogue_(std::move(catalogue)), limits_(limits) {
    for (const auto& entry : catalogue_) {
        Tensor tensor;
        tensor.largest = largestFinite(entry.format);
        tensor.layer = entry.layer;
        tensor.name = engine::tensorName(entry).substr(entry.layer.size() + 1);
        tensors_.push_back(std::move(tensor));
    }
}

/// Counts steps running; returns the severity of an alert that is due now, 0 for none. A stretch ends after `steps`
/// quiet steps.
int Alarms::advance(State& state, bool amber, bool red, int steps) const {
    state.running = amber || red ? state.running + 1 : 0;
    state.runningRed = red ? state.runningRed + 1 : 0;
    state.quiet = amber || red ? 0 : state.quiet + 1;
    if (state.quiet >= kQuietSteps) state.shown = 0;
    const int now = state.runningRed >= steps ? 2 : state.running >= steps ? 1 : 0;
    if (now <= state.shown) return 0;
    state.shown = now;
    return now;
}

int Alarms::advance(int index, AlarmKind kind, double value) {
    if (!alarmApplies(kind, catalogue_[static_cast<size_t>(index)])) return 0;
    const AlarmRule rule = alarmRule(kind, limits_);
    return advance(tensors_[static_cast<size_t>(index)].rules[static_cast<size_t>(kind)], value > rule.amber,
                   value > rule.red, rule.steps);
}

RunEvent Alarms::alert(int index, int64_t step, const char* kind, int severity, std::string text) const {
    RunEvent event;
    event.step = step;
    event.kind = "alert";
    event.alert = kind;
    event.severity = severity;
    event.text = std::move(text);
    event.tensorIndex = index;
    if (index >= 0) {
        event.layer = tensors_[static_cast<size_t>(index)].layer;
        event.tensor = tensors_[static_cast<size_t>(index)].name;
    }
    return event;
}

void Alarms::checkFinite(const engine::StepMetrics& metrics, std::vector<RunEvent>& out) {
    int first = -1;
    if (metrics.numerics)
        for (size_t i = 0; i < metrics.numerics->tensors.size() && first < 0; ++i) {
            const auto& counters = metrics.numerics->tensors[i].counters;
            if (counters[kCounterInf] + counters[kCounterNan] > 0) first = static_cast<int>(i);
        }
    // With FP16 an infinite gradient is how the loss scale finds its value; only the loss itself counts then.
    const bool searching = precision_.mode == engine::PrecisionMode::Fp16 && std::isfinite(metrics.loss);
    const bool bad = (!metrics.finite && !searching) || first >= 0;
    if (bad && !nonFinite_) {
        std::string text = fmt::format("Loss {}, gradient norm {} at step {}.", numberText(metrics.loss),
                                       numberText(metrics.gradientNorm), metrics.step);
        if (first >= 0) {
            const auto& tensor = metrics.numerics->tensors[static_cast<size_t>(first)];
            text = fmt::format("{} {}: {} Inf and {} NaN at step {}, first in order of execution.",
                               tensors_[static_cast<size_t>(first)].layer, tensors_[static_cast<size_t>(first)].name,
                               tensor.counters[kCounterInf], tensor.counters[kCounterNan], metrics.step);
        }
        out.push_back(alert(first, metrics.step, "non_finite", 2, text));
    }
    nonFinite_ = bad;
}

/// A loss far above those before it: in standard deviations of the last ones, and in their own size.
void Alarms::checkLoss(const engine::StepMetrics& metrics, std::vector<RunEvent>& out) {
    if (!std::isfinite(metrics.loss) || limits_.lossJump <= 0) return;
    double mean = 0, squares = 0;
    for (const double loss : losses_) mean += loss / static_cast<double>(losses_.size());
    for (const double loss : losses_) squares += (loss - mean) * (loss - mean);
    const double deviation = losses_.empty() ? 0 : std::sqrt(squares / static_cast<double>(losses_.size()));
    const bool known = static_cast<int>(losses_.size()) >= kLossNeeded;
    const bool jump = known && metrics.loss - mean > limits_.lossJump * deviation &&
                      metrics.loss - mean > kLossShare * std::abs(mean);
    if (const int severity = advance(lossState_, jump, false, 1))
        out.push_back(
            alert(-1, metrics.step, "loss_jump", severity,
                  fmt::format("Loss {:.4g} at step {}: {:.3g} standard deviations above the mean {:.4g} of "
                              "the {} steps before.",
                              metrics.loss, metrics.step, (metrics.loss - mean) / deviation, mean, losses_.size())));
    losses_.push_back(metrics.loss);
    if (static_cast<int>(losses_.size()) > kLossWindow) losses_.pop_front();
}

/// Whether the scale of this step's cast is what the amaxes before it give; also where that cannot be known.
bool Alarms::follows(const Tensor& tensor, const engine::TensorNumerics& numerics) const {
    if (tensor.updates == 0 || tensor.window.empty()) return true;
    const bool fresh = numerics.scale == 1 && tensor.lastScale == 1;
    if (tensor.updates < precision_.historyLength && !fresh) return true;  // older entries may rule
    const float ruling =
        precision_.algorithm == engine::Algorithm::Max ? tensor.window.front().second : tensor.window.back().second;
    if (!std::isfinite(ruling)) return true;
    const double wanted = tensor.largest / static_cast<double>(ruling) / std::ldexp(1.0, precision_.margin);
    return std::abs(std::log2(wanted / static_cast<double>(numerics.scale))) < 0.01;
}

/// An Inf that was not seen in an amax may still sit in the window; then it is the one that holds the scale.
bool Alarms::frozenByInf(int index, const engine::StepMetrics& metrics, std::vector<RunEvent>& out) {
    if (!window) return false;
    const engine::WindowState state = window(index);
    const auto& history = state.history;  // slot 0 open, 1 the oldest, the last one the newest
    size_t newest = history.size();
    for (size_t slot = 1; slot < history.size(); ++slot)
        if (std::isinf(history[slot])) newest = slot;
    if (newest == history.size()) return false;
    Tensor& tensor = tensors_[static_cast<size_t>(index)];
    if (advance(tensor.rules[Frozen], true, false, 1) == 0) return true;
    // No amax of a step was Inf, so it came between two: after the update whose entry it stands in.
    const auto age = static_cast<int64_t>(history.size() - 1 - newest);
    const int64_t entered = std::max<int64_t>(1, metrics.step - age + 1);
    const bool max = precision_.algorithm == engine::Algorithm::Max;
    const int64_t left = max ? static_cast<int64_t>(newest) : 1;
    out.push_back(alert(index, entered, "frozen_scale", 1,
                        fmt::format("{} {}: an Inf that entered the amax window at step {} holds the scale; it leaves "
                                    "in {} update{}.",
                                    tensor.layer, tensor.name, entered, left, left == 1 ? "" : "s")));
    return true;
}

void Alarms::checkDelayed(int index, const engine::TensorNumerics& numerics, const engine::StepMetrics& metrics,
                          std::vector<RunEvent>& out) {
    Tensor& tensor = tensors_[static_cast<size_t>(index)];
    const std::string name = tensor.layer + " " + tensor.name;
    const double inputs[2] = {numerics.amax, numerics.scale};
    const double staleness = derive(Statistic::Staleness, inputs, tensor.largest, precision_.margin);
    const bool known = tensor.updated && std::isfinite(numerics.amax) && numerics.amax > 0;
    if (const int severity = advance(index, AlarmKind::Stale, known ? staleness : 0))
        out.push_back(alert(index, metrics.step, "staleness", severity,
                            fmt::format("{}: amax is {:.3g} × the one that the scale was made from, {} steps running.",
                                        name, staleness, alarmRule(AlarmKind::Stale, limits_).steps)));
    if (const int severity = advance(index, AlarmKind::Wasted, known ? 1 / staleness : 0))
        out.push_back(alert(index, metrics.step, "wasted_range", severity,
                            fmt::format("{}: amax is 1/{:.3g} of the one that the scale was made from, for {} steps.",
                                        name, 1 / staleness, alarmRule(AlarmKind::Wasted, limits_).steps)));
    if (const int severity = advance(tensor.rules[Frozen], std::isinf(numerics.amax), false, 1))
        out.push_back(
            alert(index, metrics.step, "frozen_scale", severity,
                  fmt::format("{}: Inf in the amax window; the scale stays as it is for {} updates.", name,
                              precision_.algorithm == engine::Algorithm::Max ? precision_.historyLength : 1)));
    const bool off = !follows(tensor, numerics) && !frozenByInf(index, metrics, out);
    if (const int severity = advance(tensor.rules[Never], off, off && numerics.scale == 1, kNeverSteps))
        out.push_back(
            alert(index, metrics.step, "never_updated", severity,
                  numerics.scale == 1
                      ? fmt::format("{}: the scale is still 1 after {} updates; the amaxes give another.", name,
                                    tensor.updates)
                      : fmt::format("{}: the scale {:.4g} is not what the amax window gives, {} steps running.", name,
                                    numerics.scale, kNeverSteps)));
    tensor.updated = tensor.updated || (numerics.amax > 0 && std::isfinite(numerics.amax));
    tensor.lastScale = numerics.scale;
    const bool weight = catalogue_[static_cast<size_t>(index)].role == engine::TensorRole::Weight;
    if (numerics.amax == 0 || (weight && !metrics.applied)) return;
    ++tensor.updates;
    while (!tensor.window.empty() &&
           (precision_.algorithm == engine::Algorithm::MostRecent || tensor.window.back().second <= numerics.amax))
        tensor.window.pop_back();
    tensor.window.emplace_back(tensor.updates, numerics.amax);
    while (tensor.window.front().first <= tensor.updates - precision_.historyLength) tensor.window.pop_front();
}

void Alarms::checkTensor(int index, const engine::TensorNumerics& numerics, const engine::StepMetrics& metrics,
                         std::vector<RunEvent>& out) {
    Tensor& tensor = tensors_[static_cast<size_t>(index)];
    const auto& entry = catalogue_[static_cast<size_t>(index)];
    const int64_t step = metrics.step;
    if (numerics.counters[0] == 0 || tensor.largest == 0) return;
    const double elements = static_cast<double>(numerics.counters[0]);
    const std::string name = tensor.layer + " " + tensor.name;

    const double underflow = static_cast<double>(numerics.counters[kCounterUnderflow]) / elements;
    if (const int severity = advance(index, AlarmKind::Underflow, underflow)) {
        const AlarmRule rule = alarmRule(AlarmKind::Underflow, limits_);
        out.push_back(alert(index, step, rule.alert, severity,
                            fmt::format("{}: underflow {}, above {} for {} steps.", name, percent(underflow),
                                        percent(severity == 2 ? rule.red : rule.amber), rule.steps)));
    }
    const double clipped = static_cast<double>(numerics.counters[kCounterClipped]) / elements;
    const AlarmRule clip = alarmRule(AlarmKind::Clipped, limits_);
    if (const int severity = advance(index, AlarmKind::Clipped, step > warmUntil || clipped > clip.red ? clipped : 0))
        out.push_back(alert(index, step, clip.alert, severity,
                            fmt::format("{}: clipped {}, above {} for {} steps.", name, percent(clipped),
                                        percent(severity == 2 ? clip.red : clip.amber), clip.steps)));
    if (entry.recipe == "delayed") checkDelayed(index, numerics, metrics, out);
    if (entry.role == engine::TensorRole::Weight && numerics.dear)
        if (const int severity = advance(tensor.rules[StaleCodes], false, numerics.staleCodes > 0, 1))
            out.push_back(alert(index, step, "stale_weight", severity,
                                fmt::format("{}: {} of the FP8 codes are not those of the present weights.", name,
                                            percent(static_cast<double>(numerics.staleCodes) / elements))));
    if (numerics.dear && std::isfinite(numerics.kurtosis)) {
        if (tensor.kurtosis == 0 && step >= kKurtosisReference) tensor.kurtosis = numerics.kurtosis;
        const double growth = tensor.kurtosis > 0 ? numerics.kurtosis / tensor.kurtosis : 0;
        if (const int severity = advance(index, AlarmKind::Kurtosis, growth))
            out.push_back(
                alert(index, step, "kurtosis", severity,
                      fmt::format("{}: kurtosis {:.3g}, was {:.3g}.", name, numerics.kurtosis, tensor.kurtosis)));
    }
}

std::vector<RunEvent> Alarms::check(const engine::StepMetrics& metrics) {
    std::vector<RunEvent> out;
    checkFinite(metrics, out);
    checkLoss(metrics, out);
    if (metrics.numerics)
        for (size_t i = 0; i < metrics.numerics->tensors.size() && i < tensors_.size(); ++i)
            checkTensor(static_cast<int>(i), metrics.numerics->tensors[i], metrics, out);
    return out;
}

}  // namespace mantissa::experiments
