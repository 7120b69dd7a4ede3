#include "experiments/report/what_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "engine/plan/precision_plan.h"
#include "experiments/spec/spec_fields.h"
#include "experiments/store/derived.h"
#include "kernels/error.h"
#include "kernels/scaling/scaling.h"

namespace mantissa::experiments {

namespace {

const char* const kRecipeWords[] = {"delayed", "current", "fixed", "block128", "mxfp8", "nvfp4", "bf16"};
constexpr int kMaxParents = 64;

/// Where a format's casts lose a value: |x · scale| beyond `clip` rounds above the largest value M, up to `vanish`
/// rounds to zero (ties to even; cases C01).
struct Limits {
    double largest, clip, vanish;
    bool clipsAtTie;  ///< the tie itself rounds up
};
Limits limitsOf(const ScalingChoice& choice) {
    if (choice.recipe == "nvfp4") return {6, 7, 0.25, true};
    if (choice.format == "e5m2") return {57344, 61440, std::ldexp(1.0, -17), true};
    return {448, 464, std::ldexp(1.0, -10), false};
}

bool isBlock(const std::string& recipe) {
    return recipe == "block128" || recipe == "mxfp8" || recipe == "nvfp4";
}

struct Share {
    double low = 0, middle = 0, high = 0;
};

/// Share of elements with magnitude above `threshold` by a histogram of exponents; nothing lies above amax.
Share shareAbove(const AmaxSeries& series, const AmaxSeries::Point& point, double threshold) {
    double low = 0, middle = 0, high = 0;
    for (size_t i = 0; i < point.exponents.size(); ++i) {
        const double count = point.exponents[i];
        if (count == 0) continue;
        const double bottom = std::ldexp(1.0, series.firstExponent + static_cast<int>(i));
        const double top = std::max(bottom, std::min(2 * bottom, static_cast<double>(point.amax)));
        if (bottom > threshold) {
            low += count, middle += count, high += count;
        } else if (top > threshold) {
            middle += count * std::log2(top / threshold) / std::log2(top / bottom);
            high += count;
        }
    }
    const double elements = static_cast<double>(point.elements);
    return {low / elements, middle / elements, high / elements};
}

uint64_t nonZeroOf(const AmaxSeries::Point& point) {
    uint64_t sum = 0;
    for (const uint32_t count : point.exponents) sum += count;
    return sum;
}

const ScalingChoice& settingAt(const AmaxSeries& series, int64_t step) {
    const ScalingChoice* found = &series.recorded;
    if (!series.settings.empty()) found = &series.settings.front().second;
    for (const auto& [first, choice] : series.settings)
        if (first <= step) found = &choice;
    return *found;
}

/// Fills in the shares of one step for a cast with one scale for the tensor.
void fillShares(const AmaxSeries& series, const AmaxSeries::Point& point, const ScalingChoice& choice,
                ReplayStep& step) {
    const ScalingChoice& ran = settingAt(series, point.step);
    const Limits limits = limitsOf(choice);
    const double elements = static_cast<double>(point.elements);
    if (!step.clips) step.clipped = step.clippedLow = step.clippedHigh = 0;
    if (point.elements == 0) return;
    if (point.scale == step.scale && ran.format == choice.format && !isBlock(ran.recipe) && ran.recipe != "bf16") {
        step.clipped = step.clippedLow = step.clippedHigh = static_cast<double>(point.clipped) / elements;
        step.underflow = step.underflowLow = step.underflowHigh = static_cast<double>(point.underflow) / elements;
        step.exact = true;
        return;
    }
    if (point.exponents.empty()) return;
    if (step.clips) {
        const Share share = shareAbove(series, point, limits.clip / step.scale);
        step.clippedLow = share.low, step.clipped = share.middle, step.clippedHigh = share.high;
    }
    const Share kept = shareAbove(series, point, limits.vanish / step.scale);
    const double nonZero = static_cast<double>(nonZeroOf(point)) / elements;
    step.underflowLow = std::max(0.0, nonZero - kept.high);
    step.underflow = std::max(0.0, nonZero - kept.middle);
    step.underflowHigh = std::max(0.0, nonZero - kept.low);
}

void fillBlockShares(const AmaxSeries& series, const AmaxSeries::Point& point, const ScalingChoice& choice,
                     ReplayStep& step) {
    ScalingChoice whole = choice;  // no block has a larger amax than the tensor, so none has a smaller scale
    whole.recipe = "current";
    const double vanish = limitsOf(choice).vanish;
    const float largest = static_cast<float>(limitsOf(choice).largest);
    step.scale = kernels::currentScale(point.amax, largest, choice.recipe != "nvfp4", 0);
    step.clipped = step.clippedLow = step.clippedHigh = 0;
    if (point.exponents.empty() || point.elements == 0) return;
    const Share kept = shareAbove(series, point, vanish / step.scale);
    const double nonZero = static_cast<double>(nonZeroOf(point)) / static_cast<double>(point.elements);
    step.underflowLow = 0;
    step.underflow = std::max(0.0, nonZero - kept.middle);
    step.underflowHigh = std::max(0.0, nonZero - kept.low);
}

void judge(const ScalingChoice& choice, const AmaxSeries::Point& point, ReplayStep& step) {
    const Limits limits = limitsOf(choice);
    const float scaled = point.amax * step.scale;
    step.clips =
        limits.clipsAtTie ? scaled >= static_cast<float>(limits.clip) : scaled > static_cast<float>(limits.clip);
    if (point.amax > 0 && std::isfinite(point.amax))
        step.staleness = static_cast<double>(point.amax) * step.scale * std::ldexp(1.0, choice.margin) / limits.largest;
}

struct DelayedRule {
    std::vector<float> window;
    float scale = 1;
    bool frozen = false;
    kernels::AmaxAlgorithm algorithm;

