// The three items of a PlotView above Qt Charts' grid: curves, labels and rails, overlay.
#pragma once

#include <QGraphicsItem>
#include <QImage>

namespace mantissa::gui {

class PlotView;

/// Paints one layer of its view. The overlay (crosshair, readout, rubber band, highlighted curve) is apart so that
/// hovering repaints two thin strips and no curve.
class PlotLayer : public QGraphicsItem {
  public:
    enum class Kind { Curves, Labels, Overlay };
    PlotLayer(PlotView& view, Kind kind, QGraphicsItem* parent);
    QRectF boundingRect() const override { return area_; }
    void paint(QPainter* painter, const QStyleOptionGraphicsItem* option, QWidget* widget) override;
    void setArea(const QRectF& area);

    QImage highlight;  ///< Overlay: the highlighted curve alone

  private:
    void paintCurves(QPainter& painter) const;
    void paintVector(QPainter& painter) const;
    void paintLabels(QPainter& painter) const;
    void paintXLabels(QPainter& painter) const;
    void paintLines(QPainter& painter) const;
    void paintEvents(QPainter& painter) const;
    void paintRails(QPainter& painter) const;
    void paintNotes(QPainter& painter) const;
    void paintOverlay(QPainter& painter) const;
    void paintReadout(QPainter& painter) const;

    PlotView& view_;
    Kind kind_;
    QRectF area_;
};

}  // namespace mantissa::gui
