// Keeps one tensor of a run as a safetensors file.
#pragma once

#include <string>
#include <vector>

#include "engine/numerics.h"

namespace mantissa::experiments {

/// Writes FOLDER/step-00000060-h.1.mlp.fc1.input.safetensors with one F32 tensor of the entry's shape (a vector of
/// another length is stored as one row) and metadata run, step, format, recipe. Returns the path. Throws Io.
std::string writeCapture(const std::string& folder, const std::string& run, int64_t step,
                         const engine::CatalogueEntry& entry, const std::vector<float>& values);

}  // namespace mantissa::experiments
