// Small painted widgets around the heatmap: colour bar, overview with the window to drag, grid of layers by tensors.
#pragma once

#include <QPointer>
#include <QWidget>
#include <functional>

#include "gui/plot/heat_scale.h"
#include "gui/plot/x_link.h"

namespace mantissa::gui {

/// The map with its ticks and alarm thresholds. The ends can be dragged; a double click resets them.
class ColorBar : public QWidget {
    Q_OBJECT
  public:
    explicit ColorBar(QWidget* parent = nullptr);
    /// tickText: of the ticks, without a unit; the bar's end takes the unit of `text`.
    void setScale(const HeatScale& scale, std::function<QString(double)> text,
                  std::function<QString(double)> tickText = {});
    const HeatScale& scale() const { return scale_; }
    QSize sizeHint() const override { return {210, 30}; }
    QSize minimumSizeHint() const override { return {90, 30}; }

  signals:
    void scaleChanged(const mantissa::gui::HeatScale& scale);

  protected:
    void paintEvent(QPaintEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mouseReleaseEvent(QMouseEvent* event) override;
    void mouseDoubleClickEvent(QMouseEvent* event) override;

  private:
    QRectF bar() const;
    QString endText() const;
    HeatScale scale_, original_;
    std::function<QString(double)> text_, tickText_;
    int grabbed_ = 0;  ///< -1 low end, 1 high end
    double grabbedAt_ = 0;
};

/// The whole run in one row, the worst of all tensors, with the visible window as a frame that can be moved and pulled.
class OverviewStrip : public QWidget {
    Q_OBJECT
  public:
    explicit OverviewStrip(XLink* link, QWidget* parent = nullptr);
    void setCells(HeatCells cells, const HeatScale& scale);  ///< one row
    void setMargins(int left, int right) {
        leftMargin_ = left;
        rightMargin_ = right;
    }
    QSize sizeHint() const override { return {400, 36}; }

  protected:
    void paintEvent(QPaintEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mouseReleaseEvent(QMouseEvent* event) override;
    void mouseDoubleClickEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;

  private:
    QRectF strip() const;
    double stepAt(double x) const;
    double xOf(double step) const;
    QPointer<XLink> link_;
    HeatCells cells_;
    HeatScale scale_;
    int leftMargin_ = 56, rightMargin_ = 84;
    enum class Grab { None, Low, High, Move } grab_ = Grab::None;
    double grabStep_ = 0;
    XLink::Range grabView_;
};

/// One cell of the grid: a tensor in the last steps.
struct GridCell {
    float value = std::numeric_limits<float>::quiet_NaN();
    CellState state = CellState::NotProbed;
    bool bf16 = false;
    int tensor = -1;
    QString name;  ///< "h.9 fc2 · dy", for assistive tools and the tooltip-free hover line
    QString text;  ///< the value in words; empty: as setValueText() says
};

/// Layers down, linear x (x, w, dy) across. Cells 6 to 14 px high; more layers scroll with the widget's parent.
class HealthGrid : public QWidget {
    Q_OBJECT
  public:
    explicit HealthGrid(QWidget* parent = nullptr);
    /// cells[layer * columns + column]; columns = linears * roles.
    void setCells(const QStringList& layers, const QStringList& linears, const QStringList& roles,
                  std::vector<GridCell> cells, const HeatScale& scale);
    void setMarked(int tensor);
    void setMaximumCellHeight(int pixels) { tallest_ = pixels; }
    void setValueText(std::function<QString(double)> text) { text_ = std::move(text); }
    QSize sizeHint() const override;
    QSize minimumSizeHint() const override { return {180, 80}; }

  signals:
    void tensorClicked(int tensor);
    void hovered(const QString& text);

  protected:
    void paintEvent(QPaintEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void leaveEvent(QEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void focusInEvent(QFocusEvent*) override { update(); }
    void focusOutEvent(QFocusEvent*) override { update(); }

  private:
    QRectF cellRect(int layer, int column) const;
    int cellAt(const QPointF& position) const;
    QString valueText(const GridCell& cell) const;
    QStringList layers_, linears_, roles_;
    std::vector<GridCell> cells_;
    HeatScale scale_;
    std::function<QString(double)> text_;
    int marked_ = -1, focus_ = 0, tallest_ = 14;
};

}  // namespace mantissa::gui
