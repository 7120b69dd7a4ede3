#include "experiments/store/series_reader.h"

#include <algorithm>

#include "experiments/store/series_chunk.h"
#include "experiments/store/step_visit.h"

namespace mantissa::experiments {

SeriesReader::SeriesReader(Database& database, int64_t run) : database_(database), run_(run) {
    Statement& query = database.cached("SELECT segment, first_step FROM segment WHERE run = ? ORDER BY segment");
    query.bind(run);
    while (query.step()) segments_.push_back({static_cast<int>(query.integer(0)), query.integer(1)});
    query.reset();
    int64_t cut = std::numeric_limits<int64_t>::max();
    for (auto segment = segments_.rbegin(); segment != segments_.rend(); ++segment) {
        segment->cut = cut;
        cut = std::min(cut, segment->firstStep);
    }
}

int SeriesReader::rulingSegment(int64_t step) const {
    for (int s = static_cast<int>(segments_.size()) - 1; s >= 0; --s)
        if (const auto& segment = segments_[static_cast<size_t>(s)]; segment.firstStep <= step)
            return step < segment.cut ? s : -1;
    return -1;
}

int64_t SeriesReader::closedUntil(int segment) {
    Statement& query =
        database_.cached("SELECT coalesce(max(last_step), 0) FROM chunk_range WHERE run = ? AND segment = ?");
    query.bind(run_).bind(segment);
    const int64_t last = query.step() ? query.integer(0) : 0;
    query.reset();
    return last;
}

void SeriesReader::readChunks(int64_t series, const Segment& segment, int64_t first, int64_t last, Pieces pieces,
                              SegmentPoints& out) {
    Statement& query = database_.cached(
        pieces == Pieces::All
            ? "SELECT start, n, steps, data FROM chunk WHERE run = ? AND segment = ? AND series = ? AND start > ? AND "
              "start <= ? ORDER BY start"
            : "SELECT start, n, steps, data FROM chunk WHERE run = ? AND segment = ? AND series = ? AND start > ? AND "
              "start <= ? AND (max > 0 OR max IS NULL) ORDER BY start");
    query.bind(run_)
        .bind(segment.index)
        .bind(series)
        .bind(first - kRangeSteps)
        .bind(std::min(last, closedUntil(segment.index)));
    while (query.step()) {
        const size_t before = out.steps.size();
        if (!decodeChunk(series, query.integer(0), query.integer(1), query.blob(2), query.blob(3), out.steps,
                         out.values))
            database_.unreadable(run_).emplace(segment.index, series, query.integer(0));
        // Points of this chunk outside [first, last] go: only the first and the last chunk have any.
        size_t keep = before;
        for (size_t i = before; i < out.steps.size(); ++i)
            if (out.steps[i] >= first && out.steps[i] <= last) {
                out.steps[keep] = out.steps[i];
                out.values[keep++] = out.values[i];
            }
        out.steps.resize(keep);
        out.values.resize(keep);
    }
    query.reset();
}

void SeriesReader::readTail(const std::vector<int64_t>& series, const Segment& segment, int64_t first, int64_t last,
                            const std::vector<SegmentPoints*>& out) {
    // Which of the wanted series a scalar, or a statistic of a tensor, is for.
    std::vector<std::pair<Metric, size_t>> scalars;
    std::vector<std::vector<std::pair<Statistic, size_t>>> tensors;
    for (size_t i = 0; i < series.size(); ++i) {
        if (series[i] < kNumericsBase) {
            scalars.emplace_back(static_cast<Metric>(series[i]), i);
            continue;
        }
        const auto tensor = static_cast<size_t>((series[i] - kNumericsBase) / kStatisticSlots);
        if (tensor >= tensors.size()) tensors.resize(tensor + 1);
        tensors[tensor].emplace_back(static_cast<Statistic>((series[i] - kNumericsBase) % kStatisticSlots), i);
    }
    Statement& query = database_.cached(
        "SELECT step, data FROM step_blob WHERE run = ? AND segment = ? AND step >= ? AND step <= ? ORDER BY step");
    query.bind(run_).bind(segment.index).bind(std::max(first, closedUntil(segment.index) + 1)).bind(last);
    while (query.step()) {
        const int64_t step = query.integer(0);
        auto put = [&](size_t i, double value) {
            out[i]->steps.push_back(step);
            out[i]->values.push_back(value);
        };
        const bool good = visitStep(
            query.blob(1), [](bool, uint64_t) {},
            [&](Metric metric, double value) {
                for (const auto& [wanted, i] : scalars)
                    if (wanted == metric) put(i, value);
            },
            [&](uint64_t index, const engine::TensorNumerics& numerics) {
                if (index >= tensors.size()) return false;
                for (const auto& [statistic, i] : tensors[index])
                    if (const auto value = statisticValue(numerics, statistic)) put(i, *value);
                return true;
            });
        if (!good) database_.unreadable(run_).emplace(segment.index, -1, step);
    }
    query.reset();
}

std::vector<std::vector<SegmentPoints>> SeriesReader::read(const std::vector<int64_t>& series, int64_t first,
                                                           int64_t last) {
    std::vector<std::vector<SegmentPoints>> result(series.size(), std::vector<SegmentPoints>(segments_.size()));
    for (size_t s = 0; s < segments_.size(); ++s) {
        std::vector<SegmentPoints*> out;
        for (size_t i = 0; i < series.size(); ++i) {
            readChunks(series[i], segments_[s], first, last, Pieces::All, result[i][s]);
            out.push_back(&result[i][s]);
        }
        readTail(series, segments_[s], first, last, out);
    }
    return result;
}

std::vector<SegmentPoints> SeriesReader::readRuling(const std::vector<int64_t>& series, int64_t first, int64_t last,
                                                    Pieces pieces) {
    std::vector<SegmentPoints> result(series.size());
    for (size_t s = 0; s < segments_.size(); ++s) {
        const Segment& segment = segments_[s];
        if (segment.firstStep > last || segment.cut <= first || segment.cut <= segment.firstStep) continue;
        const int64_t end = std::min(last, segment.cut - 1);
        std::vector<SegmentPoints*> out;
        for (size_t i = 0; i < series.size(); ++i) {
            readChunks(series[i], segment, first, end, pieces, result[i]);
            out.push_back(&result[i]);
        }
        readTail(series, segment, first, end, out);
    }
    return result;
}

}  // namespace mantissa::experiments
