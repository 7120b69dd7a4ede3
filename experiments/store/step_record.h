// All metrics of one step as one packed blob, and its exponents as another.
//
// Step blob, version 1: u8 version; u8 flags (1: probed step); u8 n; n × (u8 metric, f64); varint tensors; for each in
// catalogue order: u8 flags (1: cast, 2: dear, 4: amax alone), then amax f32 | amax f32, scale f32, 8 varint counters |
// + smallest non-zero, MSE, SQNR, kurtosis f32. Exponents blob, version 1: u8 version; varint tensors; for each: varint
// bins, then varint first bin, varint n, n counts; then what else a probed step measured: varint n shadows, each varint
// linear, u8 gemm, f64 SQNR, f64 relative error, varint rows; varint n ops with non-finite output, each layer and op
// (varint length, bytes), u8 backward, varint NaN, Inf, element + 1; varint n weights with stale codes, each varint
// tensor, codes.
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

/// Empty vector when no tensor has exponents and nothing else was measured.
std::vector<uint8_t> encodeExponents(const engine::NumericsRecord& numerics);
/// Full-length counts of one tensor; empty when it has none or the blob is damaged.
std::vector<uint32_t> decodeExponents(BlobView blob, int tensor);

/// What a probed step measured beside the exponents; empty where the blob has none or is damaged. Of `ops` only those
/// with non-finite values are kept; stale: (catalogue index, codes).
struct ProbeExtras {
    std::vector<engine::ShadowRow> shadow;
    std::vector<engine::OpCheck> ops;
    std::vector<std::pair<int, uint64_t>> stale;
};
ProbeExtras decodeExtras(BlobView blob);

/// Value of a stored statistic of a tensor; empty when it was not recorded in this step.
std::optional<double> statisticValue(const engine::TensorNumerics& tensor, Statistic statistic);

}  // namespace mantissa::experiments
