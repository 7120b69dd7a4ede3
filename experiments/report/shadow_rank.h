// Products ranked by what FP8 costs them: the measurements of the shadow probes.
#pragma once

#include <string>
#include <vector>

#include "experiments/store/run_store.h"

namespace mantissa::experiments {

struct ShadowRank {
    std::string layer, linear, gemm;  ///< "h.3", "mlp.fc1" ("" for lm_head), fprop, dgrad, wgrad
    int measured = 0;
    double meanError = 0;   ///< relative error of the output, √ of the mean of squares
    double worstError = 0;  ///< the largest
    int64_t worstStep = 0;
};
/// Over steps first … last (−1: to the newest), the largest mean error first.
std::vector<ShadowRank> rankShadows(RunStore& store, const std::string& id, int64_t first = 1, int64_t last = -1);

}  // namespace mantissa::experiments
