// The one bridge between training, store and pages: values in Qt signals on the GUI thread, nothing that waits.
#pragma once

#include <QHash>
#include <QObject>
#include <QPointer>
#include <QString>
#include <QStringList>
#include <QTimer>
#include <QVector>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "experiments/job/training_job.h"
#include "experiments/store/run_store.h"
#include "gui/controller/worker.h"
#include "gui/models/run_info.h"

namespace mantissa::gui {

using StepBatch = std::vector<experiments::JobStep>;
using SharedSteps = std::shared_ptr<const StepBatch>;

/// What the status bar says about the store.
struct StoreStatus {
    QString path;
    QString readOnlyReason;  ///< "" when writable
    quint64 bytes = 0;
    qint64 lastCommitMs = 0;  ///< Unix time; 0 = none
    bool open = false;
};

/// Owns the connections to the store (one a background thread), the queue of runs and the 100 ms timer. GUI thread
/// only. Pages ask load() for what they show and listen to the signals; no slot waits for disk, device or a thread's
/// end.
class RunController : public QObject {
    Q_OBJECT
  public:
    explicit RunController(QObject* parent = nullptr);
    ~RunController() override;

    /// Runs `work(store)` on the reading thread with its own read-only connection and hands its result to `done` on the
    /// GUI thread, unless `receiver` is gone or asked again with the same `topic`. An exception of `work` goes to
    /// `failed` as a sentence (without one: to the banner). `work` must not touch widgets.
    template <class Work, class Done>
    void load(QObject* receiver, int topic, Work work, Done done, std::function<void(const QString&)> failed = {}) {
        using Value = std::invoke_result_t<Work, experiments::RunStore&>;
        const quint64 number = jobs_.next(receiver, topic);
        QPointer<QObject> guard(receiver);
        readLater([this, guard, topic, number, work = std::move(work), done = std::move(done),
                   failed = std::move(failed)](experiments::RunStore* store, const QString& problem) mutable {
            auto value = std::make_shared<Value>();
            QString error = problem;
            if (store) {
                try {
                    *value = work(*store);
                } catch (const std::exception& exception) {
                    error = QString::fromStdString(exception.what());
                }
            }
            toGui([this, guard, topic, number, value, error, done = std::move(done),
                   failed = std::move(failed)]() mutable {
                if (!guard || !jobs_.isLatest(guard, topic, number)) return;
                if (error.isEmpty())
                    done(std::move(*value));
                else if (failed)
                    failed(error);
                else
                    reportProblem(error);
            });
        });
    }
    /// Answers that are still to come for `receiver` and `topic` are dropped.
    void forget(QObject* receiver, int topic) { jobs_.next(receiver, topic); }

    /// The same on another thread without the store: forecasts, tensor bench, device report.
    template <class Work, class Done>
    void compute(QObject* receiver, int topic, Work work, Done done, std::function<void(const QString&)> failed = {}) {
        using Value = std::invoke_result_t<Work>;
        const quint64 number = jobs_.next(receiver, topic);
        QPointer<QObject> guard(receiver);
        computer_.post([this, guard, topic, number, work = std::move(work), done = std::move(done),
                        failed = std::move(failed)]() mutable {
            auto value = std::make_shared<Value>();
            QString error;
            try {
                *value = work();
            } catch (const std::exception& exception) {
                error = QString::fromStdString(exception.what());
            }
            toGui([this, guard, topic, number, value, error, done = std::move(done),
                   failed = std::move(failed)]() mutable {
                if (!guard || !jobs_.isLatest(guard, topic, number)) return;
                if (error.isEmpty())
                    done(std::move(*value));
                else if (failed)
                    failed(error);
                else
                    reportProblem(error);
            });
        });
    }

    /// Opens (or makes) a store; the answer is storeOpened() or problem().
    void openStore(const QString& path);
    const StoreStatus& store() const { return store_; }

    const RunInfo* run(const QString& id) const;            ///< null when unknown; valid until the next event
    const QVector<RunInfo>& runs() const { return runs_; }  ///< oldest first
    QString baseline() const;                               ///< id of the pinned run, "" = none
    /// The run the capsule shows: the newest of this process that has not ended, else the newest that is going
    /// elsewhere; "" = none.
    QString currentRun() const;
    int goingCount() const;
    /// Runs of this program that have not begun: they wait for the device.
    int ownWaitingCount() const;
    /// Waiting or first phases of a run of this process in words ("Planning memory"); "" once it steps.
    QString phaseText(const QString& id) const;
    bool ownsGoingRuns() const;  ///< also one that is about to start
    /// Steps left × median of the last 200 step times (other processes: the store's median throughput); < 0: not known
    /// yet.
    double secondsLeft(const QString& id) const;

