// Changes that would help with a finding, ranked by what-if on the recorded data, and what applied ones brought.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "experiments/job/training_job.h"
#include "experiments/report/diagnosis_parts.h"
#include "experiments/spec/spec_fields.h"
#include "experiments/tensor_input.h"
#include "experiments/text/number_text.h"
#include "kernels/error.h"

namespace mantissa::experiments::diagnosis {

namespace {

struct Candidate {
    ProposedChange change;
    double cost = 0;  ///< how much speed or other tensors it touches; ties are decided by it
    bool ends = false;
};

/// What a figure is called in a sentence, and the value up to which the trouble counts as ended.
struct Figure {
    const char* name;
    const char* word;
    double limit;
    bool share;
};
constexpr Figure kFigures[] = {{"clipped_share", "clipped", kClippedLimit, true},
                               {"underflow_share", "underflow", kUnderflowLimit, true},
                               {"stale_codes", "stale codes", 0, true},
                               {"frozen_updates", "updates with a frozen scale", 1, false},
                               {"non_finite", "non-finite steps", 0, false}};
const Figure* figureOf(const std::string& name) {
    for (const Figure& figure : kFigures)
        if (name == figure.name) return &figure;
    return nullptr;
}

/// What counts as ended for a finding: an outlier's tensor is to lose no more than it did before.
double limitOf(const Reading& reading, const Finding& finding, const Figure& figure) {
    if (finding.kind != "outlier")
        return std::string(figure.name) == "underflow_share" ? underflowLimit(reading, finding.tensorIndex)
                                                             : figure.limit;
    const Statistic statistic =
        std::string(figure.name) == "clipped_share" ? Statistic::ClippedShare : Statistic::UnderflowShare;
    const double before = meanShare(reading, statistic, finding.tensorIndex, 1, finding.firstStep - 1);
    return 1e-4 + (std::isnan(before) ? 0 : 2 * before);
}

std::string figureText(const Figure& figure, double value) {
    return figure.share ? percentText(value) : fmt::format("{:.0f}", value);
}

std::string linearName(const Finding& finding) {
    return finding.linear.empty() ? finding.layer : finding.layer + "." + finding.linear;
}

int64_t checkpointBefore(const Reading& reading, int64_t step) {
    int64_t best = -1;
    for (const auto& row : reading.checkpoints)
        if (row.onDisk && row.step < step) best = std::max(best, row.step);
    return best;
}

/// Collects changes of the spec in force; those that the spec's rules refuse are left out.
class Changes {
  public:
    Changes(const Reading& reading, const Finding& finding)
        : reading_(reading), finding_(finding), spec_(reading.settings.back().spec) {}

    const RunSpec& spec() const { return spec_; }
    Candidate* add(std::string title, double cost, std::vector<SpecChange> sets) {
        RunSpec changed = spec_;
        for (SpecChange& set : sets) {
            set.before = getPath(spec_, set.path);
            if (!setPath(changed, set.path, set.value).empty()) return nullptr;
        }
        if (!validate(changed).empty() || (!sets.empty() && differences(spec_, changed).empty())) return nullptr;
        Candidate candidate;
        candidate.cost = cost;
        candidate.change.title = std::move(title);
        candidate.change.live =
            std::all_of(sets.begin(), sets.end(), [](const SpecChange& set) { return isLivePath(set.path); });
        candidate.change.sets = std::move(sets);
        candidate.change.forkStep = checkpointBefore(reading_, finding_.firstStep);
        list_.push_back(std::move(candidate));
        return &list_.back();
    }
    /// A rule for the finding's linear. gemms: "all", or the two products that read a role's tensor.
    Candidate* addRule(const std::string& recipe, double cost, bool readersOnly = false) {
        Json rules = Json::parse(getPath(spec_, "precision.rules"));
        const std::string match = linearName(finding_);
        std::vector<std::string> gemms = {"all"};
        if (readersOnly && finding_.tensor == "input") gemms = {"fprop", "wgrad"};
        if (readersOnly && finding_.tensor == "weight") gemms = {"fprop", "dgrad"};
        if (readersOnly && finding_.tensor == "grad_output") gemms = {"dgrad", "wgrad"};
        for (const auto& gemm : gemms) rules.push_back(Json{{"match", match}, {"gemm", gemm}, {"recipe", recipe}});
        std::string products;
        for (const auto& gemm : gemms) products += (products.empty() ? "" : " and ") + gemm;
        return add(fmt::format("{}{} → {}", match, gemms.size() > 1 ? " " + products : "", recipe), cost,
                   {{"precision.rules", rules.dump(), ""}});
    }
    Candidate* addField(const std::string& words, const std::string& path, const std::string& value, double cost) {
        std::string before = getPath(spec_, path), after = value;
        for (std::string* text : {&before, &after})
            text->erase(std::remove(text->begin(), text->end(), '"'), text->end());
        return add(fmt::format("{} {} → {}", words, before, after), cost, {{path, value, ""}});
    }
    std::vector<Candidate>& list() { return list_; }

