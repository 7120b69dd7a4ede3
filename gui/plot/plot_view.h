// The one chart of the program: Qt Charts gives axes and grid, curves are one image layer, rails and crosshair are
// items over it.
#pragma once

#include <QChartView>
#include <QElapsedTimer>
#include <QImage>
#include <QPointer>
#include <QTimer>

#include "gui/plot/curve_raster.h"
#include "gui/plot/plot_types.h"
#include "gui/plot/x_link.h"

class QCategoryAxis;
class QMenu;
class QValueAxis;

namespace mantissa::gui {

class PlotLayer;

/// Values at the cursor (or the newest, without a cursor) of the curves in the legend.
struct LegendEntry {
    QString name, value;
    SeriesStyle style;
    bool line = true, marker = false;
};

/// Drag = X range, Shift + drag = box, wheel = X at the cursor, Ctrl + wheel = Y, double click = all, keys of gui.md.
/// Repaints at most ten times a second for new data; hover and drag repaint the overlay alone. GUI thread only.
class PlotView : public QChartView {
    Q_OBJECT
  public:
    explicit PlotView(PlotOptions options, XLink* link, QWidget* parent = nullptr);
    ~PlotView() override;

    const PlotOptions& options() const { return options_; }
    void setOptions(const PlotOptions& options);
    const PlotContent& content() const { return content_; }
    /// Everything new; Y range is found anew.
    void setContent(PlotContent content);
    /// The same chart with other notes, lines or more samples: Y moves only as dataChanged() would move it.
    void updateContent(PlotContent content);
    /// The same curves have more samples: repaint soon, keep what can be kept.
    void dataChanged();
    void setEvents(std::vector<PlotEvent> events);

    XLink::Range xRange() const;
    void setOwnRange(double low, double high);
    const AxisScale& yAxis() const { return y_; }
    /// Sets Y by hand (axis space); fitY() returns to the automatic range.
    void setYRange(double low, double high);
    void fitY();
    ScaleKind scaleKind() const { return options_.yScale; }
    void setScaleKind(ScaleKind kind);

    std::vector<LegendEntry> legend() const;
    QString valueText(double value) const;
    QString xText(double x) const;
    /// Index of the curve nearest to the cursor in pixels, within 12 px; -1: none.
    int nearestCurve(const QPointF& position) const;
    int highlighted() const { return highlighted_; }

    std::vector<PlotNote> notesInView() const;  ///< as they stand in the right margin
    QImage picture(double ratio);               ///< as on screen, at `ratio` device pixels
    bool savePng(const QString& path);
    bool saveSvg(const QString& path);
    /// Visible samples: x and one column a curve, C locale, full precision.
    QString csv(bool visibleOnly = true) const;
    bool saveCsv(const QString& path) const;
    /// As above, with the file written on another thread.
    void exportPng(const QString& path);
    void exportCsv(const QString& path) const;
    void showData();
    void fillMenu(QMenu& menu);

    QPointF toScene(double x, double y) const;
    QRectF plotRect() const;
    const QImage& raster() const { return raster_; }
    int rasterCount() const { return rasterCount_; }  ///< how often curves were drawn: for tests of the frame budget

  signals:
    void legendChanged();
    void curveClicked(const QString& id);
    void highlightChanged(int curve);
    /// Dragged with Ctrl over the chart: ids of the curves with samples in the box.
    void eventClicked(double x);

  protected:
    void resizeEvent(QResizeEvent* event) override;
    void showEvent(QShowEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mouseReleaseEvent(QMouseEvent* event) override;
    void mouseDoubleClickEvent(QMouseEvent* event) override;
    void leaveEvent(QEvent* event) override;
    void wheelEvent(QWheelEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void contextMenuEvent(QContextMenuEvent* event) override;
    void focusInEvent(QFocusEvent* event) override;
    void focusOutEvent(QFocusEvent* event) override;
    void changeEvent(QEvent* event) override;

  private:
    friend class PlotLayer;
    void placePlot();
    void applyTheme();
    void renderSoon(int milliseconds);
    void render();
    QImage drawCurves(double ratio);
    void drawMarkers(QPainter& painter, const PlotCurve& curve) const;
    void updateRange(bool anew);
    bool wantedRange(double& low, double& high) const;
    void updateAxes();
    void describe();
    double snapped(double x) const;
    void moveCursor(int samples);
    double viewX(const QPointF& position) const;
    const SeriesPyramid* snapSeries() const;

    PlotOptions options_;
    PlotContent content_;
    QPointer<XLink> link_;
    QValueAxis* axisX_ = nullptr;
    QCategoryAxis* axisY_ = nullptr;
    PlotLayer *curveLayer_ = nullptr, *labelLayer_ = nullptr, *overlay_ = nullptr;
    XLink::Range ownRange_{0, 1};
    AxisScale y_;
    bool yByHand_ = false;
    std::vector<Tick> xTicks_, yTicks_;
    QImage raster_;
    std::vector<uint8_t> marks_;      ///< a column of the raster
    qint64 above_ = 0, counted_ = 0;  ///< "k of n points above"
    int highlighted_ = -1;
    int rasterCount_ = 0;
    bool vectorExport_ = false;
    QTimer renderTimer_;
    QElapsedTimer sinceRender_, sinceDescription_;
    QPointF pressAt_, dragAt_;
    enum class Drag { None, Range, Box, Pan } drag_ = Drag::None;
};

}  // namespace mantissa::gui
