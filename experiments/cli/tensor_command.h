// `mantissa-run tensor`: the tensor bench on the command line.
#pragma once

#include <functional>
#include <iosfwd>
#include <vector>

#include "experiments/tensor_bench.h"

namespace CLI {
class App;
}

namespace mantissa::experiments {

/// Adds the sub-command and returns it, so that the program can add the flags that all commands share; when it is
/// parsed, `action` becomes the call (it returns the exit code, errors leave it as exceptions). json is read when it
/// runs; both must outlive `app`.
CLI::App* addTensorCommand(CLI::App& app, const bool& json, std::function<int()>& action);
inline constexpr const char* kTensorExample =
    "mantissa-run tensor --values \"3, -1.5, 0.75, inf\" --format e4m3 --recipe current --json";

/// Lists are cut at 4,096 items unless `all`.
void writeTensorJson(const TensorResult& result, bool all, std::ostream& out);
void writeTensorJson(const std::vector<TensorResult>& results, bool all, std::ostream& out);
/// codes, dequantized and scale alone: what --codes shows.
void writeDecodedJson(const TensorResult& result, bool all, std::ostream& out);
void writeTraceJson(const std::vector<TraceRow>& rows, bool all, std::ostream& out);

}  // namespace mantissa::experiments
