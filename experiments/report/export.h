// Series out of the store into files, exactly as stored.
#pragma once

#include <string>
#include <vector>

#include "experiments/store/run_store.h"

namespace mantissa::experiments {

enum class ExportFormat : uint8_t { Csv, Json, Npy };

/// Names of the run's series that match a glob (* and ? match any character, also "/"); several globs by comma.
std::vector<std::string> matchingSeries(RunStore& store, const std::string& id, const std::string& glob);

/// What an export left out.
struct ExportGaps {
    std::vector<std::string> empty;  ///< series without a point; no format has them
    size_t unreadable = 0;           ///< pieces of the run (step records, packed blocks) that cannot be decoded
};

/// CSV of one series: columns step, value; of several: series, step, value. JSON: {name: {steps, values}}. C locale,
/// shortest text that reads back to the same number, NaN, Infinity, -Infinity in words (strings in JSON). Series
/// without a point are left out in every format. `names` is what was asked for: it decides on the columns.
std::string exportText(RunStore& store, const std::string& id, const std::vector<std::string>& names,
                       ExportFormat format, ExportGaps* gaps = nullptr);

/// Writes atomically (temporary file, rename). Npy: `path` is a folder, or a file when one series matches: float64 (n,
/// 2) [step, value]. Throws Io, and InvalidConfig, with nothing written, when no series has a point.
ExportGaps exportFile(RunStore& store, const std::string& id, const std::vector<std::string>& names,
                      ExportFormat format, const std::string& path);

}  // namespace mantissa::experiments
