#include "gui/plot/plot_view.h"

#include <QCategoryAxis>
#include <QChart>
#include <QGraphicsLayout>
#include <QLineSeries>
#include <QPainter>
#include <QValueAxis>
#include <algorithm>
#include <cmath>

#include "gui/format/numbers.h"
#include "gui/plot/plot_layers.h"
#include "gui/theme/fonts.h"

namespace mantissa::gui {

namespace {

constexpr int kFrameMs = 100;      ///< new data is drawn at most ten times a second
constexpr size_t kFewSamples = 5;  ///< of a curve with a run's marker: no more than these in view have one each

AxisScale linearRange(XLink::Range range) {
    AxisScale scale;
    scale.low = range.low;
    scale.high = range.high;
    return scale;
}

}  // namespace

QColor Ink::color() const {
    QColor result = series >= 0 ? Theme::instance().series(series).color : Theme::instance().color(token);
    result.setAlphaF(float(opacity));
    return result;
}

PlotView::PlotView(PlotOptions options, XLink* link, QWidget* parent)
    : QChartView(parent), options_(std::move(options)), link_(link) {
    y_.kind = options_.yScale;
    setFrameShape(QFrame::NoFrame);
    setRenderHint(QPainter::Antialiasing, false);
    setViewportUpdateMode(QGraphicsView::SmartViewportUpdate);
    setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    setVerticalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    setMinimumSize(120, 60);  // in a splitter a chart view would else shrink to where Qt hides its grid
    setFocusPolicy(Qt::StrongFocus);
    setMouseTracking(true);
    viewport()->setMouseTracking(true);
    setRubberBand(QChartView::NoRubberBand);
    setAccessibleName(options_.title);

    QChart* chart = this->chart();
    chart->legend()->hide();
    chart->setBackgroundVisible(false);
    chart->setMargins(QMargins(0, 0, 0, 0));
    chart->layout()->setContentsMargins(0, 0, 0, 0);
    chart->setAnimationOptions(QChart::NoAnimation);
    axisX_ = new QValueAxis(chart);
    axisY_ = new QCategoryAxis(chart);
    for (QAbstractAxis* axis : {static_cast<QAbstractAxis*>(axisX_), static_cast<QAbstractAxis*>(axisY_)}) {
        axis->setLabelsVisible(false);
        axis->setLineVisible(false);
    }
    axisX_->setGridLineVisible(false);
    chart->addAxis(axisX_, Qt::AlignBottom);
    chart->addAxis(axisY_, Qt::AlignLeft);
    auto* none = new QLineSeries(chart);  // axes without a series have no domain to lay their grid in
    chart->addSeries(none);
    none->attachAxis(axisX_);
    none->attachAxis(axisY_);

    curveLayer_ = new PlotLayer(*this, PlotLayer::Kind::Curves, chart);
    labelLayer_ = new PlotLayer(*this, PlotLayer::Kind::Labels, chart);
    overlay_ = new PlotLayer(*this, PlotLayer::Kind::Overlay, chart);
    renderTimer_.setSingleShot(true);
    connect(&renderTimer_, &QTimer::timeout, this, &PlotView::render);
    connect(&Theme::instance(), &Theme::changed, this, &PlotView::applyTheme);
    if (link_) {
        connect(link_, &XLink::viewChanged, this, [this] {
            if (options_.sharesView) {
                updateRange(true);
                renderSoon(0);
            }
        });
        connect(link_, &XLink::cursorChanged, this, [this] {
            overlay_->update();
            Q_EMIT legendChanged();
        });
    }
    applyTheme();
}

PlotView::~PlotView() = default;

void PlotView::setOptions(const PlotOptions& options) {
    options_ = options;
    y_.kind = options.yScale;
    setAccessibleName(options_.title);
    placePlot();
    updateRange(true);
    renderSoon(0);
}

void PlotView::setContent(PlotContent content) {
    content_ = std::move(content);
    highlighted_ = -1;
    overlay_->highlight = QImage();
    updateRange(true);
    renderSoon(0);
}

void PlotView::updateContent(PlotContent content) {
    content_ = std::move(content);
    dataChanged();
}

void PlotView::setEvents(std::vector<PlotEvent> events) {
    content_.events = std::move(events);
    labelLayer_->update();
}

void PlotView::dataChanged() {
    updateRange(false);
    const qint64 since = sinceRender_.isValid() ? sinceRender_.elapsed() : kFrameMs;
    renderSoon(std::max<int>(0, kFrameMs - int(since)));
}

XLink::Range PlotView::xRange() const {
    return options_.sharesView && link_ ? link_->view() : ownRange_;
}

void PlotView::setOwnRange(double low, double high) {
    if (!(high > low)) {
        high = low + 1;
    }
    ownRange_ = {low, high};
    updateRange(true);
    renderSoon(0);
}

void PlotView::setYRange(double low, double high) {
    if (!(high > low) || !std::isfinite(high - low)) {
        return;
    }
    yByHand_ = true;
    y_.low = low;
    y_.high = high;
    renderSoon(0);
}

void PlotView::fitY() {
    yByHand_ = false;
    updateRange(true);
    renderSoon(0);
}

void PlotView::setScaleKind(ScaleKind kind) {
    options_.yScale = kind;
    y_.kind = kind;
    yByHand_ = false;
    updateRange(true);
    renderSoon(0);
}

QRectF PlotView::plotRect() const {
    return chart()->plotArea();
}

QPointF PlotView::toScene(double x, double y) const {
    const QRectF plot = plotRect();
    const auto range = xRange();
    return {plot.left() + (x - range.low) / (range.high - range.low) * plot.width(),
            plot.bottom() - y_.unit(y) * plot.height()};
}

void PlotView::placePlot() {
    const QMargins m = options_.margins;
    const QRectF whole(0, 0, viewport()->width(), viewport()->height());
    chart()->resize(whole.size());
    chart()->setPlotArea(whole.adjusted(m.left(), m.top(), -m.right(), -m.bottom()));
    // Without these two the grid stays where it was (seen on 6.4.2).
    chart()->layout()->invalidate();
    chart()->layout()->activate();
    for (PlotLayer* layer : {curveLayer_, labelLayer_, overlay_}) {
        layer->setArea(whole);
    }
}

void PlotView::resizeEvent(QResizeEvent* event) {
    QChartView::resizeEvent(event);
    placePlot();
    renderSoon(0);
}

void PlotView::showEvent(QShowEvent* event) {
    QChartView::showEvent(event);
    placePlot();
    updateRange(rasterCount_ == 0);
    renderSoon(0);
}

void PlotView::applyTheme() {
    setBackgroundBrush(color(Token::Panel));
    axisY_->setGridLinePen(QPen(color(Token::Grid), 1));
    renderSoon(0);
}

void PlotView::renderSoon(int milliseconds) {
    if (!isVisible()) {
        return;  // showEvent draws
    }
    if (!renderTimer_.isActive() || milliseconds < renderTimer_.remainingTime()) {
        renderTimer_.start(milliseconds);
    }
}

QImage PlotView::drawCurves(double ratio) {
    const QRectF plot = plotRect();
    const int width = std::max(1, int(std::lround(plot.width() * ratio))),
              height = std::max(1, int(std::lround(plot.height() * ratio)));
    CurveRaster raster(width, height, linearRange(xRange()), y_);
    for (const PlotBand& band : content_.bands) {
        if (band.low && band.high) {
            raster.drawBand(*band.low, *band.high, band.ink.color());
        }
    }
    above_ = counted_ = 0;
    bool first = true;
    for (const PlotCurve& curve : content_.curves) {
        if (!curve.data) {
            continue;
        }
        if (curve.width > 0) {
            CurveStyle style{curve.ink.color(), curve.width * ratio, {}};
            for (qreal length : curve.dash) {
                style.dashes.push_back(length * ratio);
            }
            raster.drawCurve(*curve.data, style);
        }
        if (first && options_.countAbove) {
            const auto range = xRange();
            const size_t begin = curve.data->lowerBound(range.low), end = curve.data->lowerBound(range.high);
            counted_ = qint64(end - begin);
            above_ = qint64(curve.data->countBeyond(begin, end, float(y_.fromAxis(y_.high)), true));
        }
        first = false;
    }
    marks_ = raster.marks();
    QImage image = raster.image();
    image.setDevicePixelRatio(ratio);
    QPainter painter(&image);
    for (const PlotCurve& curve : content_.curves) {
        drawMarkers(painter, curve);
    }
    return image;
}

void PlotView::drawMarkers(QPainter& painter, const PlotCurve& curve) const {
    if (!curve.data || curve.data->empty()) {
        return;
    }
    const QPointF origin = plotRect().topLeft();
    const auto range = xRange();
    const SeriesPyramid& data = *curve.data;
    // A sample at the right end is in view.
    const size_t begin = data.lowerBound(range.low), end = data.lowerBound(std::nextafter(range.high, HUGE_VAL));
    const auto place = [&](size_t i) { return toScene(data.x(i), double(data.y(i))) - origin; };
    if (curve.sampleMarker) {
        double last = -1e9;
        for (size_t i = begin; i < end; ++i) {
            const QPointF at = place(i);
            if (!std::isfinite(at.y()) || at.x() - last < 9) {
                continue;
            }
            paintMarker(painter, *curve.sampleMarker, at, 4.4, color(Token::Panel));
            paintMarker(painter, *curve.sampleMarker, at, 3.2, curve.ink.color());
            last = at.x();
        }
    } else if (data.size() == 1 && end > begin && curve.width > 0 && std::isfinite(place(begin).y())) {
        // One sample is no line, and a dot of a pixel is not seen.
        paintMarker(painter, curve.runMarker.value_or(Marker::Circle), place(begin), 4.2, color(Token::Panel));
        paintMarker(painter, curve.runMarker.value_or(Marker::Circle), place(begin), 3.2, curve.ink.color());
    } else if (curve.runMarker && end > begin) {
        const auto mark = [&](size_t i) {
            if (i < begin || i >= end || !std::isfinite(place(i).y())) return;
            paintMarker(painter, *curve.runMarker, place(i), 4.2, color(Token::Panel));
            paintMarker(painter, *curve.runMarker, place(i), 3.2, curve.ink.color());
        };
        const bool few = end - begin <= kFewSamples;
        for (size_t i = begin; few && i < end; ++i) mark(i);
        const int index = std::max(0, curve.ink.series);
        for (int k = 0; k < 4 && !few;
             ++k) {  // shifted by the run's index, so that equal curves show all their markers
            const double x = range.low + (range.high - range.low) * (0.1 + 0.24 * k + 0.04 * (index % 6));
            if (x >= data.firstX() && x <= data.lastX()) mark(data.nearest(x));
        }
        mark(data.size() - 1);
    }
    const size_t newest = data.size() - 1;
    if (!std::isfinite(data.y(newest)) && !curve.sampleMarker && curve.width > 0) {  // ends not finite
        size_t i = newest;
        while (i > 0 && !std::isfinite(data.y(i))) {
            --i;
        }
        if (i >= begin && i < end && std::isfinite(place(i).y())) {
            paintMarker(painter, Marker::TriangleDown, place(i), 4.5, color(Token::Nonfinite));
        }
    }
}

void PlotView::render() {
    if (!isVisible() || plotRect().width() < 2 || plotRect().height() < 2) {
        return;
    }
    updateAxes();
    raster_ = drawCurves(viewport()->devicePixelRatioF());
    ++rasterCount_;
    sinceRender_.restart();
    curveLayer_->update();
    labelLayer_->update();
    overlay_->update();
    describe();
    Q_EMIT legendChanged();
}

}  // namespace mantissa::gui
