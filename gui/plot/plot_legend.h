// Names and values of a chart's curves in the head of its card: the values at the cursor have their home here.
#pragma once

#include <QPointer>
#include <QWidget>

#include "gui/plot/plot_view.h"

namespace mantissa::gui {

/// Right-aligned; entries that do not fit are left out from the left, whole. Its width never changes the layout.
class PlotLegend : public QWidget {
    Q_OBJECT
  public:
    explicit PlotLegend(PlotView* view, QWidget* parent = nullptr);
    QSize sizeHint() const override;
    QSize minimumSizeHint() const override { return {20, 20}; }

  protected:
    void paintEvent(QPaintEvent* event) override;

  private:
    QPointer<PlotView> view_;
};

}  // namespace mantissa::gui
