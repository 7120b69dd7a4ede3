// The rungs of a ladder: time by phase, memory, what each brought; a rung that was not run is an empty row with Run.
#pragma once

#include <QPushButton>
#include <QWidget>
#include <memory>
#include <vector>

#include "experiments/ladder/ladder.h"

namespace mantissa::gui {

/// What the page adds to a ladder that is not in the store.
struct LadderExtras {
    std::vector<double> forecastSeconds;  ///< by rung; 0: not known
    int running = -1;                     ///< rung that goes now
    QString progress;                     ///< of that rung, in words
    bool busy = false;                    ///< a ladder goes: no row can be started
};

/// Painted rows of a table; arrows move the selection, Return opens the rung's run, Ctrl+C copies. GUI thread only.
class LadderRows : public QWidget {
    Q_OBJECT
  public:
    explicit LadderRows(QWidget* parent = nullptr);
    void setLadder(std::shared_ptr<const experiments::LadderResult> ladder, LadderExtras extras);
    QString asText() const;  ///< tab-separated, with heads
    int selected() const { return selected_; }
    QPushButton* runButton(int rung) const { return buttons_[size_t(rung)]; }
    QSize sizeHint() const override;
    QSize minimumSizeHint() const override;

  Q_SIGNALS:
    void runRequested(int rung);
    void openRequested(const QString& run);

  protected:
    void paintEvent(QPaintEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseDoubleClickEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    bool event(QEvent* event) override;

  private:
    struct Columns {
        double rung, bar, barRight, ms, before, rate, memory, memoryRight, size, energy;
    };
    Columns columns() const;
    double rowHeight() const;
    void paintHead(QPainter& painter, const Columns& at) const;
    void paintRow(QPainter& painter, const Columns& at, int index, double y) const;
    void paintMeasured(QPainter& painter, const Columns& at, const experiments::RungResult& rung, double y) const;
    void placeButtons();
    int rowAt(double y) const;
    bool hasEnergy() const;
    std::shared_ptr<const experiments::LadderResult> ladder_;
    LadderExtras extras_;
    std::vector<QPushButton*> buttons_;
    int selected_ = -1;
};

}  // namespace mantissa::gui
