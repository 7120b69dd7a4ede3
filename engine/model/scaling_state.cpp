#include "engine/model/scaling_state.h"

#include <algorithm>

#include "kernels/formats/block_layout.h"

namespace mantissa::engine {

using namespace kernels;

namespace {

size_t aligned(size_t bytes) {
    return (bytes + 255) / 256 * 256;
}

uint64_t mix(uint64_t x) {  // splitmix64 (Steele, Lea, Flood, OOPSLA 2014)
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/// Where a copy that is stored as (rows, cols) goes: into values, or into codes with the scales behind them.
void placeCopy(uint8_t* memory, bool asCodes, int64_t rows, int64_t cols, void*& values, BlockCodes& codes) {
    if (!asCodes)
        values = memory;
    else if (memory)
        codes = {memory, reinterpret_cast<float*>(memory + blockScaleOffset(rows, cols))};
}

}  // namespace

void carryWindow(const float* from, int fromLength, float* to, int toLength) {
    if (fromLength < 1 || toLength < 1) return;
    to[0] = from[0];
    const int kept = std::min(fromLength, toLength) - 1;
    std::fill(to + 1, to + toLength - kept, 0.0f);
    std::copy(from + fromLength - kept, from + fromLength, to + toLength - kept);
}

ScalingState::ScalingState(const PrecisionPlan& plan, const PrecisionConfig& config, uint64_t seed)
    : plan_(plan), config_(config), seed_(seed), count_(plan.tensorCount()), linears_(plan.linearCount()) {
    for (int slot = 0; slot < count_; ++slot) {
        const RecipeKind recipe = plan_.tensorRecipe(slot);
        ScalingTensor tensor;
        tensor.format = plan_.formatOfSlot(slot);
        tensor.isWeight = plan_.roleOfSlot(slot) == TensorRole::Weight;
        tensor.delayed = recipe == RecipeKind::Delayed;
        tensor.margin = config_.margin;
        tensor.algorithm = config_.algorithm == Algorithm::Max ? AmaxAlgorithm::Max : AmaxAlgorithm::MostRecent;
        if (tensor.delayed) {
            tensor.historyLength = config_.historyLength;
            tensor.historyOffset = static_cast<int32_t>(historyEntries_);
            historyEntries_ += config_.historyLength;
        }
        usesCurrent_ = usesCurrent_ || recipe == RecipeKind::Current;
        host_.push_back(tensor);
    }
}

size_t ScalingState::bytes() const {
    const size_t count = static_cast<size_t>(count_);
    return 2 * aligned(count * sizeof(ScaleEntry)) + aligned(plan_.anyBlock ? 2 * count * sizeof(ScaleEntry) : 0) +
           aligned(static_cast<size_t>(slotCount()) * sizeof(TensorSlot)) +
           aligned(usesCurrent_ ? count * sizeof(TensorSlot) : 0) + aligned(count * sizeof(ScalingTensor)) +
           aligned(static_cast<size_t>(historyEntries_) * sizeof(float));
}

void ScalingState::bind(void* memory) {
    auto* next = static_cast<char*>(memory);
    const auto take = [&next](size_t bytes) {
        char* block = next;
        next += aligned(bytes);
        return static_cast<void*>(block);
    };
    const size_t count = static_cast<size_t>(count_);
    table_ = static_cast<ScaleEntry*>(take(count * sizeof(ScaleEntry)));
    evalTable_ = static_cast<ScaleEntry*>(take(count * sizeof(ScaleEntry)));
    slots_ = static_cast<TensorSlot*>(take(static_cast<size_t>(slotCount()) * sizeof(TensorSlot)));
    scratch_ = static_cast<TensorSlot*>(take(usesCurrent_ ? count * sizeof(TensorSlot) : 0));
    device_ = static_cast<ScalingTensor*>(take(count * sizeof(ScalingTensor)));
    blockEntries_ = static_cast<ScaleEntry*>(take(plan_.anyBlock ? 2 * count * sizeof(ScaleEntry) : 0));
    history_ = static_cast<float*>(take(static_cast<size_t>(historyEntries_) * sizeof(float)));
}

void ScalingState::initialise(Backend& backend) {
    std::vector<ScaleEntry> table(static_cast<size_t>(count_));
    for (int slot = 0; slot < count_; ++slot)
        if (plan_.tensorRecipe(slot) == RecipeKind::Fixed)
            table[static_cast<size_t>(slot)].scale = config_.scale,
            table[static_cast<size_t>(slot)].scaleInv = 1 / config_.scale;
    const std::vector<float> empty(static_cast<size_t>(historyEntries_), 0.0f);
    const std::vector<TensorSlot> slots(static_cast<size_t>(slotCount()));
    backend.upload(table_, table.data(), table.size() * sizeof(ScaleEntry));
    backend.upload(evalTable_, table.data(), table.size() * sizeof(ScaleEntry));
    backend.upload(device_, host_.data(), host_.size() * sizeof(ScalingTensor));
    backend.upload(slots_, slots.data(), slots.size() * sizeof(TensorSlot));
    if (historyEntries_ > 0) backend.upload(history_, empty.data(), empty.size() * sizeof(float));
}

ScaleEntry* ScalingState::entry(int slot, const PassFlags& flags) const {
    const bool scratch = !flags.training && plan_.tensorRecipe(slot) == RecipeKind::Current;
    return (scratch ? evalTable_ : table_) + slot;
}

ScaleEntry* ScalingState::blockEntry(int slot, bool column) const {
    if (plan_.tensorRecipe(slot) != RecipeKind::Nvfp4) return nullptr;
    const bool square = plan_.roleOfSlot(slot) == TensorRole::Weight;
    return blockEntries_ + 2 * slot + (column && !square ? 1 : 0);
}

void ScalingState::putInWindow(Backend& backend, int slot, float value) const {
    const ScalingTensor& tensor = host_[static_cast<size_t>(slot)];
    if (tensor.historyLength < 1) return;
    backend.upload(history_ + tensor.historyOffset + tensor.historyLength - 1, &value, sizeof(value));
}

void ScalingState::stopUpdates(Backend& backend, int slot) {
    ScalingTensor& tensor = host_[static_cast<size_t>(slot)];
    if (!tensor.delayed) return;
    tensor.delayed = 0;
    backend.upload(device_ + slot, &tensor, sizeof(tensor));
}

const float* ScalingState::scaleInvColumn(int slot) const {
    const ScaleEntry* entry = blockEntry(slot, true);
    return entry ? &entry->scaleInv : nullptr;
}

void ScalingState::castBlocks(Backend& backend, int slot, const void* in, DType type, int64_t rows, int64_t cols,
                              CodePair codes, bool counted, const PassFlags& flags) const {
    const TensorRole role = plan_.roleOfSlot(slot);
    const LinearPlan& linear = plan_.linears[static_cast<size_t>(plan_.linearOfSlot(slot))];
    const RecipeKind recipe = linear.fp8Recipe();
    const bool square = role == TensorRole::Weight && linear.squareWeight();
    BlockQuantize op;
    op.rows = rows;
    op.cols = cols;
    op.inType = type;
    op.in = in;
    op.kind = recipe == RecipeKind::Mxfp8   ? BlockKind::Mxfp8
              : recipe == RecipeKind::Nvfp4 ? BlockKind::Nvfp4
                                            : BlockKind::Block128;
    op.format = plan_.formatOfSlot(slot);
    op.blockCols = recipe == RecipeKind::Mxfp8 ? 32 : recipe == RecipeKind::Nvfp4 ? 16 : 128;
    op.blockRows = square ? op.blockCols : 1;
    const bool shared = role == TensorRole::Weight && linear.sharesWeightCopy();
    if (linear.fp8(rowReader(role)) || shared)
        placeCopy(codes.rows, linear.codesIn(rowReader(role)), rows, cols, op.rowValues, op.rowCodes);
    if (linear.fp8(columnReader(role)) && !shared)
        placeCopy(codes.transposed, linear.codesIn(columnReader(role)), cols, rows, op.colValues, op.colCodes);
    op.rowEntry = blockEntry(slot, false);
    op.colEntry = blockEntry(slot, true);
    op.hadamard = recipe == RecipeKind::Nvfp4 && config_.hadamard && role != TensorRole::Weight;
    op.stochastic = config_.stochasticRounding && role == TensorRole::GradOutput;
    if (op.stochastic) op.seed = roundingSeed(slot, flags);
    const int statistics = role == TensorRole::Weight ? count_ + plan_.linearOfSlot(slot) : slot;
    op.slot = counted && flags.training ? slots_ + statistics : nullptr;
    op.count = flags.count;
    op.dear = flags.dear;
    op.exponents = flags.dear && flags.exponents;
    if (op.hasRow() || op.hasColumn()) backend.run(op);
}

void ScalingState::castColumnCopy(Backend& backend, int slot, const void* in, int64_t rows, int64_t cols, void* out,
                                  const PassFlags& flags) const {
    const LinearPlan& linear = plan_.linears[static_cast<size_t>(plan_.linearOfSlot(slot))];
    if (!linear.block() || !linear.fp8(columnReader(plan_.roleOfSlot(slot)))) return;
    const bool counted = !linear.fp8(rowReader(plan_.roleOfSlot(slot)));
    castBlocks(backend, slot, in, DType::BF16, rows, cols, {nullptr, static_cast<uint8_t*>(out)}, counted, flags);
}

const float* ScalingState::scaleInv(int slot, const PassFlags& flags) const {
    if (isBlockRecipe(plan_.tensorRecipe(slot))) {
        const ScaleEntry* entry = blockEntry(slot, false);
        return entry ? &entry->scaleInv : nullptr;
    }
    return &entry(slot, flags)->scaleInv;
}

uint64_t ScalingState::roundingSeed(int slot, const PassFlags& flags) const {
    return mix(mix(mix(seed_) + flags.step) * 65536 + static_cast<uint64_t>(flags.micro) * 1048576 +
               static_cast<uint64_t>(slot));
}

CastTarget ScalingState::fullCast(int slot, CodePair codes, const ScaleEntry* entry, TensorSlot* statistics,
                                  const PassFlags& flags) const {
    CastTarget target;
    target.format = plan_.formatOfSlot(slot);
    target.codes = codes.rows;
    target.codesTransposed = codes.transposed;
    target.scale = &entry->scale;
    target.slot = statistics;
    target.count = flags.count;
    target.dear = flags.dear;
    target.exponents = flags.dear && flags.exponents;
    target.stochastic = config_.stochasticRounding && plan_.roleOfSlot(slot) == TensorRole::GradOutput;
    if (target.stochastic) target.seed = roundingSeed(slot, flags);
    return target;
}

CastTarget ScalingState::againCast(int slot, uint8_t* transposed, const PassFlags& flags) const {
    const RecipeKind recipe = plan_.tensorRecipe(slot);
    if (!transposed || recipe == RecipeKind::Bf16 || isBlockRecipe(recipe)) return {};
    CastTarget target;
    target.format = plan_.formatOfSlot(slot);
    target.codesTransposed = transposed;
    target.scale = &entry(slot, flags)->scale;
    return target;
}

CastTarget ScalingState::producerCast(int slot, CodePair codes, const PassFlags& flags) const {
    const RecipeKind recipe = plan_.tensorRecipe(slot);
    if (recipe == RecipeKind::Bf16 || isBlockRecipe(recipe)) return {};
    if (recipe != RecipeKind::Current)
        return fullCast(slot, codes, entry(slot, flags), flags.training ? slots_ + slot : nullptr, flags);
    CastTarget target;
    target.format = plan_.formatOfSlot(slot);
    target.slot = scratch_ + slot;
    target.scale = &entry(slot, flags)->scale;
    target.amaxOnly = true;
    target.count = false;
    return target;
}

void ScalingState::finishCast(Backend& backend, int slot, const void* in, int64_t rows, int64_t cols, CodePair codes,
                              const PassFlags& flags) const {
    if (isBlockRecipe(plan_.tensorRecipe(slot)))
        return castBlocks(backend, slot, in, DType::BF16, rows, cols, codes, true, flags);
    if (plan_.tensorRecipe(slot) != RecipeKind::Current) return;
    CurrentScale scale;
    scale.format = plan_.formatOfSlot(slot);
    scale.slot = scratch_ + slot;
    scale.entry = entry(slot, flags);
    scale.powerOfTwo = config_.powerOfTwo;
    scale.epsilon = config_.amaxEpsilon;
    backend.run(scale);
    Quantize quantize;
    quantize.rows = rows;
    quantize.cols = cols;
    quantize.in = in;
    quantize.target = fullCast(slot, codes, scale.entry, flags.training ? slots_ + slot : nullptr, flags);
    backend.run(quantize);
}

CastTarget ScalingState::weightCast(int linear, CodePair codes, bool dear, bool exponents, bool count) const {
    const int slot = plan_.slot(linear, TensorRole::Weight);
    const RecipeKind recipe = plan_.tensorRecipe(slot);
    if (recipe == RecipeKind::Bf16 || isBlockRecipe(recipe)) return {};
    PassFlags flags;
    flags.dear = dear;
    flags.exponents = exponents;
    flags.count = count;
    CastTarget target = fullCast(slot, codes, table_ + slot, slots_ + slot, flags);
    if (recipe == RecipeKind::Current) {
        target.amaxOnly = true;
        target.codes = target.codesTransposed = nullptr;
        target.dear = target.exponents = target.count = false;
    }
    return target;
}

void ScalingState::castCurrentWeight(Backend& backend, int linear, const void* weight, DType type, CodePair codes,
                                     const PassFlags& flags) const {
    const int slot = plan_.slot(linear, TensorRole::Weight);
    const LinearPlan& one = plan_.linears[static_cast<size_t>(linear)];
    if (one.block()) return castBlocks(backend, slot, weight, type, one.out, one.in, codes, true, flags);
    if (plan_.tensorRecipe(slot) != RecipeKind::Current) return;
    CurrentScale scale;
    scale.format = plan_.formatOfSlot(slot);
    scale.slot = slots_ + slot;
    scale.entry = entry(slot, flags);
    scale.powerOfTwo = config_.powerOfTwo;
    scale.epsilon = config_.amaxEpsilon;
    backend.run(scale);
    Quantize quantize;
    quantize.rows = plan_.linears[static_cast<size_t>(linear)].out;
    quantize.cols = plan_.linears[static_cast<size_t>(linear)].in;
    quantize.inType = type;
    quantize.in = weight;
    quantize.target = fullCast(slot, codes, scale.entry, flags.training ? slots_ + count_ + linear : nullptr, flags);
    backend.run(quantize);
}

void ScalingState::beginPass(Backend& backend) const {
    if (!usesCurrent_) return;
    Fill clear;
    clear.n = static_cast<int64_t>(static_cast<size_t>(count_) * sizeof(TensorSlot) / sizeof(float));
    clear.out = reinterpret_cast<float*>(scratch_);
    backend.run(clear);
}

void ScalingState::updateDelayed(Backend& backend, const StepState* state) const {
    if (historyEntries_ == 0) return;
    DelayedUpdate update;
    update.count = count_;
    update.tensors = device_;
    update.slots = slots_;
    update.history = history_;
    update.table = table_;
    update.applied = &state->applied;
    backend.run(update);
}

}  // namespace mantissa::engine
