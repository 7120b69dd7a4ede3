// The heatmap of a run: rows of tensors over steps, the worst value of every pixel column, so that no event is lost.
#pragma once

#include <QImage>
#include <QPointer>
#include <QWidget>

#include "gui/plot/heat_scale.h"
#include "gui/plot/plot_types.h"
#include "gui/plot/x_link.h"

class QScrollBar;

namespace mantissa::gui {

struct HeatRow {
    QString label;      ///< "fc2", "fc2 · dy"
    QString group;      ///< "h.9": rows of a group lie together
    int tensor = -1;    ///< index of the catalogue
    bool bf16 = false;  ///< no product reads it in FP8: a dash
};

/// Rows are `cells` rows in the same order. The group of the selection opens to rows of 14 px with names; the others
/// share what is left, at least 4 px a row, else the view scrolls. Keys: arrows, Home, End, + - 0. GUI thread only.
class HeatmapView : public QWidget {
    Q_OBJECT
  public:
    explicit HeatmapView(XLink* link, QWidget* parent = nullptr);

    void setRows(std::vector<HeatRow> rows);
    void setCells(HeatCells cells);
    void setScale(const HeatScale& scale);
    const HeatScale& scale() const { return scale_; }
    void setEvents(std::vector<PlotEvent> events);
    void setValueText(std::function<QString(double)> text) { valueText_ = std::move(text); }
    void setMargins(int left, int right) {
        leftMargin_ = left;
        rightMargin_ = right;
    }
    /// Sentence in the middle while there is nothing ("First statistics after step 1").
    void setEmptyText(const QString& text);

    int selected() const { return selected_; }
    void select(int row);
    int rowOfTensor(int tensor) const;
    const std::vector<HeatRow>& rows() const { return rows_; }
    HeatCell cellAt(int row, double step) const;
    int hoveredRow() const { return hovered_; }

    QRectF plotRect() const;
    QRectF rowRect(int row) const;
    int rowAt(double y) const;
    QImage picture(double ratio);
    QString csv() const;
    const QImage& raster() const { return image_; }

  signals:
    void selectionChanged(int row);
    void hovered(int row, double step);  ///< row -1: left the view

  protected:
    void paintEvent(QPaintEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseReleaseEvent(QMouseEvent* event) override;
    void mouseDoubleClickEvent(QMouseEvent* event) override;
    void leaveEvent(QEvent* event) override;
    void wheelEvent(QWheelEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void contextMenuEvent(QContextMenuEvent* event) override;
    void focusInEvent(QFocusEvent*) override { update(); }
    void focusOutEvent(QFocusEvent*) override { update(); }

  private:
    void layoutRows();
    void invalidate();
    void render(double ratio);
    void paintTo(QPainter& painter, double ratio);
    void paintLabels(QPainter& painter) const;
    void paintWorst(QPainter& painter) const;
    void paintEvents(QPainter& painter) const;
    void paintCrosses(QPainter& painter) const;
    double stepAt(double x) const;
    double xOf(double step) const;
    void describe();

    QPointer<XLink> link_;
    std::vector<HeatRow> rows_;
    std::vector<double> tops_, heights_;
    HeatCells cells_;
    HeatScale scale_;
    std::vector<PlotEvent> events_;
    std::function<QString(double)> valueText_;
    QString emptyText_;
    int leftMargin_ = 56, rightMargin_ = 84;
    int selected_ = -1, hovered_ = -1;
    double contentHeight_ = 0;
    QScrollBar* scroll_ = nullptr;
    QImage image_;
    std::vector<uint8_t> badColumns_;
    bool stale_ = true;
    QPointF pressAt_, dragAt_;
    bool dragging_ = false;
};

}  // namespace mantissa::gui
