// Statistics of all tensors: ranges, heatmap, one step, the amax window, exponents.
#include "experiments/store/run_store_numerics.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>

#include "experiments/store/derived.h"
#include "experiments/store/metrics.h"
#include "experiments/store/run_store_impl.h"
#include "experiments/store/series_reader.h"
#include "kernels/quantize/quantize.h"

namespace mantissa::experiments {

namespace {

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
constexpr int kExponentLow = -kernels::kExponentBias;  ///< exponent of bin 0 of the engine's histograms

/// Series of one statistic's inputs for all tensors: [tensor * inputs + k].
std::vector<SegmentPoints> readInputs(SeriesReader& reader, size_t tensors, const std::vector<Statistic>& inputs,
                                      int64_t first, int64_t last) {
    std::vector<int64_t> numbers;
    for (size_t t = 0; t < tensors; ++t)
        for (const Statistic input : inputs) numbers.push_back(numericsSeries(static_cast<int>(t), input));
    return reader.readRuling(numbers, first, last);
}

/// Calls put(tensor, step, value) for every recorded value of a statistic, by tensor and ascending steps.
template <typename Put>
void forEachValue(SeriesReader& reader, const TensorFacts& facts, Statistic statistic, int64_t first, int64_t last,
                  Put put) {
    const auto inputs = inputsOf(statistic);
    const size_t tensors = facts.catalogue.size(), k = inputs.size();
    const auto points = readInputs(reader, tensors, inputs, first, last);
    for (size_t t = 0; t < tensors; ++t) {
        const SegmentPoints& a = points[t * k];
        const SegmentPoints* b = k > 1 ? &points[t * k + 1] : nullptr;
        size_t at = 0;
        for (size_t i = 0; i < a.steps.size(); ++i) {
            double values[2] = {a.values[i], 0};
            if (b != nullptr) {
                while (at < b->steps.size() && b->steps[at] < a.steps[i]) ++at;
                if (at == b->steps.size() || b->steps[at] != a.steps[i]) continue;
                values[1] = b->values[at];
            }
            put(t, a.steps[i], derive(statistic, values, facts.largest[t], facts.margin));
        }
    }
}

/// Which of two values of a cell is the worse one.
bool worse(Statistic statistic, double candidate, double present) {
    if (std::isnan(present)) return true;
    if (statistic == Statistic::Scale || statistic == Statistic::ScaleInv) return true;  // the last one stands
    if (statistic == Statistic::SqnrDb) return candidate < present;
    return candidate > present;
}

int64_t lastStepOf(Database& database, int64_t run) {
    Statement& query = database.cached("SELECT step FROM run WHERE id = ?");
    query.bind(run);
    const int64_t step = query.step() ? query.integer(0) : 0;
    query.reset();
    return step;
}

}  // namespace

TensorFacts tensorFacts(RunStore& store, const std::string& id, int64_t step) {
    TensorFacts facts;
    RunDocument document = store.document(id);
    facts.catalogue = std::move(document.catalogue);
    for (const auto& entry : facts.catalogue) facts.largest.push_back(largestFinite(entry.format));
    std::string spec = document.specJson;
    for (const auto& [first, text] : document.specs)
        if (step >= 0 && (first <= step || first == document.specs.front().first)) spec = text;
    const ParsedSpec parsed = parseSpec(spec);
    if (parsed.ok()) {
        facts.margin = parsed.spec.trainer.precision.margin;
        facts.historyLength = parsed.spec.trainer.precision.historyLength;
        facts.mostRecent = parsed.spec.trainer.precision.algorithm == engine::Algorithm::MostRecent;
    }
    return facts;
}

size_t unreadablePieces(RunStore& store, const std::string& id) {
    Statement query = store.database().prepare("SELECT id FROM run WHERE ulid = ?");
    return query.bind(id).step() ? store.database().unreadable(query.integer(0)).size() : 0;
}

NumericsRange RunStore::numerics(const std::string& id, Statistic statistic, int64_t firstStep, int64_t lastStep) {
    Database& database = *impl_->database;
    ReadView view(database);
    const TensorFacts facts = tensorFacts(*this, id);
    SeriesReader reader(database, impl_->readId(id));
    struct Value {
        size_t tensor;
        int64_t step;
        float value;
    };
    std::vector<Value> values;
    NumericsRange range;
    range.tensors = static_cast<int>(facts.catalogue.size());
    forEachValue(reader, facts, statistic, firstStep, lastStep < 0 ? kEnd : lastStep,
                 [&](size_t tensor, int64_t step, double value) {
                     values.push_back({tensor, step, static_cast<float>(value)});
                     range.steps.push_back(step);
                 });
    std::sort(range.steps.begin(), range.steps.end());
    range.steps.erase(std::unique(range.steps.begin(), range.steps.end()), range.steps.end());
    range.values.assign(facts.catalogue.size() * range.steps.size(), std::numeric_limits<float>::quiet_NaN());
    range.present.assign(range.values.size(), 0);
    size_t at = 0, tensor = 0;
    for (const Value& value : values) {
        if (value.tensor != tensor) at = 0, tensor = value.tensor;
        while (range.steps[at] < value.step) ++at;
        range.values[tensor * range.steps.size() + at] = value.value;
        range.present[tensor * range.steps.size() + at] = 1;
    }
    return range;
}

Heatmap RunStore::heatmap(const std::string& id, Statistic statistic, int64_t firstStep, int64_t lastStep,
                          int columns) {
    Database& database = *impl_->database;
    ReadView view(database);
    const TensorFacts facts = tensorFacts(*this, id);
    const int64_t run = impl_->readId(id);
    SeriesReader reader(database, run);
    Heatmap map;
    map.firstStep = std::max<int64_t>(firstStep, 1);
    map.lastStep = lastStep < 0 ? lastStepOf(database, run) : lastStep;
    map.tensors = static_cast<int>(facts.catalogue.size());
    map.columns = std::max(columns, 1);
    const size_t cells = facts.catalogue.size() * static_cast<size_t>(map.columns);
    map.values.assign(cells, std::numeric_limits<float>::quiet_NaN());
    map.nonFinite.assign(cells, 0);
    map.steps.assign(cells, 0);
    const int64_t span = map.lastStep - map.firstStep + 1;
    if (span <= 0) return map;
    auto cellOf = [&](size_t tensor, int64_t step) {
        const auto column =
            static_cast<size_t>(static_cast<double>(step - map.firstStep) * map.columns / static_cast<double>(span));
        return tensor * static_cast<size_t>(map.columns) + std::min(column, static_cast<size_t>(map.columns) - 1);
    };
    forEachValue(reader, facts, statistic, map.firstStep, map.lastStep, [&](size_t tensor, int64_t step, double value) {
        const size_t cell = cellOf(tensor, step);
        ++map.steps[cell];
        if (!std::isfinite(value)) map.nonFinite[cell] = 1;
        if (!std::isnan(value) && worse(statistic, value, map.values[cell]))
            map.values[cell] = static_cast<float>(value);
    });
    std::vector<int64_t> counters;
    for (size_t t = 0; t < facts.catalogue.size(); ++t)
        for (const Statistic counter : {Statistic::Inf, Statistic::Nan})
            counters.push_back(numericsSeries(static_cast<int>(t), counter));
    const auto found = reader.readRuling(counters, map.firstStep, map.lastStep, SeriesReader::Pieces::NotZero);
    for (size_t i = 0; i < found.size(); ++i)
        for (size_t j = 0; j < found[i].steps.size(); ++j)
            if (found[i].values[j] > 0) map.nonFinite[cellOf(i / 2, found[i].steps[j])] = 1;
    return map;
}

std::shared_ptr<const engine::NumericsRecord> RunStore::record(const std::string& id, int64_t step) {
    Database& database = *impl_->database;
    ReadView view(database);
    const int64_t run = impl_->readId(id);
    SeriesReader reader(database, run);
    const int ruling = reader.rulingSegment(step);
    if (ruling < 0) return nullptr;
    auto record = std::make_shared<engine::NumericsRecord>();
    record->step = step;
    Statement& query = database.cached("SELECT data FROM step_blob WHERE run = ? AND segment = ? AND step = ?");
    query.bind(run).bind(reader.segments()[static_cast<size_t>(ruling)].index).bind(step);
    if (query.step()) {
        if (auto decoded = decodeStep(query.blob(0), step)) {
            record->probed = decoded->probed;
            record->tensors = std::move(decoded->tensors);
        }
        query.reset();
        return record;
    }
    query.reset();
    const size_t tensors = document(id).catalogue.size();
    record->tensors.resize(tensors);
    std::vector<int64_t> numbers;
    for (size_t t = 0; t < tensors; ++t)
        for (int s = 0; s < kStoredStatistics; ++s)
            numbers.push_back(numericsSeries(static_cast<int>(t), static_cast<Statistic>(s)));
    const auto points = reader.readRuling(numbers, step, step);
    bool any = false;
    for (size_t t = 0; t < tensors; ++t) {
        auto& tensor = record->tensors[t];
        auto at = [&](Statistic statistic) { return &points[t * kStoredStatistics + static_cast<size_t>(statistic)]; };
        auto value = [&](Statistic statistic, float fallback) {
            return at(statistic)->values.empty() ? fallback : static_cast<float>(at(statistic)->values[0]);
        };
        any = any || !at(Statistic::Amax)->values.empty();
        tensor.amax = value(Statistic::Amax, 0);
        tensor.scale = value(Statistic::Scale, 1);
        for (int c = 0; c < 8; ++c) {
            const auto* counter = at(static_cast<Statistic>(static_cast<int>(Statistic::Elements) + c));
            if (!counter->values.empty()) tensor.counters[c] = toCount(counter->values[0]);
        }
        tensor.dear = !at(Statistic::Mse)->values.empty();
        record->probed = record->probed || tensor.dear;
        tensor.minNonZero = value(Statistic::MinNonZero, 0);
        tensor.mse = value(Statistic::Mse, 0);
        tensor.sqnrDb = value(Statistic::SqnrDb, 0);
        tensor.kurtosis = value(Statistic::Kurtosis, 0);
    }
    return any ? record : nullptr;
}

Exponents RunStore::exponents(const std::string& id, int tensor, int64_t step) {
    Database& database = *impl_->database;
    ReadView view(database);
    const int64_t run = impl_->readId(id);
    SeriesReader reader(database, run);
    Exponents result;
    result.firstExponent = kExponentLow;
    for (int s = reader.rulingSegment(step); s >= 0 && result.counts.empty(); --s) {
        const auto& segment = reader.segments()[static_cast<size_t>(s)];
        Statement& query = database.cached(
            "SELECT step, data FROM exponents WHERE run = ? AND segment = ? AND step <= ? ORDER BY step DESC");
        query.bind(run).bind(segment.index).bind(std::min(step, segment.cut - 1));
        while (result.counts.empty() && query.step()) {  // some rows hold other measurements alone
            result.step = query.integer(0);
            result.counts = decodeExponents(query.blob(1), tensor);
        }
        query.reset();
    }
    return result;
}

// The window
// -------------------------------------------------------------------------------------------------------------

namespace {

/// TE's rule: s = M ÷ amax ÷ 2^margin; amax 0, Inf or NaN keep the scale; an infinite scale is FLT_MAX (cases N03).
float nextScale(float used, float ruling, double largest, int margin) {
    if (!(ruling > 0) || std::isinf(ruling)) return used;
    const float scale = static_cast<float>(largest) / ruling / static_cast<float>(std::ldexp(1.0, margin));
    return std::isinf(scale) ? FLT_MAX : scale;
}

/// Steps of one tensor that were updates, oldest first: a zero amax does not update, nor a skipped step a weight.
SegmentPoints updatesOf(const SegmentPoints& amax, const SegmentPoints& applied, bool weight) {
    SegmentPoints updates;
    size_t at = 0;
    for (size_t i = 0; i < amax.steps.size(); ++i) {
        while (at < applied.steps.size() && applied.steps[at] < amax.steps[i]) ++at;
        const bool skipped =
            weight && at < applied.steps.size() && applied.steps[at] == amax.steps[i] && applied.values[at] == 0;
        if (skipped || amax.values[i] == 0) continue;
        updates.steps.push_back(amax.steps[i]);
        updates.values.push_back(amax.values[i]);
    }
    return updates;
}

}  // namespace

namespace {

/// Updates before the first one that the window can still hold: one that was made longer while the run went begins with
/// the closed entries of the shorter one, its length less the open slot.
size_t droppedByChanges(RunStore& store, const std::string& id, const std::vector<int64_t>& updates, int64_t step) {
    size_t dropped = 0;
    const RunDocument document = store.document(id);
    for (size_t k = 1; k < document.specs.size() && document.specs[k].first <= step; ++k) {
        const auto before = static_cast<size_t>(
            std::lower_bound(updates.begin(), updates.end(), document.specs[k].first) - updates.begin());
        const int length = tensorFacts(store, id, document.specs[k].first - 1).historyLength;
        const auto kept = static_cast<size_t>(std::max(0, length - 1));
        if (before > kept) dropped = std::max(dropped, before - kept);
    }
    return dropped;
}

}  // namespace

AmaxWindow RunStore::window(const std::string& id, int tensor, int64_t step) {
    Database& database = *impl_->database;
    ReadView view(database);
    const TensorFacts facts = tensorFacts(*this, id, step);
    AmaxWindow window;
    window.history = facts.historyLength;
    if (tensor < 0 || tensor >= static_cast<int>(facts.catalogue.size())) return window;
    const auto& entry = facts.catalogue[static_cast<size_t>(tensor)];
    SeriesReader reader(database, impl_->readId(id));
    const std::vector<int64_t> numbers = {numericsSeries(tensor, Statistic::Amax),
                                          numericsSeries(tensor, Statistic::Scale),
                                          static_cast<int64_t>(Metric::Applied)};
    // Twice the window is enough unless many updates were skipped or the scale is very old; then everything is read.
    int64_t first = std::max<int64_t>(1, step - 2 * facts.historyLength - kRangeSteps);
    std::vector<SegmentPoints> points;
    SegmentPoints updates;
    for (bool again = true; again;) {
        points = reader.readRuling(numbers, first, step);
        updates = updatesOf(points[0], points[2], entry.role == engine::TensorRole::Weight);
        again = first > 1 && static_cast<int>(updates.steps.size()) < facts.historyLength;
        if (again) first = 1;
    }
    const SegmentPoints& scales = points[1];
    if (scales.steps.empty() || scales.steps.back() != step) return window;
    window.scaleUsed = window.scaleNext = static_cast<float>(scales.values.back());
    if (entry.recipe != "delayed") return window;

    const size_t count = std::min(updates.steps.size() - droppedByChanges(*this, id, updates.steps, step),
                                  static_cast<size_t>(facts.historyLength));
    for (size_t i = updates.steps.size() - count; i < updates.steps.size(); ++i) {
        window.entries.push_back(static_cast<float>(updates.values[i]));
        window.steps.push_back(updates.steps[i]);
    }
    window.everUpdated = count > 0;
    const bool updatedNow = count > 0 && window.steps.back() == step;
    for (size_t i = facts.mostRecent && count > 0 ? count - 1 : 0; i < count; ++i) {
        if (std::isinf(window.entries[i])) window.frozenFor = facts.historyLength - static_cast<int64_t>(count - 1 - i);
        if (window.ruling < 0 || window.entries[i] >= window.entries[static_cast<size_t>(window.ruling)])
            window.ruling = static_cast<int>(i);
    }
    if (facts.mostRecent && window.frozenFor > 0) window.frozenFor = 1;
    if (window.ruling >= 0)
        window.leavesIn =
            facts.mostRecent ? 1 : facts.historyLength - (static_cast<int64_t>(count) - 1 - window.ruling);
    if (window.frozenFor > 0)
        window.ruling = -1;
    else if (updatedNow)
        window.scaleNext = nextScale(window.scaleUsed, window.entries[static_cast<size_t>(window.ruling)],
                                     facts.largest[static_cast<size_t>(tensor)], facts.margin);
    // A scale that stays 1 beside a window that gives another one is not updated at all: nothing in it rules.
    const auto fresh = [](double scale) { return scale == 1; };
    if (window.ruling >= 0 && count > 1 && scales.values.size() > 1 && window.scaleNext != 1 &&
        std::all_of(scales.values.begin(), scales.values.end(), fresh)) {
        window.everUpdated = false;
        window.ruling = -1;
        window.scaleNext = window.scaleUsed;
    }
    if (window.scaleNext == window.scaleUsed)
        for (size_t i = scales.values.size(); i-- > 0 && scales.values[i] == window.scaleUsed;) ++window.age;
    return window;
}

}  // namespace mantissa::experiments