  private:
    const Reading& reading_;
    const Finding& finding_;
    RunSpec spec_;
    std::vector<Candidate> list_;
};

void expect(Candidate* candidate, const char* figureName, double before, double after, bool bound = false,
            double limit = std::nan("")) {
    if (candidate == nullptr) return;
    const Figure& figure = *figureOf(figureName);
    candidate->change.figure = figureName;
    candidate->change.before = before;
    candidate->change.after = after;
    candidate->ends = after <= (std::isnan(limit) ? figure.limit : limit);
    candidate->change.expected = std::isnan(after)
                                     ? fmt::format("{} {} → not known", figure.word, figureText(figure, before))
                                     : fmt::format("{} {} → {}{}", figure.word, figureText(figure, before),
                                                   bound ? "at most " : "", figureText(figure, after));
}

/// Expectations from replays of the recorded amaxes of the finding's tensor over the steps of the trouble.
class WhatIf {
  public:
    WhatIf(RunStore& store, const Reading& reading, const Finding& finding)
        : series_(amaxSeries(store, reading.run.id, finding.tensorIndex)),
          first_(finding.firstStep),
          last_(reading.lastStep()) {
        figure_ = finding.kind == "clipped" ? "clipped_share" : "underflow_share";
        const ReplaySummary ran = summarise(recordedReplay(series_), first_, last_);
        if (finding.kind == "never_updated" && ran.clippedShare > ran.underflowShare) figure_ = "clipped_share";
        before_ = valueOf(ran);
        limit_ = limitOf(reading, finding, *figureOf(figure_));
        for (const auto& captured : capturedTensors(store, reading.run.id))
            if (captured.name == series_.name && captured.step >= first_) captured_ = captured.path;
    }
    const ScalingChoice& recorded() const { return series_.recorded; }
    void fill(Candidate* candidate, const ScalingChoice& choice) const {
        if (candidate == nullptr) return;
        const ReplaySummary would = summarise(replay(series_, choice), first_, last_);
        double after = valueOf(would);
        bool bound = would.upperBound;
        if (bound && !captured_.empty()) after = ofCapture(choice), bound = false;
        expect(candidate, figure_, before_, after, bound, limit_);
    }

  private:
    double valueOf(const ReplaySummary& summary) const {
        return std::string(figure_) == "clipped_share" ? summary.clippedShare : summary.underflowShare;
    }
    /// The tensor that was kept, cast under a block recipe: exact for that step.
    double ofCapture(const ScalingChoice& choice) const {
        const TensorValues tensor = readTensorFile(captured_);
        TensorRequest request;
        request.values = tensor.values;
        request.rows = tensor.rows;
        request.cols = tensor.cols;
        request.format = choice.format;
        request.recipe = choice.recipe == "block128" ? "block1x128" : choice.recipe;
        request.powerOfTwo = choice.recipe == "block128";
        const TensorResult result = runTensorBench(request);
        const auto& counters = result.counters;
        const uint64_t lost = std::string(figure_) == "clipped_share" ? counters.clipped : counters.underflow;
        return static_cast<double>(lost) / static_cast<double>(std::max<uint64_t>(1, counters.elements));
    }

