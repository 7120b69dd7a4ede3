#include "engine/model/step_program.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "engine/model/unfused_ops.h"
#include "engine/plan/block_products.h"
#include "engine/plan/planning_backend.h"

namespace mantissa::engine {

using namespace kernels;

namespace {

constexpr int64_t kSumBlock = 32768;      // SumSquares
constexpr float kFirstLossScale = 65536;  // FP16
/// Above this many bytes of weight codes their transposes are made where a product reads them instead of being kept. On
/// an H200 that takes 0.7 ms of X4's step of 113, of which AdamW gives 1.0 back, for it writes less.
constexpr int64_t kKeptTransposes = int64_t{1} << 30;
constexpr int kGrowthInterval = 2000;  // FP16: good steps before the loss scale doubles

size_t aligned(size_t bytes) {
    return (bytes + 255) / 256 * 256;
}

PrecisionPlan planOn(const TrainerConfig& config, const Backend& backend) {
    PrecisionPlan plan = makePrecisionPlan(config.model, config.precision);
    chooseBlockCodes(plan, static_cast<int64_t>(config.batch) * config.model.context, backend);
    return plan;
}

/// A GPU keeps the plain inputs of wgrads while the run takes less than half of its memory and three quarters of what
/// is free: it then need not write them a second time (H200, BF16: steps 1 to 2 % shorter). The CPU makes them again:
/// what keeping them brings there has not been measured.
GptBuffers buffersOn(const TrainerConfig& config, const PrecisionPlan& plan, int64_t parameters, const Backend& backend,
                     bool shareMemory) {
    const bool transposed = backend.needsTransposedCodes();
    const DeviceInfo& device = backend.info();
    if (device.id != "cpu") {
        constexpr uint64_t kBytesAParameter = 18;  // master, moments, gradient, a 16-bit copy
        GptBuffers keeping(config.model, plan, config.batch, shareMemory, transposed, true);
        const uint64_t bytes = keeping.arena.size() + kBytesAParameter * static_cast<uint64_t>(parameters);
        if (bytes <= std::min(device.memoryTotal / 2, device.memoryFree / 4 * 3)) return keeping;
    }
    return GptBuffers(config.model, plan, config.batch, shareMemory, transposed);
}

}  // namespace

StepProgram::StepProgram(const TrainerConfig& config, const Backend& backend, bool shareMemory)
    : config_(config),
      plan_(planOn(config, backend)),
      layout_(makeParameterLayout(config.model)),
      buffers_(buffersOn(config, plan_, layout_.size, backend, shareMemory)),
      scaling_(plan_, config.precision, config.seed),
      map_(plan_),
      model_(config_.model, plan_, layout_, buffers_, scaling_, map_, config.batch),
      rows_(static_cast<int64_t>(config.batch) * config.model.context),
      transposedCodes_(backend.needsTransposedCodes()) {
    for (int linear = 0; linear < plan_.linearCount(); ++linear) {
        const LinearPlan& one = plan_.linears[static_cast<size_t>(linear)];
        const bool codes = one.readsCodes(TensorRole::Weight);
        parameters_.codeOffset.push_back(codes ? codeBytes_ : -1);
        if (codes)
            codeBytes_ += static_cast<int64_t>(
                aligned(std::max(one.rowCopyBytes(TensorRole::Weight, 0), one.columnCopyBytes(TensorRole::Weight, 0))));
    }
    placeComputeCopies();
    const std::vector<Arena::Part> parts = gradientParts(config.model, layout_);
    gradientsShared_ = shareMemory && config.accumulation == 1 && !parts.empty();
    if (gradientsShared_)
        gradientOffset_ = buffers_.arena.placeOver(parts, static_cast<size_t>(layout_.size) * sizeof(float));
}

/// On a GPU memory is what limits: a weight whose products all read codes has no copy of the plan's type there.
void StepProgram::placeComputeCopies() {
    for (const ParameterInfo& tensor : layout_.tensors) {
        const bool embedding = layout_.tensors[static_cast<size_t>(layout_.tokenTable)].offset == tensor.offset;
        const bool codesAlone = transposedCodes_ && tensor.linear >= 0 && !embedding &&
                                !plan_.linears[static_cast<size_t>(tensor.linear)].readsPlain(TensorRole::Weight);
        if (plan_.type == DType::F32 || !transposedCodes_) {
            parameters_.computeOffset.push_back(tensor.offset);
            computeElements_ = layout_.size;
        } else if (codesAlone) {
            parameters_.computeOffset.push_back(kNoCompute);
        } else {
            parameters_.computeOffset.push_back(computeElements_);
            computeElements_ += (tensor.count() + 63) / 64 * 64;
        }
    }
}

bool StepProgram::keepsTransposes() const {
    return plan_.secondWeightCopies || (transposedCodes_ && codeBytes_ <= kKeptTransposes);
}

size_t StepProgram::weightBytes() const {
    const size_t n = static_cast<size_t>(layout_.size);
    const size_t compute =
        plan_.type == DType::F32 ? 0 : aligned(static_cast<size_t>(computeElements_) * dtypeSize(plan_.type));
    return aligned(n * sizeof(float)) + compute + static_cast<size_t>(codeBytes_) * (keepsTransposes() ? 2 : 1);
}

size_t StepProgram::controlBytes() const {
    const size_t partials = static_cast<size_t>((layout_.size + kSumBlock - 1) / kSumBlock) * sizeof(double);
    return scaling_.bytes() + aligned(sizeof(StepParameters)) + aligned(sizeof(StepState)) + aligned(sizeof(double)) +
           aligned(partials) + 2 * aligned(static_cast<size_t>(rows_) * sizeof(int32_t)) +
           aligned(opSites().size() * sizeof(FiniteCount)) +
           aligned(static_cast<size_t>(plan_.linearCount() * kGemms) * sizeof(ShadowSums)) +
           aligned(static_cast<size_t>(plan_.linearCount()) * sizeof(uint64_t)) + aligned(unfusedBytes());
}

/// The norm and the optimizer never need it at once.
size_t StepProgram::unfusedBytes() const {
    size_t bytes = 0;
    if (!config_.switches.fusedNorm) bytes = unfusedNormBytes(rows_, config_.model.width);
    if (config_.switches.fusedOptimizer) return bytes;
    int64_t largest = 0;
    for (const ParameterInfo& tensor : layout_.tensors) largest = std::max(largest, tensor.count());
    return std::max(bytes, unfusedAdamBytes(largest));
}

void StepProgram::bind(char* weights, char* moments, char* gradients, char* activations, char* control, char* plain) {
    const size_t n = static_cast<size_t>(layout_.size);
    parameters_.masters = reinterpret_cast<float*>(weights);
    const size_t copy =
        plan_.type == DType::F32 ? 0 : aligned(static_cast<size_t>(computeElements_) * dtypeSize(plan_.type));
    parameters_.compute = copy ? weights + aligned(n * sizeof(float)) : weights;
    parameters_.codes = reinterpret_cast<uint8_t*>(weights + aligned(n * sizeof(float)) + copy);
    parameters_.codesTransposed = keepsTransposes() ? parameters_.codes + codeBytes_ : nullptr;
    parameters_.moment1 = reinterpret_cast<float*>(moments);
    parameters_.moment2 = reinterpret_cast<float*>(moments + aligned(n * sizeof(float)));
    parameters_.gradients = reinterpret_cast<float*>(gradientsShared_ ? activations + gradientOffset_ : gradients);
    buffers_.base = activations;

    const void* const controlBase = control;
    scaling_.bind(control);
    control += scaling_.bytes();
    const auto take = [&control](size_t bytes) {
        char* block = control;
        control += aligned(bytes);
        return static_cast<void*>(block);
    };
    stepParameters_ = static_cast<StepParameters*>(take(sizeof(StepParameters)));
    state_ = static_cast<StepState*>(take(sizeof(StepState)));
    evalSum_ = static_cast<double*>(take(sizeof(double)));
    partials_ =
        static_cast<double*>(take(static_cast<size_t>((layout_.size + kSumBlock - 1) / kSumBlock) * sizeof(double)));
    tokens_ = static_cast<int32_t*>(take(static_cast<size_t>(rows_) * sizeof(int32_t)));
    targets_ = static_cast<int32_t*>(take(static_cast<size_t>(rows_) * sizeof(int32_t)));
    passMemory_ = {tokens_, targets_, stepParameters_, state_, evalSum_};
    passMemory_.finite = static_cast<FiniteCount*>(take(opSites().size() * sizeof(FiniteCount)));
    passMemory_.shadow =
        static_cast<ShadowSums*>(take(static_cast<size_t>(plan_.linearCount() * kGemms) * sizeof(ShadowSums)));
    passMemory_.staleCodes = static_cast<uint64_t*>(take(static_cast<size_t>(plan_.linearCount()) * sizeof(uint64_t)));
    controlState_ = static_cast<size_t>(control - static_cast<const char*>(controlBase));
    unfusedScratch_ = unfusedBytes() ? static_cast<float*>(take(unfusedBytes())) : nullptr;
    passMemory_.normScratch = config_.switches.fusedNorm ? nullptr : unfusedScratch_;
    bindPlain(plain);
}

void StepProgram::bindPlain(char* plain) {
    passMemory_.plain = plain;
    passMemory_.plainAgain = plain ? plain + plainBytes() : nullptr;
    model_.bind(parameters_, passMemory_);
}

void StepProgram::runEverything(Backend& backend) {
    flags_ = next_ = PassFlags{};
    flags_.dear = flags_.exponents = next_.dear = next_.exponents = true;
    flags_.ops = flags_.shadow = flags_.plain = true;
    initialiseWeights(backend);
    queueTrainPass(backend);
    queueFinish(backend);
    model_.evalPass(backend, rows_, true);
}

MemoryPlan StepProgram::memoryPlan(const Backend& backend, uint64_t corpusBytes) {
    char* const anywhere =
        reinterpret_cast<char*>(4096);  // a planning run looks at sizes and at which pointers are null
    bind(anywhere, anywhere, anywhere, anywhere, anywhere, anywhere);
    PlanningBackend planner(backend);
    runEverything(planner);
    map_ = EffectiveMap(plan_);
    workspaceBytes_ = aligned(planner.largestWorkspace());

    MemoryPlan plan;
    plan.weights = weightBytes();
    plan.moments = 2 * aligned(static_cast<size_t>(layout_.size) * sizeof(float));
    plan.activations = buffers_.arena.size();
    if (gradientsShared_) {
        plan.note = "gradients lie over activations that backward has left";
    } else {
        plan.gradients = aligned(static_cast<size_t>(layout_.size) * sizeof(float));
        plan.note = config_.accumulation > 1 ? "gradients have memory of their own: they add up over the micro-batches"
                                             : "gradients have memory of their own";
    }
    plan.workspace = controlBytes() + workspaceBytes_;
    if (config_.probes.shadowEvery > 0) plan.workspace += 2 * plainBytes();
    const size_t staging = static_cast<size_t>(scaling_.slotCount()) * sizeof(TensorSlot) +
                           3 * static_cast<size_t>(rows_) * sizeof(int32_t);
    plan.host = corpusBytes + staging;
    return plan;
}

void StepProgram::allocate(Backend& backend) {
    const MemoryPlan plan = memoryPlan(backend, 0);
    weights_ = DeviceMemory(backend, plan.weights);
    moments_ = DeviceMemory(backend, plan.moments);
    gradients_ = DeviceMemory(backend, plan.gradients);
    activations_ = DeviceMemory(backend, plan.activations);
    control_ = DeviceMemory(backend, controlBytes());
    workspace_ = DeviceMemory(backend, workspaceBytes_);
    const auto bytes = [](const DeviceMemory& memory) { return static_cast<char*>(memory.data()); };
    bind(bytes(weights_), bytes(moments_), bytes(gradients_), bytes(activations_), bytes(control_), nullptr);
    backend.bindWorkspace(workspace_.data(), workspaceBytes_);
    StepState state;
    if (config_.precision.mode == PrecisionMode::Fp16) state.lossScale = kFirstLossScale;
    setState(backend, state);
    scaling_.initialise(backend);
    initialiseWeights(backend);
}

void StepProgram::release() {
    recordings_.clear();
    for (DeviceMemory* memory : {&weights_, &moments_, &gradients_, &activations_, &control_, &workspace_, &plain_})
        *memory = DeviceMemory();
}

size_t StepProgram::plainBytes() const {
    return aligned(static_cast<size_t>(rows_ * std::max(config_.model.width, config_.model.ffn)) *
                   dtypeSize(plan_.type));
}

void StepProgram::inspectPass(Backend& backend, PassFlags flags, const int32_t* tokens, const int32_t* targets,
                              TensorTap* tap) {
    if (!shadows_) plain_ = DeviceMemory(backend, 2 * plainBytes());
    bindPlain(static_cast<char*>(plain_.data()));
    model_.setTap(tap);
    backend.upload(tokens_, tokens, static_cast<size_t>(rows_) * sizeof(int32_t));
    backend.upload(targets_, targets, static_cast<size_t>(rows_) * sizeof(int32_t));
    flags.plain = true;
    flags_ = flags;
    queueTrainPass(backend);
    backend.synchronize();
    model_.setTap(nullptr);
    if (shadows_) return;
    plain_ = DeviceMemory();
    bindPlain(nullptr);
}

void StepProgram::setShadow(Backend& backend, const std::vector<bool>* linears) {
    recordings_.clear();
    shadows_ = linears != nullptr;
    if (shadows_ && !plain_.data()) plain_ = DeviceMemory(backend, 2 * plainBytes());
    if (!shadows_) plain_ = DeviceMemory();
    bindPlain(static_cast<char*>(plain_.data()));
    model_.setShadowed(linears ? *linears : std::vector<bool>());
}

std::vector<FiniteCount> StepProgram::finiteCounts(Backend& backend) const {
    std::vector<FiniteCount> counts(opSites().size());
    backend.download(counts.data(), passMemory_.finite, counts.size() * sizeof(FiniteCount));
    return counts;
}

ProbeCopies StepProgram::startProbes(Backend& backend, const PassFlags& flags) const {
    const size_t linears = static_cast<size_t>(plan_.linearCount());
    const auto start = [&](const void* device, size_t bytes) { return backend.startCopy(device, bytes, bytes, 1); };
    ProbeCopies copies;
    if (flags.ops) copies.finite = start(passMemory_.finite, opSites().size() * sizeof(FiniteCount));
    if (flags.shadow) copies.shadow = start(passMemory_.shadow, linears * kGemms * sizeof(ShadowSums));
    if (flags.dear) copies.stale = start(passMemory_.staleCodes, linears * sizeof(uint64_t));
    return copies;
}

void StepProgram::clear(Backend& backend, void* memory, size_t bytes) const {
    Fill fill;
    fill.n = static_cast<int64_t>(bytes / sizeof(float));
    fill.out = static_cast<float*>(memory);
    backend.run(fill);
}

std::vector<char> StepProgram::controlBytesNow(Backend& backend) const {
    std::vector<char> bytes(controlState_);
    backend.download(bytes.data(), control_.data(), bytes.size());
    return bytes;
}

void StepProgram::restoreControl(Backend& backend, const std::vector<char>& bytes) {
    backend.upload(control_.data(), bytes.data(), bytes.size());
}

void StepProgram::initialiseWeights(Backend& backend) {
    for (size_t i = 0; i < layout_.tensors.size(); ++i) {
        const ParameterInfo& tensor = layout_.tensors[i];
        if (tensor.std > 0) {
            InitNormal init;
            init.n = tensor.fileRows * tensor.cols;
            init.out = parameters_.masters + tensor.offset;
            init.std = tensor.std;
            init.seed = config_.seed;
            init.stream = i;
            backend.run(init);
        } else {
            Fill fill;
            fill.n = tensor.count();
            fill.out = parameters_.masters + tensor.offset;
            fill.value = tensor.value;
            backend.run(fill);
        }
    }
}

void StepProgram::replay(Backend& backend, int key, void (StepProgram::*queue)(Backend&)) {
    if (config_.precision.stochasticRounding || flags_.planted) {
        (this->*queue)(backend);  // the seeds change from step to step, a recording would keep the first ones
        return;
    }
    std::unique_ptr<Recording>& recording = recordings_[key];
    if (!recording) recording = backend.record([this, &backend, queue] { (this->*queue)(backend); });
    backend.replay(*recording);
}

void StepProgram::setParameters(Backend& backend, const StepParameters& parameters) {
    backend.upload(stepParameters_, &parameters, sizeof(parameters));
}

void StepProgram::trainPass(Backend& backend, const PassFlags& flags, const int32_t* tokens, const int32_t* targets) {
    backend.upload(tokens_, tokens, static_cast<size_t>(rows_) * sizeof(int32_t));
    backend.upload(targets_, targets, static_cast<size_t>(rows_) * sizeof(int32_t));
    flags_ = flags;
    replay(backend,
           1 + (flags.first ? 1 : 0) + (flags.dear ? 2 : 0) + (flags.exponents ? 4 : 0) + (flags.count ? 8 : 0) +
               (flags.ops ? 16 : 0) + (flags.shadow ? 32 : 0),
           &StepProgram::queueTrainPass);
}

void StepProgram::queueTrainPass(Backend& backend) {
    if (flags_.first) {
        StepBegin begin;
        begin.parameters = stepParameters_;
        begin.state = state_;
        begin.slots = scaling_.slots() + scaling_.firstStepSlot();
        begin.slotCount = scaling_.slotCount() - scaling_.firstStepSlot();
        backend.run(begin);
        if (flags_.ops) clear(backend, passMemory_.finite, opSites().size() * sizeof(FiniteCount));
        if (flags_.shadow)
            clear(backend, passMemory_.shadow, static_cast<size_t>(plan_.linearCount() * kGemms) * sizeof(ShadowSums));
        model_.castWeights(backend, flags_);
        if (flags_.dear) model_.checkCodes(backend, flags_);
    }
    model_.trainPass(backend, flags_);
}

void StepProgram::finishStep(Backend& backend, const PassFlags& next) {
    next_ = next;
    replay(backend, 256 + (next.dear ? 1 : 0) + (next.exponents ? 2 : 0) + (next.count ? 4 : 0),
           &StepProgram::queueFinish);
}

void StepProgram::controlStep(Backend& backend) {
    replay(backend, 512, &StepProgram::queueControl);
}

void StepProgram::updateStep(Backend& backend, const PassFlags& next) {
    next_ = next;
    replay(backend, 520 + (next.dear ? 1 : 0) + (next.exponents ? 2 : 0) + (next.count ? 4 : 0),
           &StepProgram::queueUpdate);
}

void StepProgram::queueFinish(Backend& backend) {
    queueControl(backend);
    queueUpdate(backend);
}

void StepProgram::queueControl(Backend& backend) {
    SumSquares squares;
    squares.n = layout_.size;
    squares.values = parameters_.gradients;
    squares.partials = partials_;
    backend.run(squares);
    GradientControl control;
    control.partialCount = (layout_.size + kSumBlock - 1) / kSumBlock;
    control.partials = partials_;
    control.state = state_;
    control.parameters = stepParameters_;
    control.clip = config_.optimizer.clip;
    control.beta1 = config_.optimizer.beta1;
    control.beta2 = config_.optimizer.beta2;
    control.dynamicLossScale = config_.precision.mode == PrecisionMode::Fp16;
    control.skipNonFinite = control.dynamicLossScale || config_.nonfinite != NonfinitePolicy::Continue;
    control.growthInterval = kGrowthInterval;
    backend.run(control);
}

void StepProgram::queueUpdate(Backend& backend) {
    scaling_.updateDelayed(backend, state_);
    queueAdam(backend, next_, false);
}

void StepProgram::queueAdam(Backend& backend, const PassFlags& next, bool castOnly) {
    std::vector<ParameterTensor> tensors;
    tensors.reserve(layout_.tensors.size());
    for (const ParameterInfo& info : layout_.tensors) {
        ParameterTensor tensor{info.offset, info.rows, info.cols, info.decay, {}, kComputeAtOffset};
        tensor.computeOffset = parameters_.computeOffset[tensors.size()];
        if (info.linear >= 0 && parameters_.codeOffset[static_cast<size_t>(info.linear)] >= 0)
            tensor.cast = scaling_.weightCast(info.linear, model_.weightCodes(info.linear), next.dear, next.exponents,
                                              next.count);
        tensors.push_back(tensor);
    }
    AdamW adam;
    adam.n = layout_.size;
    adam.tensorCount = static_cast<int>(tensors.size());
    adam.tensors = tensors.data();
    adam.masters = parameters_.masters;
    adam.moment1 = parameters_.moment1;
    adam.moment2 = parameters_.moment2;
    adam.gradients = parameters_.gradients;
    if (plan_.type != DType::F32) {
        adam.compute = parameters_.compute;
        adam.computeType = plan_.type;
    }
    adam.state = state_;
    adam.parameters = stepParameters_;
    adam.beta1 = config_.optimizer.beta1;
    adam.beta2 = config_.optimizer.beta2;
    adam.epsilon = config_.optimizer.epsilon;
    adam.weightDecay = config_.optimizer.weightDecay;
    adam.castOnly = castOnly;
    if (config_.switches.fusedOptimizer || castOnly)
        backend.run(adam);
    else
        runWrittenOut(backend, adam, unfusedScratch_);
}

void StepProgram::refreshWeights(Backend& backend, const PassFlags& next) {
    queueAdam(backend, next, true);
}

void StepProgram::castWeights(Backend& backend) {
    PassFlags flags;
    flags.training = false;
    flags.count = false;
    model_.castWeights(backend, flags);
}

void StepProgram::evalPass(Backend& backend, const int32_t* tokens, const int32_t* targets, int64_t rows, bool clear) {
    backend.upload(tokens_, tokens, static_cast<size_t>(rows_) * sizeof(int32_t));
    backend.upload(targets_, targets, static_cast<size_t>(rows_) * sizeof(int32_t));
    model_.evalPass(backend, rows, clear);
}

double StepProgram::evalSum(Backend& backend) const {
    double sum = 0;
    backend.download(&sum, evalSum_, sizeof(sum));
    return sum;
}

StepState StepProgram::state(Backend& backend) const {
    StepState state;
    backend.download(&state, state_, sizeof(state));
    return state;
}

void StepProgram::setState(Backend& backend, const StepState& state) {
    backend.upload(state_, &state, sizeof(state));
}

std::unique_ptr<HostCopy> StepProgram::startState(Backend& backend) const {
    return backend.startCopy(state_, sizeof(StepState), sizeof(StepState), 1);
}

std::unique_ptr<HostCopy> StepProgram::startSlots(Backend& backend, bool dear) const {
    return backend.startCopy(scaling_.slots(), dear ? sizeof(TensorSlot) : offsetof(TensorSlot, dear),
                             sizeof(TensorSlot), static_cast<size_t>(scaling_.slotCount()));
}

std::vector<TensorSlot> StepProgram::slotsOf(HostCopy& copy, bool dear) const {
    std::vector<TensorSlot> slots(static_cast<size_t>(scaling_.slotCount()));
    const size_t bytes = dear ? sizeof(TensorSlot) : offsetof(TensorSlot, dear);
    const char* from = static_cast<const char*>(copy.wait());
    for (size_t i = 0; i < slots.size(); ++i) std::memcpy(&slots[i], from + i * bytes, bytes);
    return slots;
}

std::vector<TensorSlot> StepProgram::slots(Backend& backend, bool dear) const {
    return slotsOf(*startSlots(backend, dear), dear);
}

}  // namespace mantissa::engine
