#include "experiments/job/stepper.h"

namespace mantissa::experiments {

namespace {

class EngineStepper final : public Stepper {
  public:
    EngineStepper(const RunSpec& spec, const engine::DeviceChoice& device,
                  std::shared_ptr<const engine::TokenSource> data)
        : data_(std::move(data)), corpus_(data_->identity()), trainer_(spec.trainer, device, data_) {}

    engine::StepMetrics step() override { return trainer_.step(); }
    /// Only a device with a queue works on the next step meanwhile. A CPU has done it when the call returns: every
    /// other step would then seem to take no time and the rest twice theirs.
    engine::StepMetrics stepThenAnother() override { return trainer_.step(trainer_.deviceId() != "cpu"); }
    bool stepAhead() const override { return trainer_.stepAhead(); }
    engine::EvalResult evaluate() override { return trainer_.evaluate(); }
    int64_t stepIndex() const override { return trainer_.stepIndex(); }
    int64_t tokensSeen() const override { return trainer_.tokensSeen(); }
    engine::MemoryPlan memoryPlan() const override { return trainer_.memoryPlan(); }
    std::vector<engine::CatalogueEntry> catalogue() const override { return trainer_.catalogue(); }
    std::vector<engine::EffectivePrecision> effectivePrecision() const override {
        return trainer_.effectivePrecision();
    }
    void setLearningRateFactor(double factor) override { trainer_.setLearningRateFactor(factor); }
    void setProbes(const engine::ProbeConfig& probes) override { trainer_.setProbes(probes); }
    std::vector<std::string> setPrecision(const engine::PrecisionConfig& precision) override {
        return trainer_.setPrecision(precision);
    }
    std::vector<float> captureTensor(int catalogueIndex) override { return trainer_.captureTensor(catalogueIndex); }
    engine::WindowState window(int catalogueIndex) const override { return trainer_.window(catalogueIndex); }
    void saveCheckpoint(const std::string& directory) const override { trainer_.saveCheckpoint(directory); }
    engine::LoadNote loadCheckpoint(const std::string& directory, bool allowOtherClass) override {
        return trainer_.loadCheckpoint(directory, allowOtherClass);
    }
    std::optional<uint64_t> stateHash() const override { return trainer_.stateHash(); }
    Facts facts() const override {
        Facts facts;
        facts.device = trainer_.deviceId();
        facts.deviceName = trainer_.deviceName();
        facts.isa = trainer_.isa();
        facts.determinismClass = trainer_.determinismClass();
        facts.threads = trainer_.threads();
        facts.data = data_->description();
        facts.parameters = engine::Trainer::parameterCount(trainer_.config().model);
        facts.flopsPerToken = engine::Trainer::flopsPerToken(trainer_.config().model);
        facts.entropyFloor = data_->entropyRate();
        facts.replacedCharacters = data_->replacedCharacters();
        facts.corpus = corpus_;
        return facts;
    }

  private:
    std::shared_ptr<const engine::TokenSource> data_;
    std::optional<engine::CorpusIdentity> corpus_;  ///< read once: facts() is asked again at changes while running
    engine::Trainer trainer_;
};

}  // namespace

std::unique_ptr<Stepper> makeEngineStepper(const RunSpec& spec, const engine::DeviceChoice& device,
                                           const std::function<void(const std::string&)>& phase) {
    phase("Reading the text");
    auto data = engine::TokenSource::open(spec.data, spec.trainer.model.context, spec.trainer.seed);
    phase("Planning memory");
    return std::make_unique<EngineStepper>(spec, device, std::move(data));
}

}  // namespace mantissa::experiments
