// Writes one run. What comes in is kept in memory until flush() has put it into the store in one transaction, so that a
// full disk costs nothing but time. Thread: the one that owns the RunStore.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "experiments/spec/run_spec.h"
#include "experiments/store/compactor.h"
#include "experiments/store/run_store.h"
#include "experiments/store/step_record.h"

namespace mantissa::experiments {

/// Makes the row of a new run (status queued) with the next colour; the caller holds the run's lock already. Returns
/// nothing: the ULID is given.
void insertRun(RunStore& store, const std::string& ulid, const RunSpec& spec, const std::string& name,
               const std::vector<std::string>& tags, const std::string& device, const std::string& parent = "",
               int64_t parentStep = 0);
/// The lock file of a run.
std::string runLockPath(const RunStore& store, const std::string& ulid);
/// "pid, boot id" for the lock file.
std::string lockText();

/// Sets nothing but the status of a run: a resume that waits, or one that could not begin and leaves the run as it was.
void writeStatus(RunStore& store, const std::string& ulid, RunStatus status, const std::string& text);

struct RunCommand {
    int64_t id = 0;
    std::string command, argument;
};

class RunWriter {
  public:
    static constexpr uint64_t kDefaultBufferBytes = 256ull << 20;

    /// Opens a new segment whose first step is `firstStep` (1 for a new run) with the first flush.
    RunWriter(RunStore& store, const std::string& ulid, int64_t firstStep, uint64_t bufferBytes = kDefaultBufferBytes);

    void setStatus(RunStatus status, const std::string& text = "");
    void setDocument(const RunDocument& document);
    void setPrecision(const std::vector<engine::EffectivePrecision>& rows);
    void setDevice(const std::string& device, const std::string& name, uint64_t planBytes);
    void setSteps(int64_t steps);
    void addStep(const StepRecord& record, const engine::NumericsRecord* numerics);
    void addEvaluation(int64_t step, double loss);
    void addEvent(const RunEvent& event);  ///< step, kind, text, alert fields; time is set when it is 0
    void addCheckpoint(const CheckpointRow& row);
    void dropCheckpoint(const std::string& path);  ///< marks as no longer on disk
    void setPeakBytes(uint64_t bytes);
    /// tokens/s of the whole run, at its end; until then the row holds the median of the last steps.
    void setThroughput(double tokensPerSecond);

    /// One transaction with everything that waits. full: synchronous=FULL for it (run end, checkpoint). False: the
    /// store could not take it (disk full, or held by another program); all of it stays in memory and `problem()` says
    /// why. Never throws for that. Throws Database when the run was deleted meanwhile.
    bool flush(bool full = false);
    bool somethingWaits() const { return !pending_.empty() || dirty_; }
    const std::string& problem() const { return problem_; }
    uint64_t bufferedBytes() const { return bufferedBytes_; }
    uint64_t bufferLimit() const { return bufferLimit_; }
    double bufferedSeconds() const;
    /// Steps thrown away because the buffer was full, as ranges; each is written as an event of kind "notice", alert
    /// "lost_range".
    const std::vector<std::pair<int64_t, int64_t>>& lost() const { return lost_; }

    /// A slice of background compaction (about a millisecond); nothing while writing is in trouble.
    void compactSlice();
    /// Compacts all closed ranges of the run.
    void compactAll();

    /// Commands of other processes since the last call, oldest first; they are removed from the store.
    std::vector<RunCommand> takeCommands();

  private:
    struct Pending {
        enum class Kind : uint8_t { Step, Evaluation, Event, Checkpoint, DropCheckpoint } kind = Kind::Step;
        int64_t step = 0, timeMs = 0;
        double loss = 0;
        std::vector<uint8_t> data, exponents;
        RunEvent event;
        CheckpointRow checkpoint;
        size_t bytes() const { return sizeof(Pending) + data.size() + exponents.size(); }
    };
    void push(Pending item);
    void limitBuffer();
    void summarise(Metric metric, int64_t step, double value);
    void openSegment();
    void restoreSummaries();
    void writePending(const Pending& item);
    void writeSummaries();
    void writeRow();

    RunStore& store_;
    std::string ulid_;
    int64_t run_ = 0, segment_ = -1, firstStep_ = 1;
    std::deque<Pending> pending_;
    std::map<Metric, MetricSummary> summaries_;
    std::map<Metric, bool> changed_;
    RunSummary row_;
    std::string document_, catalogue_, precision_, details_;
    bool dirty_ = true, documentDirty_ = false, precisionDirty_ = false;
    uint64_t bufferedBytes_ = 0, bufferLimit_;
    std::vector<std::pair<int64_t, int64_t>> lost_;
    size_t lostReported_ = 0;
    std::string problem_;
    std::vector<double> recentRates_;
    std::unique_ptr<Compactor> compactor_;
};

}  // namespace mantissa::experiments
