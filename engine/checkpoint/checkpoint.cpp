#include "engine/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/state_file.h"
#include "kernels/error.h"

namespace mantissa::engine {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr size_t kBlock = size_t{1} << 20;  // bytes moved at a time: a checkpoint needs no second copy of the model
constexpr float kFirstLossScale = 65536;

template <class Sink>
void streamFromDevice(kernels::Backend& backend, const void* device, size_t bytes, Sink&& sink) {
    std::vector<char> block(std::min(bytes, kBlock));
    for (size_t done = 0; done < bytes; done += block.size()) {
        const size_t part = std::min(block.size(), bytes - done);
        backend.download(block.data(), static_cast<const char*>(device) + done, part);
        sink(block.data(), part);
        if (part < block.size()) break;
    }
}

void streamToDevice(kernels::Backend& backend, void* device, const FileReader& file, uint64_t offset, size_t bytes) {
    std::vector<char> block(std::min(bytes, kBlock));
    for (size_t done = 0; done < bytes;) {
        const size_t part = std::min(block.size(), bytes - done);
        file.read(offset + done, block.data(), part);
        backend.upload(static_cast<char*>(device) + done, block.data(), part);
        done += part;
    }
}

std::string tensorId(const PrecisionPlan& plan, int slot) {
    const LinearPlan& linear = plan.linears[static_cast<size_t>(plan.linearOfSlot(slot))];
    return linear.layerName + "/" + linear.name + "/" + roleName(plan.roleOfSlot(slot));
}

json modelJson(const ModelConfig& model) {
    return {{"vocabulary", model.vocabulary}, {"width", model.width}, {"heads", model.heads},
            {"layers", model.layers},         {"ffn", model.ffn},     {"context", model.context},
            {"tied_head", model.tiedHead}};
}

json metaJson(const TrainerCore& core, uint32_t weightsCrc, uint64_t weightsBytes) {
    const PrecisionPlan& plan = core.program().precision();
    const auto& descriptions = core.program().scaling().descriptions();
    json tensors = json::array();
    for (int slot = 0; slot < plan.tensorCount(); ++slot) {
        if (plan.tensorRecipe(slot) == RecipeKind::Bf16) continue;
        const kernels::ScalingTensor& d = descriptions[static_cast<size_t>(slot)];
        tensors.push_back({{"name", tensorId(plan, slot)},
                           {"format", dtypeName(d.format)},
                           {"recipe", recipeName(plan.tensorRecipe(slot))},
                           {"slot", slot},
                           {"history_length", d.historyLength},
                           {"history_offset", d.historyOffset}});
    }
    const TrainerCore::Progress& progress = core.progress();
    const kernels::DeviceInfo& device = core.backend().info();
    return {{"program", MANTISSA_VERSION},
            {"step", progress.step},
            {"tokens", progress.tokens},
            {"windows", progress.windows},
            {"learning_rate_factor", progress.learningRateFactor},
            {"class", device.determinismClass},
            {"isa", device.isa},
            {"mode", modeName(core.config().precision.mode)},
            {"model", modelJson(core.config().model)},
            {"tensors", tensors},
            {"weights_crc", weightsCrc},
            {"weights_bytes", weightsBytes}};
}

/// Returns checksum and size of the file.
std::pair<uint32_t, uint64_t> writeWeights(const TrainerCore& core, const std::string& path) {
    std::vector<const ParameterInfo*> order;
    std::vector<SafetensorsEntry> entries;
    for (const ParameterInfo& tensor : core.program().layout().tensors) {
        SafetensorsEntry entry;
        entry.name = tensor.name;
        entry.dtype = "F32";
        if (tensor.decay)
            entry.shape = {tensor.fileRows, tensor.cols};
        else
            entry.shape = {tensor.cols};
        entries.push_back(entry);
        order.push_back(&tensor);
    }
    const std::string header =
        makeSafetensorsHeader(entries, {{"format", "mantissa"}, {"step", std::to_string(core.progress().step)}});
    FileWriter file(path);
    file.write(header.data(), header.size());
    for (const ParameterInfo* tensor : order)
        streamFromDevice(core.backend(), core.program().parameters().masters + tensor->offset,
                         static_cast<size_t>(tensor->fileRows * tensor->cols) * sizeof(float),
                         [&file](const char* data, size_t bytes) { file.write(data, bytes); });
    file.finish();
    return {file.crc(), file.size()};
}

void writeState(const TrainerCore& core, const std::string& path, uint32_t weightsCrc, uint64_t weightsBytes) {
    const StepProgram& program = core.program();
    const ScalingState& scaling = program.scaling();
    StateWriter file(path, 6);
    const std::string meta = metaJson(core, weightsCrc, weightsBytes).dump();
    file.begin("meta");
    file.write(meta.data(), meta.size());
    const kernels::StepState state = program.state(core.backend());
    file.begin("step_state");
    file.write(&state, sizeof(state));
    const auto array = [&](const char* name, const void* device, size_t bytes) {
        file.begin(name);
        streamFromDevice(core.backend(), device, bytes,
                         [&file](const char* data, size_t part) { file.write(data, part); });
    };
    const size_t flat = static_cast<size_t>(program.layout().size) * sizeof(float);
    array("moment1", program.parameters().moment1, flat);
    array("moment2", program.parameters().moment2, flat);
    array("scales", scaling.table(), static_cast<size_t>(scaling.count()) * sizeof(kernels::ScaleEntry));
    array("windows", scaling.history(), static_cast<size_t>(scaling.historyEntries()) * sizeof(float));
    file.finish();
}

void replaceDirectory(const std::string& from, const std::string& to) {
    const std::string old = to + ".old";
    fs::remove_all(old);
    if (fs::exists(to)) fs::rename(to, old);
    fs::rename(from, to);
    const fs::path parent = fs::absolute(to).parent_path();
    syncDirectory(parent.string());
    fs::remove_all(old);
}

json parseMeta(const StateReader& file) {
    const std::vector<char> bytes = file.read("meta");
    try {
        json meta = json::parse(bytes.begin(), bytes.end());
        meta.at("step").get<int64_t>();
        return meta;
    } catch (const json::exception&) {
        file.file().fail("is damaged in section meta");
    }
}

/// A finished checkpoint is a directory; one that a crash left half replaced is found under its former name.
std::string existingDirectory(const std::string& directory) {
    if (!fs::is_directory(directory) && fs::is_directory(directory + ".old")) return directory + ".old";
    return directory;
}

/// "is of another model: width is 64 there and 128 here", or "".
std::string modelDifference(const json& meta, const ModelConfig& model) {
    const json wanted = modelJson(model), found = meta.at("model");
    for (const auto& [key, value] : wanted.items())
        if (!found.contains(key) || found.at(key) != value)
            return fmt::format("is of another model: {} is {} there and {} here", key,
                               found.contains(key) ? found.at(key).dump() : "missing", value.dump());
    return "";
}

void checkModel(const StateReader& file, const json& meta, const ModelConfig& model) {
    if (const std::string difference = modelDifference(meta, model); !difference.empty()) file.file().fail(difference);
}

/// The file is the one that was saved with the state.
void checkWholeWeights(const FileReader& file, const json& meta) {
    if (file.size() != meta.at("weights_bytes").get<uint64_t>() ||
        file.crc(0, file.size()) != meta.at("weights_crc").get<uint32_t>())
        file.fail("is damaged, or not the file that was saved with state.mantissa");
}

SafetensorsIndex checkWeights(const FileReader& file, const json& meta, const ParameterLayout& layout) {
    const SafetensorsIndex index = readSafetensorsIndex(file);
    for (const ParameterInfo& tensor : layout.tensors) {
        const SafetensorsEntry* entry = index.find(tensor.name);
        if (!entry) file.fail("has no tensor " + tensor.name);
        if (entry->dtype != "F32" || entry->count() != tensor.fileRows * tensor.cols)
            file.fail(fmt::format("tensor {}: {} values of type {}, {} of type F32 expected", tensor.name,
                                  entry->count(), entry->dtype, tensor.fileRows * tensor.cols));
    }
    checkWholeWeights(file, meta);
    return index;
}

/// Scales and windows as they will be: the file's where a tensor has the same format and recipe (a window of another
/// length keeps the newest entries), else fresh.
struct ScaleArrays {
    std::vector<kernels::ScaleEntry> table;
    std::vector<float> history;
    int wanted = 0, missing = 0;  ///< tensors with delayed scales
};

/// The saved description that fits the tensor, or nullptr.
const json* savedTensor(const json& meta, const std::string& id, RecipeKind recipe,
                        const kernels::ScalingTensor& description) {
    for (const json& one : meta.at("tensors"))
        if (one.at("name") == id && one.at("format") == dtypeName(description.format) &&
            one.at("recipe") == recipeName(recipe))
            return &one;
    return nullptr;
}

ScaleArrays mergeScales(const TrainerCore& core, const StateReader& file, const json& meta) {
    const PrecisionPlan& plan = core.program().precision();
    const ScalingState& scaling = core.program().scaling();
    ScaleArrays arrays;
    arrays.table.resize(static_cast<size_t>(scaling.count()));
    arrays.history.resize(static_cast<size_t>(scaling.historyEntries()));
    const std::vector<char> savedTable = file.read("scales"), savedHistory = file.read("windows");
    for (int slot = 0; slot < plan.tensorCount(); ++slot) {
        const RecipeKind recipe = plan.tensorRecipe(slot);
        const kernels::ScalingTensor& d = scaling.descriptions()[static_cast<size_t>(slot)];
        kernels::ScaleEntry& entry = arrays.table[static_cast<size_t>(slot)];
        if (recipe == RecipeKind::Fixed) entry.scale = core.config().precision.scale, entry.scaleInv = 1 / entry.scale;
        if (recipe == RecipeKind::Fixed || recipe == RecipeKind::Bf16) continue;
        const bool delayed = recipe == RecipeKind::Delayed;
        const json* saved = savedTensor(meta, tensorId(plan, slot), recipe, d);
        arrays.wanted += delayed;
        arrays.missing += delayed && !saved;
        if (!saved) continue;
        const size_t from = saved->at("slot").get<size_t>() * sizeof(entry);
        const size_t window = delayed ? saved->at("history_offset").get<size_t>() * sizeof(float) : 0;
        const int length = delayed ? saved->at("history_length").get<int>() : 0;
        const size_t bytes = static_cast<size_t>(std::max(length, 0)) * sizeof(float);
        if (from + sizeof(entry) > savedTable.size() || window + bytes > savedHistory.size())
            file.file().fail("is damaged in section scales");
        std::memcpy(&entry, savedTable.data() + from, sizeof(entry));
        if (!delayed) continue;
        std::vector<float> entries(static_cast<size_t>(std::max(length, 0)));
        std::memcpy(entries.data(), savedHistory.data() + window, bytes);
        carryWindow(entries.data(), length, arrays.history.data() + d.historyOffset, d.historyLength);
    }
    return arrays;
}

CheckpointInfo infoOf(const StateReader& file, const json& meta, const FileReader& weights) {
    CheckpointInfo info;
    info.step = meta.at("step").get<int64_t>();
    info.determinismClass = meta.at("class").get<std::string>();
    info.precision = meta.at("mode").get<std::string>();
    info.hasFp8State = !meta.at("tensors").empty();
    info.bytes = file.file().size() + weights.size();
    return info;
}

LoadNote makeNote(const ScaleArrays& scales, const json& meta, const std::string& ownClass) {
    LoadNote note;
    const auto savedClass = meta.at("class").get<std::string>();
    note.otherClass = savedClass != ownClass;
    note.fp8StateMissing = scales.missing > 0;
    if (note.fp8StateMissing)
        note.text = fmt::format(
            "FP8 state missing: the checkpoint (precision {}) has no scales and windows for {} of {} tensors under "
            "this "
            "recipe; they start at scale 1",
            meta.at("mode").get<std::string>(), scales.missing, scales.wanted);
    if (note.otherClass)
        note.text +=
            fmt::format("{}not bit-identical from step {}: saved under {}, continued under {}",
                        note.text.empty() ? "" : "; ", meta.at("step").get<int64_t>() + 1, savedClass, ownClass);
    return note;
}

kernels::StepState loadedStepState(const StateReader& file, const json& meta, PrecisionMode mode) {
    kernels::StepState state;
    const std::vector<char> bytes = file.read("step_state", sizeof(state));
    std::memcpy(&state, bytes.data(), sizeof(state));
    const bool savedFp16 = meta.at("mode") == modeName(PrecisionMode::Fp16), fp16 = mode == PrecisionMode::Fp16;
    if (savedFp16 != fp16) {
        state.lossScale = fp16 ? kFirstLossScale : 1;
        state.goodSteps = 0;
    }
    return state;
}

}  // namespace

