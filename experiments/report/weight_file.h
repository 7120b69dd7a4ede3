// A safetensors file of any size, mapped into memory: its tensors, their statistics, and what each recipe would make of
// them.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "engine/checkpoint/safetensors.h"
#include "experiments/store/run_types.h"
#include "experiments/tensor_bench.h"

namespace mantissa::experiments {

/// Of all elements of one tensor, in one pass. mean, deviation and kurtosis are over finite values.
struct WeightStatistics {
    uint64_t elements = 0, zeros = 0, inf = 0, nan = 0;
    double least = std::numeric_limits<double>::quiet_NaN();     ///< smallest finite value
    double greatest = std::numeric_limits<double>::quiet_NaN();  ///< largest finite value
    double amax = 0;                                             ///< largest finite magnitude
    double minNonZero = 0;                                       ///< smallest non-zero finite magnitude; 0: none
    double mean = std::numeric_limits<double>::quiet_NaN();
    double deviation = std::numeric_limits<double>::quiet_NaN();  ///< of the population
    double kurtosis = std::numeric_limits<double>::quiet_NaN();   ///< raw: n sum x^4 / (sum x^2)^2
    Exponents exponents;                                          ///< counts saturate at 2^32 - 1
};

/// The values that a what-if is made from: the whole tensor, or evenly spaced bands of 128 rows (fewer where the rows
/// are long).
struct WeightSample {
    std::vector<float> values;  ///< row-major, rows x cols
    int64_t rows = 1, cols = 0;
    bool whole = true;
};

/// Thread: all members may be called from several threads at once.
class WeightFile {
  public:
    /// Checks the header and maps the file. Throws InvalidFile with path and reason.
    explicit WeightFile(const std::string& path);
    ~WeightFile();
    WeightFile(const WeightFile&) = delete;
    WeightFile& operator=(const WeightFile&) = delete;

    const std::string& path() const;
    uint64_t bytes() const;
    const std::vector<engine::SafetensorsEntry>& entries() const;  ///< by offset
    const std::map<std::string, std::string>& metadata() const;

    /// Reads the tensor once; about 3 ns an element, and no more than 64 MiB of it are in memory at a time. goOn(share)
    /// is asked about 100 times a second and may say false: then the result is empty (elements 0). Every type of the
    /// format is read; complex layouts do not exist in it. Throws InvalidFile when the file was cut short since it was
    /// opened.
    WeightStatistics statistics(size_t entry, const std::function<bool(double)>& goOn = {}) const;
    /// At most `limit` values. A tensor's last dimension is the row.
    WeightSample sample(size_t entry, int64_t limit = int64_t{1} << 20) const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// What one recipe makes of a sample.
struct WeightWhatIf {
    std::string setting;                ///< "current, E4M3", "blocks 128 × 128, E4M3", "MXFP8, E4M3"
    double underflow = 0, clipped = 0;  ///< shares of all elements
    double sqnrDb = 0;                  ///< infinite without error
};
/// Every recipe of the tensor bench; fixed is at scale 1. Empty for a tensor without elements.
std::vector<WeightWhatIf> weightWhatIf(const WeightSample& sample);

}  // namespace mantissa::experiments
