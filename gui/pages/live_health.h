// Right side of the Live page: FP8 health by layer and tensor, what to look at first, events.
#pragma once

#include <QElapsedTimer>
#include <QTimer>

#include "gui/models/alarm_rules.h"
#include "gui/models/run_series.h"
#include "gui/plot/heat_widgets.h"
#include "gui/plot/plot_types.h"
#include "gui/widgets/card.h"
#include "gui/widgets/note_list.h"

class QPushButton;
class QStackedLayout;

namespace mantissa::gui {

/// Shows the worst of the last 100 steps of each tensor. Reads on the background thread, at most once a second.
class HealthCard : public Card {
    Q_OBJECT
  public:
    HealthCard(RunController& controller, RunSeries& series, QWidget* parent = nullptr);

    void setRun(const RunInfo* run);
    /// Reads the last steps again when a second has passed.
    void refresh();
    const std::vector<Finding>& findings() const { return findings_; }
    int fp8Tensors() const { return fp8Tensors_; }

  signals:
    void tensorRequested(const QString& tensor, qint64 step);
    void stepRequested(double step);
    void twinRequested(const QString& specJson);
    void healthChanged();

  private:
    void load();
    void take(experiments::RunHealth health);
    void showEvents();
    void showBf16();

    RunController& controller_;
    RunSeries& series_;
    experiments::RunHealth run_;
    std::vector<Finding> findings_;
    int fp8Tensors_ = 0;
    HealthGrid* grid_ = nullptr;
    ColorBar* bar_ = nullptr;
    QWidget *fp8_ = nullptr, *bf16_ = nullptr;
    TextLabel *hover_ = nullptr, *bf16Text_ = nullptr;
    NoteList *first_ = nullptr, *events_ = nullptr;
    QPushButton *open_ = nullptr, *twin_ = nullptr;
    QElapsedTimer sinceLoad_;
    QTimer later_;
    bool going_ = false;
};

/// Icon and colour of an event.
Glyph eventGlyph(const experiments::RunEvent& event);
Token eventToken(const experiments::RunEvent& event);
/// Alerts, commands, checkpoints and the like as rail marks; "started" and "ended" are left out.
std::vector<PlotEvent> railEvents(const std::vector<experiments::RunEvent>& events);

}  // namespace mantissa::gui
