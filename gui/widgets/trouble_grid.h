// x, w and dy of every linear in the last recorded steps, rows in order of execution: where the first non-finite value
// stands, and how it spread.
#pragma once

#include <QScrollArea>

#include "gui/models/alarm_rules.h"
#include "gui/models/first_trouble.h"

namespace mantissa::gui {

/// Arrow keys move, Return and click choose a cell. Scrolls where the rows need more room; the first trouble is brought
/// into sight.
class TroubleGrid : public QWidget {
    Q_OBJECT
  public:
    explicit TroubleGrid(QWidget* parent = nullptr);
    void setReport(std::shared_ptr<const TroubleReport> report, std::vector<engine::CatalogueEntry> catalogue,
                   int margin);
    void setStatistic(const StatisticInfo& info);
    const HeatScale& scale() const { return scale_; }
    /// Lines of the picture and the place of the first trouble in it, for the scroll area around.
    QRect firstCell() const;
    QSize sizeHint() const override;
    QSize minimumSizeHint() const override;
    struct Cell {
        int tensor = -1, column = -1;  ///< column: index of the step
    };
    Cell cellAt(const QPointF& position) const;
    QRectF cellRect(int row, int column, int role) const;
    int rowCount() const { return int(rows_.size()); }

  Q_SIGNALS:
    void chosen(int tensor, qint64 step);
    void hovered(const QString& text);
    void scaleChanged();

  protected:
    void paintEvent(QPaintEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void leaveEvent(QEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void focusInEvent(QFocusEvent*) override { update(); }
    void focusOutEvent(QFocusEvent*) override { update(); }

  private:
    struct Row {
        QString layer, linear;
        int tensor[3] = {-1, -1, -1};
        int group = 0;
    };
    double rowTop(int row) const;
    double rowHeight() const;
    double value(int tensor, int column) const;
    QString cellText(int tensor, int column) const;
    void say(int tensor, int column);
    void paintCell(QPainter& painter, const QRectF& rect, int tensor, int column) const;

    std::shared_ptr<const TroubleReport> report_;
    std::vector<engine::CatalogueEntry> catalogue_;
    std::vector<Row> rows_;
    const StatisticInfo* info_ = nullptr;
    HeatScale scale_;
    int margin_ = 0, groups_ = 0;
    int focusRow_ = 0, focusColumn_ = 0;  ///< column: step * 3 + role
};

}  // namespace mantissa::gui
