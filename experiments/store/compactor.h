// Turns closed ranges of a segment's hot tail into one chunk a series, a few series at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "experiments/store/database.h"
#include "experiments/store/series_chunk.h"

namespace mantissa::experiments {

class Compactor {
  public:
    Compactor(Database& database, int64_t run, int segment);
    /// Writes the chunks of about `series` series of the oldest closed range that is not compacted; reads the range
    /// first when it begins one. A range is closed when a whole further range follows it. False: nothing to do. Throws
    /// Database; it can be called again then.
    bool slice(int series);
    /// Until nothing is left.
    void all();

  private:
    bool begin();
    void finish();

    Database& database_;
    int64_t run_;
    int segment_;
    bool loaded_ = false;
    int64_t first_ = 0, last_ = 0;
    std::vector<ChunkData> chunks_;
    size_t next_ = 0;
};

/// Compacts all closed ranges of every segment of a run.
void compactRun(Database& database, int64_t run);

}  // namespace mantissa::experiments
