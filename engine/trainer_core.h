// The training loop's state on one backend: what Trainer is made of, and what tests run on backends of their own.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "engine/faults.h"
#include "engine/model/step_program.h"
#include "engine/trainer.h"
#include "kernels/backend.h"

namespace mantissa::engine {

/// Thread: the one that made the backend; the backend must outlive it.
class TrainerCore {
  public:
    /// Throws OutOfMemory before allocating when the plan does not fit in the device's free memory, InvalidConfig.
    TrainerCore(const TrainerConfig& config, kernels::Backend& backend, std::shared_ptr<const TokenSource> data,
                bool shareMemory = true);

    /// another: the next call is step() again, so a device starts on that step before this one's results are read.
    StepMetrics step(bool another = false);
    bool stepAhead() const { return !queued_.empty(); }
    EvalResult evaluate();
    void setLearningRateFactor(double factor) { progress_.learningRateFactor = factor; }
    void setProbes(const ProbeConfig& probes);
    std::vector<std::string> setPrecision(const PrecisionConfig& precision);
    std::vector<float> captureTensor(int catalogueIndex);
    BlockScales blockScales(int catalogueIndex);

    WindowState window(int tensor) const;
    uint64_t stateHash() const;
    std::vector<float> weight(const std::string& name) const;

    void save(const std::string& directory) const;
    LoadNote load(const std::string& directory, bool allowOtherClass);

    /// Where training is; the host's part of the checkpoint.
    struct Progress {
        int64_t step = 0, tokens = 0, windows = 0;  ///< finished steps, tokens seen, training windows read
        double learningRateFactor = 1;
    };
    const Progress& progress() const { return progress_; }
    const TrainerConfig& config() const { return config_; }
    const MemoryPlan& memoryPlan() const { return memory_; }
    const std::vector<CatalogueEntry>& catalogue() const { return catalogue_; }
    const StepProgram& program() const { return *program_; }
    StepProgram& program() { return *program_; }
    kernels::Backend& backend() const { return backend_; }

  private:
    PassFlags passFlags(int64_t step) const;
    double learningRate(int64_t step) const;
    kernels::StepParameters stepParameters(int64_t step) const;
    void readWindows(int64_t first, bool validation, int64_t count);
    /// A step whose results are on their way.
    struct Queued {
        PassFlags flags;
        double learningRate = 0;
        float lossScale = 1;
        bool dearSlots = false;
        std::unique_ptr<kernels::HostCopy> state, slots;
        std::unique_ptr<kernels::HostCopy> table;  ///< of scales, where the next step's passes write it
        ProbeCopies probes;
        std::shared_ptr<TroubleReport> trouble;
    };
    /// Queues the passes of the step after those queued, and with finishStarted its update: apart, so that the passes
    /// of a step may run ahead of the news whether the one before was finite, but its update never does.
    void startStep();
    void finishStarted();
    /// Forgets the passes of a step that was only started; training is as the step before it, which gave `state`, left
    /// it.
    void dropStarted(const kernels::StepState& state, const Queued& before);
    bool mayGoAhead() const;
    void requireNoneAhead() const;  ///< throws InvalidConfig: the state is that of a step whose results nobody has read
    int64_t windowsAhead() const;   ///< the first training window that no queued step reads
    /// The windows of the next micro-batch into tokens_ and targets_, unless they are there already.
    void prepareTraining(int64_t first);
    std::shared_ptr<const NumericsRecord> record(const Queued& step,
                                                 const std::vector<kernels::TensorSlot>& slots) const;
    void recordProbes(NumericsRecord& record, const Queued& step, const std::vector<kernels::TensorSlot>& slots) const;
    /// Runs the passes of `step` again with every output looked at and names the first non-finite place. slots: what
    /// the step's casts reported, where its delayed scales have been updated already; nullptr: they have not.
    std::shared_ptr<TroubleReport> inspectStep(int64_t step, const std::vector<kernels::TensorSlot>* slots);
    bool inspects() const { return finite_ && (config_.probes.opChecks || config_.probes.flightSteps > 0); }
    void findTrouble(TroubleReport& report, const std::vector<kernels::FiniteCount>& counts) const;
    /// What follows a step's outcome: the report of a first trouble, the record's place in the flight.
    void followTrouble(StepMetrics& metrics, std::shared_ptr<TroubleReport> report);
    std::vector<bool> shadowMask(const ProbeConfig& probes) const;  ///< throws InvalidConfig
    void applyShadow(const ProbeConfig& probes);
    void refreshWeights();
    void checkConfig() const;
    void takeProgram();                           ///< what is kept here of a new program: catalogue and slots
    int catalogueSlot(int catalogueIndex) const;  ///< throws InvalidConfig

    TrainerConfig config_;
    kernels::Backend& backend_;
    std::shared_ptr<const TokenSource> data_;
    bool shareMemory_;
    std::unique_ptr<StepProgram> program_;
    MemoryPlan memory_;
    std::vector<CatalogueEntry> catalogue_;
    std::vector<int> catalogueSlots_;
    Progress progress_;
    std::vector<int32_t> window_, tokens_, targets_;
    std::deque<Queued> queued_;
    std::chrono::steady_clock::time_point lastEnd_;  ///< of the step before one that was queued ahead
    int64_t prepared_ = -1;  ///< first training window that tokens_ and targets_ hold; -1: something else
    FaultPlanter faults_;
    bool finite_ = true;        ///< of the last step
    int64_t troubleUntil_ = 0;  ///< steps up to here are looked at in full
    std::deque<std::shared_ptr<const NumericsRecord>> flight_;
    std::vector<kernels::TensorSlot> weightSlots_;  ///< casts of the weights that the next step uses
};

/// Throws OutOfMemory with what the plan needs and what is free.
void refuseIfTooLarge(const MemoryPlan& plan, const kernels::DeviceInfo& device);

/// Numbers of one tensor as shown: what the counters and sums of a slot mean.
TensorNumerics tensorNumerics(const kernels::TensorSlot& slot, bool dear, bool exponents);

}  // namespace mantissa::engine
