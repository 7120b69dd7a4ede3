// All metrics of one step as one packed blob, and its exponents as another.
//
// Step blob, version 1: u8 version; u8 flags (1: probed step); u8 n; n × (u8 metric, f64); varint tensors; for each in
// catalogue order: u8 flags (1: cast, 2: dear, 4: amax alone), then amax f32 | amax f32, scale f32, 8 varint counters |
// + smallest non-zero, MSE, SQNR, kurtosis f32. Exponents blob, version 1: u8 version; varint tensors; for each: varint
// bins, then zigzag first bin, varint counts up to the last non-zero.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "engine/numerics.h"
#include "experiments/store/database.h"
#include "experiments/store/metrics.h"

namespace mantissa::experiments {

struct StepRecord {
    int64_t step = 0;
    bool probed = false;
    std::vector<std::pair<Metric, double>> scalars;
    std::vector<engine::TensorNumerics> tensors;  ///< exponents left out
};

std::vector<uint8_t> encodeStep(const StepRecord& record, const engine::NumericsRecord* numerics);
/// Empty: damaged, or of a later version.
std::optional<StepRecord> decodeStep(BlobView blob, int64_t step);

/// Empty vector when no tensor has exponents.
std::vector<uint8_t> encodeExponents(const engine::NumericsRecord& numerics);
/// Full-length counts of one tensor; empty when it has none or the blob is damaged.
std::vector<uint32_t> decodeExponents(BlobView blob, int tensor);

/// Value of a stored statistic of a tensor; empty when it was not recorded in this step.
std::optional<double> statisticValue(const engine::TensorNumerics& tensor, Statistic statistic);

}  // namespace mantissa::experiments
