// First trouble: the steps before the first non-finite value, the way it took to the loss, what was normal before, and
// ways to go on.
#pragma once

#include <QPushButton>
#include <QScrollArea>
#include <QTableWidget>
#include <functional>

#include "experiments/spec/run_spec.h"
#include "gui/models/first_trouble.h"
#include "gui/models/run_info.h"
#include "gui/plot/heat_widgets.h"
#include "gui/widgets/card.h"
#include "gui/widgets/trouble_grid.h"

class QGridLayout;

namespace mantissa::gui {

class ChainView;

class TroubleView : public QWidget {
    Q_OBJECT
  public:
    explicit TroubleView(QWidget* parent = nullptr);
    /// run: null when it left the list.
    void showReport(std::shared_ptr<const TroubleReport> report, const experiments::RunDocument& document,
                    const experiments::RunSpec& spec, const RunInfo* run);
    void setStatistic(const StatisticInfo& info);
    const TroubleReport* report() const { return report_.get(); }
    TroubleGrid* grid() const { return grid_; }
    QTableWidget* ways() const { return ways_; }
    QWidget* sidePanel() const { return side_; }
    QString reportText() const;  ///< the whole page as plain text, for a file

  Q_SIGNALS:
    void tensorChosen(int tensor, qint64 step);
    /// Go on from a checkpoint of this run with this spec; step < 0: start anew with it.
    void forkRequested(qint64 step, const QString& specJson);
    void resumeRequested();

  private:
    struct Way {
        QString name, does;
        qint64 step = -1;
        QString spec;  ///< "" = go on with the paused run
    };
    QWidget* buildSide();
    void fillWays(const experiments::RunSpec& spec, const RunInfo* run);
    void updateButton();
    void takeWay();
    void saveReport();

    std::shared_ptr<const TroubleReport> report_;
    std::vector<engine::CatalogueEntry> catalogue_;
    std::vector<Way> list_;
    QString runName_;
    Card *card_ = nullptr, *side_ = nullptr;
    TextLabel* cursor_ = nullptr;
    ColorBar* bar_ = nullptr;
    TroubleGrid* grid_ = nullptr;
    QScrollArea* scroll_ = nullptr;
    ChainView* chain_ = nullptr;
    QGridLayout* facts_ = nullptr;
    QTableWidget* ways_ = nullptr;
    QPushButton *go_ = nullptr, *save_ = nullptr;
};

/// The stations from the first value to the optimizer, one below the other, joined by a line. Click or Return goes to
/// the tensor.
class ChainView : public QWidget {
    Q_OBJECT
  public:
    explicit ChainView(QWidget* parent = nullptr);
    void setChain(std::vector<TroubleLink> chain);
    QSize sizeHint() const override;
    QSize minimumSizeHint() const override { return sizeHint(); }

  Q_SIGNALS:
    void chosen(int tensor);

  protected:
    void paintEvent(QPaintEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void focusInEvent(QFocusEvent*) override { update(); }
    void focusOutEvent(QFocusEvent*) override { update(); }

  private:
    std::vector<TroubleLink> chain_;
    int current_ = 0;
};

}  // namespace mantissa::gui