    void start(const experiments::RunSpec& spec, experiments::JobOptions options);
    void resumeRun(const QString& id);
    void pause(const QString& id);
    void resume(const QString& id);
    void stop(const QString& id);
    void stopNow(const QString& id);
    void checkpoint(const QString& id);
    /// Fields of the spec that the running job takes between two steps, in this process or another.
    void change(const QString& id, const std::vector<experiments::SpecDifference>& fields);
    /// Keeps the values of a tensor ("h.1/mlp.fc1/input") as they enter the cast of the next step.
    void capture(const QString& id, const QString& tensor);
    void rename(const QString& id, const QString& name);
    void setNote(const QString& id, const QString& note);
    void setTags(const QString& id, const QStringList& tags);
    void setBaseline(const QString& id);
    void deleteRun(const QString& id);
    /// Asks all runs of this process to stop with a checkpoint, or at once without one; also those that are about to
    /// start. allEnded() follows.
    void stopAll(bool now = false);

  Q_SIGNALS:
    void storeOpened();
    void storeStatusChanged();
    /// The set of runs, a state, name, tag, baseline or summary changed.
    void runsChanged();
    /// One run's row changed (step, loss, state); not the set of runs.
    void runChanged(const QString& id);
    /// A run of this process was made and is in the list.
    void runStarted(const QString& id);
    void runEnded(const QString& id);
    /// New steps of a run of this process, ascending, within 100 ms. Runs of other processes: see storeAdvanced().
    void stepsArrived(const QString& id, mantissa::gui::SharedSteps steps);
    void evaluationArrived(const QString& id, qint64 step, double loss);
    /// An alert, applied command, checkpoint or notice of a run of this process.
    void eventArrived(const QString& id, const mantissa::experiments::RunEvent& event);
    void phaseChanged(const QString& id);
    /// The store holds more of this run (any process) than before: read on with series(id, name, fromStep). At most
    /// four times a second.
    void storeAdvanced(const QString& id);
    void allEnded();
    /// Sentences for banner and toast.
    void problem(const QString& text);
    void storageTrouble(const QString& text);  ///< "" = over
    /// A run of this process ended, and the store lacks its end: why.
    void endNotStored(const QString& id, const QString& text);
    void done(const QString& text);

  private:
    struct Job;
    struct Connections;
    void readLater(std::function<void(experiments::RunStore*, const QString&)> job);
    void writeLater(std::function<void(experiments::RunStore&)> job, const QString& doneText = QString());
    void toGui(std::function<void()> call);
    void reportProblem(const QString& text);
    void tick();
    void poll();
    /// Poller's thread, four times a second: whether the path still names the file that was opened. Twice gone: a
    /// problem is told; twice another file: that one is opened, unless
    /// the log of the old file stands beside it.
    void lookAtFile(Connections& connections);
    void takeRuns(std::vector<experiments::RunSummary> rows, const StoreStatus& status, bool dataChanged);
    void drainJobs();
    void noteEnd();
    void handle(Job& job, experiments::JobMessage& message, StepBatch& steps);
    void adopt(std::shared_ptr<experiments::TrainingJob> job, const std::optional<experiments::RunSummary>& row);
    RunInfo* find(const QString& id);
    experiments::TrainingJob* ownJob(const QString& id) const;
    void command(const QString& id, const char* name, void (experiments::TrainingJob::*call)());

    std::shared_ptr<Connections> connections_;  ///< one per background thread; touched there only
    StoreStatus store_;
    QVector<RunInfo> runs_;
    QHash<QString, int> rowOf_;
    std::vector<std::unique_ptr<Job>> ownJobs_;
    JobNumbers jobs_;
    QTimer timer_;
    bool polling_ = false, stopping_ = false;
    int starting_ = 0;  ///< starts that the writing thread has not answered
    // Last: their threads end before the members above go.
    Worker reader_, poller_, writer_, computer_;
};

}  // namespace mantissa::gui
