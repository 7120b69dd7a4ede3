// Where a step goes: time by phase of this run over the baseline on one scale, and memory by category.
#pragma once

#include <QWidget>
#include <vector>

#include "gui/theme/theme.h"

namespace mantissa::gui {

struct LedgerBar {
    QString name;
    std::vector<double> parts;  ///< in the order of the legend
    QString total;
};

/// Painted; time bars share one scale, memory is one bar of its whole. GUI thread only.
class StepLedger : public QWidget {
    Q_OBJECT
  public:
    explicit StepLedger(QWidget* parent = nullptr);
    void setTime(std::vector<LedgerBar> bars);  ///< parts: matmul, attention, norm and cast, optimizer, gap (ms)
    void setMemory(const LedgerBar& bar, const QStringList& categories, const QString& unit);  ///< parts: bytes
    QSize sizeHint() const override { return {380, 140}; }
    QSize minimumSizeHint() const override { return {200, 110}; }

  protected:
    void paintEvent(QPaintEvent* event) override;
    bool event(QEvent* event) override;

  private:
    struct Piece {
        QRectF rect;
        QString text;
    };
    void paintBar(QPainter& painter, const LedgerBar& bar, double y, double labelWidth, double whole, bool memory);
    /// In as many lines as the width asks for; returns where the next thing may begin.
    double paintLegend(QPainter& painter, const QStringList& names, double y, double left, bool memory) const;
    std::vector<LedgerBar> bars_;
    LedgerBar memory_;
    QStringList categories_;
    QString memoryUnit_;
    std::vector<Piece> pieces_;
};

}  // namespace mantissa::gui
