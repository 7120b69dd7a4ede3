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

constexpr int kFrameMs = 100;  ///< new data is drawn at most ten times a second

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

bool PlotView::wantedRange(double& low, double& high) const {
    const auto range = xRange();
    bool any = false;
    low = INFINITY;
    high = -INFINITY;
    const auto take = [&](double value) {
        if (std::isfinite(value) && !(y_.isLog() && value <= 0)) {
            low = std::min(low, value);
            high = std::max(high, value);
            any = true;
        }
    };
    for (const PlotCurve& curve : content_.curves) {
        if (!curve.data || !curve.sizesY || curve.data->empty()) {
            continue;
        }
        const size_t end = curve.data->lowerBound(range.high);
        size_t begin = curve.data->lowerBound(std::max(range.low, options_.sizeFrom));
        begin = begin < end ? begin : curve.data->lowerBound(range.low);
        if (!options_.robustRange || end - begin < 200) {
            const RangeSummary all = curve.data->summary(begin, end);
            take(double(y_.isLog() ? all.minPositive : all.min));
            take(double(all.max));
            continue;
        }
        size_t from = std::max(begin, curve.data->lowerBound(options_.robustFrom));
        from = end - from < 100 ? begin : from;
        const size_t stride = std::max<size_t>(1, (end - from) / 4000);
        std::vector<float> values;
        for (size_t i = from; i < end; i += stride) {
            if (std::isfinite(curve.data->y(i))) {
                values.push_back(curve.data->y(i));
            }
        }
        if (!values.empty()) {
            std::sort(values.begin(), values.end());
            take(double(values[size_t(double(values.size() - 1) * 0.005)]));
            take(double(values[size_t(double(values.size() - 1) * 0.995)]));
        }
    }
    for (const PlotBand& band : content_.bands) {
        for (const SharedSeries& edge : {band.low, band.high}) {
            if (edge && !edge->empty()) {
                const size_t end = edge->lowerBound(range.high),
                             begin = edge->lowerBound(std::max(range.low, options_.sizeFrom));
                const RangeSummary all = edge->summary(std::min(begin, end), end);
                take(double(y_.isLog() ? all.minPositive : all.min));
                take(double(all.max));
            }
        }
    }
    for (const PlotLine& line : content_.lines) {
        if (line.sizesY) {
            take(line.y);
        }
    }
    return any;
}

void PlotView::updateRange(bool anew) {
    if (yByHand_) {
        return;
    }
    AxisScale wanted = y_;
    if (y_.kind == ScaleKind::SymLog) {
        wanted.knee = 1e-3;
    }
    double low = 0, high = 1;
    const bool any = wantedRange(low, high);
    if (any) {
        wanted.fit(low, high, 0.06);
    } else if (y_.isLog()) {
        wanted.fit(0.1, 10);
    } else {
        wanted.fit(0, 1);
    }
    if (const double lack = options_.minimumSpan - (wanted.high - wanted.low); lack > 0) {
        wanted.low -= lack / 2;
        wanted.high += lack / 2;
    }
    if (options_.yFloor && wanted.toAxis(*options_.yFloor) < wanted.high) {
        wanted.low = std::max(wanted.low, wanted.toAxis(*options_.yFloor));
    }
    if (options_.yCeiling && wanted.toAxis(*options_.yCeiling) > wanted.low) {
        wanted.high = std::min(wanted.high, wanted.toAxis(*options_.yCeiling));
    }
    if (!anew) {
        // No axis may rescale under the cursor, and none for a little more data: what leaves it is named "above"
        // meanwhile.
        const bool holds =
            wanted.low >= y_.low && wanted.high <= y_.high && (wanted.high - wanted.low) > 0.6 * (y_.high - y_.low);
        if (holds || (viewport()->underMouse() && content_.curves.size() && rasterCount_ > 0 && any)) {
            return;
        }
    }
    y_ = wanted;
}

