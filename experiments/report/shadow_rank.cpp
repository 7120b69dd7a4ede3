#include "experiments/report/shadow_rank.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace mantissa::experiments {

std::vector<ShadowRank> rankShadows(RunStore& store, const std::string& id, int64_t first, int64_t last) {
    std::map<std::tuple<std::string, std::string, std::string>, ShadowRank> products;
    for (const ShadowRow& row : store.shadow(id, first, last)) {
        ShadowRank& rank = products[{row.layer, row.linear, row.gemm}];
        const double error = static_cast<double>(row.relativeError);
        ++rank.measured;
        rank.meanError += error * error;
        if (rank.measured > 1 && error <= rank.worstError) continue;
        rank.worstError = error;
        rank.worstStep = row.step;
    }
    std::vector<ShadowRank> ranks;
    for (auto& [key, rank] : products) {
        std::tie(rank.layer, rank.linear, rank.gemm) = key;
        rank.meanError = std::sqrt(rank.meanError / rank.measured);
        ranks.push_back(std::move(rank));
    }
    std::stable_sort(ranks.begin(), ranks.end(),
                     [](const ShadowRank& a, const ShadowRank& b) { return a.meanError > b.meanError; });
    return ranks;
}

}  // namespace mantissa::experiments
