// Numerics: which tensor, which statistic, since when, why.
#pragma once

#include "gui/models/alarm_rules.h"
#include "gui/models/run_series.h"
#include "gui/pages/numerics_inspector.h"
#include "gui/pages/page.h"
#include "gui/plot/heatmap_view.h"
#include "gui/plot/plot_view.h"

class QComboBox;
class QLineEdit;
class QStackedWidget;
class QTableWidget;
class QToolButton;

namespace mantissa::gui {

class ColorBar;
class DiagnosisView;
class HealthGrid;
class MessageStrip;
class OverviewStrip;
class SegmentedBar;
class TroubleView;

/// Heatmap of one statistic, the selected tensor's amax against the range of its scale, its counters, the whole run,
/// and the inspector. Cells are asked for at the width of the view; what is on hand stays on screen until the finer
/// level is there. Two other views take the whole page: the diagnosis of the run, and its first trouble.
class NumericsPage : public Page {
    Q_OBJECT
  public:
    explicit NumericsPage(RunController& controller, QWidget* parent = nullptr);

    QWidget* tools() override { return tools_; }
    QWidget* sidePanel() override { return inspector_; }
    QString statusText() const override { return status_; }
    void showTensor(const QString& tensor, qint64 step) override;

    XLink& link() { return link_; }
    HeatmapView* heatmap() const { return heat_; }
    PlotView* amaxView() const { return amax_; }
    PlotView* countersView() const { return counters_; }
    Inspector* inspector() const { return inspector_; }
    int selectedTensor() const { return tensor_; }
    enum class Mode { Heatmap, Diagnosis, Trouble };
    void setMode(Mode mode);
    Mode mode() const { return mode_; }
    DiagnosisView* diagnosisView() const { return diagnosis_; }  ///< null until it was opened
    TroubleView* troubleView() const { return troubleView_; }    ///< likewise
    SegmentedBar* pairBar() const { return pair_; }
    void setStatistic(int index);

  protected:
    void refresh() override;
    void showEvent(QShowEvent* event) override;
    void hideEvent(QHideEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;

  private:
    enum View { kLayerByStep, kTensorByStep, kAtOneStep, kRanked };
    enum Pair { kRunA, kRunB, kRatio };
    struct TensorCurves;
    /// What the forks of the run shown have done.
    struct Forks {
        int count = 0, ended = 0;
        qint64 steps = 0;
        bool newsSince(const Forks& before) const;
    };
    void buildTools();
    void buildModes();
    void buildMore();
    QWidget* buildSelector();
    void ensureView();
    void loadDiagnosis();
    void loadTrouble();
    void updateModes();
    void updatePair();
    Pair pairShown() const;
    void showHint();
    QString otherRun() const;
    QString shownText(double value) const;
    void applyScale();
    void loadWhatIf();
    void requestSpec(const QString& specJson, bool live, qint64 step);
    void forkNow(qint64 step, const QString& specJson);
    Forks forksNow() const;
    void showEvidence(const QString& series, qint64 step);
    QWidget* buildLeft();
    void catalogueChanged();
    void rebuildRows();
    void statisticChanged();
    void loadSoon();
    void loadCells();
    void loadOverview();
    bool overviewFromCells() const;
    void loadTensor();
    void takeTensor(TensorCurves curves);
    void clearTensor();
    void loadReport();
    void loadGrid();
    QWidget* buildRanks();
    void loadRanks();
    void updateCursor();
    void selectTensor(int tensor);
    void goToTensor(const QString& text);
    void stepAlert(int direction);
    void firstTrouble();
    void updateEvents();
    void updateStatus();
    void loadCost();
    const StatisticInfo& info() const;
    double probeEvery() const;

    RunSeries run_;
    XLink link_;
    int tensor_ = -1;
    bool nobodyChose_ = false;  ///< tensor_ is where the page began
    qint64 step_ = -1;          ///< of the inspector; -1: newest
    QString wantedTensor_;      ///< asked for before the catalogue was there
    float lowest_ = 0, highest_ = 0;
    std::shared_ptr<SeriesPyramid> curves_[7];  ///< amax, scale, held, underflow, subnormal, over range, clipped
    int curvesTensor_ = -1;

    QWidget* tools_ = nullptr;
    QToolButton *follow_ = nullptr, *back_ = nullptr;
    QWidget* selector_ = nullptr;
    SegmentedBar *statistics_ = nullptr, *roles_ = nullptr, *pair_ = nullptr;
    QToolButton *more_ = nullptr, *modeButtons_[3] = {};
    int statistic_ = 0;
    Mode mode_ = Mode::Heatmap;
    QStackedWidget* modes_ = nullptr;
    QWidget* heatPage_ = nullptr;
    DiagnosisView* diagnosis_ = nullptr;
    TroubleView* troubleView_ = nullptr;
    int whatIfTensor_ = -1;
    qint64 whatIfStep_ = -1;
    double diagnosedStep_ = -1;
    Forks diagnosedForks_;
    QComboBox* view_ = nullptr;
    QLineEdit* goTo_ = nullptr;
    MessageStrip* banner_ = nullptr;
    Card* card_ = nullptr;
    TextLabel *cursor_ = nullptr, *refining_ = nullptr, *amaxHint_ = nullptr, *countersHint_ = nullptr;
    ColorBar* bar_ = nullptr;
    QStackedWidget* stack_ = nullptr;
    HeatmapView* heat_ = nullptr;
    HealthGrid* grid_ = nullptr;
    QTableWidget* ranks_ = nullptr;
    PlotView *amax_ = nullptr, *counters_ = nullptr;
    OverviewStrip* overview_ = nullptr;
    Inspector* inspector_ = nullptr;
    QTimer cellsTimer_, dataTimer_;
    QString status_, cost_;  ///< cost_: what the probes cost, from the run's own steps
    double costStep_ = -1;
};

}  // namespace mantissa::gui
