// Series out of the store into files, exactly as stored.
#pragma once

#include <string>
#include <vector>

#include "experiments/store/run_store.h"

namespace mantissa::experiments {

enum class ExportFormat : uint8_t { Csv, Json, Npy };

/// Names of the run's series that match a glob (* and ? match any character, also "/"); several globs by comma.
std::vector<std::string> matchingSeries(RunStore& store, const std::string& id, const std::string& glob);

/// CSV of one series: columns step, value; of several: series, step, value. JSON: {name: {steps, values}}. C locale,
/// shortest text that reads back to the same number, NaN, Infinity, -Infinity in words (strings in JSON).
std::string exportText(RunStore& store, const std::string& id, const std::vector<std::string>& names,
                       ExportFormat format);

/// Writes atomically (temporary file, rename). Npy: `path` is a folder, or a file when one series matches: float64 (n,
/// 2) [step, value]. Throws Io.
void exportFile(RunStore& store, const std::string& id, const std::vector<std::string>& names, ExportFormat format,
                const std::string& path);

}  // namespace mantissa::experiments
