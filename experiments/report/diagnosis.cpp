#include "experiments/report/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/plan/precision_plan.h"
#include "experiments/report/diagnosis_parts.h"

namespace mantissa::experiments {

namespace diagnosis {

std::string placeOf(const engine::CatalogueEntry& entry) {
    return fmt::format("{} {} {}", entry.layer, entry.linear.empty() ? "head" : entry.linear,
                       engine::roleName(entry.role));
}

std::string percentText(double share) {
    if (std::isnan(share)) return "not known";
    if (share >= 0.0995) return fmt::format("{:.0f} %", share * 100);  // not "1e+02 %"
    return share == 0 ? "0" : fmt::format("{:.2g} %", share * 100);
}

float Reading::value(Statistic statistic, int tensor, size_t i) const {
    const auto found = ranges.find(statistic);
    if (found == ranges.end() || i >= steps.size()) return std::nanf("");
    const NumericsRange& range = found->second;
    // A statistic may lack steps that another has; both lists ascend.
    size_t at = i;
    if (at >= range.steps.size() || range.steps[at] != steps[i]) {
        const auto place = std::lower_bound(range.steps.begin(), range.steps.end(), steps[i]);
        if (place == range.steps.end() || *place != steps[i]) return std::nanf("");
        at = static_cast<size_t>(place - range.steps.begin());
    }
    const size_t cell = static_cast<size_t>(tensor) * range.steps.size() + at;
    return range.present[cell] ? range.values[cell] : std::nanf("");
}

const Setting& Reading::at(int64_t step) const {
    const Setting* found = &settings.front();
    for (const auto& setting : settings)
        if (setting.firstStep <= step) found = &setting;
    return *found;
}

bool Reading::isFresh(int tensor, size_t i) const {
    const Setting& setting = at(steps[i]);
    return setting.firstStep == steps[i] && setting.catalogue[static_cast<size_t>(tensor)].recipe == "delayed" &&
           value(Statistic::Scale, tensor, i) == 1;
}

Reading readRun(RunStore& store, const std::string& id) {
    Reading reading;
    reading.run = store.find(id);
    const std::string run = reading.run.id;
    reading.document = store.document(run);
    for (const auto& [first, text] : reading.document.specs) {
        ParsedSpec parsed = parseSpec(text);
        if (!parsed.ok()) continue;
        auto plan = engine::makePrecisionPlan(parsed.spec.trainer.model, parsed.spec.trainer.precision);
        reading.settings.push_back({first, std::move(parsed.spec), plan.catalogue(1)});
    }
    if (reading.settings.empty()) reading.settings.push_back({1, RunSpec{}, reading.document.catalogue});
    reading.events = store.events(run);
    reading.checkpoints = store.checkpoints(run);
    reading.loss = store.series(run, "loss");
    reading.applied = store.series(run, "applied");
    for (const Statistic statistic : {Statistic::Amax, Statistic::Scale, Statistic::UnderflowShare,
                                      Statistic::ClippedShare, Statistic::Inf, Statistic::Nan})
        reading.ranges[statistic] = store.numerics(run, statistic, 1, -1);
    reading.steps = reading.ranges[Statistic::Amax].steps;
    reading.kurtosis = store.numerics(run, Statistic::Kurtosis, 1, -1);
    reading.stale = store.staleWeights(run, 1, -1);
    reading.ops = store.opChecks(run, 1, -1);
    return reading;
}

double underflowLimit(const Reading& reading, int tensor) {
    const bool gradient = reading.entry(tensor).role == engine::TensorRole::GradOutput;
    return gradient ? reading.settings.back().spec.alarms.underflow : kUnderflowLimit;
}

double meanShare(const Reading& reading, Statistic statistic, int tensor, int64_t first, int64_t last) {
    double sum = 0;
    int64_t count = 0;
    for (size_t i = 0; i < reading.steps.size(); ++i) {
        if (reading.steps[i] < first || reading.steps[i] > last || reading.isFresh(tensor, i)) continue;
        const float value = reading.value(statistic, tensor, i);
        if (!std::isnan(value)) sum += static_cast<double>(value), ++count;
    }
    return count > 0 ? sum / static_cast<double>(count) : std::nan("");
}

double meanLoss(const Series& loss, int64_t first, int64_t last) {
    double sum = 0;
    int64_t count = 0;
    for (size_t i = 0; i < loss.steps.size(); ++i)
        if (loss.steps[i] >= first && loss.steps[i] <= last && std::isfinite(loss.values[i]))
            sum += loss.values[i], ++count;
    return count > 0 ? sum / static_cast<double>(count) : std::nan("");
}

Finding findingAt(const Reading& reading, const char* kind, int severity, int tensor, int64_t firstStep) {
    Finding finding;
    finding.kind = kind;
    finding.severity = severity;
    finding.tensorIndex = tensor;
    finding.firstStep = finding.lastStep = firstStep;
    if (tensor >= 0) {
        const auto& entry = reading.entry(tensor);
        finding.layer = entry.layer;
        finding.linear = entry.linear;
        finding.tensor = engine::roleName(entry.role);
    }
    return finding;
}

}  // namespace diagnosis

std::string Finding::place() const {
    if (layer.empty()) return "the run";
    return layer + " " + (linear.empty() ? "head" : linear) + (tensor.empty() ? "" : " " + tensor);
}

Diagnosis diagnose(RunStore& store, const std::string& id) {
    const diagnosis::Reading reading = diagnosis::readRun(store, id);
    Diagnosis result;
    result.run = reading.run.id;
    result.steps = reading.lastStep();
    result.findings = diagnosis::findTroubles(reading);
    for (Finding& finding : result.findings) {
        finding.ongoing = finding.lastStep >= result.steps - 1;
        diagnosis::proposeChanges(store, reading, finding);
        diagnosis::findApplied(store, reading, finding);
    }
    if (result.steps == 0)
        result.summary = "No step has been recorded yet.";
    else if (result.findings.empty())
        result.summary = fmt::format("Nothing stands out in {} steps.", result.steps);
    else
        result.summary = result.findings.front().what;
    return result;
}

}  // namespace mantissa::experiments
