// The detectors of the diagnosis. Each reads the recorded series; none knows of planted faults.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "experiments/report/diagnosis_parts.h"
#include "experiments/store/derived.h"
#include "experiments/text/number_text.h"

namespace mantissa::experiments::diagnosis {

namespace {

constexpr int kOutlierSteps = 16, kOutlierPersists = 3;
constexpr double kOutlierFactor = 16;
constexpr int kMismatchSteps = 4, kClippedSteps = 3, kUnderflowSteps = 16;
constexpr int64_t kExplainsWithin = 64;  ///< steps after a cause in which its effects begin
constexpr int kLossWindow = 64, kLossNeeded = 32;

void addEvidence(Finding& finding, const Reading& reading, int tensor, Statistic statistic, int64_t step, double value,
                 std::string text) {
    finding.evidence.push_back({std::move(text), reading.series(tensor, statistic), step, value});
}

bool isApplied(const Reading& reading, int64_t step) {
    const auto& applied = reading.applied;
    const auto at = std::lower_bound(applied.steps.begin(), applied.steps.end(), step);
    return at == applied.steps.end() || *at != step ||
           applied.values[static_cast<size_t>(at - applied.steps.begin())] != 0;
}

// NaN and Inf
// -----------------------------------------------------------------------------------------------------------

struct NonFinite {
    int64_t first = -1, last = -1;
    int tensor = -1;  ///< first in order of execution at the first step; −1: no FP8 cast saw it
    double nan = 0, inf = 0;
};

NonFinite scanNonFinite(const Reading& reading) {
    NonFinite found;
    for (size_t i = 0; i < reading.steps.size(); ++i)
        for (int tensor = 0; tensor < reading.tensors(); ++tensor) {
            const float nan = reading.value(Statistic::Nan, tensor, i), inf = reading.value(Statistic::Inf, tensor, i);
            if (!(nan > 0) && !(inf > 0)) continue;
            found.last = reading.steps[i];
            if (found.first >= 0) continue;
            found.first = reading.steps[i];
            found.tensor = tensor;
            found.nan = nan;
            found.inf = inf;
        }
    for (size_t i = 0; i < reading.loss.steps.size(); ++i) {
        if (std::isfinite(reading.loss.values[i])) continue;
        found.last = std::max(found.last, reading.loss.steps[i]);
        if (found.first < 0 || reading.loss.steps[i] < found.first) {
            found.first = reading.loss.steps[i];
            found.tensor = -1;
        }
    }
    return found;
}

/// Place of a name as the engine writes it: "h.2.mlp.fc1/weight".
void setPlace(const Reading& reading, const std::string& name, Finding& finding) {
    const size_t slash = name.rfind('/');
    if (slash == std::string::npos) return;
    finding.tensor = name.substr(slash + 1);
    const std::string linear = name.substr(0, slash);
    finding.tensorIndex = -1;
    for (int i = 0; i < reading.tensors(); ++i) {
        const auto& entry = reading.entry(i);
        if ((entry.linear.empty() ? entry.layer : entry.layer + "." + entry.linear) != linear) continue;
        finding.layer = entry.layer;
        finding.linear = entry.linear;
        if (finding.tensor == engine::roleName(entry.role)) finding.tensorIndex = i;
    }
    if (finding.layer.empty()) finding.layer = linear;
}

void findNonFinite(const Reading& reading, std::vector<Finding>& out) {
    const NonFinite seen = scanNonFinite(reading);
    const auto trouble = nlohmann::json::parse(reading.document.trouble, nullptr, false);
    const bool report = trouble.is_object();
    if (seen.first < 0 && !report) return;
    const int64_t first = report ? trouble.value("step", seen.first) : seen.first;
    Finding finding = findingAt(reading, "non_finite", 2, seen.tensor, first);
    finding.lastStep = std::max(first, seen.last);
    std::string where = seen.tensor >= 0 ? placeOf(reading.entry(seen.tensor)) : "the loss";
    if (report) {
        setPlace(reading, trouble.value("tensor", ""), finding);
        where = finding.layer.empty() ? trouble.value("place", where) : finding.place();
        finding.what = trouble.value("text", "");
        finding.evidence.push_back(
            {fmt::format("first non-finite value: {} {}, row {}, column {}", where, trouble.value("value", ""),
                         trouble.value("row", int64_t{-1}), trouble.value("col", int64_t{-1})),
             "loss", first, std::nan("")});
    }
    if (finding.what.empty())
        finding.what = fmt::format("{}: {} NaN and {} Inf at step {}, first in order of execution.", where, seen.nan,
                                   seen.inf, first);
    if (seen.tensor >= 0 && seen.first == first)
        addEvidence(finding, reading, seen.tensor, seen.nan > 0 ? Statistic::Nan : Statistic::Inf, seen.first,
                    seen.nan > 0 ? seen.nan : seen.inf,
                    fmt::format("{}: {} NaN, {} Inf at step {}", placeOf(reading.entry(seen.tensor)), seen.nan,
                                seen.inf, seen.first));
    const int64_t bad = finding.lastStep - first + 1;
    const bool stays = finding.lastStep >= reading.lastStep() && bad > 1;
    if (finding.tensor == "weight")
        finding.cause = fmt::format(
            "A weight itself is not finite, so every step from {} on is spoilt and skipping the optimizer does not "
            "bring it back: the memory was damaged, or an update wrote it.",
            first);
    else if (stays)
        finding.cause =
            fmt::format("{} steps since are not finite: the weights or the optimizer's state are spoilt.", bad);
    else
        finding.cause = "A single value overflowed; the step was left out and training went on.";
    if (!stays && finding.tensor != "weight") finding.severity = 1;
    out.push_back(std::move(finding));
}

// Scales that do not follow their window
// --------------------------------------------------------------------------------

void findFrozen(const Reading& reading, std::vector<Finding>& out) {
    std::set<int> seen;
    for (const auto& event : reading.events) {
        if (event.alert != "frozen_scale" || event.tensorIndex < 0 || event.tensorIndex >= reading.tensors()) continue;
        if (!seen.insert(event.tensorIndex).second) continue;
        const auto& precision = reading.at(event.step).spec.trainer.precision;
        Finding finding = findingAt(reading, "frozen_scale", 2, event.tensorIndex, event.step);
        const int length = precision.algorithm == engine::Algorithm::Max ? precision.historyLength : 1;
        finding.lastStep = std::min(reading.lastStep(), event.step + length);
        for (const auto& setting : reading.settings)  // another rule ended it
            if (setting.firstStep > event.step && setting.firstStep <= finding.lastStep &&
                (setting.catalogue[static_cast<size_t>(event.tensorIndex)].recipe != "delayed" ||
                 setting.spec.trainer.precision.algorithm != precision.algorithm))
                finding.lastStep = setting.firstStep - 1;
        finding.what = fmt::format(
            "{}: an Inf entered the amax window at step {}; the scale stays as it is for {} "
            "updates.",
            finding.place(), event.step, length);
        finding.cause =
            "The delayed rule keeps the old scale while the largest entry of the window is not finite, "
            "and it is the largest until it leaves.";
        finding.evidence.push_back(
            {event.text, reading.series(event.tensorIndex, Statistic::Scale), event.step, std::nan("")});
        out.push_back(std::move(finding));
    }
}

/// The delayed rule run beside the recorded scales of one tensor.
struct Mismatch {
    int64_t first = -1, last = -1;
    float scale = 1;    ///< in force then
    double wanted = 1;  ///< what the window gives
    bool fromStart = false;
};

Mismatch scanScale(const Reading& reading, int tensor) {
    Mismatch found;
    std::deque<std::pair<int64_t, float>> window;
    int64_t updates = 0, running = 0, begin = -1, lastChange = 1;
    const Setting* setting = nullptr;
    bool known = reading.run.parent.empty();
    float before = std::nanf("");
    for (size_t i = 0; i < reading.steps.size(); ++i) {
        const int64_t step = reading.steps[i];
        const float amax = reading.value(Statistic::Amax, tensor, i),
                    scale = reading.value(Statistic::Scale, tensor, i);
        const Setting& now = reading.at(step);
        const auto& entry = now.catalogue[static_cast<size_t>(tensor)];
        if (&now != setting) {
            const bool same = setting != nullptr && entry.recipe == "delayed" &&
                              setting->catalogue[static_cast<size_t>(tensor)].recipe == "delayed" &&
                              setting->catalogue[static_cast<size_t>(tensor)].format == entry.format;
            if (setting != nullptr) known = !same;  // a kept window may have been cut; a fresh one is known
            if (!same) window.clear(), updates = 0;
            running = 0;
            setting = &now;
        }
        if (entry.recipe != "delayed" || std::isnan(scale)) continue;
        const auto& precision = now.spec.trainer.precision;
        const bool recent = precision.algorithm == engine::Algorithm::MostRecent;
        if (scale != before) lastChange = step;
        before = scale;
        if (!window.empty() && (known || updates >= precision.historyLength)) {
            const float ruling = recent ? window.back().second : window.front().second;
            const double wanted =
                largestFinite(entry.format) / static_cast<double>(ruling) / std::ldexp(1.0, precision.margin);
            const bool off = std::isfinite(ruling) && std::abs(std::log2(wanted / static_cast<double>(scale))) > 0.01;
            if (off && running++ == 0) begin = step;
            if (!off) running = 0;
            if (off && running >= kMismatchSteps) {
                if (found.first < 0) {
                    found.first = begin;
                    found.scale = scale;
                    found.fromStart = scale == 1 && lastChange <= 1;
                }
                found.last = step;
                found.wanted = wanted;
            }
        }
        if (!(amax > 0)) continue;
        if (reading.entry(tensor).role == engine::TensorRole::Weight && !isApplied(reading, step)) continue;
        ++updates;
        while (!window.empty() && (recent || window.back().second <= amax)) window.pop_back();
        window.emplace_back(updates, amax);
        while (window.front().first <= updates - precision.historyLength) window.pop_front();
    }
    return found;
}

void findStuck(const Reading& reading, std::vector<Finding>& out) {
    for (int tensor = 0; tensor < reading.tensors(); ++tensor) {
        const Mismatch seen = scanScale(reading, tensor);
        const bool explained = std::any_of(out.begin(), out.end(), [&](const Finding& one) {
            return one.kind == "frozen_scale" && one.tensorIndex == tensor;
        });
        if (seen.first < 0 || explained) continue;
        const int64_t first = seen.fromStart ? 1 : seen.first - 1;  // the update that ended the step before
        Finding finding = findingAt(reading, "never_updated", 2, tensor, first);
        finding.lastStep = seen.last;
        finding.what =
            seen.fromStart
                ? fmt::format("{}: the scale has never been updated; it is 1 since step 1, the amaxes give {:.4g}.",
                              finding.place(), seen.wanted)
                : fmt::format(
                      "{}: the scale stopped following its amax window at step {}; it is {:.4g}, the amaxes "
                      "give {:.4g}.",
                      finding.place(), first, seen.scale, seen.wanted);
        finding.cause = "The delayed update does not reach this tensor, though its window holds finite amaxes.";
        addEvidence(
            finding, reading, tensor, Statistic::Scale, seen.last, static_cast<double>(seen.scale),
            fmt::format("scale {:.4g} in force at step {}, {:.4g} by the rule", seen.scale, seen.last, seen.wanted));
        out.push_back(std::move(finding));
    }
}

void findStale(const Reading& reading, std::vector<Finding>& out) {
    std::map<int, std::pair<int64_t, int64_t>> spans;
    std::map<int, uint64_t> most;
    for (const auto& row : reading.stale) {
        if (row.tensorIndex < 0 || row.tensorIndex >= reading.tensors()) continue;
        auto [entry, fresh] = spans.try_emplace(row.tensorIndex, row.step, row.step);
        entry->second.second = row.step;
        most[row.tensorIndex] = std::max(most[row.tensorIndex], row.codes);
    }
    for (const auto& [tensor, span] : spans) {
        const auto& entry = reading.entry(tensor);
        const double share =
            static_cast<double>(most[tensor]) / std::max(1.0, static_cast<double>(entry.rows * entry.cols));
        Finding finding = findingAt(reading, "stale_weight", 2, tensor, span.first);
        finding.lastStep = span.second;
        finding.what = fmt::format(
            "{}: up to {} of the FP8 codes in use are not those of the present weights, since "
            "step {}.",
            finding.place(), percentText(share), span.first);
        finding.cause =
            "The copy that the products read is not written any more after the optimizer's step: the "
            "layer computes with old weights while their masters move on.";
        finding.evidence.push_back(
            {fmt::format("{} stale codes of {} at the worst probe", most[tensor], entry.rows * entry.cols),
             reading.series(tensor, Statistic::Amax), span.second, static_cast<double>(most[tensor])});
        out.push_back(std::move(finding));
    }
}

// Outliers, clipping, underflow
// -----------------------------------------------------------------------------------------

/// First step from which amax is kOutlierFactor times what it was, and stays so; −1: none.
int64_t outlierStep(const Reading& reading, int tensor, double& before, double& after) {
    std::deque<float> recent;
    for (size_t i = 0; i < reading.steps.size(); ++i) {
        const float amax = reading.value(Statistic::Amax, tensor, i);
        if (std::isnan(amax) || !std::isfinite(amax) || amax == 0) continue;
        if (static_cast<int>(recent.size()) == kOutlierSteps) {
            const float largest = *std::max_element(recent.begin(), recent.end());
            bool stays = static_cast<double>(amax) > kOutlierFactor * static_cast<double>(largest);
            for (int k = 1; stays && k < kOutlierPersists; ++k) {
                const float next = reading.value(Statistic::Amax, tensor, i + static_cast<size_t>(k));
                stays = static_cast<double>(next) > kOutlierFactor * static_cast<double>(largest);
            }
            if (stays) {
                before = static_cast<double>(largest);
                after = static_cast<double>(amax);
                return reading.steps[i];
            }
            recent.pop_front();
        }
        recent.push_back(amax);
    }
    return -1;
}

void findOutliers(const Reading& reading, std::vector<Finding>& out) {
    for (int tensor = 0; tensor < reading.tensors(); ++tensor) {
        double before = 0, after = 0;
        const int64_t step = outlierStep(reading, tensor, before, after);
        if (step < 0) continue;
        const double under = meanShare(reading, Statistic::UnderflowShare, tensor, step, reading.lastStep());
        const double underBefore = meanShare(reading, Statistic::UnderflowShare, tensor, 1, step - 1);
        Finding finding = findingAt(reading, "outlier", 2, tensor, step);
        for (size_t i = 0; i < reading.steps.size(); ++i)  // while it is cast
            if (reading.steps[i] >= step && !std::isnan(reading.value(Statistic::UnderflowShare, tensor, i)))
                finding.lastStep = reading.steps[i];
        finding.what = fmt::format("{}: the largest value is {:.3g} × what it was, since step {}.", finding.place(),
                                   after / before, step);
        finding.cause =
            "A few values, most likely one channel, set the scale of the whole tensor; what is small "
            "beside them loses its bits or becomes zero.";
        addEvidence(finding, reading, tensor, Statistic::Amax, step, after,
                    fmt::format("amax {:.4g} at step {}, at most {:.4g} in the {} steps before", after, step, before,
                                kOutlierSteps));
        addEvidence(
            finding, reading, tensor, Statistic::UnderflowShare, reading.lastStep(), under,
            fmt::format("underflow {} on average since, {} before", percentText(under), percentText(underBefore)));
        const auto& kurtosis = reading.kurtosis;
        double low = std::nan(""), high = std::nan("");
        int64_t highStep = 0;
        for (size_t i = 0; i < kurtosis.steps.size(); ++i) {
            const size_t cell = static_cast<size_t>(tensor) * kurtosis.steps.size() + i;
            if (!kurtosis.present[cell]) continue;
            if (kurtosis.steps[i] < step) low = static_cast<double>(kurtosis.values[cell]);
            if (kurtosis.steps[i] < step) continue;
            high = static_cast<double>(kurtosis.values[cell]);
            highStep = kurtosis.steps[i];
            break;
        }
        if (!std::isnan(low) && !std::isnan(high))
            addEvidence(finding, reading, tensor, Statistic::Kurtosis, highStep, high,
                        fmt::format("kurtosis {:.3g} → {:.3g} at step {}", low, high, highStep));
        out.push_back(std::move(finding));
    }
}

/// The first stretch of at least `steps` recorded steps running with a share above `limit`; it goes on to the last
/// such step. first −1: none.
struct Stretch {
    int64_t first = -1, last = -1, worstStep = -1;
    double worst = 0;
};
Stretch stretchAbove(const Reading& reading, Statistic statistic, int tensor, double limit, int steps) {
    Stretch stretch;
    int running = 0;
    int64_t begin = -1;
    for (size_t i = 0; i < reading.steps.size(); ++i) {
        const auto value = static_cast<double>(reading.value(statistic, tensor, i));
        if (std::isnan(value) || reading.isFresh(tensor, i)) continue;
        if (!(value > limit)) {
            running = 0;
            continue;
        }
        if (running++ == 0) begin = reading.steps[i];
        if (running < steps) continue;
        if (stretch.first < 0) stretch.first = begin;
        stretch.last = reading.steps[i];
        if (value > stretch.worst) stretch.worst = value, stretch.worstStep = reading.steps[i];
    }
    return stretch;
}

void findClipped(const Reading& reading, std::vector<Finding>& out) {
    for (int tensor = 0; tensor < reading.tensors(); ++tensor) {
        const Stretch seen = stretchAbove(reading, Statistic::ClippedShare, tensor, kClippedLimit, kClippedSteps);
        if (seen.first < 0) continue;
        Finding finding = findingAt(reading, "clipped", seen.worst > 0.001 ? 2 : 1, tensor, seen.first);
        finding.lastStep = seen.last;
        const double mean = meanShare(reading, Statistic::ClippedShare, tensor, seen.first, seen.last);
        finding.what = fmt::format("{}: {} of the elements are clipped, steps {} to {}.", finding.place(),
                                   percentText(mean), seen.first, seen.last);
        finding.cause = reading.at(seen.first).catalogue[static_cast<size_t>(tensor)].recipe == "delayed"
                            ? "The scale comes from earlier, smaller amaxes: the values grew faster than the window."
                            : "The scale is too large for the values that come.";
        addEvidence(finding, reading, tensor, Statistic::ClippedShare, seen.worstStep, seen.worst,
                    fmt::format("clipped {} at step {}, the worst", percentText(seen.worst), seen.worstStep));
        out.push_back(std::move(finding));
    }
}

void findUnderflow(const Reading& reading, std::vector<Finding>& out) {
    for (int tensor = 0; tensor < reading.tensors(); ++tensor) {
        const Stretch seen =
            stretchAbove(reading, Statistic::UnderflowShare, tensor, underflowLimit(reading, tensor), kUnderflowSteps);
        if (seen.first < 0) continue;
        Finding finding = findingAt(reading, "underflow", seen.worst > 0.05 ? 2 : 1, tensor, seen.first);
        finding.lastStep = seen.last;
        const double mean = meanShare(reading, Statistic::UnderflowShare, tensor, seen.first, seen.last);
        const auto& entry = reading.at(seen.first).catalogue[static_cast<size_t>(tensor)];
        finding.what = fmt::format("{}: {} of the elements become zero in the cast, since step {}.", finding.place(),
                                   percentText(mean), seen.first);
        if (entry.role == engine::TensorRole::GradOutput && entry.format == "e4m3")
            finding.cause =
                "Gradients spread over more binades than E4M3 holds below the largest value (17.8); E5M2 "
                "holds 31.8.";
        else if (entry.recipe == "fixed")
            finding.cause = "The fixed scale leaves the values below the smallest code of the format.";
        else
            finding.cause = "The values spread over more binades than the format holds below the largest one.";
        addEvidence(finding, reading, tensor, Statistic::UnderflowShare, seen.worstStep, seen.worst,
                    fmt::format("underflow {} at step {}, the worst", percentText(seen.worst), seen.worstStep));
        out.push_back(std::move(finding));
    }
}

void findLossJump(const Reading& reading, std::vector<Finding>& out) {
    const double factor = reading.at(0).spec.alarms.lossJump;
    std::deque<double> recent;
    for (size_t i = 0; i < reading.loss.steps.size() && factor > 0; ++i) {
        const double loss = reading.loss.values[i];
        if (!std::isfinite(loss)) continue;
        if (static_cast<int>(recent.size()) >= kLossNeeded) {
            double mean = 0, squares = 0;
            for (const double one : recent) mean += one / static_cast<double>(recent.size());
            for (const double one : recent) squares += (one - mean) * (one - mean);
            const double deviation = std::sqrt(squares / static_cast<double>(recent.size()));
            if (loss - mean > factor * deviation && loss - mean > 0.05 * std::abs(mean)) {
                Finding finding = findingAt(reading, "loss_jump", 1, -1, reading.loss.steps[i]);
                finding.what = fmt::format("The loss jumped to {:.4g} at step {}; it was {:.4g} on average before.",
                                           loss, reading.loss.steps[i], mean);
                finding.cause = "No cast explains it; the rate may be too high for this part of the data.";
                finding.evidence.push_back({fmt::format("loss {:.4g}, {:.3g} standard deviations above the mean of {} "
                                                        "steps",
                                                        loss, (loss - mean) / deviation, recent.size()),
                                            "loss", reading.loss.steps[i], loss});
                out.push_back(std::move(finding));
                return;
            }
        }
        recent.push_back(loss);
        if (static_cast<int>(recent.size()) > kLossWindow) recent.pop_front();
    }
}

/// Looking is to leave training as it is; where it did not, nothing after it can be trusted.
void findAudit(const Reading& reading, std::vector<Finding>& out) {
    Finding finding = findingAt(reading, "audit", 2, -1, 0);
    for (const auto& event : reading.events) {
        if (event.alert != "audit") continue;
        if (finding.what.empty()) finding.what = event.text, finding.firstStep = event.step;
        finding.lastStep = event.step;
        if (finding.evidence.size() < 8) finding.evidence.push_back({event.text, "loss", event.step, std::nan("")});
    }
    if (finding.what.empty()) return;
    finding.cause =
        "Evaluations, checkpoints, captures and probes only read. A state that changes under them is a fault of the "
        "program, its driver or the memory: training since is not what the spec says.";
    out.push_back(std::move(finding));
}

/// An earlier finding explains a later one on the same linear, or anywhere when everything became non-finite.
bool explains(const Finding& cause, const Finding& effect) {
    if (effect.kind == "audit" || effect.firstStep + 1 < cause.firstStep) return false;
    const bool soon = effect.firstStep <= cause.firstStep + kExplainsWithin || effect.firstStep <= cause.lastStep;
    if (cause.kind == "non_finite") return cause.severity == 2 || soon;
    if (effect.kind == "loss_jump") return cause.severity == 2 && soon;
    if (cause.kind == "frozen_scale" && effect.kind == "never_updated") return cause.tensorIndex == effect.tensorIndex;
    return cause.layer == effect.layer && cause.linear == effect.linear && soon;
}

/// What begins soon after an outlier that comes before it in the order of execution may be its doing.
void noteEffects(std::vector<Finding>& findings) {
    for (Finding& effect : findings) {
        if (effect.kind != "clipped" && effect.kind != "underflow" && effect.kind != "outlier") continue;
        for (const Finding& cause : findings) {
            const bool before = std::make_pair(cause.firstStep, cause.tensorIndex) <
                                std::make_pair(effect.firstStep, effect.tensorIndex);
            if (cause.kind != "outlier" || !before || effect.firstStep > cause.firstStep + kExplainsWithin) continue;
            effect.severity = 1;
            effect.cause += fmt::format(" It began after the outlier in {}; mend that first.", cause.place());
            break;
        }
    }
}

}  // namespace

std::vector<Finding> findTroubles(const Reading& reading) {
    std::vector<Finding> all, kept;
    findAudit(reading, all);
    findNonFinite(reading, all);
    findFrozen(reading, all);
    findStuck(reading, all);
    findStale(reading, all);
    findOutliers(reading, all);
    findClipped(reading, all);
    findUnderflow(reading, all);
    findLossJump(reading, all);
    for (Finding& finding : all) {
        const auto cause =
            std::find_if(kept.begin(), kept.end(), [&](const Finding& one) { return explains(one, finding); });
        if (cause == kept.end()) {
            kept.push_back(std::move(finding));
            continue;
        }
        for (Evidence& evidence : finding.evidence) {
            evidence.text = finding.place() + ": " + evidence.text;
            if (cause->evidence.size() < 8) cause->evidence.push_back(std::move(evidence));
        }
    }
    noteEffects(kept);
    std::stable_sort(kept.begin(), kept.end(), [](const Finding& a, const Finding& b) {
        // Where training state was changed behind its back, nothing else can be trusted.
        return std::make_tuple(a.kind != "audit", -a.severity, a.firstStep, a.tensorIndex) <
               std::make_tuple(b.kind != "audit", -b.severity, b.firstStep, b.tensorIndex);
    });
    return kept;
}

}  // namespace mantissa::experiments::diagnosis
