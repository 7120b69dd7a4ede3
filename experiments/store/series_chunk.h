// One series over a closed range of steps, packed. Scalars: f64. Counters: zigzag differences as varints. Other
// statistics: f32.
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/store/database.h"

namespace mantissa::experiments {

enum class ChunkKind : uint8_t { F64, F32, Counter };
ChunkKind chunkKind(int64_t series);

struct ChunkData {
    int64_t series = 0, start = 0;
    std::vector<int64_t> steps;  ///< ascending
    std::vector<double> values;
};

/// Differences − 1 between steps as varints, or empty for consecutive steps.
std::vector<uint8_t> encodeSteps(const std::vector<int64_t>& steps);
std::vector<uint8_t> encodeValues(ChunkKind kind, const std::vector<double>& values);
/// Appends n points to the vectors; false (and nothing appended) when the blobs are damaged. stepsBlob.data null:
/// consecutive.
bool decodeChunk(int64_t series, int64_t start, int64_t n, BlobView stepsBlob, BlobView data,
                 std::vector<int64_t>& steps, std::vector<double>& values);

}  // namespace mantissa::experiments
