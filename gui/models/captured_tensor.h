// A captured tensor cast under every recipe: rows of a table, and the scales of its blocks as a map.
#pragma once

#include <QString>
#include <vector>

#include "experiments/report/what_if.h"
#include "experiments/tensor_bench.h"
#include "gui/widgets/what_if_table.h"

namespace mantissa::gui {

/// Scales of a tensor's blocks, row-major; scale: multiplier before the cast.
struct BlockMap {
    int rows = 0, cols = 0;
    std::vector<float> scale, amax;
    bool empty() const { return scale.empty(); }
    /// log2(largest ÷ smallest amax) over blocks that are not all zero: what one scale for the tensor would have to
    /// span. NaN: no such block.
    double range() const;
};

struct CapturedReport {
    int tensor = -1;
    int64_t step = 0;  ///< of the capture; 0: the tensor was not captured
    int64_t rows = 0, cols = 0;
    bool whole = true;  ///< else its first rows, up to 2^20 elements
    std::vector<WhatIfRow> list;
    std::vector<BlockMap> maps;  ///< one a row of `list`; empty for recipes with one scale a tensor
};

/// The newest capture of the tensor up to `step` (< 0: the newest of all), cast. Background thread.
CapturedReport readCaptured(experiments::RunStore& store, const std::string& id, int tensor, int64_t step);
/// A cast's shares and SQNR as a row of the table.
WhatIfRow castRow(const experiments::TensorResult& result);
/// The scales of its blocks; empty for recipes with one scale a tensor.
BlockMap blockMap(const experiments::TensorResult& result);
/// "current, E4M3", "blocks 1 × 128, E4M3".
QString castName(const experiments::TensorRequest& request);

}  // namespace mantissa::gui
