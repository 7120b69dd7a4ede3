#include "experiments/store/series_reader.h"

#include <algorithm>

#include "experiments/store/series_chunk.h"

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

void SeriesReader::readChunks(int64_t series, const Segment& segment, int64_t first, int64_t last, SegmentPoints& out) {
    Statement& query = database_.cached(
        "SELECT start, n, steps, data FROM chunk WHERE run = ? AND segment = ? AND series = ? AND start > ? AND start "
        "<= ? ORDER BY start");
    query.bind(run_)
        .bind(segment.index)
        .bind(series)
        .bind(first - kRangeSteps)
        .bind(std::min(last, closedUntil(segment.index)));
    while (query.step()) {
        const size_t before = out.steps.size();
        if (!decodeChunk(series, query.integer(0), query.integer(1), query.blob(2), query.blob(3), out.steps,
                         out.values))
            ++damaged_;
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
    const bool scalarsOnly =
        std::all_of(series.begin(), series.end(), [](int64_t number) { return number < kNumericsBase; });
    Statement& query = database_.cached(
        "SELECT step, data FROM step_blob WHERE run = ? AND segment = ? AND step >= ? AND step <= ? ORDER BY step");
    query.bind(run_).bind(segment.index).bind(std::max(first, closedUntil(segment.index) + 1)).bind(last);
    while (query.step()) {
        const auto record = decodeStep(query.blob(1), query.integer(0), scalarsOnly);
        if (!record) {
            ++damaged_;
            continue;
        }
        for (size_t i = 0; i < series.size(); ++i) {
            std::optional<double> value;
            if (series[i] < kNumericsBase) {
                for (const auto& [metric, number] : record->scalars)
                    if (static_cast<int64_t>(metric) == series[i]) value = number;
            } else {
                const auto tensor = static_cast<size_t>((series[i] - kNumericsBase) / kStatisticSlots);
                const auto statistic = static_cast<Statistic>((series[i] - kNumericsBase) % kStatisticSlots);
                if (tensor < record->tensors.size()) value = statisticValue(record->tensors[tensor], statistic);
            }
            if (!value) continue;
            out[i]->steps.push_back(record->step);
            out[i]->values.push_back(*value);
        }
    }
    query.reset();
}

std::vector<std::vector<SegmentPoints>> SeriesReader::read(const std::vector<int64_t>& series, int64_t first,
                                                           int64_t last) {
    std::vector<std::vector<SegmentPoints>> result(series.size(), std::vector<SegmentPoints>(segments_.size()));
    for (size_t s = 0; s < segments_.size(); ++s) {
        std::vector<SegmentPoints*> out;
        for (size_t i = 0; i < series.size(); ++i) {
            readChunks(series[i], segments_[s], first, last, result[i][s]);
            out.push_back(&result[i][s]);
        }
        readTail(series, segments_[s], first, last, out);
    }
    return result;
}

std::vector<SegmentPoints> SeriesReader::readRuling(const std::vector<int64_t>& series, int64_t first, int64_t last) {
    std::vector<SegmentPoints> result(series.size());
    for (size_t s = 0; s < segments_.size(); ++s) {
        const Segment& segment = segments_[s];
        if (segment.firstStep > last || segment.cut <= first || segment.cut <= segment.firstStep) continue;
        const int64_t end = std::min(last, segment.cut - 1);
        std::vector<SegmentPoints*> out;
        for (size_t i = 0; i < series.size(); ++i) {
            readChunks(series[i], segment, first, end, result[i]);
            out.push_back(&result[i]);
        }
        readTail(series, segment, first, end, out);
    }
    return result;
}

}  // namespace mantissa::experiments
