// Another precision between two steps: the program is built again around the same masters, moments and progress.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "engine/trainer_core.h"
#include "kernels/error.h"

namespace mantissa::engine {

using namespace kernels;

namespace {

constexpr float kFirstLossScale = 65536;  // FP16

/// What outlives a program, on the host.
struct Carried {
    std::vector<float> masters, moment1, moment2, history;
    std::vector<ScaleEntry> table;
    std::vector<ScalingTensor> descriptions;
    StepState state;
};

std::vector<float> download(Backend& backend, const float* from, int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    if (count > 0) backend.download(values.data(), from, values.size() * sizeof(float));
    return values;
}

void upload(Backend& backend, float* to, const std::vector<float>& values) {
    if (!values.empty()) backend.upload(to, values.data(), values.size() * sizeof(float));
}

Carried takeOut(Backend& backend, const StepProgram& program) {
    const ScalingState& scaling = program.scaling();
    const int64_t n = program.layout().size;
    Carried carried;
    carried.masters = download(backend, program.parameters().masters, n);
    carried.moment1 = download(backend, program.parameters().moment1, n);
    carried.moment2 = download(backend, program.parameters().moment2, n);
    carried.history = download(backend, scaling.history(), scaling.historyEntries());
    carried.table.resize(static_cast<size_t>(scaling.count()));
    backend.download(carried.table.data(), scaling.table(), carried.table.size() * sizeof(ScaleEntry));
    carried.descriptions = scaling.descriptions();
    carried.state = program.state(backend);
    return carried;
}

bool keepsScale(const PrecisionPlan& before, const PrecisionPlan& after, int slot) {
    const RecipeKind recipe = after.tensorRecipe(slot);
    return recipe == before.tensorRecipe(slot) && (recipe == RecipeKind::Delayed || recipe == RecipeKind::Current) &&
           before.formatOfSlot(slot) == after.formatOfSlot(slot);
}

void putIn(Backend& backend, StepProgram& program, const PrecisionPlan& before, const Carried& carried) {
    upload(backend, program.parameters().masters, carried.masters);
    upload(backend, program.parameters().moment1, carried.moment1);
    upload(backend, program.parameters().moment2, carried.moment2);
    ScalingState& scaling = program.scaling();
    std::vector<ScaleEntry> table(static_cast<size_t>(scaling.count()));
    backend.download(table.data(), scaling.table(), table.size() * sizeof(ScaleEntry));
    std::vector<float> history(static_cast<size_t>(scaling.historyEntries()));
    for (int slot = 0; slot < scaling.count(); ++slot) {
        if (!keepsScale(before, program.precision(), slot)) continue;
        const ScalingTensor& to = scaling.descriptions()[static_cast<size_t>(slot)];
        const ScalingTensor& from = carried.descriptions[static_cast<size_t>(slot)];
        table[static_cast<size_t>(slot)] = carried.table[static_cast<size_t>(slot)];
        carryWindow(carried.history.data() + from.historyOffset, from.historyLength, history.data() + to.historyOffset,
                    to.historyLength);
    }
    backend.upload(scaling.table(), table.data(), table.size() * sizeof(ScaleEntry));
    upload(backend, scaling.history(), history);
    program.setState(backend, carried.state);
}

/// What changed, in sentences. `step`: the first one under the new precision.
std::vector<std::string> changes(const PrecisionConfig& before, const PrecisionConfig& after, const PrecisionPlan& from,
                                 const PrecisionPlan& to, int64_t step) {
    std::vector<std::string> sentences;
    if (before.mode != after.mode)
        sentences.push_back(
            fmt::format("precision.mode {} -> {} from step {}", modeName(before.mode), modeName(after.mode), step));
    std::map<std::pair<RecipeKind, RecipeKind>, int> moved;
    int fresh = 0, formats = 0;
    for (int linear = 0; linear < to.linearCount(); ++linear)
        for (int gemm = 0; gemm < kGemms; ++gemm) {
            const RecipeKind a = from.linears[static_cast<size_t>(linear)].recipe[gemm];
            const RecipeKind b = to.linears[static_cast<size_t>(linear)].recipe[gemm];
            if (a != b) ++moved[{a, b}];
        }
    for (int slot = 0; slot < to.tensorCount(); ++slot) {
        const RecipeKind recipe = to.tensorRecipe(slot);
        if (recipe == RecipeKind::Bf16) continue;
        formats += recipe == from.tensorRecipe(slot) && from.formatOfSlot(slot) != to.formatOfSlot(slot);
        fresh += recipe == RecipeKind::Delayed && !keepsScale(from, to, slot);
    }
    for (const auto& [pair, count] : moved)
        sentences.push_back(fmt::format("{} -> {} in {} products from step {}", recipeName(pair.first),
                                        recipeName(pair.second), count, step));
    if (formats) sentences.push_back(fmt::format("another format in {} tensors from step {}", formats, step));
    if (fresh)
        sentences.push_back(
            fmt::format("{} tensors start fresh under the delayed recipe: scale 1, empty window", fresh));
    if (before.historyLength != after.historyLength && to.anyFp8)
        sentences.push_back(fmt::format(
            "precision.history_length {} -> {} from step {}: the newest {} entries are kept", before.historyLength,
            after.historyLength, step, std::min(before.historyLength, after.historyLength)));
    if (before.margin != after.margin)
        sentences.push_back(fmt::format("precision.margin {} -> {} from the next update", before.margin, after.margin));
    if (before.algorithm != after.algorithm)
        sentences.push_back(fmt::format("precision.algorithm {} from the next update",
                                        after.algorithm == Algorithm::Max ? "max" : "most_recent"));
    return sentences;
}

}  // namespace

std::vector<std::string> TrainerCore::setPrecision(const PrecisionConfig& precision) {
    requireNoneAhead();
    TrainerConfig config = config_;
    config.precision = precision;
    auto next = std::make_unique<StepProgram>(config, backend_, shareMemory_);
    const MemoryPlan memory = next->memoryPlan(backend_, data_->bytesInMemory());
    DeviceInfo device = backend_.info();
    device.memoryFree += device.memoryFree ? memory_.total() : 0;  // what the old program gives back
    refuseIfTooLarge(memory, device);

    const Carried carried = takeOut(backend_, *program_);
    program_->release();
    try {
        next->allocate(backend_);
    } catch (const Error&) {
        program_->allocate(backend_);
        putIn(backend_, *program_, program_->precision(), carried);
        applyShadow(config_.probes);
        refreshWeights();
        throw;
    }
    putIn(backend_, *next, program_->precision(), carried);
    const bool wasFp16 = config_.precision.mode == PrecisionMode::Fp16, fp16 = precision.mode == PrecisionMode::Fp16;
    if (wasFp16 != fp16) {
        StepState state = carried.state;
        state.lossScale = fp16 ? kFirstLossScale : 1;
        state.goodSteps = 0;
        next->setState(backend_, state);
    }
    std::vector<std::string> sentences =
        changes(config_.precision, precision, program_->precision(), next->precision(), progress_.step + 1);
    program_ = std::move(next);
    config_ = config;
    memory_ = memory;
    takeProgram();
    faults_.rebuilt(progress_.step);
    applyShadow(config_.probes);
    refreshWeights();
    return sentences;
}

}  // namespace mantissa::engine
