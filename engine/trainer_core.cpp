#include "engine/trainer_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/checkpoint/checkpoint.h"
#include "engine/schedule.h"
#include "kernels/error.h"

namespace mantissa::engine {

using namespace kernels;

namespace {

double secondsSince(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

void refuseIfTooLarge(const MemoryPlan& plan, const DeviceInfo& device) {
    if (device.memoryFree == 0 || plan.total() <= device.memoryFree) return;
    const double gib = 1024.0 * 1024.0 * 1024.0;
    throw Error(ErrorCode::OutOfMemory,
                fmt::format("Not started: the plan needs {:.2f} GiB, {:.2f} GiB of memory are free on {}; lower "
                            "train.batch (activations "
                            "take {:.2f} GiB), model.context, model.layers or model.width",
                            plan.total() / gib, device.memoryFree / gib, device.id, plan.activations / gib));
}

TensorNumerics tensorNumerics(const TensorSlot& slot, bool dear, bool exponents) {
    TensorNumerics n;
    const CastCounters& c = slot.counters;
    n.amax = slot.amax;
    n.scale = slot.scaleUsed;
    const uint64_t counters[8] = {c.elements, c.zeros, c.underflow, c.subnormal, c.overRange, c.clipped, c.inf, c.nan};
    std::copy(std::begin(counters), std::end(counters), n.counters);
    n.dear = dear;
    if (!dear) return n;
    const double finite = static_cast<double>(c.elements - c.inf - c.nan);
    const DearStats& d = slot.dear;
    n.minNonZero = d.minNonZero;
    n.mse = finite > 0 ? static_cast<float>(d.sumSquaredError / finite) : 0;
    n.sqnrDb = static_cast<float>(10 * std::log10(d.sumSquares / d.sumSquaredError));
    n.kurtosis = static_cast<float>(finite * d.sumFourth / (d.sumSquares * d.sumSquares));
    if (exponents)
        for (uint64_t count : d.exponents)
            n.exponents.push_back(
                static_cast<uint32_t>(std::min<uint64_t>(count, std::numeric_limits<uint32_t>::max())));
    return n;
}

TrainerCore::TrainerCore(const TrainerConfig& config, Backend& backend, std::shared_ptr<const TokenSource> data,
                         bool shareMemory)
    : config_(config),
      backend_(backend),
      data_(std::move(data)),
      shareMemory_(shareMemory),
      program_(std::make_unique<StepProgram>(config, backend, shareMemory)),
      faults_(config, program_->precision(), program_->layout()) {
    checkConfig();
    memory_ = program_->memoryPlan(backend_, data_->bytesInMemory());
    MemoryPlan wanted = memory_;
    wanted.host -= data_->bytesInMemory();  // the corpus is there already
    refuseIfTooLarge(wanted, backend_.info());
    takeProgram();
    window_.resize(static_cast<size_t>(config_.model.context) + 1);
    tokens_.resize(static_cast<size_t>(program_->rows()));
    targets_.resize(static_cast<size_t>(program_->rows()));
    shadowMask(config_.probes);
    program_->allocate(backend_);
    applyShadow(config_.probes);
    refreshWeights();
}

void TrainerCore::refreshWeights() {
    program_->refreshWeights(backend_, passFlags(progress_.step + 1));
    weightSlots_ = program_->slots(backend_);
    backend_.takePhaseTimes();  // no part of the step that follows
}

std::vector<bool> TrainerCore::shadowMask(const ProbeConfig& probes) const {
    const PrecisionPlan& plan = program().precision();
    std::vector<bool> mask(static_cast<size_t>(plan.linearCount()), probes.shadowMatch.empty());
    for (const std::string& pattern : probes.shadowMatch) {
        bool found = false;
        for (size_t linear = 0; linear < mask.size(); ++linear) {
            if (!globMatches(pattern, plan.linears[linear].fullName())) continue;
            mask[linear] = found = true;
        }
        if (!found)
            throw Error(ErrorCode::InvalidConfig,
                        fmt::format("probes.shadow_match: \"{}\" matches no linear; they are named h.0.attn.qkv, "
                                    "h.0.attn.proj, h.0.mlp.fc1, h.0.mlp.fc2, ..., lm_head",
                                    pattern));
    }
    return mask;
}

void TrainerCore::applyShadow(const ProbeConfig& probes) {
    const std::vector<bool> mask = shadowMask(probes);
    program_->setShadow(backend_, probes.shadowEvery > 0 ? &mask : nullptr);
}

void TrainerCore::takeProgram() {
    catalogue_ = program_->precision().catalogue(program_->rows());
    catalogueSlots_ = program_->precision().catalogueSlots();
}

void TrainerCore::checkConfig() const {
    const auto atLeast = [](const char* name, int64_t value, int64_t least) {
        if (value < least)
            throw Error(ErrorCode::InvalidConfig,
                        fmt::format("train.{}: {}; allowed: {} and more", name, value, least));
    };
    atLeast("batch", config_.batch, 1);
    atLeast("accumulation", config_.accumulation, 1);
    atLeast("steps", config_.steps, 1);
    if (data_->vocabulary() > config_.model.vocabulary)
        throw Error(ErrorCode::InvalidConfig,
                    fmt::format("model.vocabulary: {} is less than the {} token ids of the data",
                                config_.model.vocabulary, data_->vocabulary()));
}

PassFlags TrainerCore::passFlags(int64_t step) const {
    PassFlags flags;
    flags.step = static_cast<uint64_t>(step);
    flags.count = config_.probes.counters;
    const bool trouble = step <= troubleUntil_;
    flags.dear = config_.probes.counters && (trouble || (config_.probes.every > 0 && step % config_.probes.every == 0));
    flags.exponents = flags.dear && config_.probes.histograms > 0 && step % config_.probes.histograms == 0;
    flags.ops = config_.probes.opChecks && (trouble || (config_.probes.every > 0 && step % config_.probes.every == 0));
    flags.shadow = config_.probes.shadowEvery > 0 && step % config_.probes.shadowEvery == 0;
    flags.planted = faults_.plantsValues(step);
    return flags;
}

void TrainerCore::prepareTraining(int64_t first) {
    if (prepared_ == first) return;
    readWindows(first, false, config_.batch);
    prepared_ = first;
}

void TrainerCore::readWindows(int64_t first, bool validation, int64_t count) {
    prepared_ = -1;
    const int64_t context = config_.model.context;
    for (int64_t i = 0; i < config_.batch; ++i) {
        const int64_t index = first + std::min(i, count - 1);
        if (validation)
            data_->validationWindow(index, window_.data());
        else
            data_->trainWindow(index, window_.data());
        std::copy_n(window_.data(), context, tokens_.data() + i * context);
        std::copy_n(window_.data() + 1, context, targets_.data() + i * context);
    }
}

double TrainerCore::learningRate(int64_t step) const {
    return scheduledRate(config_.schedule, config_.optimizer.learningRate, step, config_.steps) *
           progress_.learningRateFactor;
}

StepParameters TrainerCore::stepParameters(int64_t step) const {
    StepParameters parameters;
    parameters.learningRate = static_cast<float>(learningRate(step));
    parameters.tokens = static_cast<uint32_t>(program_->rows() * config_.accumulation);
    parameters.step = static_cast<uint64_t>(step);
    parameters.seed = config_.seed;
    return parameters;
}

int64_t TrainerCore::windowsAhead() const {
    return progress_.windows +
           static_cast<int64_t>(queued_.size()) * static_cast<int64_t>(config_.batch) * config_.accumulation;
}

void TrainerCore::requireNoneAhead() const {
    if (queued_.empty()) return;
    throw Error(ErrorCode::InvalidConfig,
                fmt::format("step {} is under way: read its results by step() first", progress_.step + 1));
}

void TrainerCore::startStep() {
    const int64_t step = progress_.step + 1 + static_cast<int64_t>(queued_.size());
    if (!faults_.none() && faults_.before(step, *program_, backend_)) refreshWeights();
    Queued queued;
    queued.learningRate = learningRate(step);
    queued.flags = passFlags(step);
    program_->setParameters(backend_, stepParameters(step));
    PassFlags flags = queued.flags;
    for (flags.micro = 0; flags.micro < config_.accumulation; ++flags.micro) {
        prepareTraining(windowsAhead() + static_cast<int64_t>(flags.micro) * config_.batch);
        flags.first = flags.micro == 0;
        program_->trainPass(backend_, flags, tokens_.data(), targets_.data());
    }
    queued_.push_back(std::move(queued));
}

void TrainerCore::finishStarted() {
    Queued& queued = queued_.back();
    const auto step = static_cast<int64_t>(queued.flags.step);
    if (config_.precision.mode == PrecisionMode::Fp16) queued.lossScale = program_->state(backend_).lossScale;
    if (config_.nonfinite == NonfinitePolicy::Continue && inspects()) {
        // The update would spread what the report is to find.
        program_->controlStep(backend_);
        const StepState state = program_->state(backend_);
        if (!(std::isfinite(state.lossSum) && std::isfinite(state.gradientNorm)))
            queued.trouble = inspectStep(step, nullptr);
        program_->updateStep(backend_, passFlags(step + 1));
    } else {
        program_->finishStep(backend_, passFlags(step + 1));
    }
    if (!faults_.none()) faults_.after(step, *program_, backend_);
    queued.dearSlots = queued.flags.dear || passFlags(step + 1).dear;
    queued.state = program_->startState(backend_);
    queued.slots = program_->startSlots(backend_, queued.dearSlots);
    queued.probes = program_->startProbes(backend_, queued.flags);
    const ScalingState& scaling = program().scaling();
    const size_t tableBytes = static_cast<size_t>(scaling.count()) * sizeof(ScaleEntry);
    if (scaling.usesCurrent() && mayGoAhead())
        queued.table = backend_.startCopy(scaling.table(), tableBytes, tableBytes, 1);
}

/// Passes write nothing that lasts but the step's state and, under the current recipe, the table of scales.
void TrainerCore::dropStarted(const StepState& state, const Queued& before) {
    queued_.clear();
    backend_.synchronize();
    program_->setState(backend_, state);
    if (!before.table) return;
    const ScalingState& scaling = program().scaling();
    backend_.upload(scaling.table(), before.table->wait(), static_cast<size_t>(scaling.count()) * sizeof(ScaleEntry));
}

/// Not in FP16, whose loss scale is read between the passes of a step; not where a step is looked into before its own
/// update; not on the CPU where steps are looked into, for it gains nothing and would do a dropped pass in vain.
bool TrainerCore::mayGoAhead() const {
    if (config_.precision.mode == PrecisionMode::Fp16 || !faults_.none() || !finite_) return false;
    return !inspects() || (backend_.info().id != "cpu" && config_.nonfinite != NonfinitePolicy::Continue);
}

StepMetrics TrainerCore::step(bool another) {
    const bool ahead = !queued_.empty();
    const auto start = ahead ? lastEnd_ : std::chrono::steady_clock::now();
    if (!ahead) startStep(), finishStarted();
    const bool goOn = another && mayGoAhead();
    if (goOn) startStep();
    // While a GPU works on what was queued, the host reads the next windows.
    prepareTraining(windowsAhead());

    Queued done = std::move(queued_.front());
    queued_.pop_front();
    StepMetrics metrics;
    metrics.step = progress_.step + 1;
    metrics.tokens = program_->rows() * config_.accumulation;
    metrics.learningRate = done.learningRate;
    StepState state;
    std::memcpy(&state, done.state->wait(), sizeof(state));
    // An overflow that the FP16 loss scale answers by halving is no failure of the run.
    metrics.finite = std::isfinite(state.lossSum) && (std::isfinite(state.gradientNorm) || done.lossScale > 1);
    if (goOn && metrics.finite) finishStarted();  // first of all: a GPU is in its passes and must not run dry
    std::vector<TensorSlot> slots = program_->slotsOf(*done.slots, done.dearSlots);
    if (goOn && !metrics.finite) dropStarted(state, done);
    metrics.numerics = record(done, slots);
    if (!metrics.finite && inspects() && !done.trouble) done.trouble = inspectStep(metrics.step, &slots);
    weightSlots_ = std::move(slots);
    progress_.step = metrics.step;
    progress_.tokens += metrics.tokens;
    progress_.windows += static_cast<int64_t>(config_.batch) * config_.accumulation;

    metrics.loss = state.lossSum / static_cast<double>(metrics.tokens);
    if (!std::isfinite(metrics.loss)) metrics.loss = std::numeric_limits<double>::quiet_NaN();
    metrics.gradientNorm = state.gradientNorm;
    metrics.lossScale = done.lossScale;
    metrics.applied = state.applied != 0;
    followTrouble(metrics, std::move(done.trouble));
    const PhaseTimes times = backend_.takePhaseTimes();
    std::copy(std::begin(times.seconds), std::end(times.seconds), metrics.phaseSeconds);
    lastEnd_ = std::chrono::steady_clock::now();
    metrics.seconds = std::chrono::duration<double>(lastEnd_ - start).count();
    return metrics;
}

std::shared_ptr<const NumericsRecord> TrainerCore::record(const Queued& step,
                                                          const std::vector<TensorSlot>& slots) const {
    const PassFlags& flags = step.flags;
    const PrecisionPlan& plan = program_->precision();
    auto record = std::make_shared<NumericsRecord>();
    record->step = static_cast<int64_t>(flags.step);
    record->probed = flags.dear;
    record->tensors.reserve(catalogueSlots_.size());
    for (int slot : catalogueSlots_) {
        const RecipeKind recipe = plan.tensorRecipe(slot);
        if (recipe == RecipeKind::Bf16) {
            record->tensors.emplace_back();
            continue;
        }
        const bool weight = plan.roleOfSlot(slot) == TensorRole::Weight;
        // Weights: AdamW cast them at the end of the step before; under the current recipe at the start of this one.
        const TensorSlot& source = !weight ? slots[static_cast<size_t>(slot)]
                                   : recipe == RecipeKind::Current || isBlockRecipe(recipe)
                                       ? slots[static_cast<size_t>(plan.tensorCount() + plan.linearOfSlot(slot))]
                                       : weightSlots_[static_cast<size_t>(slot)];
        record->tensors.push_back(tensorNumerics(source, flags.dear, flags.exponents));
    }
    recordProbes(*record, step, slots);
    return record;
}

EvalResult TrainerCore::evaluate() {
    requireNoneAhead();
    const auto start = std::chrono::steady_clock::now();
    const int64_t windows =
        std::min<int64_t>(data_->validationWindows(), static_cast<int64_t>(config_.evalBatches) * config_.batch);
    EvalResult result;
    program_->castWeights(backend_);
    for (int64_t first = 0; first < windows; first += config_.batch) {
        const int64_t count = std::min<int64_t>(config_.batch, windows - first);
        readWindows(first, true, count);
        program_->evalPass(backend_, tokens_.data(), targets_.data(), count * config_.model.context, first == 0);
        result.tokens += count * config_.model.context;
    }
    result.loss = result.tokens > 0 ? program_->evalSum(backend_) / static_cast<double>(result.tokens)
                                    : std::numeric_limits<double>::quiet_NaN();
    backend_.takePhaseTimes();
    result.seconds = secondsSince(start);
    return result;
}

void TrainerCore::setProbes(const ProbeConfig& probes) {
    requireNoneAhead();
    applyShadow(probes);
    if (config_.probes.shadowEvery > 0) memory_.workspace -= program_->shadowBytes();
    if (probes.shadowEvery > 0) memory_.workspace += program_->shadowBytes();
    config_.probes = probes;
    // The codes of the next step's weights are there already; their statistics are taken again as the new probes want
    // them.
    refreshWeights();
}

WindowState TrainerCore::window(int tensor) const {
    const ScalingState& scaling = program().scaling();
    const int slot = catalogueSlots_.at(static_cast<size_t>(tensor));
    ScaleEntry entry;
    backend_.download(&entry, scaling.table() + slot, sizeof(entry));
    const ScalingTensor& description = scaling.descriptions()[static_cast<size_t>(slot)];
    WindowState window{entry.scale, entry.scaleInv, entry.updates, entry.lastChange, {}};
    window.history.resize(static_cast<size_t>(description.historyLength));
    if (!window.history.empty())
        backend_.download(window.history.data(), scaling.history() + description.historyOffset,
                          window.history.size() * sizeof(float));
    return window;
}

uint64_t TrainerCore::stateHash() const {
    requireNoneAhead();
    return checkpoint::hashState(*this);
}

std::vector<float> TrainerCore::weight(const std::string& name) const {
    requireNoneAhead();
    for (const ParameterInfo& tensor : program().layout().tensors) {
        if (tensor.name != name) continue;
        std::vector<float> values(static_cast<size_t>(tensor.fileRows * tensor.cols));
        backend_.download(values.data(), program_->parameters().masters + tensor.offset, values.size() * sizeof(float));
        return values;
    }
    throw Error(ErrorCode::InvalidConfig, "weight: there is no tensor " + name);
}

void TrainerCore::save(const std::string& directory) const {
    requireNoneAhead();
    checkpoint::save(*this, directory);
}

LoadNote TrainerCore::load(const std::string& directory, bool allowOtherClass) {
    requireNoneAhead();
    checkpoint::Loaded loaded = checkpoint::load(*this, directory, allowOtherClass);
    progress_ = loaded.progress;
    finite_ = true;
    troubleUntil_ = 0;
    flight_.clear();
    refreshWeights();
    return loaded.note;
}

}  // namespace mantissa::engine