namespace checkpoint {

void save(const TrainerCore& core, const std::string& directory) {
    const std::string temporary = directory + ".tmp";
    try {
        fs::remove_all(temporary);
        fs::create_directories(temporary);
        const auto [crc, bytes] = writeWeights(core, temporary + "/weights.safetensors");
        writeState(core, temporary + "/state.mantissa", crc, bytes);
        syncDirectory(temporary);
        replaceDirectory(temporary, directory);
    } catch (const fs::filesystem_error& error) {
        throw Error(ErrorCode::Io, directory + ": " + error.code().message());
    } catch (const Error&) {
        std::error_code ignored;
        fs::remove_all(temporary, ignored);
        throw;
    }
}

Loaded load(TrainerCore& core, const std::string& wanted, bool allowOtherClass) {
    const std::string directory = existingDirectory(wanted);
    const StateReader file(directory + "/state.mantissa");
    const json meta = parseMeta(file);
    kernels::Backend& backend = core.backend();
    const StepProgram& program = core.program();
    const ParameterLayout& layout = program.layout();
    const size_t flat = static_cast<size_t>(layout.size) * sizeof(float);
    try {
        checkModel(file, meta, core.config().model);
        const FileReader weights(directory + "/weights.safetensors");
        const SafetensorsIndex index = checkWeights(weights, meta, layout);
        for (const char* name : {"moment1", "moment2"})
            if (!file.find(name) || file.find(name)->bytes != flat)
                file.file().fail(std::string("is damaged in section ") + name);
        const ScaleArrays scales = mergeScales(core, file, meta);
        const kernels::StepState state = loadedStepState(file, meta, core.config().precision.mode);
        Loaded loaded;
        loaded.note = makeNote(scales, meta, backend.info().determinismClass);
        if (loaded.note.otherClass && !allowOtherClass)
            file.file().fail(fmt::format(
                "was saved under determinism class {}, this device is {}; going on gives other bits and must be "
                "allowed",
                meta.at("class").get<std::string>(), backend.info().determinismClass));
        loaded.progress = {meta.at("step").get<int64_t>(), meta.at("tokens").get<int64_t>(),
                           meta.at("windows").get<int64_t>(), meta.at("learning_rate_factor").get<double>()};

        for (const ParameterInfo& tensor : layout.tensors)
            streamToDevice(backend, program.parameters().masters + tensor.offset, weights,
                           index.find(tensor.name)->offset,
                           static_cast<size_t>(tensor.fileRows * tensor.cols) * sizeof(float));
        streamToDevice(backend, program.parameters().moment1, file.file(), file.find("moment1")->offset, flat);
        streamToDevice(backend, program.parameters().moment2, file.file(), file.find("moment2")->offset, flat);
        const ScalingState& scaling = program.scaling();
        backend.upload(scaling.table(), scales.table.data(), scales.table.size() * sizeof(kernels::ScaleEntry));
        if (!scales.history.empty())
            backend.upload(scaling.history(), scales.history.data(), scales.history.size() * sizeof(float));
        core.program().setState(backend, state);
        return loaded;
    } catch (const json::exception&) {
        file.file().fail("is damaged in section meta");
    }
}

CheckpointInfo verify(const std::string& wanted, const ModelConfig& model) {
    const std::string directory = existingDirectory(wanted);
    const StateReader file(directory + "/state.mantissa");
    const json meta = parseMeta(file);
    try {
        const FileReader weights(directory + "/weights.safetensors");
        readSafetensorsIndex(weights);
        checkWholeWeights(weights, meta);
        if (const std::string difference = modelDifference(meta, model); !difference.empty())
            throw Error(ErrorCode::InvalidConfig, fmt::format("{}: {}", directory, difference));
        return infoOf(file, meta, weights);
    } catch (const json::exception&) {
        file.file().fail("is damaged in section meta");
    }
}

uint64_t hashState(const TrainerCore& core) {
    uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a-64
    const auto add = [&hash](const char* data, size_t bytes) {
        for (size_t i = 0; i < bytes; ++i) hash = (hash ^ static_cast<uint8_t>(data[i])) * 0x100000001b3ull;
    };
    const StepProgram& program = core.program();
    const ScalingState& scaling = program.scaling();
    const size_t flat = static_cast<size_t>(program.layout().size) * sizeof(float);
    for (const float* array :
         {program.parameters().masters, program.parameters().moment1, program.parameters().moment2})
        streamFromDevice(core.backend(), array, flat, add);
    streamFromDevice(core.backend(), scaling.table(),
                     static_cast<size_t>(scaling.count()) * sizeof(kernels::ScaleEntry), add);
    streamFromDevice(core.backend(), scaling.history(), static_cast<size_t>(scaling.historyEntries()) * sizeof(float),
                     add);
    const kernels::StepState state = program.state(core.backend());
    add(reinterpret_cast<const char*>(&state), sizeof(state));
    const TrainerCore::Progress& progress = core.progress();
    add(reinterpret_cast<const char*>(&progress), sizeof(progress));
    return hash;
}

}  // namespace checkpoint

CheckpointInfo readCheckpointInfo(const std::string& wanted) {
    const std::string directory = existingDirectory(wanted);
    const StateReader file(directory + "/state.mantissa");
    const json meta = parseMeta(file);
    try {
        return infoOf(file, meta, FileReader(directory + "/weights.safetensors"));
    } catch (const json::exception&) {
        file.file().fail("is damaged in section meta");
    }
}

}  // namespace mantissa::engine
