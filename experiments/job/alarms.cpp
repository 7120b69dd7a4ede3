#include "experiments/job/alarms.h"

#include <fmt/format.h>

#include <cmath>

#include "experiments/store/derived.h"
#include "experiments/text/number_text.h"

namespace mantissa::experiments {

namespace {

constexpr int kCounterUnderflow = 2, kCounterClipped = 5, kCounterInf = 6, kCounterNan = 7;

std::string percent(double share) {
    return fmt::format("{:.2g} %", share * 100);
}

}  // namespace

Alarms::Alarms(const engine::PrecisionConfig& precision, std::vector<engine::CatalogueEntry> catalogue)
    : precision_(precision), catalogue_(std::move(catalogue)) {
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

void Alarms::checkTensor(int index, const engine::TensorNumerics& numerics, int64_t step, std::vector<RunEvent>& out) {
    Tensor& tensor = tensors_[static_cast<size_t>(index)];
    const auto& entry = catalogue_[static_cast<size_t>(index)];
    if (numerics.counters[0] == 0 || tensor.largest == 0) return;
    const double elements = static_cast<double>(numerics.counters[0]);
    const std::string name = tensor.layer + " " + tensor.name;

    const double underflow = static_cast<double>(numerics.counters[kCounterUnderflow]) / elements;
    const bool gradient = entry.role == engine::TensorRole::GradOutput;
    if (const int severity = advance(tensor.rules[Underflow], gradient && underflow > kUnderflowAmber,
                                     gradient && underflow > kUnderflowRed, kUnderflowSteps))
        out.push_back(alert(index, step, "underflow", severity,
                            fmt::format("{}: underflow {}, above {} for {} steps.", name, percent(underflow),
                                        severity == 2 ? "5 %" : "0.1 %", kUnderflowSteps)));

    const double clipped = static_cast<double>(numerics.counters[kCounterClipped]) / elements;
    if (const int severity = advance(tensor.rules[Clipped], clipped > 0, clipped > kClippedRed, kClippedSteps))
        out.push_back(alert(
            index, step, "clipped", severity,
            fmt::format("{}: {} of the elements clipped, {} steps running.", name, percent(clipped), kClippedSteps)));

    if (entry.recipe == "delayed") {
        const double inputs[2] = {numerics.amax, numerics.scale};
        const double staleness = derive(Statistic::Staleness, inputs, tensor.largest, precision_.margin);
        const bool known = tensor.updated && std::isfinite(numerics.amax) && numerics.amax > 0;
        if (const int severity = advance(tensor.rules[Stale], known && staleness > kStaleAmber,
                                         known && staleness > kStaleRed, kStaleSteps))
            out.push_back(
                alert(index, step, "staleness", severity,
                      fmt::format("{}: amax is {:.3g} × the one that the scale was made from, {} steps running.", name,
                                  staleness, kStaleSteps)));
        if (const int severity = advance(tensor.rules[Wasted], known && staleness < kWastedAmber, false, kWastedSteps))
            out.push_back(
                alert(index, step, "wasted_range", severity,
                      fmt::format("{}: amax is 1/{:.3g} of the one that the scale was made from, for {} steps.", name,
                                  1 / staleness, kWastedSteps)));
        if (const int severity = advance(tensor.rules[Frozen], std::isinf(numerics.amax), false, 1))
            out.push_back(
                alert(index, step, "frozen_scale", severity,
                      fmt::format("{}: Inf in the amax window; the scale stays as it is for {} updates.", name,
                                  precision_.algorithm == engine::Algorithm::Max ? precision_.historyLength : 1)));
        tensor.updated = tensor.updated || (numerics.amax > 0 && std::isfinite(numerics.amax));
    }
    if (numerics.dear && std::isfinite(numerics.kurtosis)) {
        if (tensor.kurtosis == 0 && step >= kKurtosisReference) tensor.kurtosis = numerics.kurtosis;
        const bool high = tensor.kurtosis > 0 && numerics.kurtosis > kKurtosisFactor * tensor.kurtosis;
        if (const int severity = advance(tensor.rules[Kurtosis], high, false, 1))
            out.push_back(
                alert(index, step, "kurtosis", severity,
                      fmt::format("{}: kurtosis {:.3g}, was {:.3g}.", name, numerics.kurtosis, tensor.kurtosis)));
    }
}

std::vector<RunEvent> Alarms::check(const engine::StepMetrics& metrics) {
    std::vector<RunEvent> out;
    checkFinite(metrics, out);
    if (metrics.numerics)
        for (size_t i = 0; i < metrics.numerics->tensors.size() && i < tensors_.size(); ++i)
            checkTensor(static_cast<int>(i), metrics.numerics->tensors[i], metrics.step, out);
    return out;
}

}  // namespace mantissa::experiments
