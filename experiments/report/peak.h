// Model FLOP utilisation with its divisor named: a share of a peak means nothing without the peak.
#pragma once

#include <optional>
#include <string>

#include "engine/config.h"

namespace mantissa::experiments {

/// Dense peak of a device for one operand format, as its maker's data sheet gives it (without sparsity).
struct NamedPeak {
    double flops = 0;    ///< FLOP/s
    std::string name;    ///< "FP8 peak of an H200, 1979 TFLOP/s dense (data sheet)"
    std::string format;  ///< "FP8", "BF16", "TF32", "FP32"
};

/// The peak that a run's products could reach on a device; none for a device that is not in the table (every CPU).
/// deviceName: as the driver gives it, "NVIDIA H200".
std::optional<NamedPeak> namedPeak(const std::string& deviceName, engine::PrecisionMode mode);

/// The formula behind flopsPerToken, for tooltips: forward and backward, attention at half the square.
extern const char* const kFlopsFormula;

}  // namespace mantissa::experiments
