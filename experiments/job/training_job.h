// One training run on its own thread: sole owner of the device, the trainer and its writing connection to the store.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "engine/trainer.h"
#include "experiments/spec/run_spec.h"
#include "experiments/store/run_types.h"

namespace mantissa::experiments {

class Stepper;

/// A sentence about what happens before and between steps: "Reading the text", "Planning memory", "Waiting for cpu:
/// nano-bf16 is going".
struct JobPhase {
    std::string text;
};
struct JobStarted {
    std::string run, name, device, deviceName, isa, determinismClass;
    int threads = 0;
    int64_t parameters = 0, firstStep = 1, steps = 0;
    uint64_t planBytes = 0;
    std::map<std::string, uint64_t> planBy;
    std::string planNote, dataDescription;
    std::optional<double> entropyFloor;
    double flopsPerToken = 0;
    std::vector<engine::CatalogueEntry> catalogue;
};
/// One step as it goes into the store. metrics.numerics is shared and immutable.
struct JobStep {
    engine::StepMetrics metrics;
    int64_t totalTokens = 0;
    double tokensPerSecond = 0;  ///< tokens of the step ÷ its time
    double stepMs = 0;           ///< between step ends, evaluations and checkpoints left out; on a GPU StepClock's mean
    uint64_t memoryBytes = 0;    ///< resident memory now (CPU) or plan bytes in use
    int64_t timeMs = 0;
};
struct JobEval {
    int64_t step = 0;
    double loss = 0;
};
struct JobCheckpoint {
    int64_t step = 0;
    std::string path;
    double seconds = 0;
    uint64_t bytes = 0;
};
/// Alert, applied command, notice: exactly the row that went into the store (id 0 when it is still waiting to be
/// written).
struct JobEventRow {
    RunEvent event;
};
struct JobState {
    RunStatus status = RunStatus::Running;  ///< running <-> paused
};
/// Effective precision as read back after the first step, and after the first step of every change of precision.
struct JobPrecision {
    std::vector<engine::EffectivePrecision> rows;
};
/// The spec in force from the next step on: sent when a change while running was applied. catalogue: formats and
/// recipes after it.
struct JobSpec {
    int64_t step = 0;  ///< last step before the change
    RunSpec spec;
    std::vector<engine::CatalogueEntry> catalogue;
};
/// A tensor was kept.
struct JobCapture {
    int64_t step = 0;
    std::string tensor, path;  ///< "h.1/mlp.fc1/input"; a safetensors file with one tensor
};
/// The store could not take points (disk full) or took them again. bufferedSeconds, roomSeconds: waiting in memory, and
/// room left.
struct JobStorage {
    bool trouble = false;
    std::string text;
    double bufferedSeconds = 0, roomSeconds = 0;
};
struct JobEnded {
    RunStatus status = RunStatus::Finished;
    std::string reason;  ///< a sentence; "" for finished
    int64_t step = 0;
    double loss = 0, validationLoss = 0;  ///< NaN when there is none
    double seconds = 0, tokensPerSecond = 0;
    uint64_t peakBytes = 0;
    std::string notStored;  ///< why the store lacks the end of the run (the disk was full to the last); "": it has all
};
using JobMessage = std::variant<JobPhase, JobStarted, JobStep, JobEval, JobCheckpoint, JobEventRow, JobState,
                                JobPrecision, JobSpec, JobCapture, JobStorage, JobEnded>;

/// One field to change: as --set PATH=VALUE takes it.
struct SpecSet {
    std::string path, value;  ///< value: JSON, or a bare word for a string
};
/// Paths that a running job takes: precision.*, probes.*, optimizer.learning_rate, train.nonfinite,
/// checkpoint.*, eval.every, alarms.*.
bool isLivePath(const std::string& path);

struct JobOptions {
    std::string store;  ///< path of the workspace file
    std::string name;   ///< "": spec.defaultName()
    std::vector<std::string> tags;
    engine::DeviceChoice device;
    std::string resumeRun;    ///< ULID of a run to go on with; "" for a new one. The spec is then the run's own
    int64_t resumeStep = -1;  ///< checkpoint to go on from; −1: the newest
    bool otherClass = false;  ///< allow a checkpoint of another determinism class
    std::string forkRun;  ///< ULID of a run whose checkpoint (resumeStep) the new run starts from; 0: from the start
    /// A fork on the same data.path is meant to read what is there now, though it may not be what its parent read.
    bool anyCorpus = false;
    bool beside = false;  ///< do not wait for other runs on the device
    /// Steps alone: no evaluation and no checkpoint at the end. Where the device measures energy, steps go on after the
    /// spec's until there are ten seconds of it.
    bool measureOnly = false;
    bool headless = false;  ///< nobody is there to answer: policy "pause" acts as "stop"
    /// Name of what has to end first, "" when nothing; asked from the job's thread until it is "". May be empty.
    std::function<std::string()> waitFor;
    /// Makes the trainer; empty: the engine's. For tests.
    std::function<std::unique_ptr<Stepper>(const RunSpec&, const engine::DeviceChoice&,
                                           const std::function<void(const std::string&)>&)>
        makeStepper;
    /// Called on the job's thread after a message was queued; must return at once (wake a loop). May be empty.
    std::function<void()> wake;
};

/// Thread: the public members may be called from any thread, except drain() (one reader). Commands are applied between
/// two steps, in order; each applied one becomes an event of the run. The destructor asks for a stop (now, with a
/// checkpoint) and joins.
class TrainingJob {
  public:
    /// Makes the run's row (status queued), so that it is in the list at once, then starts the thread. Throws Database
    /// when the store cannot be opened for writing, InvalidConfig when the spec is not valid or the run to resume has
    /// no such checkpoint, InvalidFile when the text of the run that it goes on from cannot be read or is another one.
    /// A relative data.path is stored as an absolute one. Goes through checkpoint and text: not for the GUI thread.
    TrainingJob(const RunSpec& spec, JobOptions options);
    ~TrainingJob();
    TrainingJob(const TrainingJob&) = delete;
    TrainingJob& operator=(const TrainingJob&) = delete;

    const std::string& runId() const;
    const std::string& name() const;

    void pause();
    void resume();
    void stop();     ///< checkpoint, then end as stopped
    void stopNow();  ///< end as stopped after the current step, without a checkpoint
    void checkpoint();
    void setLearningRate(double rate);  ///< new base rate; the schedule's shape stays
    void setProbes(const engine::ProbeConfig& probes);
    /// Changes fields of the spec, all or none: validated together, applied between two steps, one event a field with
    /// old and new value; an event of kind "refused" with the reason when they cannot be applied. The spec of the run
    /// is from then on the changed one (JobSpec), so that a resume goes on with it.
    void set(std::vector<SpecSet> changes);
    /// The same for a whole precision setting: recipe, margin, history length, algorithm, rules, …
    void setPrecision(const engine::PrecisionConfig& precision);
    /// Keeps the values of one tensor ("h.1/mlp.fc1/input") as they enter the cast of the next step; JobCapture
    /// follows.
    void capture(const std::string& tensor);

    /// All messages since the last call, in order. Never blocks.
    std::vector<JobMessage> drain();
    bool ended() const;  ///< the thread has posted JobEnded
    void join();         ///< waits for the end; not for the GUI thread

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace mantissa::experiments
