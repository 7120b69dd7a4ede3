// One workspace file (SQLite, WAL) with all runs: spec, state, metrics, statistics, events, checkpoints.
// Thread: one RunStore object = one connection = one thread. Several objects, also in several processes, may have the
// file open.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "experiments/spec/run_spec.h"
#include "experiments/store/run_types.h"

namespace mantissa::experiments {

class Database;

/// --store, else MANTISSA_STORE, else $XDG_DATA_HOME/mantissa/runs.mantissa (HOME/.local/share without XDG_DATA_HOME).
std::string defaultStorePath(const std::string& given = "");

class RunStore {
  public:
    enum class Mode { ReadWrite, ReadOnly };
    static constexpr int kSchema = 1;

    /// ReadWrite makes the file when there is none (never over a zero-byte or foreign one). Throws Database with one
    /// sentence naming file and cause; the file is not written to then. A newer schema opens read-only whatever was
    /// asked: see readOnlyReason().
    RunStore(const std::string& path, Mode mode);
    ~RunStore();
    RunStore(const RunStore&) = delete;
    RunStore& operator=(const RunStore&) = delete;

    const std::string& path() const;
    std::string folder() const;  ///< "<path>.d": checkpoints and locks
    bool readOnly() const;
    std::string readOnlyReason() const;  ///< "" when writable
    int schema() const;
    uint64_t sizeBytes() const;    ///< file and WAL
    int64_t lastCommitMs() const;  ///< Unix ms of the newest commit of training data seen in run rows; 0: none

    /// Whether the path still leads to the file that was opened; not when it was deleted, moved or replaced meanwhile.
    /// What is written then is lost with the last program that has the file open, unless rescue() saves it.
    bool inPlace() const;
    /// Writes everything that this connection sees into a new file beside the path, and says which. Throws Database.
    std::string rescue();

    /// Moves the WAL into the file as far as readers allow, unless another program holds the store just now. Never
    /// throws and waits for nobody.
    void moveWal();

    /// Changes whenever another connection committed. 5 µs; poll it from a timer. Own commits do not change it.
    int64_t dataVersion();

    // Lists and lookup ------------------------------------------------------------------------------------------------
    /// All runs, oldest first. Runs whose process is gone read Interrupted (decided by the run's lock file), also when
    /// read-only.
    std::vector<RunSummary> runs();
    std::optional<RunSummary> run(const std::string& id);
    /// Full ULID, unique prefix of one, or a name (the newest run of that name). Throws InvalidConfig: no such run, or
    /// ambiguous.
    RunSummary find(const std::string& idOrName);
    RunDocument document(const std::string& id);

    // A run that is not there (any more) reads as empty.
    // Reading ---------------------------------------------------------------------------------------------------------
    std::vector<RunEvent> events(const std::string& id, int64_t afterEventId = 0);  ///< alerts included, oldest first
    std::vector<RunEvent> alerts(const std::string& id);
    /// By age. Also those that are whole on disk but not in the table (a WAL that was lost with the process): they come
    /// last.
    std::vector<CheckpointRow> checkpoints(const std::string& id);
    std::map<std::string, MetricSummary> summary(const std::string& id);  ///< scalar metrics
    /// Names of all series: scalars first, then numerics/<layer>/<linear>/<tensor>/<statistic> in catalogue order
    /// (stored ones).
    std::vector<std::string> seriesNames(const std::string& id);
    /// Scalars (loss, grad_norm, lr, tokens, tokens_per_s, step_ms, val_loss, memory_bytes, phase/<phase>_ms,
    /// loss_scale, seconds) and numerics names, also derived statistics. fromStep: only steps >= it, for reading on
    /// while a run goes. Unknown name: empty.
    Series series(const std::string& id, const std::string& metric, int64_t fromStep = 0);
    /// All tensors of the catalogue at once; steps firstStep … lastStep (lastStep < 0: to the end).
    NumericsRange numerics(const std::string& id, Statistic statistic, int64_t firstStep, int64_t lastStep);
    Heatmap heatmap(const std::string& id, Statistic statistic, int64_t firstStep, int64_t lastStep, int columns);
    /// Everything recorded about all tensors in one step; null when the step was not recorded.
    std::shared_ptr<const engine::NumericsRecord> record(const std::string& id, int64_t step);
    AmaxWindow window(const std::string& id, int tensor, int64_t step);
    /// Shadow measurements of steps firstStep … lastStep (< 0: to the end), by step, in order of execution.
    std::vector<ShadowRow> shadow(const std::string& id, int64_t firstStep, int64_t lastStep);
    /// Ops whose output held a NaN or Inf, of probed steps; those without are not kept.
    std::vector<OpRow> opChecks(const std::string& id, int64_t firstStep, int64_t lastStep);
    /// Weights with stale codes, of probed steps.
    std::vector<StaleRow> staleWeights(const std::string& id, int64_t firstStep, int64_t lastStep);
    /// Histogram of the newest step <= step that has one; counts empty when there is none.
    Exponents exponents(const std::string& id, int tensor, int64_t step);
    /// All histograms of one tensor in steps firstStep … lastStep, ascending.
    std::vector<Exponents> exponentsRange(const std::string& id, int tensor, int64_t firstStep, int64_t lastStep);

    // Changes (throw Database when read-only)
    // --------------------------------------------------------------------------
    void rename(const std::string& id, const std::string& name);
    void setNote(const std::string& id, const std::string& note);
    void setTags(const std::string& id, const std::vector<std::string>& tags);
    void setBaseline(const std::string& id);  ///< the one pinned baseline; "" unpins
    /// Removes the run, its series and its checkpoint folder. A running run is refused with a sentence (Error
    /// Database).
    void deleteRun(const std::string& id);

    // Commands to a run in any process: polled by it between steps at least ten times a second
    // --------------------------
    /// command: "pause", "resume", "stop", "stop_now", "checkpoint", "learning_rate", "probes", "set" (an object of
    /// spec paths and values), "capture" (name of a tensor); argument: JSON text or "".
    void sendCommand(const std::string& id, const std::string& command, const std::string& argument = "");

    /// For the writer (store/run_writer.h) and maintenance; not for user interfaces.
    Database& database();

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

struct StoreCheck {
    bool ok = true;
    std::vector<std::string> problems;
};
struct StoreInfo {
    std::string path;
    int schema = 0;
    int64_t runs = 0;
    uint64_t bytes = 0, checkpointBytes = 0;
};
struct SalvageReport {
    int64_t runs = 0, rows = 0, lostRows = 0;
    std::vector<std::string> problems;
};
StoreInfo storeInfo(const std::string& path);
/// Never writes. Also answers for files that cannot be opened: the cause is then a problem.
StoreCheck checkStore(const std::string& path);
/// Copies every readable row into a NEW file `target` (refused when it exists); `source` is not written to.
/// progress(done, total) may return false to cancel. Throws Database.
SalvageReport salvageStore(const std::string& source, const std::string& target,
                           const std::function<bool(int64_t, int64_t)>& progress = {});
/// Finishes compaction of ended runs and gives free pages back. Throws Database.
void compactStore(const std::string& path);

}  // namespace mantissa::experiments
