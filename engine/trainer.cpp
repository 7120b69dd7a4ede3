#include "engine/trainer.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cstdlib>

#include "engine/plan/parameter_layout.h"
#include "engine/plan/precision_plan.h"
#include "engine/thread_pool.h"
#include "engine/trainer_core.h"
#include "kernels/device/sensors.h"
#include "kernels/error.h"

namespace mantissa::engine {

namespace {

/// Says how many threads there will be, for planning; runs nothing of its own.
class CountedExecutor final : public kernels::Executor {
  public:
    explicit CountedExecutor(int threads) : threads_(threads) {}
    int threadCount() const override { return threads_; }
    void run(int64_t tiles, kernels::FunctionRef<void(int64_t, int)> body) override {
        for (int64_t tile = 0; tile < tiles; ++tile) body(tile, 0);
    }

  private:
    int threads_;
};

/// The number of the CUDA device that the choice means, or -1 for the CPU. "auto" is the first usable GPU, else the
/// CPU. Throws InvalidConfig when it is no device.
int cudaIndex(const DeviceChoice& choice) {
    const std::string& device = choice.device;
    if (device == "cpu") return -1;
    const char* forced = std::getenv("MANTISSA_DEVICE");
    if (device == "auto") {
        if (forced && std::string(forced) == "cpu") return -1;
        const std::vector<kernels::DeviceInfo> devices = kernels::probeCuda();
        for (size_t i = 0; i < devices.size(); ++i)
            if (devices[i].usable) return static_cast<int>(i);
        return -1;
    }
    if (device == "cuda") return 0;
    int index = -1;
    const char* end = device.data() + device.size();
    if (device.rfind("cuda:", 0) == 0) {
        const auto parsed = std::from_chars(device.data() + 5, end, index);
        if (parsed.ec == std::errc() && parsed.ptr == end && index >= 0) return index;
    }
    throw Error(ErrorCode::InvalidConfig,
                fmt::format("device: \"{}\" is not a device; allowed: auto, cpu, cuda, cuda:N", device));
}

/// Throws DeviceUnavailable with the device asked for and the probe's sentence.
std::unique_ptr<kernels::Backend> makeBackend(const DeviceChoice& choice, kernels::Executor& executor) {
    const int index = cudaIndex(choice);
    if (index < 0) return kernels::createCpuBackend(executor, choice.isa);
    try {
        return kernels::createCudaBackend(index);
    } catch (const Error& error) {
        throw Error(error.code(), fmt::format("device {}: {}", choice.device, error.what()));
    }
}

}  // namespace

struct Trainer::Impl {
    Impl(const TrainerConfig& config, const DeviceChoice& choice, std::shared_ptr<const TokenSource> data)
        : pool(choice.threads), backend(makeBackend(choice, pool)), core(config, *backend, std::move(data)) {
        const int index = cudaIndex(choice);
        if (index >= 0) sensors = kernels::DeviceSensors::open(index);
        if (sensors) joulesBefore = sensors->read().joules;
    }
    /// A reading takes some NVML calls, so it is made at most ten times a second.
    const std::optional<DeviceReading>& readSensors() {
        const auto now = std::chrono::steady_clock::now();
        if (!sensors || (reading && now - readAt < std::chrono::milliseconds(100))) return reading;
        const kernels::SensorReading r = sensors->read();
        reading = DeviceReading{r.watts, r.joules - joulesBefore, r.memoryUsed, r.smMHz, r.memoryMHz, r.celsius};
        readAt = now;
        return reading;
    }
    ThreadPool pool;
    std::unique_ptr<kernels::Backend> backend;
    TrainerCore core;
    std::unique_ptr<kernels::DeviceSensors> sensors;
    std::optional<DeviceReading> reading;
    std::chrono::steady_clock::time_point readAt;
    double joulesBefore = 0;
};

MemoryPlan Trainer::plan(const TrainerConfig& config, const DeviceChoice& device, uint64_t corpusBytes) {
    CountedExecutor executor(device.threads > 0 ? device.threads : ThreadPool::usableProcessors());
    const auto backend = makeBackend(device, executor);
    return StepProgram(config, *backend).memoryPlan(*backend, corpusBytes);
}

int64_t Trainer::parameterCount(const ModelConfig& model) {
    return makeParameterLayout(model).trueCount;
}

double Trainer::flopsPerToken(const ModelConfig& model) {
    const double l = model.layers, c = model.width, f = model.ffn, v = paddedVocabulary(model), t = model.context;
    return 6 * (l * (4 * c * c + 2 * c * f) + v * c) + 6 * l * c * t;
}

Trainer::Trainer(const TrainerConfig& config, const DeviceChoice& device, std::shared_ptr<const TokenSource> data) {
    impl_ = std::make_unique<Impl>(config, device, std::move(data));
}

Trainer::~Trainer() = default;

StepMetrics Trainer::step(bool another) {
    StepMetrics metrics = impl_->core.step(another);
    impl_->pool.stepBoundary();
    metrics.device = impl_->readSensors();
    return metrics;
}

bool Trainer::stepAhead() const {
    return impl_->core.stepAhead();
}

EvalResult Trainer::evaluate() {
    return impl_->core.evaluate();
}
int64_t Trainer::stepIndex() const {
    return impl_->core.progress().step;
}
int64_t Trainer::tokensSeen() const {
    return impl_->core.progress().tokens;
}
const TrainerConfig& Trainer::config() const {
    return impl_->core.config();
}
const MemoryPlan& Trainer::memoryPlan() const {
    return impl_->core.memoryPlan();
}
const std::vector<CatalogueEntry>& Trainer::catalogue() const {
    return impl_->core.catalogue();
}
std::vector<EffectivePrecision> Trainer::effectivePrecision() const {
    return impl_->core.program().effective().rows(impl_->core.program().precision());
}
WindowState Trainer::window(int tensor) const {
    return impl_->core.window(tensor);
}
std::string Trainer::deviceId() const {
    return impl_->backend->info().id;
}
std::string Trainer::deviceName() const {
    return impl_->backend->info().name;
}
std::string Trainer::determinismClass() const {
    return impl_->backend->info().determinismClass;
}
std::string Trainer::isa() const {
    return impl_->backend->info().isa;
}
int Trainer::threads() const {
    return impl_->pool.threadCount();
}
void Trainer::setLearningRateFactor(double factor) {
    impl_->core.setLearningRateFactor(factor);
}
void Trainer::setProbes(const ProbeConfig& probes) {
    impl_->core.setProbes(probes);
}
std::vector<std::string> Trainer::setPrecision(const PrecisionConfig& precision) {
    return impl_->core.setPrecision(precision);
}
std::vector<float> Trainer::captureTensor(int catalogueIndex) {
    return impl_->core.captureTensor(catalogueIndex);
}
BlockScales Trainer::blockScales(int catalogueIndex) {
    return impl_->core.blockScales(catalogueIndex);
}
void Trainer::saveCheckpoint(const std::string& directory) const {
    impl_->core.save(directory);
}
LoadNote Trainer::loadCheckpoint(const std::string& directory, bool allowOtherClass) {
    return impl_->core.load(directory, allowOtherClass);
}
uint64_t Trainer::stateHash() const {
    return impl_->core.stateHash();
}
std::vector<float> Trainer::weight(const std::string& name) const {
    return impl_->core.weight(name);
}

}  // namespace mantissa::engine