    explicit DelayedRule(const ScalingChoice& choice)
        : window(static_cast<size_t>(choice.historyLength), 0.0f),
          algorithm(choice.algorithm == "max" ? kernels::AmaxAlgorithm::Max : kernels::AmaxAlgorithm::MostRecent) {}
    void update(const ScalingChoice& choice, float amax) {
        window[0] = std::isnan(amax) ? amax : std::max(window[0], amax);
        const float ruling =
            algorithm == kernels::AmaxAlgorithm::Max ? *std::max_element(window.begin(), window.end()) : window[0];
        if (!kernels::delayedUpdate(window.data(), choice.historyLength, algorithm,
                                    static_cast<float>(limitsOf(choice).largest), choice.margin, scale))
            return;
        frozen = std::isinf(ruling);
    }
};

}  // namespace

std::string ScalingChoice::text() const {
    if (recipe == "bf16") return "bf16";
    if (recipe == "nvfp4") return "nvfp4";
    std::string words = recipe + " " + format;
    if (recipe == "delayed") {
        words += fmt::format(", history {}, {}", historyLength, algorithm);
        if (margin != 0) words += fmt::format(", margin {}", margin);
    }
    if (recipe == "current" && powerOfTwo) words += ", power of two";
    if (recipe == "current" && epsilon > 0) words += fmt::format(", epsilon {}", epsilon);
    if (recipe == "fixed") words += fmt::format(", scale {}", scale);
    return words;
}

std::string problemOf(const ScalingChoice& c) {
    if (std::find(std::begin(kRecipeWords), std::end(kRecipeWords), c.recipe) == std::end(kRecipeWords))
        return fmt::format("recipe: \"{}\" is unknown; allowed: delayed, current, fixed, block128, mxfp8, nvfp4, bf16",
                           c.recipe);
    if (c.format != "e4m3" && c.format != "e5m2")
        return fmt::format("format: \"{}\" is unknown; allowed: e4m3, e5m2", c.format);
    if (c.algorithm != "max" && c.algorithm != "most_recent")
        return fmt::format("algorithm: \"{}\" is unknown; allowed: max, most_recent", c.algorithm);
    if (c.historyLength < 1 || c.historyLength > 65536)
        return fmt::format("history length: {} is out of range; allowed: whole number 1 … 65536", c.historyLength);
    if (c.margin < 0 || c.margin > 64)
        return fmt::format("margin: {} is out of range; allowed: whole number 0 … 64", c.margin);
    if (!(c.scale > 0) || !std::isfinite(c.scale))
        return fmt::format("scale: {} is out of range; allowed: a number above 0", c.scale);
    if (!(c.epsilon >= 0) || !std::isfinite(c.epsilon))
        return fmt::format("epsilon: {} is out of range; allowed: a number from 0", c.epsilon);
    return "";
}

ScalingChoice choiceOf(const engine::PrecisionConfig& precision, const engine::CatalogueEntry& entry) {
    ScalingChoice choice;
    choice.recipe = entry.recipe;
    choice.format = entry.format == "e5m2" ? "e5m2" : "e4m3";
    choice.historyLength = precision.historyLength;
    choice.algorithm = precision.algorithm == engine::Algorithm::Max ? "max" : "most_recent";
    choice.margin = precision.margin;
    choice.powerOfTwo = precision.powerOfTwo;
    choice.epsilon = precision.amaxEpsilon;
    choice.scale = precision.scale;
    return choice;
}

int findTensor(RunStore& store, const std::string& id, const std::string& name) {
    std::string wanted = name;
    std::replace(wanted.begin(), wanted.end(), '/', '.');
    std::vector<std::string> names;
    const auto catalogue = store.document(id).catalogue;
    for (size_t i = 0; i < catalogue.size(); ++i) {
        names.push_back(engine::tensorName(catalogue[i]));
        std::string dotted = names.back();
        std::replace(dotted.begin(), dotted.end(), '/', '.');
        if (dotted == wanted) return static_cast<int>(i);
    }
    throw Error(ErrorCode::InvalidConfig,
                names.empty() ? fmt::format("tensor \"{}\": the run has not recorded any tensor yet", name)
                              : fmt::format("tensor \"{}\" is not in the run; nearest is \"{}\"; allowed: {} … {}",
                                            name.substr(0, 80), nearestName(name, names), names.front(), names.back()));
}

namespace {

/// Settings of one tensor in the order they were in force.
void addSettings(const RunDocument& document, int tensor, AmaxSeries& series) {
    for (const auto& [first, text] : document.specs) {
        const ParsedSpec parsed = parseSpec(text);
        if (!parsed.ok()) continue;
        const auto& trainer = parsed.spec.trainer;
        const auto catalogue = engine::makePrecisionPlan(trainer.model, trainer.precision).catalogue(1);
        if (tensor < static_cast<int>(catalogue.size()))
            series.settings.emplace_back(first, choiceOf(trainer.precision, catalogue[static_cast<size_t>(tensor)]));
    }
    if (!series.settings.empty()) series.recorded = series.settings.back().second;
}

void addPoints(RunStore& store, const std::string& id, int tensor, const engine::CatalogueEntry& entry, int64_t after,
               int64_t last, AmaxSeries& series) {
    const Statistic wanted[] = {Statistic::Amax, Statistic::Scale, Statistic::Elements, Statistic::Underflow,
                                Statistic::Clipped};
    Series columns[5];
    for (int i = 0; i < 5; ++i) columns[i] = store.series(id, numericsName(entry, wanted[i]), after + 1);
    const Series applied = entry.role == engine::TensorRole::Weight ? store.series(id, "applied", after + 1) : Series{};
    const auto histograms = store.exponentsRange(id, tensor, after + 1, last);
    size_t at[7] = {};
    const auto valueAt = [&](const Series& column, size_t& i, int64_t step, double fallback) {
        while (i < column.steps.size() && column.steps[i] < step) ++i;
        return i < column.steps.size() && column.steps[i] == step ? column.values[i] : fallback;
    };
    for (size_t i = 0; i < columns[0].steps.size() && columns[0].steps[i] <= last; ++i) {
        AmaxSeries::Point point;
        point.step = columns[0].steps[i];
        point.amax = static_cast<float>(columns[0].values[i]);
        point.scale = static_cast<float>(valueAt(columns[1], at[1], point.step, 1));
        point.elements = static_cast<uint64_t>(valueAt(columns[2], at[2], point.step, 0));
        point.underflow = static_cast<uint64_t>(valueAt(columns[3], at[3], point.step, 0));
        point.clipped = static_cast<uint64_t>(valueAt(columns[4], at[4], point.step, 0));
        point.update = valueAt(applied, at[5], point.step, 1) != 0;
        while (at[6] < histograms.size() && histograms[at[6]].step < point.step) ++at[6];
        if (at[6] < histograms.size() && histograms[at[6]].step == point.step) {
            point.exponents = histograms[at[6]].counts;
            series.firstExponent = histograms[at[6]].firstExponent;
            if (point.elements == 0)  // not cast: the histogram knows all but the zeros
                point.elements = static_cast<uint64_t>(entry.rows) * static_cast<uint64_t>(entry.cols);
        }
        series.points.push_back(std::move(point));
    }
}

}  // namespace

AmaxSeries amaxSeries(RunStore& store, const std::string& id, int tensor) {
    struct Part {
        std::string id;
        int64_t last;
    };
    std::vector<Part> parts = {{id, std::numeric_limits<int64_t>::max()}};
    AmaxSeries series;
    const RunDocument own = store.document(id);
    if (tensor < 0 || tensor >= static_cast<int>(own.catalogue.size()))
        throw Error(ErrorCode::InvalidConfig, fmt::format("tensor {} is not in the run; allowed: 0 … {}", tensor,
                                                          static_cast<int>(own.catalogue.size()) - 1));
    series.name = engine::tensorName(own.catalogue[static_cast<size_t>(tensor)]);
    for (auto run = store.run(id); run && !run->parent.empty() && parts.size() < kMaxParents;) {
        const RunDocument parent = store.document(run->parent);
        if (tensor >= static_cast<int>(parent.catalogue.size()) ||
            engine::tensorName(parent.catalogue[static_cast<size_t>(tensor)]) != series.name)
            break;
        parts.push_back({run->parent, run->parentStep});
        run = store.run(run->parent);
    }
    int64_t after = 0;
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
        const RunDocument document = store.document(part->id);
        addSettings(document, tensor, series);
        addPoints(store, part->id, tensor, document.catalogue[static_cast<size_t>(tensor)], after, part->last, series);
        after = part->last;
    }
    std::stable_sort(series.settings.begin(), series.settings.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    series.fromStart = !series.points.empty() && series.points.front().step == 1;
    return series;
}

Replay replay(const AmaxSeries& series, const ScalingChoice& choice) {
    if (const std::string problem = problemOf(choice); !problem.empty()) throw Error(ErrorCode::InvalidConfig, problem);
    Replay result;
    result.choice = choice;
    DelayedRule rule(choice);
    if (!series.fromStart && !series.points.empty()) rule.scale = series.points.front().scale;
    const float largest = static_cast<float>(limitsOf(choice).largest);
    for (const auto& point : series.points) {
        ReplayStep step;
        step.step = point.step;
        step.amax = point.amax;
        step.probed = !point.exponents.empty();
        if (choice.recipe == "bf16") {
            step.clipped = step.clippedLow = step.clippedHigh = 0;
            step.underflow = step.underflowLow = step.underflowHigh = 0;
            step.exact = true;
        } else if (isBlock(choice.recipe)) {
            fillBlockShares(series, point, choice, step);
        } else {
            step.frozen = choice.recipe == "delayed" && rule.frozen;
            step.scale = choice.recipe == "delayed" ? rule.scale
                         : choice.recipe == "fixed"
                             ? choice.scale
                             : kernels::currentScale(point.amax, largest, choice.powerOfTwo, choice.epsilon);
            judge(choice, point, step);
            fillShares(series, point, choice, step);
            if (point.update) rule.update(choice, point.amax);
        }
        result.steps.push_back(step);
    }
    result.total = summarise(result, 0, std::numeric_limits<int64_t>::max());
    return result;
}

Replay recordedReplay(const AmaxSeries& series) {
    Replay result;
    result.choice = series.recorded;
    for (const auto& point : series.points) {
        const ScalingChoice& choice = settingAt(series, point.step);
        ReplayStep step;
        step.step = point.step;
        step.amax = point.amax;
        step.scale = point.scale;
        step.probed = !point.exponents.empty();
        if (choice.recipe != "bf16" && !isBlock(choice.recipe)) judge(choice, point, step);
        if (point.elements > 0 && choice.recipe != "bf16") {
            const double elements = static_cast<double>(point.elements);
            step.clips = point.clipped > 0;
            step.clipped = step.clippedLow = step.clippedHigh = static_cast<double>(point.clipped) / elements;
            step.underflow = step.underflowLow = step.underflowHigh = static_cast<double>(point.underflow) / elements;
            step.exact = true;
        }
        result.steps.push_back(step);
    }
    result.total = summarise(result, 0, std::numeric_limits<int64_t>::max());
    return result;
}

ReplaySummary summarise(const Replay& replay, int64_t firstStep, int64_t lastStep) {
    ReplaySummary total;
    double clipped = 0, underflow = 0;
    int64_t clippedKnown = 0;
    const auto within = [&](const ReplayStep& step) { return step.step >= firstStep && step.step <= lastStep; };
    const bool anyProbed = std::any_of(replay.steps.begin(), replay.steps.end(),
                                       [&](const ReplayStep& step) { return within(step) && step.probed; });
    for (const auto& step : replay.steps) {
        if (!within(step)) continue;
        ++total.steps;
        total.clippedSteps += step.clips;
        total.frozenSteps += step.frozen;
        if (std::isfinite(step.staleness)) total.worstStaleness = std::max(total.worstStaleness, step.staleness);
        if (!std::isnan(step.clipped)) clipped += step.clipped, ++clippedKnown;
        if (!std::isnan(step.underflow) && step.probed == anyProbed) underflow += step.underflow, ++total.known;
    }
    total.clippedShare = total.clippedSteps == 0 ? 0
                         : clippedKnown > 0      ? clipped / static_cast<double>(clippedKnown)
                                                 : std::nan("");
    if (total.known > 0) total.underflowShare = underflow / static_cast<double>(total.known);
    total.upperBound = isBlock(replay.choice.recipe);
    return total;
}

std::vector<ScalingChoice> usualChoices(const ScalingChoice& recorded) {
    std::vector<ScalingChoice> list = {recorded};
    const auto add = [&](ScalingChoice choice) {
        if (std::find(list.begin(), list.end(), choice) == list.end()) list.push_back(std::move(choice));
    };
    ScalingChoice base = recorded;
    base.recipe = "delayed";
    for (const int length : {1024, 16, 1}) {
        ScalingChoice other = base;
        other.historyLength = length;
        other.algorithm = "max";
        add(other);
    }
    ScalingChoice recent = base;
    recent.algorithm = "most_recent";
    add(recent);
    for (const char* recipe : {"current", "block128", "mxfp8", "nvfp4", "bf16"}) {
        ScalingChoice other;
        other.recipe = recipe;
        other.format = recorded.format;
        add(other);
    }
    ScalingChoice format = recorded.recipe == "bf16" ? base : recorded;
    format.format = recorded.format == "e4m3" ? "e5m2" : "e4m3";
    add(format);
    return list;
}

std::vector<CapturedTensor> capturedTensors(RunStore& store, const std::string& id) {
    namespace fs = std::filesystem;
    std::vector<CapturedTensor> list;
    std::error_code code;
    for (const auto& entry : fs::directory_iterator(store.folder() + "/" + id + "/captures", code)) {
        const std::string stem = entry.path().stem().string();  // step-00000060-h.1.mlp.fc1.input
        if (entry.path().extension() != ".safetensors" || stem.rfind("step-", 0) != 0) continue;
        const size_t dash = stem.find('-', 5);
        if (dash == std::string::npos || stem.find_first_not_of("0123456789", 5) != dash) continue;
        CapturedTensor tensor;
        tensor.step = std::stoll(stem.substr(5, std::min<size_t>(dash - 5, 18)));
        const std::string dotted = stem.substr(dash + 1);
        for (const auto& one : store.document(id).catalogue) {
            std::string name = engine::tensorName(one);
            tensor.name = name;
            std::replace(name.begin(), name.end(), '/', '.');
            if (name == dotted) break;
            tensor.name = dotted;
        }
        tensor.path = entry.path().string();
        list.push_back(std::move(tensor));
    }
    std::sort(list.begin(), list.end(),
              [](const auto& a, const auto& b) { return a.step != b.step ? a.step < b.step : a.name < b.name; });
    return list;
}

}  // namespace mantissa::experiments