    AmaxSeries series_;
    int64_t first_, last_;
    const char* figure_;
    double before_ = 0, limit_ = 0;
    std::string captured_;
};

bool plantsOnce(const RunSpec& spec, int64_t after) {
    return std::any_of(spec.trainer.faults.begin(), spec.trainer.faults.end(), [&](const engine::PlantedFault& fault) {
        using engine::FaultKind;
        const bool once = fault.kind == FaultKind::WeightNan || fault.kind == FaultKind::FreezeScaleInf ||
                          fault.kind == FaultKind::ActivationInf || fault.kind == FaultKind::GradientNan;
        return once && fault.step > after;
    });
}

/// Going on from before the trouble, for a state that no setting mends.
void addFork(const Reading& reading, const Finding& finding, Changes& changes) {
    const int64_t step = checkpointBefore(reading, finding.firstStep);
    std::vector<SpecChange> sets;
    std::string title = step >= 0 ? fmt::format("go on from the checkpoint of step {}, before the trouble", step)
                                  : fmt::format(
                                        "start again: there is no checkpoint before step {}; checkpoint.every "
                                        "keeps one",
                                        finding.firstStep);
    if (plantsOnce(reading.settings.back().spec, step)) {
        sets.push_back({"faults", "[]", ""});
        title += ", without the planted fault";
    }
    Candidate* candidate = changes.add(title, 0, sets);
    if (candidate == nullptr) return;
    candidate->change.needsFork = true;
    candidate->change.live = false;
    if (finding.kind != "audit")
        expect(candidate, "non_finite", static_cast<double>(finding.lastStep - finding.firstStep + 1), 0);
}

ScalingChoice with(ScalingChoice choice, const char* recipe) {
    choice.recipe = recipe;
    return choice;
}

void addBlockRules(const Finding& finding, const WhatIf& whatIf, Changes& changes) {
    for (const char* recipe : {"mxfp8", "block128"})
        whatIf.fill(changes.addRule(recipe, 2), with(whatIf.recorded(), recipe));
    const bool all = finding.kind == "outlier";  // the weight's column that reads an outlier channel suffers too
    whatIf.fill(changes.addRule("bf16", 3, !all), with(whatIf.recorded(), "bf16"));
}

void addDelayedFields(const WhatIf& whatIf, Changes& changes) {
    const ScalingChoice& now = whatIf.recorded();
    if (now.recipe != "delayed") return;
    for (const int length : {256, 64, 16, 4, 1}) {
        if (length >= now.historyLength) continue;
        ScalingChoice choice = now;
        choice.historyLength = length;
        whatIf.fill(changes.addField("history length", "precision.history_length", std::to_string(length), 0.2),
                    choice);
    }
    ScalingChoice recent = now;
    recent.algorithm = "most_recent";
    whatIf.fill(changes.addField("algorithm", "precision.algorithm", "\"most_recent\"", 0.3), recent);
    for (int more = 1; more <= 3; ++more) {
        ScalingChoice margin = now;
        margin.margin += more;
        whatIf.fill(changes.addField("margin", "precision.margin", std::to_string(margin.margin), 0.4), margin);
    }
}

void rank(std::vector<Candidate>& list, Finding& finding) {
    const auto worth = [](double after) { return std::isnan(after) ? 1e300 : after; };
    std::stable_sort(list.begin(), list.end(), [&](const Candidate& a, const Candidate& b) {
        if (a.ends != b.ends) return a.ends;
        if (a.ends) return a.cost < b.cost;
        return worth(a.change.after) < worth(b.change.after);
    });
    std::set<std::string> fields;  // of a field only the best value
    for (Candidate& candidate : list) {
        const auto& sets = candidate.change.sets;
        if (sets.size() == 1 && sets[0].path != "precision.rules" && !fields.insert(sets[0].path).second) continue;
        // A change that makes nothing better is none.
        const auto& change = candidate.change;
        if (change.before > 0 && change.after >= 0.9 * change.before) continue;
        if (finding.changes.size() < 6) finding.changes.push_back(std::move(candidate.change));
    }
}

}  // namespace

void proposeChanges(RunStore& store, const Reading& reading, Finding& finding) {
    Changes changes(reading, finding);
    if (finding.kind == "non_finite") {
        if (finding.severity == 2) addFork(reading, finding, changes);
    } else if (finding.kind == "audit") {
        addFork(reading, finding, changes);
    } else if (finding.kind == "loss_jump") {
        const float rate = changes.spec().trainer.optimizer.learningRate;
        changes.addField("learning rate", "optimizer.learning_rate", numberText(rate / 2), 0);
    } else if (finding.tensorIndex >= 0) {
        const WhatIf whatIf(store, reading, finding);
        const auto& entry = reading.settings.back().catalogue[static_cast<size_t>(finding.tensorIndex)];
        if (finding.kind == "frozen_scale") {
            const double length = reading.at(finding.firstStep).spec.trainer.precision.historyLength;
            expect(changes.addRule("current", 0.5), "frozen_updates", length, 0);
            expect(changes.addField("algorithm", "precision.algorithm", "\"most_recent\"", 0.6), "frozen_updates",
                   length, 1);
            expect(changes.addRule("bf16", 3), "frozen_updates", length, 0);
        } else if (finding.kind == "stale_weight") {
            const double share = finding.evidence.empty() ? 0 : finding.evidence.front().value;
            const double codes = std::max(1.0, static_cast<double>(reading.entry(finding.tensorIndex).rows *
                                                                   reading.entry(finding.tensorIndex).cols));
            expect(changes.addRule("current", 0.5), "stale_codes", share / codes, 0);
            expect(changes.addRule("bf16", 3, true), "stale_codes", share / codes, 0);
        } else {
            if (finding.kind == "clipped") addDelayedFields(whatIf, changes);
            if (entry.format == "e4m3" && finding.tensor == "grad_output") {
                ScalingChoice wide = whatIf.recorded();
                wide.format = "e5m2";
                whatIf.fill(changes.addField("format", "precision.format", "\"hybrid\"", 0.1), wide);
            }
            if (entry.recipe == "fixed") {
                whatIf.fill(changes.addField("recipe", "precision.recipe", "\"current\"", 0.4),
                            with(whatIf.recorded(), "current"));
                whatIf.fill(changes.addField("recipe", "precision.recipe", "\"delayed\"", 0.3),
                            with(whatIf.recorded(), "delayed"));
            }
            if (entry.recipe == "delayed" || entry.recipe == "fixed")
                whatIf.fill(changes.addRule("current", 0.5), with(whatIf.recorded(), "current"));
            addBlockRules(finding, whatIf, changes);
        }
    }
    rank(changes.list(), finding);
}

// What applied changes brought
// ------------------------------------------------------------------------------------------

namespace {

const char* figureOfKind(const Finding& finding) {
    if (finding.kind == "clipped") return "clipped_share";
    if (finding.kind == "stale_weight") return "stale_codes";
    if (finding.kind == "frozen_scale") return "frozen_updates";
    if (finding.kind == "non_finite") return "non_finite";
    if (finding.kind == "loss_jump" || finding.kind == "audit") return "";
    return finding.changes.empty() || finding.changes.front().figure.empty() ? "underflow_share"
                                                                             : finding.changes.front().figure.c_str();
}

/// The figure over steps first … last of a run; a tensor that is not cast any more loses nothing.
double measure(const Reading& reading, const Finding& finding, const std::string& figure, int64_t first, int64_t last) {
    const auto within = [&](int64_t step) { return step >= first && step <= last; };
    if (figure == "stale_codes") {
        uint64_t worst = 0;
        for (const auto& row : reading.stale)
            if (row.tensorIndex == finding.tensorIndex && within(row.step)) worst = std::max(worst, row.codes);
        const auto& entry = reading.entry(finding.tensorIndex);
        return static_cast<double>(worst) / std::max(1.0, static_cast<double>(entry.rows * entry.cols));
    }
    if (figure == "non_finite") {
        int64_t bad = 0;
        for (size_t i = 0; i < reading.loss.steps.size(); ++i)
            bad += within(reading.loss.steps[i]) && !std::isfinite(reading.loss.values[i]);
        return static_cast<double>(bad);
    }
    if (figure == "frozen_updates") {
        int64_t frozen = 0;  // in this reading: a fork has its own
        for (const Finding& one : findTroubles(reading))
            if (one.kind == finding.kind && one.tensorIndex == finding.tensorIndex)
                frozen += std::max<int64_t>(0, std::min(last, one.lastStep) - std::max(first, one.firstStep) + 1);
        return static_cast<double>(frozen);
    }
    if (finding.tensorIndex < 0) return std::nan("");
    const Statistic statistic = figure == "clipped_share" ? Statistic::ClippedShare : Statistic::UnderflowShare;
    const double mean = meanShare(reading, statistic, finding.tensorIndex, first, last);
    return std::isnan(mean) ? 0 : mean;
}

/// steps: those since the change; shared: of how many of them the losses are the means, where both runs have them (0:
/// the losses are of different steps).
void describe(AppliedChange& applied, const Reading& reading, const Finding& finding, const std::string& figureName,
              double lossBefore, double lossAfter, int64_t steps, int64_t shared) {
    const Figure* figure = figureOf(figureName);
    std::string text;
    if (figure != nullptr) {
        applied.figure = figureName;
        applied.ended = applied.after <= limitOf(reading, finding, *figure);
        text = fmt::format("{} {} → {} over the {} steps since", figure->word, figureText(*figure, applied.before),
                           figureText(*figure, applied.after), steps);
    } else {
        applied.ended = lossAfter <= lossBefore;
    }
    if (!std::isnan(lossAfter))
        text += fmt::format("{}loss {} → {:.4g}", text.empty() ? "" : "; ",
                            std::isnan(lossBefore) ? std::string("not finite") : fmt::format("{:.4g}", lossBefore),
                            lossAfter) +
                (shared > 0 && shared < steps ? fmt::format(" over {} steps of both", shared) : "");
    if (finding.kind == "non_finite") applied.ended = applied.ended && std::isfinite(lossAfter);
    applied.brought = text.empty() ? "no step has been recorded since" : text + ".";
}

/// A rule or a planted fault in a line, not in JSON; of a longer list what is new or gone, and how much stays.
std::string listText(const std::string& json, const std::string& other) {
    const Json list = Json::parse(json, nullptr, false), before = Json::parse(other, nullptr, false);
    if (!list.is_array() || !before.is_array()) return json;
    std::string text;
    size_t same = 0;
    for (const Json& one : list) {
        if (std::find(before.begin(), before.end(), one) != before.end() || !one.is_object()) {
            ++same;
            continue;
        }
        std::string words;
        for (const char* key : {"match", "kind", "gemm", "recipe", "target"})
            if (one.contains(key) && one[key].is_string() && one[key] != "all")
                words += (words.empty() ? "" : " ") + one[key].get<std::string>();
        text += (text.empty() ? "" : ", ") + words;
    }
    if (same > 0) text = fmt::format("{}{}{} as before", text, text.empty() ? "" : " and ", same);
    return text.empty() ? "none" : text;
}

std::string changeText(const RunSpec& before, const RunSpec& after) {
    std::string text;
    for (const auto& one : differences(before, after))
        text += fmt::format("{}{}: {} → {}", text.empty() ? "" : "; ", one.path, listText(one.left, one.right),
                            listText(one.right, one.left));
    return text;
}

std::string forkText(const RunSummary& run) {
    return run.parentStep > 0 ? fmt::format("fork {} from step {}", run.name, run.parentStep)
                              : fmt::format("fork {} from the start", run.name);
}

/// A fork that waits, or that ended before its first step.
AppliedChange withoutSteps(const RunSummary& run) {
    AppliedChange applied;
    applied.run = run.id;
    applied.runName = run.name;
    applied.step = run.parentStep + 1;
    applied.text = forkText(run);
    applied.brought = run.statusText.empty() ? "no step has been recorded since" : run.statusText;
    return applied;
}

}  // namespace

void findApplied(RunStore& store, const Reading& reading, Finding& finding) {
    const std::string figure = figureOfKind(finding);
    const int64_t last = reading.lastStep();
    for (size_t s = 1; s < reading.settings.size(); ++s) {
        const int64_t step = reading.settings[s].firstStep;
        if (step <= finding.firstStep || step > last) continue;
        AppliedChange applied;
        applied.run = reading.run.id;
        applied.runName = reading.run.name;
        applied.step = step;
        applied.text = changeText(reading.settings[s - 1].spec, reading.settings[s].spec);
        const int64_t end = s + 1 < reading.settings.size() ? reading.settings[s + 1].firstStep - 1 : last;
        applied.before = measure(reading, finding, figure, finding.firstStep, step - 1);
        applied.after = measure(reading, finding, figure, step, end);
        const int64_t span = end - step + 1;
        describe(applied, reading, finding, figure,
                 meanLoss(reading.loss, std::max(finding.firstStep, step - span), step - 1),
                 meanLoss(reading.loss, step, end), span, 0);
        finding.applied.push_back(std::move(applied));
    }
    for (const auto& run : store.runs()) {
        if (run.parent != reading.run.id) continue;
        if (run.step <= run.parentStep) {
            finding.applied.push_back(withoutSteps(run));
            continue;
        }
        const Reading child = readRun(store, run.id);
        if (child.tensors() != reading.tensors()) continue;
        AppliedChange applied;
        applied.run = run.id;
        applied.runName = run.name;
        applied.step = run.parentStep + 1;
        applied.text = changeText(reading.settings.back().spec, child.settings.front().spec);
        applied.text = forkText(run) + (applied.text.empty() ? "" : ": ") + applied.text;
        const int64_t end = child.lastStep();
        applied.before = measure(reading, finding, figure, finding.firstStep, last);
        applied.after = measure(child, finding, figure, std::max(applied.step, finding.firstStep), end);
        // The loss falls with the steps, so both means are of the same ones, as far as the runs share any.
        const int64_t from = std::max(applied.step, finding.firstStep), both = std::min(last, end);
        const bool shares = both >= from;
        describe(applied, reading, finding, figure,
                 meanLoss(reading.loss, shares ? from : finding.firstStep, shares ? both : last),
                 meanLoss(child.loss, from, shares ? both : end), end - applied.step + 1, shares ? both - from + 1 : 0);
        finding.applied.push_back(std::move(applied));
    }
}

}  // namespace mantissa::experiments::diagnosis
