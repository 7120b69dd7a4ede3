// Layer x step of several runs under each other on one colour scale: where they begin to differ.
#pragma once

#include <QWidget>

#include "gui/plot/heat_scale.h"

namespace mantissa::gui {

struct LayerStrip {
    QString name;
    HeatCells cells;      ///< a row a layer
    QString first, last;  ///< names of the outer layers
};

class LayerStrips : public QWidget {
    Q_OBJECT
  public:
    explicit LayerStrips(QWidget* parent = nullptr);
    void setStrips(std::vector<LayerStrip> strips, const HeatScale& scale, double lastStep);
    QSize sizeHint() const override { return {340, 40 + 62 * int(strips_.size())}; }
    QSize minimumSizeHint() const override { return {200, 24}; }

  protected:
    void paintEvent(QPaintEvent* event) override;

  private:
    std::vector<LayerStrip> strips_;
    HeatScale scale_;
    double lastStep_ = 1;
};

}  // namespace mantissa::gui
