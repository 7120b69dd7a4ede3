// Reads series of one run out of chunks and hot tail. Callers hold a ReadView over one reading.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "experiments/store/database.h"
#include "experiments/store/step_record.h"

namespace mantissa::experiments {

/// Steps of a range of the hot tail that compaction closes together, and so the longest chunk.
constexpr int64_t kRangeSteps = 256;

struct SegmentPoints {
    std::vector<int64_t> steps;
    std::vector<double> values;
};

class SeriesReader {
  public:
    struct Segment {
        int index = 0;
        int64_t firstStep = 1;
        int64_t cut = std::numeric_limits<int64_t>::max();  ///< steps from here on are superseded by a later segment
    };
    SeriesReader(Database& database, int64_t run);
    const std::vector<Segment>& segments() const { return segments_; }

    /// result[i][s]: points of series[i] in segments()[s], first <= step <= last, ascending. Damaged pieces are left
    /// out and noted in Database::unreadable.
    std::vector<std::vector<SegmentPoints>> read(const std::vector<int64_t>& series, int64_t first, int64_t last);
    /// The rule "newest segment" applied to read(). Pieces::NotZero leaves out packed pieces without a value above 0,
    /// as nearly all counters of NaN and Inf are.
    enum class Pieces { All, NotZero };
    std::vector<SegmentPoints> readRuling(const std::vector<int64_t>& series, int64_t first, int64_t last,
                                          Pieces pieces = Pieces::All);
    /// Segment (index into segments()) that rules a step; −1: none.
    int rulingSegment(int64_t step) const;

  private:
    void readChunks(int64_t series, const Segment& segment, int64_t first, int64_t last, Pieces pieces,
                    SegmentPoints& out);
    void readTail(const std::vector<int64_t>& series, const Segment& segment, int64_t first, int64_t last,
                  const std::vector<SegmentPoints*>& out);
    int64_t closedUntil(int segment);

    Database& database_;
    int64_t run_;
    std::vector<Segment> segments_;
};

}  // namespace mantissa::experiments
