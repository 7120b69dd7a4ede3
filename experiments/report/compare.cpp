#include "experiments/report/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "experiments/report/statistics.h"
#include "kernels/error.h"

namespace mantissa::experiments {

namespace {

constexpr int64_t kPartBlock = 1024;  ///< steps read at a time while looking for the parting point

double median(std::vector<double> values) {
    if (values.empty()) return std::nan("");
    std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
}

constexpr int64_t kTail = 1000;  ///< steps
constexpr const char* kSeries[] = {"val_loss", "loss", "grad_norm"};

/// A series of one run up to the limit.
struct Points {
    std::vector<double> x, values;

    bool has(double wanted) const { return std::binary_search(x.begin(), x.end(), wanted); }
    /// Last value at or before x.
    std::optional<double> upTo(double limit) const {
        const auto end = std::upper_bound(x.begin(), x.end(), limit);
        return end == x.begin() ? std::nullopt : std::optional(values[static_cast<size_t>(end - x.begin()) - 1]);
    }
};

Points readPoints(RunStore& store, const std::string& id, const char* name, const Comparison& where, int64_t from) {
    const Series series = store.series(id, name, from);
    Points points{axisValues(store, id, series, where.axis), series.values};
    const auto end = std::upper_bound(points.x.begin(), points.x.end(), where.limit);
    points.values.resize(static_cast<size_t>(end - points.x.begin()));
    points.x.erase(end, points.x.end());
    return points;
}

/// Largest x that all of them have; a series without a point has no say.
std::optional<double> commonX(const std::vector<const Points*>& all) {
    const Points* shortest = nullptr;
    for (const Points* points : all)
        if (!points->x.empty() && (!shortest || points->x.size() < shortest->x.size())) shortest = points;
    if (!shortest) return std::nullopt;
    for (auto x = shortest->x.rbegin(); x != shortest->x.rend(); ++x)
        if (std::all_of(all.begin(), all.end(), [&](const Points* one) { return one->x.empty() || one->has(*x); }))
            return *x;
    return std::nullopt;
}

/// Whether a run says how far all have come: not one that broke off, nor one that has not begun.
bool leads(const RunSummary& run) {
    return run.step > 0 && run.status != RunStatus::Diverged && run.status != RunStatus::Failed;
}

/// Fills axis, limit and sameEnd: the largest x that all runs have reached.
void setLimit(Comparison& comparison, const std::vector<RunSummary>& runs, Axis axis) {
    const bool some = std::any_of(runs.begin(), runs.end(), leads);
    double least = std::numeric_limits<double>::infinity(), most = 0;
    for (const auto& run : runs) {
        if (run.step == 0 || (some && !leads(run))) continue;
        const double end = axis == Axis::Step     ? static_cast<double>(run.step)
                           : axis == Axis::Tokens ? static_cast<double>(run.tokens)
                                                  : run.seconds;
        least = std::min(least, end);
        most = std::max(most, end);
    }
    comparison.axis = axis;
    comparison.limit = std::isfinite(least) ? least : 0;
    comparison.sameEnd = most <= comparison.limit;
}

/// One series of all runs at the largest x that they have in common, into ComparedRun::final and Comparison::at.
void compareSeries(RunStore& store, Comparison& comparison, const char* name) {
    std::vector<ComparedRun>& runs = comparison.runs;
    const bool some = std::any_of(runs.begin(), runs.end(), [](const auto& row) { return leads(row.run); });
    std::vector<Points> points(runs.size());
    std::optional<double> common;
    // By step the end of a long series is nearly always enough.
    const int64_t tail = comparison.axis == Axis::Step ? static_cast<int64_t>(comparison.limit) - kTail : 0;
    for (int64_t from = std::max<int64_t>(tail, 0);; from = 0) {
        std::vector<const Points*> leading;
        bool all = true;
        for (size_t i = 0; i < runs.size(); ++i) {
            points[i] = readPoints(store, runs[i].run.id, name, comparison, from);
            all = all && !points[i].x.empty();
            if (!some || leads(runs[i].run)) leading.push_back(&points[i]);
        }
        common = commonX(leading);
        if (from == 0 || (common && all)) break;
    }
    if (common) comparison.at[name] = *common;
    for (size_t i = 0; i < runs.size(); ++i)
        if (const auto value = points[i].upTo(common.value_or(comparison.limit))) runs[i].final[name] = *value;
}

/// What is of the whole run and not of a point of a series.
std::map<std::string, double> wholeRun(const RunSummary& run) {
    std::map<std::string, double> final;
    if (run.tokensPerSecond > 0) {
        final["tokens_per_s"] = run.tokensPerSecond;
        // The step that this rate means: two figures of one measurement.
        if (run.step > 0)
            final["step_ms"] =
                1e3 * static_cast<double>(run.tokens) / static_cast<double>(run.step) / run.tokensPerSecond;
    }
    if (run.seconds > 0) final["seconds"] = run.seconds;
    if (run.peakBytes > 0) final["peak_bytes"] = static_cast<double>(run.peakBytes);
    return final;
}

std::string xText(double x, Axis axis) {
    return axis == Axis::Step     ? fmt::format("step {:.0f}", x)
           : axis == Axis::Tokens ? fmt::format("{:.0f} tokens", x)
                                  : fmt::format("{:.3g} s", x);
}

std::vector<ConfigRow> configRows(RunStore& store, const std::vector<RunSummary>& runs) {
    std::vector<RunSpec> specs;
    for (const auto& run : runs) specs.push_back(parseSpec(store.document(run.id).specJson).spec);
    std::vector<ConfigRow> rows;
    for (const auto& path : specPaths()) {
        if (path == "preset") continue;  // where it came from, not what it is
        ConfigRow row{path, {}};
        for (const auto& spec : specs) row.values.push_back(getPath(spec, path));
        if (std::any_of(row.values.begin(), row.values.end(),
                        [&](const auto& value) { return value != row.values[0]; }))
            rows.push_back(std::move(row));
    }
    return rows;
}

bool outside(float value, float reference, double tolerance) {
    if (std::isnan(value) || std::isnan(reference)) return std::isnan(value) != std::isnan(reference);
    if (value == reference) return false;
    if (!std::isfinite(value) || !std::isfinite(reference)) return true;
    return std::abs(value - reference) > tolerance * std::abs(reference);
}

/// First step at which a common tensor's amax or scale is outside the tolerance; in that step the first in order of
/// execution.
PartingPoint part(RunStore& store, const std::string& id, const std::string& baseline, double tolerance) {
    PartingPoint point;
    point.run = id;
    const auto mine = store.document(id).catalogue, theirs = store.document(baseline).catalogue;
    std::vector<std::pair<size_t, size_t>> common;
    for (size_t i = 0; i < mine.size(); ++i)
        for (size_t j = 0; j < theirs.size(); ++j)
            if (engine::tensorName(mine[i]) == engine::tensorName(theirs[j])) common.emplace_back(i, j);
    const auto a = store.run(id), b = store.run(baseline);
    if (!a || !b || common.empty()) return point;
    const int64_t last = std::min(a->step, b->step);
    for (int64_t first = 1; first <= last; first += kPartBlock)
        for (const Statistic statistic : {Statistic::Amax, Statistic::Scale}) {
            const int64_t end = std::min(last, first + kPartBlock - 1);
            const NumericsRange left = store.numerics(id, statistic, first, end),
                                right = store.numerics(baseline, statistic, first, end);
            size_t k = 0;
            for (size_t i = 0; i < left.steps.size(); ++i) {
                while (k < right.steps.size() && right.steps[k] < left.steps[i]) ++k;
                if (k == right.steps.size() || right.steps[k] != left.steps[i]) continue;
                if (point.step > 0 && left.steps[i] >= point.step) break;
                for (const auto& [m, t] : common) {
                    const size_t at = m * left.steps.size() + i, other = t * right.steps.size() + k;
                    if (!left.present[at] || !right.present[other] ||
                        !outside(left.values[at], right.values[other], tolerance))
                        continue;
                    point.step = left.steps[i];
                    point.tensor = engine::tensorName(mine[m]);
                    point.statistic = statisticName(statistic);
                    point.value = left.values[at];
                    point.baseline = right.values[other];
                    break;
                }
            }
            if (statistic == Statistic::Scale && point.step > 0) return point;
        }
    return point;
}

// Verdicts over seeds
// ----------------------------------------------------------------------------------------------------

/// Paths that do not make another setting: the seed, and what only watches or saves.
bool watchesOnly(const std::string& path) {
    return path == "seed" || path == "preset" || path.rfind("probes.", 0) == 0 || path.rfind("checkpoint.", 0) == 0 ||
           path.rfind("eval.", 0) == 0;
}

/// One name for each setting among the runs: model and recipe, and what else tells runs of one model and recipe apart
/// ("tiny · fp8 delayed · train.steps 20").
std::vector<std::string> groupNames(const std::vector<RunSummary>& runs, const std::vector<ConfigRow>& config) {
    std::vector<std::string> names;
    for (const auto& run : runs) names.push_back(run.model + " · " + run.recipe);
    const std::vector<std::string> plain = names;
    for (const ConfigRow& row : config) {
        if (watchesOnly(row.path)) continue;
        for (size_t i = 0; i < runs.size(); ++i) {
            bool splits = false;
            for (size_t j = 0; j < runs.size(); ++j)
                splits = splits || (plain[j] == plain[i] && row.values[j] != row.values[i]);
            if (splits) names[i] += fmt::format(" · {} {}", row.path, row.values[i]);
        }
    }
    return names;
}

/// "does not train": the last loss is not finite, or above the baseline's at 5 % of its steps.
bool trains(RunStore& store, const RunSummary& run, const RunSummary& baseline) {
    if (!run.hasLoss || !std::isfinite(run.loss)) return false;
    const Series reference = store.series(baseline.id, "loss");
    if (reference.steps.empty() || run.step < baseline.step / 2) return true;
    const int64_t early = std::max<int64_t>(1, baseline.steps / 20);
    for (size_t i = 0; i < reference.steps.size(); ++i)
        if (reference.steps[i] >= early) return run.loss <= reference.values[i];
    return true;
}

std::string verdictOf(const GroupVerdict& group, double limit) {
    if (group.pairs < 2) return "";  // one seed, no spread
    if (group.low >= -limit && group.high <= limit)
        return group.p >= 0.05 ? "no difference seen" : fmt::format("within {:g} nats", limit);
    if (group.low > limit) return fmt::format("worse by {:.2g}", group.difference);
    if (group.high < -limit) return fmt::format("better by {:.2g}", -group.difference);
    return fmt::format("not decided, n = {}", group.pairs);
}

/// Validation loss of each run where they are compared; NaN: none.
using Validation = std::map<std::string, double>;

void fillGroup(RunStore& store, const Validation& validation, GroupVerdict& group,
               const std::vector<const RunSummary*>& members, const std::vector<const RunSummary*>& reference,
               double limit) {
    std::vector<double> values, gaps, rates, referenceRates;
    bool good = true;
    const auto loss = [&](const RunSummary* run) {
        const auto found = validation.find(run->id);
        return found == validation.end() ? std::nan("") : found->second;
    };
    for (const RunSummary* run : members) {
        group.runs.push_back(run->id);
        if (std::isfinite(loss(run))) values.push_back(loss(run));
        if (run->tokensPerSecond > 0) rates.push_back(run->tokensPerSecond);
        good = good && trains(store, *run, *reference[0]);
        for (const RunSummary* other : reference)
            if ((members == reference ? other == run : other->seed == run->seed) && std::isfinite(loss(run)) &&
                std::isfinite(loss(other)))
                gaps.push_back(loss(run) - loss(other));
    }
    for (const RunSummary* run : reference)
        if (run->tokensPerSecond > 0) referenceRates.push_back(run->tokensPerSecond);
    const MeanSd all = meanSd(values), paired = meanSd(gaps);
    group.mean = values.empty() ? std::nan("") : all.mean;
    group.sd = all.sd;
    group.pairs = static_cast<int>(gaps.size());
    group.difference = gaps.empty() ? std::nan("") : paired.mean;
    group.differenceSd = paired.sd;
    group.low = group.high = group.difference;
    if (gaps.size() > 1) {
        const double degrees = static_cast<double>(gaps.size()) - 1,
                     error = paired.sd / std::sqrt(static_cast<double>(gaps.size()));
        const double half = studentQuantile95(degrees) * error;
        group.low = paired.mean - half;
        group.high = paired.mean + half;
        group.p = error > 0 ? studentP(paired.mean / error, degrees) : paired.mean == 0 ? 1 : 0;
    }
    if (!rates.empty() && !referenceRates.empty()) group.speedRatio = median(rates) / median(referenceRates);
    group.verdict = !good ? "does not train" : members == reference ? "" : verdictOf(group, limit);
}

std::vector<GroupVerdict> verdicts(RunStore& store, const std::vector<RunSummary>& runs, const RunSummary& baseline,
                                   const std::vector<ConfigRow>& config, const Validation& validation, double limit) {
    const std::vector<std::string> nameOf = groupNames(runs, config);
    std::vector<std::string> names = {nameOf[static_cast<size_t>(&baseline - runs.data())]};
    for (const auto& name : nameOf)
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    std::vector<GroupVerdict> groups;
    std::vector<const RunSummary*> reference;
    for (const auto& name : names) {
        // A seed counts once, also when it was run twice: the last run of it.
        std::vector<const RunSummary*> members;
        for (size_t i = 0; i < runs.size(); ++i) {
            if (nameOf[i] != name) continue;
            const auto same = std::find_if(members.begin(), members.end(),
                                           [&](const RunSummary* run) { return run->seed == runs[i].seed; });
            if (same == members.end())
                members.push_back(&runs[i]);
            else if (*same != &baseline)
                *same = &runs[i];
        }
        if (reference.empty()) reference = members;
        GroupVerdict group;
        group.name = name;
        fillGroup(store, validation, group, members, reference, limit);
        groups.push_back(std::move(group));
    }
    return groups;
}

}  // namespace

std::vector<double> axisValues(RunStore& store, const std::string& id, const Series& series, Axis axis) {
    std::vector<double> x;
    if (axis == Axis::Step || series.steps.empty()) {
        x.assign(series.steps.begin(), series.steps.end());
        return x;
    }
    const Series other = store.series(id, axis == Axis::Tokens ? "tokens" : "seconds", series.steps.front());
    size_t at = 0;
    for (const int64_t step : series.steps) {
        while (at + 1 < other.steps.size() && other.steps[at] < step) ++at;
        x.push_back(other.steps.empty() ? std::nan("") : other.values[at]);
    }
    return x;
}

std::string comparedAt(const Comparison& comparison) {
    const auto loss = comparison.at.find("loss"), validation = comparison.at.find("val_loss");
    const bool atEnd = std::all_of(comparison.at.begin(), comparison.at.end(),
                                   [&](const auto& one) { return one.second == comparison.limit; });
    if (comparison.limit == 0 || (comparison.sameEnd && atEnd)) return "";
    const std::string limit = xText(comparison.limit, comparison.axis);
    if (loss == comparison.at.end())
        return fmt::format("Each run's last values up to {}, which all have reached.", limit);
    const std::string at = xText(loss->second, comparison.axis);
    if (validation == comparison.at.end() || validation->second == loss->second)
        return fmt::format("Values at {}, the last that all have.", at);
    return fmt::format("Values at {}, validation loss at {}: the last that all have.", at,
                       xText(validation->second, comparison.axis));
}

Comparison compareRuns(RunStore& store, const std::vector<std::string>& ids, const std::string& baseline, Axis axis,
                       double limit, double tolerance) {
    std::vector<RunSummary> runs;
    for (const auto& id : ids) runs.push_back(store.find(id));
    if (runs.empty()) throw Error(ErrorCode::InvalidConfig, "compare: no runs are named");
    const RunSummary* base = &runs[0];
    for (const auto& run : runs)
        if (baseline.empty() ? run.baseline : run.id == baseline) base = &run;
    Comparison result;
    result.baseline = base->id;
    setLimit(result, runs, axis);
    for (const auto& run : runs) result.runs.push_back({run, wholeRun(run), {}, {}});
    for (const char* name : kSeries) compareSeries(store, result, name);
    const auto reference = result.runs[static_cast<size_t>(base - runs.data())].final;
    Validation validation;
    for (ComparedRun& row : result.runs) {
        for (const auto& [name, value] : row.final)
            if (const auto other = reference.find(name); other != reference.end()) {
                row.difference[name] = value - other->second;
                row.ratio[name] = value / other->second;
            }
        if (const auto loss = row.final.find("val_loss"); loss != row.final.end())
            validation[row.run.id] = loss->second;
        if (row.run.id != base->id && (row.run.seed == base->seed || runs.size() == 2))
            if (PartingPoint point = part(store, row.run.id, base->id, tolerance); point.step > 0)
                result.parts.push_back(std::move(point));
    }
    result.config = configRows(store, runs);
    result.groups = verdicts(store, runs, *base, result.config, validation, limit);
    return result;
}

}  // namespace mantissa::experiments
