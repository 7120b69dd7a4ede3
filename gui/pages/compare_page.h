// Compare: did FP8 cost loss, what did it win, where do two runs part, which setting did it?
#pragma once

#include <QHash>
#include <QLabel>
#include <cmath>
#include <optional>

#include "experiments/report/compare.h"
#include "gui/controller/run_controller.h"
#include "gui/models/compare_curves.h"
#include "gui/models/compare_tables.h"
#include "gui/pages/page.h"
#include "gui/plot/layer_strips.h"
#include "gui/plot/plot_view.h"

class QComboBox;
class QLineEdit;
class QStackedWidget;
class QTableView;

namespace mantissa::gui {

class Card;
class FiguresCard;
class NoteList;
struct Note;
class TextLabel;

/// The selected runs over each other by step, tokens or time. Curves come one by one, baseline first; a run that cannot
/// be read is named and the others stay. Up to eight runs or groups each in its own style, beyond that thin lines in
/// the colour of their recipe.
class ComparePage : public Page {
    Q_OBJECT
  public:
    explicit ComparePage(RunController& controller, QWidget* parent = nullptr);

    QWidget* tools() override { return tools_; }
    QWidget* sidePanel() override;
    QString statusText() const override { return status_; }
    PlotView* curvesView() const { return curves_; }
    FinalNumbersModel* finalNumbers() const { return final_; }
    FiguresCard* verdicts() const { return verdicts_; }

  protected:
    void refresh() override;
    void resizeEvent(QResizeEvent* event) override;

  private:
    struct Group {
        QString name;
        QStringList runs;
        int style = 0;
        const experiments::GroupVerdict* verdict = nullptr;
    };
    struct Loaded {
        SharedCurve curve;
        bool failed = false;
    };
    void readAll();
    void buildTools();
    QWidget* buildCurves();
    QWidget* buildSide();
    QWidget* buildTable();
    QStringList order() const;  ///< baseline first
    QString effectiveBaseline() const;
    void loadComparison();
    void loadStrips();
    void loadCurves(bool again = false);  ///< again: also those of runs that go
    void takeCurve(const QString& id, Loaded loaded);
    std::vector<Group> groups() const;
    void rebuildCurves();
    void rebuildFinal();
    void rebuildVerdicts();
    Note partingNote(const Group& group, const RunInfo& base) const;
    void rebuildParts();
    void showConfig();
    QString metric() const;
    experiments::Axis axis() const;
    /// Final numbers by run, found once for all rows of a table.
    struct Finals {
        QHash<QString, const experiments::ComparedRun*> runs;
        double baseSpeed = NAN;  ///< tokens/s of the first group
        double mean(const QStringList& of, const char* name) const;
    };
    Finals finals(const std::vector<Group>& groups) const;
    FinalRow finalRow(const Group& group, const Finals& finals) const;

    XLink link_;
    experiments::Comparison comparison_;
    bool compared_ = false;
    QHash<QString, Loaded> loaded_;  ///< by run, for the metric and axis now chosen
    QString loadedFor_;              ///< metric and axis of loaded_
    QTimer refreshTimer_, curvesTimer_, againTimer_;
    QStringList failedRuns_;
    std::optional<double> floor_;  ///< entropy floor, where all runs share one
    QString lossUnit_ = QStringLiteral("nats/token");

    QWidget* tools_ = nullptr;
    std::vector<QLabel*> toolLabels_;
    QComboBox *metric_ = nullptr, *axis_ = nullptr, *below_ = nullptr;
    QStackedWidget* stack_ = nullptr;
    TextLabel *empty_ = nullptr, *highlight_ = nullptr, *belowHint_ = nullptr, *belowTitle_ = nullptr,
              *configHint_ = nullptr, *finalHint_ = nullptr;
    FiguresCard* verdicts_ = nullptr;
    Card* curveCard_ = nullptr;
    PlotView *curves_ = nullptr, *difference_ = nullptr;
    QWidget *belowLine_ = nullptr, *belowHead_ = nullptr, *side_ = nullptr;
    QTableView *configTable_ = nullptr, *finalTable_ = nullptr;
    ConfigModel* config_ = nullptr;
    FinalNumbersModel* final_ = nullptr;
    NanLastProxy* sorted_ = nullptr;
    NoteList* parts_ = nullptr;
    LayerStrips* strips_ = nullptr;
    QString status_;
};

}  // namespace mantissa::gui
