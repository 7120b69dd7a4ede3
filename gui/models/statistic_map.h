// One statistic of all tensors over a range of steps, and the tensors ranked by it. Read on the background thread.
#pragma once

#include <QString>
#include <vector>

#include "experiments/store/run_store.h"
#include "gui/models/alarm_rules.h"

namespace mantissa::gui {

/// The worst value of every tensor in each of `columns` stretches of the steps first … last. Shadow measurements of a
/// product stand in the row of the tensor that shadowGemm() gives it.
experiments::Heatmap readMap(experiments::RunStore& store, const std::string& id, const StatisticInfo& info,
                             int64_t first, int64_t last, int columns);

struct RankRow {
    int tensor = -1;
    QString name;  ///< "h.2 fc1 · dy"; of a shadow measurement the product, "h.2 fc1 · dgrad"
    double worst = 0;
    int64_t step = 0;  ///< of the worst value, or the first of the stretch that holds it
    bool nonFinite = false;
};
/// Worst first; tensors without a value in the range are left out.
std::vector<RankRow> rankTensors(experiments::RunStore& store, const std::string& id, const StatisticInfo& info,
                                 int64_t first, int64_t last);

}  // namespace mantissa::gui
