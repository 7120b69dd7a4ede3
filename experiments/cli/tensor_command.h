// `mantissa-run tensor`: the tensor bench on the command line.
#pragma once

#include <iosfwd>
#include <vector>

#include "experiments/cli/global_options.h"
#include "experiments/tensor_bench.h"

namespace CLI {
class App;
}

namespace mantissa::experiments {

/// Adds the sub-command; when it is parsed, options.run becomes the call. `options` must outlive `app`.
void addTensorCommand(CLI::App& app, GlobalOptions& options);

/// Lists are cut at 4,096 items unless `all`.
void writeTensorJson(const TensorResult& result, bool all, std::ostream& out);
void writeTensorJson(const std::vector<TensorResult>& results, bool all, std::ostream& out);
/// codes, dequantized and scale alone: what --codes shows.
void writeDecodedJson(const TensorResult& result, bool all, std::ostream& out);
void writeTraceJson(const std::vector<TraceRow>& rows, bool all, std::ostream& out);

}  // namespace mantissa::experiments
