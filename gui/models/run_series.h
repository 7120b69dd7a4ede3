// The curves, events and document of one run, read on the background thread and kept up to date while it goes.
#pragma once

#include <QObject>
#include <QString>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "experiments/spec/run_spec.h"
#include "experiments/store/run_types.h"
#include "gui/controller/run_controller.h"
#include "gui/plot/series_pyramid.h"

namespace mantissa::gui {

/// Scalars of a run as pyramids over steps. Steps of a run in this process arrive from its job at once, all others (and
/// whatever was missed) from the store. GUI thread only.
class RunSeries : public QObject {
    Q_OBJECT
  public:
    explicit RunSeries(RunController& controller, QObject* parent = nullptr);

    /// Shows another run ("" = none). What was loaded of the last one is dropped.
    void show(const QString& id);
    const QString& id() const { return id_; }
    bool loaded() const { return loaded_; }
    /// Reads what is new in the store. Calls during a read are joined into one more.
    void refresh();
    /// Off while nobody looks: nothing is read; what was missed is read when it is on again.
    void setActive(bool on);

    /// Never null; empty for a metric that was not recorded. Names of RunStore::series().
    std::shared_ptr<SeriesPyramid> metric(const QString& name) const;
    /// Ends that a resume superseded, drawn dimmed.
    std::vector<std::shared_ptr<SeriesPyramid>> tails(const QString& name) const;
    const std::vector<int64_t>& resumes() const { return resumes_; }
    const experiments::RunDocument& document() const { return document_; }
    const experiments::RunSpec& spec() const { return spec_; }
    const std::vector<experiments::RunEvent>& events() const { return events_; }
    double lastStep() const;
    /// Median of the last `count` values of a metric; NaN when there are none.
    double recentMedian(const QString& name, int count) const;

  signals:
    void reset();    ///< another run, or one that was resumed: the pyramids are new objects
    void changed();  ///< more samples
    void documentChanged();
    void eventsChanged();
    void failed(const QString& sentence);

  private:
    struct Update;
    void apply(Update update);
    void takeSteps(const QString& id, const SharedSteps& steps);

    RunController& controller_;
    QString id_;
    std::map<QString, std::shared_ptr<SeriesPyramid>> metrics_;
    std::map<QString, std::vector<std::shared_ptr<SeriesPyramid>>> tails_;
    std::vector<int64_t> resumes_;
    experiments::RunDocument document_;
    experiments::RunSpec spec_;
    std::vector<experiments::RunEvent> events_;
    int segments_ = 0;
    bool loaded_ = false, reading_ = false, again_ = false, active_ = true;
};

/// The scalar metrics that the Live page shows.
const std::vector<QString>& liveMetrics();

}  // namespace mantissa::gui
