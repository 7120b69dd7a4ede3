#include "experiments/job/capture.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "engine/checkpoint/safetensors.h"

namespace mantissa::experiments {

std::string writeCapture(const std::string& folder, const std::string& run, int64_t step,
                         const engine::CatalogueEntry& entry, const std::vector<float>& values) {
    std::filesystem::create_directories(folder);
    std::string name = engine::tensorName(entry);
    std::replace(name.begin(), name.end(), '/', '.');
    engine::SafetensorsEntry tensor;
    tensor.name = name;
    tensor.dtype = "F32";
    const auto count = static_cast<int64_t>(values.size());
    const bool whole = entry.cols > 0 && count % entry.cols == 0;
    tensor.shape = {whole ? count / entry.cols : 1, whole ? entry.cols : count};
    std::vector<engine::SafetensorsEntry> entries = {tensor};
    const std::string header = engine::makeSafetensorsHeader(
        entries, {{"run", run}, {"step", std::to_string(step)}, {"format", entry.format}, {"recipe", entry.recipe}});
    const std::string path = fmt::format("{}/step-{:08}-{}.safetensors", folder, step, name);
    engine::FileWriter file(path);
    file.write(header.data(), header.size());
    file.write(values.data(), values.size() * sizeof(float));
    file.finish();
    return path;
}

}  // namespace mantissa::experiments
