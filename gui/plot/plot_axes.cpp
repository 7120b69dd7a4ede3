// PlotView's Y range, its ticks, and what it says in words: legend, values, description.
#include <QCategoryAxis>
#include <QValueAxis>
#include <algorithm>
#include <cmath>

#include "gui/format/numbers.h"
#include "gui/plot/plot_view.h"

namespace mantissa::gui {

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
