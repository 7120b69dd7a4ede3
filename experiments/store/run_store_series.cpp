// Scalar series and single numerics series.
#include <algorithm>
#include <limits>

#include "experiments/store/derived.h"
#include "experiments/store/run_store_impl.h"
#include "experiments/store/run_store_numerics.h"
#include "experiments/store/series_reader.h"

namespace mantissa::experiments {

namespace {

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

/// Splits points of segments into the ruling series and superseded tails.
Series merge(const SeriesReader& reader, std::vector<SegmentPoints> points) {
    Series series;
    const auto& segments = reader.segments();
    for (size_t s = 0; s < segments.size(); ++s) {
        if (s > 0) series.resumes.push_back(segments[s].firstStep);
        Series::Tail tail;
        tail.segment = segments[s].index;
        for (size_t i = 0; i < points[s].steps.size(); ++i) {
            const bool ruling = points[s].steps[i] < segments[s].cut;
            (ruling ? series.steps : tail.steps).push_back(points[s].steps[i]);
            (ruling ? series.values : tail.values).push_back(points[s].values[i]);
        }
        if (!tail.steps.empty()) series.tails.push_back(std::move(tail));
    }
    return series;
}

std::vector<SegmentPoints> readEvaluations(Database& database, int64_t run, const SeriesReader& reader,
                                           int64_t fromStep) {
    std::vector<SegmentPoints> points(reader.segments().size());
    Statement& query = database.cached(
        "SELECT segment, step, loss FROM evaluation WHERE run = ? AND step >= ? ORDER BY segment, step");
    query.bind(run).bind(fromStep);
    while (query.step())
        for (size_t s = 0; s < points.size(); ++s)
            if (reader.segments()[s].index == query.integer(0)) {
                points[s].steps.push_back(query.integer(1));
                points[s].values.push_back(query.real(2));
            }
    query.reset();
    return points;
}

/// Steps that all inputs have, with the derived value.
SegmentPoints combine(const std::vector<const SegmentPoints*>& inputs, Statistic statistic, double largest,
                      int margin) {
    SegmentPoints out;
    std::vector<size_t> at(inputs.size(), 0);
    for (size_t i = 0; i < inputs[0]->steps.size(); ++i) {
        const int64_t step = inputs[0]->steps[i];
        double values[2] = {inputs[0]->values[i], 0};
        bool all = true;
        for (size_t k = 1; k < inputs.size(); ++k) {
            while (at[k] < inputs[k]->steps.size() && inputs[k]->steps[at[k]] < step) ++at[k];
            all = all && at[k] < inputs[k]->steps.size() && inputs[k]->steps[at[k]] == step;
            if (all) values[k] = inputs[k]->values[at[k]];
        }
        if (!all) continue;
        out.steps.push_back(step);
        out.values.push_back(derive(statistic, values, largest, margin));
    }
    return out;
}

}  // namespace

std::optional<NumericsName> parseNumericsName(const std::vector<engine::CatalogueEntry>& catalogue,
                                              const std::string& name) {
    const std::string prefix = "numerics/";
    const size_t last = name.rfind('/');
    if (name.rfind(prefix, 0) != 0 || last == std::string::npos || last < prefix.size()) return std::nullopt;
    const auto statistic = statisticFromName(name.substr(last + 1));
    if (!statistic) return std::nullopt;
    const std::string tensor = name.substr(prefix.size(), last - prefix.size());
    for (size_t i = 0; i < catalogue.size(); ++i)
        if (engine::tensorName(catalogue[i]) == tensor) return NumericsName{static_cast<int>(i), *statistic};
    return std::nullopt;
}

Series RunStore::series(const std::string& id, const std::string& metric, int64_t fromStep) {
    Database& database = *impl_->database;
    ReadView view(database);
    const int64_t run = impl_->readId(id);
    SeriesReader reader(database, run);
    if (const auto scalar = metricFromName(metric)) {
        if (*scalar == Metric::ValidationLoss) return merge(reader, readEvaluations(database, run, reader, fromStep));
        return merge(reader, reader.read({static_cast<int64_t>(*scalar)}, fromStep, kEnd)[0]);
    }
    const TensorFacts facts = tensorFacts(*this, id);
    const auto numerics = parseNumericsName(facts.catalogue, metric);
    if (!numerics) return {};
    const auto inputs = inputsOf(numerics->statistic);
    std::vector<int64_t> numbers;
    for (const Statistic input : inputs) numbers.push_back(numericsSeries(numerics->tensor, input));
    auto points = reader.read(numbers, fromStep, kEnd);
    if (isStored(numerics->statistic)) return merge(reader, std::move(points[0]));
    std::vector<SegmentPoints> derived;
    for (size_t s = 0; s < reader.segments().size(); ++s) {
        std::vector<const SegmentPoints*> parts;
        for (const auto& input : points) parts.push_back(&input[s]);
        derived.push_back(
            combine(parts, numerics->statistic, facts.largest[static_cast<size_t>(numerics->tensor)], facts.margin));
    }
    return merge(reader, std::move(derived));
}

std::map<std::string, MetricSummary> RunStore::summary(const std::string& id) {
    Statement& query = impl_->database->cached(
        "SELECT metric, last, min, max, best, last_finite, last_step, count, non_finite FROM metric_summary WHERE run "
        "= ?");
    query.bind(impl_->readId(id));
    std::map<std::string, MetricSummary> result;
    while (query.step()) {
        const std::string name = metricName(static_cast<Metric>(query.integer(0)));
        if (!name.empty())
            result[name] = {query.real(1), query.real(2),    query.real(3),    query.real(4),
                            query.real(5), query.integer(6), query.integer(7), query.integer(8)};
    }
    query.reset();
    return result;
}

std::vector<std::string> RunStore::seriesNames(const std::string& id) {
    std::vector<std::string> names;
    const auto summaries = summary(id);
    for (int metric = 0; metric <= static_cast<int>(Metric::ValidationLoss); ++metric) {
        const std::string name = metricName(static_cast<Metric>(metric));
        if (!name.empty() && summaries.count(name) > 0) names.push_back(name);
    }
    const RunDocument document = this->document(id);
    for (const auto& entry : document.catalogue) {
        const bool cast = largestFinite(entry.format) > 0;
        for (int s = 0; s < kStoredStatistics; ++s) {
            const auto statistic = static_cast<Statistic>(s);
            if (cast || statistic == Statistic::Amax) names.push_back(numericsName(entry, statistic));
        }
    }
    return names;
}

}  // namespace mantissa::experiments
