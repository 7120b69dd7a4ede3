// The small pictures of the Ladder page: bars by phase, the last rungs on their own scale, FP8 over BF16 by width.
#pragma once

#include <QWidget>
#include <memory>

#include "experiments/ladder/ladder.h"

class QPainter;

namespace mantissa::gui {

/// Sum of a rung's phases, ms.
double phaseSum(const experiments::RungResult& rung);
/// The rung's phases in their colours; a bar of `whole` ms is as wide as `rect`.
void paintPhases(QPainter& painter, const experiments::RungResult& rung, const QRectF& rect, double whole);
/// Numbers of a rung and how they are made.
QString rungToolTip(const experiments::LadderResult& ladder, const experiments::RungResult& rung);

/// BF16 and FP8 rungs on the scale of the slowest of them, with the legend of the phases.
class LastRungs : public QWidget {
    Q_OBJECT
  public:
    explicit LastRungs(QWidget* parent = nullptr);
    void setLadder(std::shared_ptr<const experiments::LadderResult> ladder);
    QSize minimumSizeHint() const override { return {280, 132}; }

  protected:
    void paintEvent(QPaintEvent* event) override;

  private:
    std::shared_ptr<const experiments::LadderResult> ladder_;
};

/// FP8 over BF16 against log2 of the width, with the line of break-even. Ctrl+C copies the points.
class WidthChart : public QWidget {
    Q_OBJECT
  public:
    explicit WidthChart(QWidget* parent = nullptr);
    /// text: shown instead of the curve while there are no points.
    void setCrossover(const experiments::Crossover& crossover, const QString& text);
    QString asText() const;
    QSize minimumSizeHint() const override { return {260, 132}; }

  protected:
    void paintEvent(QPaintEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    bool event(QEvent* event) override;

  private:
    QPointF place(const experiments::Crossover::Point& point) const;
    QRectF plot() const;
    std::pair<double, double> range() const;
    experiments::Crossover crossover_;
    QString text_;
};

}  // namespace mantissa::gui
