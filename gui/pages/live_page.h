// Live: is this run healthy, is it fast, will it end in time, must I step in?
#pragma once

#include <QLabel>

#include "gui/models/run_series.h"
#include "gui/pages/page.h"
#include "gui/plot/plot_view.h"

class QComboBox;
class QStackedWidget;
class QToolButton;

namespace mantissa::gui {

class Card;
class FiguresCard;
class HealthCard;
class MessageStrip;
class PlotLegend;
class StepLedger;

inline constexpr double kAutoSmoothing = -1;
/// Weight of the moving average once so many steps are recorded: the largest that averages over no more than 2 % of
/// them, so that the curve of a short run does not lag behind its fall. 0.6 … 0.99.
double autoSmoothing(int64_t steps);

/// One run: figures, loss over its baseline, gradient norm, rate, throughput, ledger, FP8 health, events. Everything
/// comes from two RunSeries (the run and its baseline); nothing here waits for disk or device.
class LivePage : public Page {
    Q_OBJECT
  public:
    explicit LivePage(RunController& controller, QWidget* parent = nullptr);

    QWidget* tools() override { return tools_; }
    QWidget* sidePanel() override;
    QString statusText() const override { return status_; }
    void showStep(qint64 step) override {
        link_.setView(double(step) - 50, double(step) + 50);
        link_.setCursor(double(step));
    }
    XLink& link() { return link_; }
    PlotView* lossView() const { return loss_; }
    PlotView* rateView() const { return rate_; }
    HealthCard* health() const { return health_; }
    FiguresCard* figuresCard() const { return figures_; }

  protected:
    void refresh() override;
    void showEvent(QShowEvent* event) override;
    void hideEvent(QHideEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;

  private:
    enum XAxis { kStep, kTokens, kTime };
    /// A curve over steps and its copy over tokens or time.
    struct Mapped {
        const RunSeries* run;
        std::shared_ptr<const SeriesPyramid> from;
        std::shared_ptr<SeriesPyramid> to;
    };
    void buildTools();
    QWidget* buildLoss();
    QWidget* buildGrid();
    void rebuild();  ///< another run, baseline, document or smoothing: contents anew
    void extend();   ///< more samples: smoothed copies, figures, repaint
    void extendSmoothed(const SeriesPyramid& raw, SeriesPyramid& smooth, DebiasedEma& average);
    bool planIsOver() const;
    void updateDifference();
    void updateFigures();
    void updateLedger();
    void updateState();
    void updateEvents();
    void setSmoothing(double alpha);
    XAxis xAxis() const;
    double xOfStep(const RunSeries& series, double step) const;
    std::shared_ptr<SeriesPyramid> onAxis(const RunSeries& series, std::shared_ptr<SeriesPyramid> data);
    void extendMapped();
    void setAxisOptions(PlotView* view, bool unit);
    bool hasBaseline() const;
    QString baselineName() const;
    QString lossUnit() const;

    RunSeries run_, base_;
    XLink link_;
    double smoothingChosen_ = kAutoSmoothing, alpha_ = 0.6;
    std::shared_ptr<SeriesPyramid> smooth_, baseSmooth_, difference_, planned_;
    DebiasedEma average_{0.97}, baseAverage_{0.97};
    std::vector<Mapped> mapped_;
    bool stale_ = true;

    QWidget* tools_ = nullptr;
    QComboBox *axis_ = nullptr, *smoothing_ = nullptr;
    QLabel *axisLabel_ = nullptr, *smoothingLabel_ = nullptr;
    QToolButton *follow_ = nullptr, *back_ = nullptr;
    MessageStrip* banner_ = nullptr;
    FiguresCard* figures_ = nullptr;
    PlotView *loss_ = nullptr, *strip_ = nullptr, *norm_ = nullptr, *rate_ = nullptr, *speed_ = nullptr;
    Card* lossCard_ = nullptr;
    QWidget* stripHead_ = nullptr;
    QLabel *stripTitle_ = nullptr, *stripMean_ = nullptr;
    StepLedger* ledger_ = nullptr;
    HealthCard* health_ = nullptr;
    QStackedWidget* stack_ = nullptr;
    QLabel* emptyText_ = nullptr;
    QString status_;
    QTimer ageTimer_;
    QElapsedTimer sinceData_;
};

}  // namespace mantissa::gui
