// Ladder: which optimisation brings what on this machine, and from which width on FP8 pays.
#pragma once

#include <QElapsedTimer>
#include <QTimer>
#include <memory>
#include <optional>
#include <vector>

#include "experiments/ladder/ladder_job.h"
#include "gui/pages/page.h"

class QComboBox;
class QLineEdit;
class QScrollArea;
class QSpinBox;
class QToolButton;

namespace mantissa::gui {

class Card;
class FiguresCard;
class LadderRows;
class LastRungs;
class TextLabel;
class WidthChart;

/// What the page shows of one preset: the newest ladder of each kind, or the plan of one.
struct LadderView {
    QString preset;
    std::shared_ptr<const experiments::LadderResult> rungs;   ///< id "": not run yet
    std::shared_ptr<const experiments::LadderResult> widths;  ///< null: no sweep yet
    std::vector<double> forecastSeconds;                      ///< by rung that was not run; 0: not known
    std::vector<int> defaultWidths;
    bool newerStopped = false;  ///< a newer ladder than `rungs` was stopped before a rung of it was measured
};

/// A ladder is run by experiments::LadderJob on threads of its own; here is a timer that asks how far it is.
class LadderPage : public Page {
    Q_OBJECT
  public:
    explicit LadderPage(RunController& controller, QWidget* parent = nullptr);
    ~LadderPage() override;

    QWidget* tools() override { return tools_; }
    QString statusText() const override { return status_; }
    /// From then on this model is shown, whatever the store holds.
    void choosePreset(const QString& name);
    QString preset() const;
    const LadderView& view() const { return view_; }
    bool busy() const { return starting_ || job_ != nullptr; }
    LadderRows& rows() const { return *rows_; }
    WidthChart& chart() const { return *chart_; }
    const FiguresCard& figures() const { return *figures_; }

    /// Runs rungs: keys of the shown ladder (then it is filled), or all of a new one.
    void runRungs(const std::vector<std::string>& only = {});
    void runWidths();
    void stop();
    bool exportTo(const QString& path, const experiments::LadderResult& ladder);

  Q_SIGNALS:
    void runRequested(const QString& run);  ///< show this run on Live
    void ended();                           ///< what was run, or could not be started; busy() is false

  protected:
    void refresh() override;

  private:
    void makeTools();
    Card* makeRungs();
    Card* makeWidths();
    QToolButton* button(int glyph, const QString& text, const QString& tip, QWidget* parent);
    void start(experiments::LadderOptions options);
    void tick();
    void showAll();
    void showFigures();
    void showWidths();
    void showBusy();
    void chooseFile(const experiments::LadderResult* ladder);
    std::optional<std::vector<int>> wantedWidths();
    experiments::LadderRequest request(experiments::LadderMode mode, std::vector<int> widths = {}) const;

    LadderView view_;
    std::shared_ptr<experiments::LadderJob> job_;
    experiments::LadderMode jobMode_ = experiments::LadderMode::Rungs;
    bool starting_ = false, stopWanted_ = false;
    QElapsedTimer sinceStart_;
    bool chosen_ = false;  ///< the model was picked; until then the newest ladder of the store is shown
    int doneSeen_ = -1;
    QString status_, problem_;
    QTimer timer_;
    QWidget* tools_ = nullptr;
    QComboBox* presets_ = nullptr;
    QToolButton *run_ = nullptr, *again_ = nullptr, *copy_ = nullptr, *export_ = nullptr, *exportWidths_ = nullptr,
                *sweep_ = nullptr;
    QSpinBox *warmup_ = nullptr, *steps_ = nullptr;
    QLineEdit* widths_ = nullptr;
    FiguresCard* figures_ = nullptr;
    Card *rungsCard_ = nullptr, *widthsCard_ = nullptr;
    LadderRows* rows_ = nullptr;
    LastRungs* last_ = nullptr;
    WidthChart* chart_ = nullptr;
    TextLabel *crossing_ = nullptr, *trouble_ = nullptr;
};

}  // namespace mantissa::gui
