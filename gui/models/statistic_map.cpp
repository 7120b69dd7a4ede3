#include "gui/models/statistic_map.h"

#include <algorithm>
#include <cmath>
#include <limits>
namespace mantissa::gui {

using namespace experiments;

namespace {

constexpr int64_t kRankColumns = 2048;

/// The worst of the shadow measurements of the products, in the rows of the tensors that shadowGemm() gives them.
Heatmap shadowMap(RunStore& store, const std::string& id, int64_t first, int64_t last, int columns) {
    Heatmap map;
    const RunDocument document = store.document(id);
    map.firstStep = std::max<int64_t>(1, first);
    map.lastStep = last;
    map.tensors = int(document.catalogue.size());
    map.columns = std::max(1, columns);
    const size_t cells = size_t(map.tensors) * size_t(map.columns);
    map.values.assign(cells, std::numeric_limits<float>::quiet_NaN());
    map.nonFinite.assign(cells, 0);
    map.steps.assign(cells, 0);
    const double span = double(map.lastStep - map.firstStep + 1);
    for (const ShadowRow& row : store.shadow(id, map.firstStep, map.lastStep)) {
        const int column = std::clamp(int(double(row.step - map.firstStep) * map.columns / span), 0, map.columns - 1);
        for (int t = 0; t < map.tensors; ++t) {
            const auto& entry = document.catalogue[size_t(t)];
            if (entry.layer != row.layer || entry.linear != row.linear || row.gemm != shadowGemm(entry.role)) {
                continue;
            }
            const size_t cell = size_t(t) * size_t(map.columns) + size_t(column);
            float& value = map.values[cell];
            value = std::isnan(value) ? row.sqnrDb : std::min(value, row.sqnrDb);
            ++map.steps[cell];
        }
    }
    return map;
}

}  // namespace

Heatmap readMap(RunStore& store, const std::string& id, const StatisticInfo& info, int64_t first, int64_t last,
                int columns) {
    return info.shadow ? shadowMap(store, id, first, last, columns)
                       : store.heatmap(id, info.statistic, first, last, columns);
}

std::vector<RankRow> rankTensors(RunStore& store, const std::string& id, const StatisticInfo& info, int64_t first,
                                 int64_t last) {
    const auto catalogue = store.document(id).catalogue;
    const int columns = int(std::clamp<int64_t>(last - first + 1, 1, kRankColumns));
    const Heatmap map = readMap(store, id, info, first, last, columns);
    const bool lowIsBad = info.statistic == Statistic::SqnrDb;
    std::vector<RankRow> rows;
    for (int t = 0; t < map.tensors && t < int(catalogue.size()); ++t) {
        RankRow row;
        int at = -1;
        for (int c = 0; c < map.columns; ++c) {
            const size_t cell = size_t(t) * size_t(map.columns) + size_t(c);
            const double value = double(map.values[cell]);
            const bool bad = map.nonFinite[cell] != 0;
            if ((std::isnan(value) && !bad) || (row.nonFinite && !bad)) continue;
            if (at < 0 || (bad && !row.nonFinite) || (lowIsBad ? value < row.worst : value > row.worst)) {
                at = c;
                row.worst = value;
                row.nonFinite = bad;
            }
        }
        if (at < 0) continue;
        row.tensor = t;
        const auto& entry = catalogue[size_t(t)];
        row.name = tensorTitle(entry);
        if (info.shadow)
            row.name =
                row.name.left(row.name.lastIndexOf(QStringLiteral(" · ")) + 3) + QLatin1String(shadowGemm(entry.role));
        row.step = map.firstStep + int64_t(double(at) * double(map.lastStep - map.firstStep + 1) / map.columns);
        rows.push_back(row);
    }
    std::stable_sort(rows.begin(), rows.end(), [lowIsBad](const RankRow& a, const RankRow& b) {
        if (a.nonFinite != b.nonFinite) return a.nonFinite;
        return lowIsBad ? a.worst < b.worst : a.worst > b.worst;
    });
    return rows;
}

}  // namespace mantissa::gui
