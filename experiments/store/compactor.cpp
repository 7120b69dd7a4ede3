#include "experiments/store/compactor.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/store/series_reader.h"
#include "experiments/store/step_record.h"
#include "experiments/store/step_visit.h"

namespace mantissa::experiments {

namespace {

void writeChunk(Database& database, int64_t run, int segment, const ChunkData& chunk) {
    double low = std::nan(""), high = std::nan("");
    int64_t nonFinite = 0;
    for (const double value : chunk.values) {
        if (!std::isfinite(value))
            ++nonFinite;
        else
            low = std::isnan(low) ? value : std::min(low, value),
            high = std::isnan(high) ? value : std::max(high, value);
    }
    const std::vector<uint8_t> steps = encodeSteps(chunk.steps),
                               data = encodeValues(chunkKind(chunk.series), chunk.values);
    Statement& insert = database.cached(
        "INSERT OR REPLACE INTO chunk(run, segment, series, start, n, steps, data, min, max, non_finite) VALUES (?, ?, "
        "?, ?, ?, ?, ?, ?, ?, ?)");
    insert.bind(run).bind(segment).bind(chunk.series).bind(chunk.start).bind(static_cast<int64_t>(chunk.steps.size()));
    if (steps.empty())
        insert.bindNull();
    else
        insert.bind(steps);
    insert.bind(data).bind(low).bind(high).bind(nonFinite).run();
}

}  // namespace

Compactor::Compactor(Database& database, int64_t run, int segment)
    : database_(database), run_(run), segment_(segment) {}

bool Compactor::begin() {
    Statement& edge = database_.cached("SELECT min(step), max(step) FROM step_blob WHERE run = ? AND segment = ?");
    edge.bind(run_).bind(segment_);
    const bool any = edge.step() && !edge.isNull(0);
    const int64_t oldest = any ? edge.integer(0) : 0, newest = any ? edge.integer(1) : 0;
    edge.reset();
    // Ranges lie on multiples of kRangeSteps (steps 1 … 256, …), so that a chunk never spans more than one.
    first_ = oldest;
    last_ = (oldest - 1) / kRangeSteps * kRangeSteps + kRangeSteps;
    if (!any || newest < last_ + kRangeSteps) return false;
    std::vector<ChunkData> chunks;  // by series number
    auto add = [&](int64_t series, int64_t step, double value) {
        if (static_cast<size_t>(series) >= chunks.size()) chunks.resize(static_cast<size_t>(series) + 1);
        ChunkData& chunk = chunks[static_cast<size_t>(series)];
        if (chunk.steps.empty()) chunk.series = series, chunk.start = step;
        chunk.steps.push_back(step);
        chunk.values.push_back(value);
    };
    Statement& query =
        database_.cached("SELECT step, data FROM step_blob WHERE run = ? AND segment = ? AND step <= ? ORDER BY step");
    query.bind(run_).bind(segment_).bind(last_);
    while (query.step()) {
        const int64_t step = query.integer(0);
        visitStep(
            query.blob(1), [](bool, uint64_t) {},
            [&](Metric metric, double value) { add(static_cast<int64_t>(metric), step, value); },
            [&](uint64_t index, const engine::TensorNumerics& numerics) {
                for (int s = 0; s < kStoredStatistics; ++s)
                    if (const auto value = statisticValue(numerics, static_cast<Statistic>(s)))
                        add(numericsSeries(static_cast<int>(index), static_cast<Statistic>(s)), step, *value);
                return true;
            });
    }
    query.reset();
    chunks_.clear();
    for (auto& chunk : chunks)
        if (!chunk.steps.empty()) chunks_.push_back(std::move(chunk));
    next_ = 0;
    loaded_ = true;
    return true;
}

bool Compactor::slice(int series) {
    if (!loaded_ && !begin()) return false;
    // A range must be written before the next one is closed, however many series there are.
    const size_t least = chunks_.size() / (kRangeSteps / 2) + 1;
    const size_t end = std::min(chunks_.size(), next_ + std::max(least, static_cast<size_t>(std::max(series, 1))));
    {
        Transaction transaction(database_);
        for (size_t i = next_; i < end; ++i) writeChunk(database_, run_, segment_, chunks_[i]);
        transaction.commit();
    }
    next_ = end;
    if (next_ == chunks_.size()) finish();
    return true;
}

void Compactor::finish() {
    Transaction transaction(database_);
    database_.cached("INSERT OR REPLACE INTO chunk_range(run, segment, first_step, last_step) VALUES (?, ?, ?, ?)")
        .bind(run_)
        .bind(segment_)
        .bind(first_)
        .bind(last_)
        .run();
    database_.cached("DELETE FROM step_blob WHERE run = ? AND segment = ? AND step <= ?")
        .bind(run_)
        .bind(segment_)
        .bind(last_)
        .run();
    transaction.commit();
    loaded_ = false;
    chunks_.clear();
}

void Compactor::all() {
    while (slice(std::numeric_limits<int>::max() / 2)) {
    }
}

void compactRun(Database& database, int64_t run) {
    const SeriesReader reader(database, run);
    for (const auto& segment : reader.segments()) Compactor(database, run, segment.index).all();
}

}  // namespace mantissa::experiments
