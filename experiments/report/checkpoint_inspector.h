// Looks into any safetensors file: names, shapes, statistics, histogram, what-if. The file is memory-mapped, so one of
// many gigabytes opens at once and costs only what is looked at. Plain value types for the GUI and `inspect`.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "experiments/tensor_bench.h"

namespace mantissa::experiments {

struct InspectedTensor {
    std::string name, dtype;  ///< "h.0.attn.qkv.weight", "F32"
    std::vector<int64_t> shape;
    uint64_t elements = 0, offset = 0, bytes = 0;
    bool readable = false;  ///< F64, F32, F16, BF16, F8_E4M3, F8_E5M2: has statistics
};

/// Over all elements of one tensor. Moments are of the finite ones, in float64.
struct InspectedStatistics {
    uint64_t elements = 0, zeros = 0, nan = 0, inf = 0;
    double min = 0, max = 0, mean = 0, deviation = 0;  ///< NaN without finite elements
    double amax = 0, smallest = 0;                     ///< largest magnitude, smallest non-zero one; 0: none
    double rms = 0, kurtosis = 0;                      ///< kurtosis raw: n Σx⁴ ÷ (Σx²)²; NaN for all zeros
    int firstExponent = 0;
    std::vector<uint64_t> exponents;  ///< non-zero finite elements by floor(log2|x|), from firstExponent on
};

/// Thread: one object on one thread.
class CheckpointInspector {
  public:
    /// A checkpoint folder of this program stands for its weights.safetensors. Throws InvalidFile with one sentence.
    explicit CheckpointInspector(const std::string& path);
    ~CheckpointInspector();
    CheckpointInspector(const CheckpointInspector&) = delete;
    CheckpointInspector& operator=(const CheckpointInspector&) = delete;

    const std::string& path() const;
    uint64_t sizeBytes() const;
    const std::vector<InspectedTensor>& tensors() const;  ///< by offset
    const std::map<std::string, std::string>& metadata() const;
    /// Index of a name; throws InvalidConfig naming the nearest ones.
    int find(const std::string& name) const;

    /// One pass over the tensor. progress(done, total) in elements may return false to stop: then empty statistics.
    /// Throws InvalidFile for a type without statistics, or when the file shrank meanwhile.
    InspectedStatistics statistics(int tensor, const std::function<bool(uint64_t, uint64_t)>& progress = {}) const;
    /// Values [first, first + count) of a tensor in order of storage, cut at its end.
    std::vector<float> values(int tensor, uint64_t first, uint64_t count) const;
    /// Every recipe side by side on whole rows from the beginning, at most `limit` elements; request: as tensorWhatIf
    /// (values, rows and cols are filled in).
    std::vector<TensorResult> whatIf(int tensor, uint64_t limit, TensorRequest request = {}) const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace mantissa::experiments