void PlotView::updateAxes() {
    const QRectF plot = plotRect();
    const auto range = xRange();
    axisX_->setRange(range.low, range.high);
    xTicks_.clear();
    const double factor = options_.xScaleFactor;
    const int wanted = std::clamp(int(plot.width() / 72), 2, 10);
    const std::vector<double> steps = niceSteps(range.low * factor, range.high * factor, wanted, options_.wholeX);
    const double step = steps.size() > 1 ? steps[1] - steps[0] : 1;
    for (double at : steps) {
        xTicks_.push_back({at / factor, axisNumber(at, step)});
    }
    AxisScale labelled = y_;
    if (options_.yLabelsAsShare) {  // fractions are written in per cent
        if (y_.isLog()) {
            labelled.low += 2;
            labelled.high += 2;
        } else {
            labelled.low *= 100;
            labelled.high *= 100;
        }
    }
    std::vector<Tick> fresh = ticks(labelled, std::clamp(int(plot.height() / 26), 2, 8), {}, options_.plusSign);
    for (Tick& tick : fresh) {
        if (options_.tickText) {
            tick.label = options_.tickText(y_.fromAxis(tick.position));
        }
        tick.position = !options_.yLabelsAsShare ? tick.position : y_.isLog() ? tick.position - 2 : tick.position / 100;
    }
    yTicks_ = std::move(fresh);
    axisY_->setRange(y_.low, y_.high);
    const QStringList old = axisY_->categoriesLabels();
    for (const QString& label : old) {
        axisY_->remove(label);
    }
    axisY_->setStartValue(y_.low);
    double last = y_.low;
    for (size_t i = 0; i < yTicks_.size(); ++i) {
        if (yTicks_[i].position > last + (y_.high - y_.low) * 1e-6 && yTicks_[i].position <= y_.high) {
            axisY_->append(QString::number(i), yTicks_[i].position);
            last = yTicks_[i].position;
        }
    }
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
    const size_t begin = data.lowerBound(range.low), end = data.lowerBound(range.high);
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
    } else if (curve.runMarker && end > begin) {
        const int index = std::max(0, curve.ink.series);
        for (int k = 0; k < 4; ++k) {  // shifted by the run's index, so that equal curves show all their markers
            const double x = range.low + (range.high - range.low) * (0.1 + 0.24 * k + 0.04 * (index % 6));
            const size_t i = x >= data.firstX() && x <= data.lastX() ? data.nearest(x) : end;
            if (i < end && i >= begin && std::isfinite(place(i).y())) {
                paintMarker(painter, *curve.runMarker, place(i), 4.2, color(Token::Panel));
                paintMarker(painter, *curve.runMarker, place(i), 3.2, curve.ink.color());
            }
        }
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

void PlotView::describe() {
    if (sinceDescription_.isValid() && sinceDescription_.elapsed() < 2000) {
        return;
    }
    sinceDescription_.restart();
    const SeriesPyramid* series = snapSeries();
    if (!series || series->empty()) {
        setAccessibleDescription(QStringLiteral("%1, nothing recorded yet").arg(options_.title));
        return;
    }
    const double last = double(series->y(series->size() - 1));
    const double before = double(series->y(series->size() - 1 - series->size() / 10));
    const QString trend = !std::isfinite(last) || !std::isfinite(before)       ? QString()
                          : std::fabs(last - before) <= 1e-3 * std::fabs(last) ? QStringLiteral(", level")
                          : last < before                                      ? QStringLiteral(", falling")
                                                                               : QStringLiteral(", rising");
    setAccessibleDescription(QStringLiteral("%1, up to %2 %3, now %4%5")
                                 .arg(options_.title, options_.xUnit, xText(series->lastX()), valueText(last), trend));
}

QString PlotView::valueText(double value) const {
    if (options_.value) {
        return options_.value(value);
    }
    return formatNumber(value, 4);
}

QString PlotView::xText(double x) const {
    const double shown = x * options_.xScaleFactor;
    return options_.wholeX ? formatCount(std::llround(shown)) : formatNumber(shown, 4);
}

std::vector<LegendEntry> PlotView::legend() const {
    std::vector<LegendEntry> result;
    const double cursor = link_ ? link_->cursor() : NAN;
    for (const PlotCurve& curve : content_.curves) {
        if (!curve.inLegend || !curve.data) {
            continue;
        }
        LegendEntry entry;
        entry.name = curve.name;
        entry.style.color = curve.ink.color();
        entry.style.dash = curve.dash;
        entry.line = curve.width > 0;
        entry.marker = curve.sampleMarker || curve.runMarker;
        entry.style.marker = curve.sampleMarker ? *curve.sampleMarker : curve.runMarker.value_or(Marker::Circle);
        const SeriesPyramid& data = *curve.data;
        if (curve.legendValue && !data.empty()) {
            const double slack = data.size() > 1 ? (data.lastX() - data.firstX()) / double(data.size()) : 1;
            const bool inside = cursor >= data.firstX() - slack && cursor <= data.lastX() + slack;
            if (std::isnan(cursor)) {
                entry.value = valueText(double(data.y(data.size() - 1)));
            } else {
                entry.value = inside ? valueText(double(data.y(data.nearest(cursor)))) : notMeasured();
            }
        }
        if (options_.namesOffScale && curve.legendValue && !data.empty()) {
            const size_t at = std::isnan(cursor) ? data.size() - 1 : data.nearest(cursor);
            const double unit = y_.unit(double(data.y(at)));
            if (std::isfinite(data.y(at)) && (unit < 0 || unit > 1)) {
                entry.value = QStringLiteral("off scale");
            }
        }
        result.push_back(std::move(entry));
    }
    return result;
}

}  // namespace mantissa::gui
