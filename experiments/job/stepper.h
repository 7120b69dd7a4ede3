// What a training job needs of a trainer: the engine's, or a scripted one in tests.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/trainer.h"
#include "experiments/spec/run_spec.h"

namespace mantissa::experiments {

/// Thread: made, used and destroyed by the job's thread. Members as in engine::Trainer.
class Stepper {
  public:
    virtual ~Stepper() = default;
    virtual engine::StepMetrics step() = 0;
    /// step(), where the next call is a step too.
    virtual engine::StepMetrics stepThenAnother() { return step(); }
    virtual bool stepAhead() const { return false; }
    virtual engine::EvalResult evaluate() = 0;
    virtual int64_t stepIndex() const = 0;
    virtual int64_t tokensSeen() const = 0;
    virtual engine::MemoryPlan memoryPlan() const = 0;
    virtual std::vector<engine::CatalogueEntry> catalogue() const = 0;
    virtual std::vector<engine::EffectivePrecision> effectivePrecision() const = 0;
    virtual void setLearningRateFactor(double factor) = 0;
    virtual void setProbes(const engine::ProbeConfig& probes) = 0;
    /// Between two steps; sentences about what starts fresh. Throws InvalidConfig and changes nothing when it cannot.
    virtual std::vector<std::string> setPrecision(const engine::PrecisionConfig& precision) = 0;
    virtual std::vector<float> captureTensor(int catalogueIndex) = 0;
    virtual engine::WindowState window(int catalogueIndex) const = 0;
    virtual void saveCheckpoint(const std::string& directory) const = 0;
    virtual engine::LoadNote loadCheckpoint(const std::string& directory, bool allowOtherClass) = 0;
    /// Nothing: there is no state to hash.
    virtual std::optional<uint64_t> stateHash() const { return std::nullopt; }

    struct Facts {
        std::string device, deviceName, isa, determinismClass, data;
        int threads = 0;
        int64_t parameters = 0;
        double flopsPerToken = 0;
        std::optional<double> entropyFloor;
        int64_t replacedCharacters = 0;
        std::optional<engine::CorpusIdentity> corpus;
    };
    virtual Facts facts() const = 0;
};

/// phase: says in words what is going on.
using StepperFactory = std::function<std::unique_ptr<Stepper>(const RunSpec&, const engine::DeviceChoice&,
                                                              const std::function<void(const std::string&)>& phase)>;

/// Opens the data and makes an engine::Trainer. Throws what they throw.
std::unique_ptr<Stepper> makeEngineStepper(const RunSpec& spec, const engine::DeviceChoice& device,
                                           const std::function<void(const std::string&)>& phase);

}  // namespace mantissa::experiments
