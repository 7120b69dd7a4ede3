#include "experiments/store/series_chunk.h"

#include "experiments/store/bytes.h"
#include "experiments/store/metrics.h"

namespace mantissa::experiments {

namespace {
constexpr int64_t kMaxPoints = 1 << 24;
}

ChunkKind chunkKind(int64_t series) {
    if (series < kNumericsBase) return ChunkKind::F64;
    return isCounter(static_cast<Statistic>((series - kNumericsBase) % kStatisticSlots)) ? ChunkKind::Counter
                                                                                         : ChunkKind::F32;
}

std::vector<uint8_t> encodeSteps(const std::vector<int64_t>& steps) {
    if (steps.empty() || steps.back() - steps.front() + 1 == static_cast<int64_t>(steps.size())) return {};
    ByteWriter out;
    for (size_t i = 1; i < steps.size(); ++i) out.varint(static_cast<uint64_t>(steps[i] - steps[i - 1] - 1));
    return out.take();
}

std::vector<uint8_t> encodeValues(ChunkKind kind, const std::vector<double>& values) {
    ByteWriter out;
    int64_t last = 0;
    for (const double value : values) {
        if (kind == ChunkKind::F64) out.f64(value);
        if (kind == ChunkKind::F32) out.f32(static_cast<float>(value));
        if (kind == ChunkKind::Counter) {
            // Counters come out of the step blob as doubles; beyond 2^53 elements a tensor does not exist.
            const auto count = static_cast<int64_t>(toCount(value));
            out.zigzag(count - last);
            last = count;
        }
    }
    return out.take();
}

bool decodeChunk(int64_t series, int64_t start, int64_t n, BlobView stepsBlob, BlobView data,
                 std::vector<int64_t>& steps, std::vector<double>& values) {
    if (n < 0 || n > kMaxPoints) return false;
    const size_t before = steps.size();
    const ChunkKind kind = chunkKind(series);
    ByteReader stepReader(stepsBlob.data, stepsBlob.size), reader(data.data, data.size);
    const size_t smallest = kind == ChunkKind::F64 ? 8 : kind == ChunkKind::F32 ? 4 : 1;
    if (data.size < static_cast<size_t>(n) * smallest) return false;
    uint64_t step = static_cast<uint64_t>(start),
             counter = 0;  // unsigned: damaged data may wrap, which must stay defined
    for (int64_t i = 0; i < n; ++i) {
        if (i > 0) step += 1 + (stepsBlob.size == 0 ? 0 : stepReader.varint());
        steps.push_back(static_cast<int64_t>(step));
        if (kind == ChunkKind::F64)
            values.push_back(reader.f64());
        else if (kind == ChunkKind::F32)
            values.push_back(reader.f32());
        else
            values.push_back(
                static_cast<double>(static_cast<int64_t>(counter += static_cast<uint64_t>(reader.zigzag()))));
    }
    if (reader.ok() && stepReader.ok()) return true;
    steps.resize(before);
    values.resize(before);
    return false;
}

}  // namespace mantissa::experiments
