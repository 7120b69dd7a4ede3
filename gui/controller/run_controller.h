// The one bridge between training, store and pages: values in Qt signals on the GUI thread, nothing that waits.
#pragma once

#include <QMap>
#include <QObject>
#include <QPointer>
#include <QString>
#include <QStringList>
#include <QTimer>
#include <exception>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/trainer.h"
#include "gui/controller/worker.h"
#include "gui/models/run_info.h"

namespace mantissa::experiments {
class RunStore;
}

namespace mantissa::gui {

using StepBatch = std::vector<engine::StepMetrics>;

/// Owns the store's reading thread, the queue of runs and the 100 ms timer. GUI thread only. Pages ask load() for what
/// they show and listen to the signals; no slot waits for disk or device.
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

    const RunInfo* run(const QString& id) const;  ///< null when unknown; valid until the next event
    QVector<RunInfo> runs() const;                ///< newest first

  signals:
    /// The set of runs, a state, name, tag or summary changed.
    void runsChanged();
    void runChanged(const QString& id);
    /// New steps of a run that is going, in this process or another (steps ascending, without numerics for runs of
    /// another process).
    void stepsArrived(const QString& id, std::shared_ptr<const mantissa::gui::StepBatch> steps);
    /// An evaluation, checkpoint, event or numerics of a run reached the store (at most ten times a second a run).
    void storeAdvanced(const QString& id);
    /// A sentence for the banner.
    void problem(const QString& text);

  private:
    void readLater(std::function<void(experiments::RunStore*, const QString&)> job);
    void toGui(std::function<void()> call);
    void reportProblem(const QString& text);

    JobNumbers jobs_;
    Worker reader_;
};

}  // namespace mantissa::gui
