// Facts about a run's tensors that reading statistics needs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/store/run_store.h"

namespace mantissa::experiments {

struct TensorFacts {
    std::vector<engine::CatalogueEntry> catalogue;
    std::vector<double> largest;  ///< M of each tensor's format
    int margin = 0, historyLength = 1024;
    bool mostRecent = false;
};
/// step: whose settings (margin, length, algorithm) count; −1: those in force at the end.
TensorFacts tensorFacts(RunStore& store, const std::string& id, int64_t step = -1);

/// Pieces of the run (records of a step, packed blocks of a series) that what was read of it on this store so far
/// needed and could not decode.
size_t unreadablePieces(RunStore& store, const std::string& id);

struct NumericsName {
    int tensor;
    Statistic statistic;
};
std::optional<NumericsName> parseNumericsName(const std::vector<engine::CatalogueEntry>& catalogue,
                                              const std::string& name);

}  // namespace mantissa::experiments
