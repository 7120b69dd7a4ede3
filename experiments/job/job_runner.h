// The body of a job's thread: from the plan to the last checkpoint.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "experiments/job/alarms.h"
#include "experiments/job/auto_precision.h"
#include "experiments/job/mailbox.h"
#include "experiments/job/run_median.h"
#include "experiments/job/step_clock.h"
#include "experiments/job/stepper.h"
#include "experiments/store/database.h"
#include "experiments/store/run_store.h"
#include "experiments/store/run_writer.h"

namespace mantissa::experiments {

/// What the job was told to do, settled before the thread starts.
struct JobPlan {
    RunSpec spec;
    JobOptions options;
    std::string runId, name;
    std::string checkpoint;  ///< folder to load first; "" for a fresh start
    int64_t checkpointStep = 0;
    std::string origin;  ///< "Resumed from step 20.", "Forked from nano-bf16-s1 at step 20."; "" for a fresh start
};

/// Bytes by what they are for.
std::map<std::string, uint64_t> planBy(const engine::MemoryPlan& plan);

/// Thread: everything on the job's thread.
class JobRunner {
  public:
    JobRunner(JobPlan plan, Mailbox& mailbox, FileLock lock);
    /// Never throws; posts JobEnded as its last message.
    void run();

  private:
    using Clock = std::chrono::steady_clock;
    static double secondsSince(Clock::time_point start) {
        return std::chrono::duration<double>(Clock::now() - start).count();
    }
    static constexpr int kDivergedSteps = 100;  ///< non-finite steps running that end a run under policy skip
    static constexpr double kFlushSeconds = 0.2, kPollSeconds = 0.05;
    static constexpr double kLongestPollSeconds = 0.1;  ///< or four steps: commands of other processes wait no longer

    void train();
    bool waitForDevice();
    void prepare();
    void load();
    void announce();
    void loop();
    bool stepsLeft() const;
    void oneStep();
    bool looksAhead() const;
    void afterStep(const engine::StepMetrics& metrics);
    void judgeFinite(const engine::StepMetrics& metrics);
    void evaluate();
    void audited(const std::string& what, const std::function<void()>& look);
    bool auditDue() const;
    std::optional<uint64_t> hashState();
    void tellAudits();
    void saveCheckpoint(bool final);
    void dropOldCheckpoints();
    void poll(bool force);
    void apply(const JobCommand& command);
    void applyRemote(const RunCommand& command);
    void applySet(const std::vector<SpecSet>& sets);
    void applyCapture(const std::string& tensor);
    void adopt(const RunSpec& next, const std::string& asked);
    void refuse(const std::string& asked, const std::string& reason);
    RunSpec baseSpec() const;
    std::unique_ptr<AutoPrecision> nextAuto(const RunSpec& before, const RunSpec& next) const;
    void recordSpec();
    void makeAlarms();
    void recordTrouble(const engine::TroubleReport& report);
    void decideAutomatically(const engine::StepMetrics& metrics);
    void pauseUntilToldOtherwise();
    void setState(RunStatus status);
    void flush(bool force, bool full = false);
    void postStorage(bool trouble);
    void tellStorage(const std::string& kind, const std::string& text);
    void watchStore();
    void rescueStore(JobEnded& ended);
    void event(const std::string& kind, const std::string& text);
    void post(const RunEvent& event);
    void finish(RunStatus status, const std::string& reason);
    uint64_t residentBytes() const;

    JobPlan plan_;
    Mailbox& mailbox_;
    FileLock lock_, deviceLock_;
    std::unique_ptr<RunStore> store_;
    std::unique_ptr<RunWriter> writer_;
    std::optional<RunSummary> before_;  ///< a resumed run as it was, until its checkpoint is loaded
    std::unique_ptr<Stepper> stepper_;
    std::unique_ptr<Alarms> alarms_;
    std::unique_ptr<AutoPrecision> auto_;  ///< null: switched off
    RunDocument document_;                 ///< as it is in the store
    float baseRate_ = 1;                   ///< learning rate that the trainer was made with
    bool windowWanted_ = false;            ///< an alarm waits for an amax window, which is read between two steps
    bool precisionChanged_ = false;        ///< what runs is read back after the next step
    std::optional<Clock::time_point> energyFrom_;  ///< when the first reading of the board's energy came
    std::deque<std::string> checkpoints_;          ///< folders on disk that checkpoint.keep governs, oldest first
    bool stop_ = false, stopNow_ = false, paused_ = false, diverged_ = false;
    std::string reason_;
    int nonFiniteRunning_ = 0;
    int64_t savedStep_ = -1, failedStep_ = -1, evaluatedStep_ = -1, tokensBefore_ = 0;
    double seconds_ = 0, loss_, validationLoss_, lastStepSeconds_ = 0;
    std::map<std::string, int> audits_;          ///< that found the state as it was, by what was audited
    double auditSeconds_ = 0, hashSeconds_ = 0;  ///< of all hashes, of the last one
    StepClock stepClock_;
    RunMedian rates_;  ///< tokens/s
    uint64_t residentBefore_ = 0, resident_ = 0;
    Clock::time_point mark_, lastFlush_, lastPoll_, lastResident_;
    bool storageTrouble_ = false;
    bool storeAway_ = false;  ///< the store's path leads elsewhere now
};

}  // namespace mantissa::experiments
