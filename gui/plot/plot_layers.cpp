#include "gui/plot/plot_layers.h"

#include <QPainter>
#include <QPainterPath>
#include <algorithm>
#include <cmath>

#include "gui/format/numbers.h"
#include "gui/plot/plot_view.h"
#include "gui/theme/fonts.h"

namespace mantissa::gui {

namespace {

constexpr int kIcon = 13;

void drawTriangle(QPainter& painter, QPointF tip, double size, bool down) {
    const double sign = down ? -1 : 1;
    painter.drawPolygon(
        QPolygonF{tip, {tip.x() - size, tip.y() + sign * size * 1.5}, {tip.x() + size, tip.y() + sign * size * 1.5}});
}

/// Runs `draw(first, last)` for every stretch of columns with the mark; gaps below `join` columns do not end one.
template <class Draw>
void stretches(const std::vector<uint8_t>& marks, uint8_t mark, int join, Draw draw) {
    int first = -1, last = -1;
    for (int c = 0; c < int(marks.size()); ++c) {
        if (!(marks[size_t(c)] & mark)) {
            continue;
        }
        if (first >= 0 && c - last > join) {
            draw(first, last);
            first = -1;
        }
        if (first < 0) {
            first = c;
        }
        last = c;
    }
    if (first >= 0) {
        draw(first, last);
    }
}

QPen linePen(const QColor& color, bool dashed, double width = 1) {
    QPen pen(color, width, Qt::SolidLine, Qt::FlatCap);
    if (dashed) {
        pen.setDashPattern({5 / width, 3 / width});
    }
    return pen;
}

}  // namespace

PlotLayer::PlotLayer(PlotView& view, Kind kind, QGraphicsItem* parent)
    : QGraphicsItem(parent), view_(view), kind_(kind) {
    setZValue(kind == Kind::Curves ? 100 : kind == Kind::Labels ? 101 : 102);
    setAcceptedMouseButtons(Qt::NoButton);
}

void PlotLayer::setArea(const QRectF& area) {
    prepareGeometryChange();
    area_ = area;
}

void PlotLayer::paint(QPainter* painter, const QStyleOptionGraphicsItem*, QWidget*) {
    painter->save();
    switch (kind_) {
        case Kind::Curves:
            view_.vectorExport_ ? paintVector(*painter) : paintCurves(*painter);
            break;
        case Kind::Labels:
            paintLabels(*painter);
            break;
        case Kind::Overlay:
            if (!view_.vectorExport_) {
                paintOverlay(*painter);
            }
            break;
    }
    painter->restore();
}

void PlotLayer::paintCurves(QPainter& painter) const {
    const QRectF plot = view_.plotRect();
    // A category axis also draws a line at the end of its range, where no tick is.
    painter.fillRect(QRectF(plot.left() - 1, plot.top() - 1, plot.width() + 2, 2), color(Token::Panel));
    painter.drawImage(plot.topLeft(), view_.raster_);
}

void PlotLayer::paintVector(QPainter& painter) const {
    const QRectF plot = view_.plotRect();
    painter.setClipRect(plot);
    const int columns = std::max(1, int(plot.width()));
    AxisScale x;
    x.low = view_.xRange().low;
    x.high = view_.xRange().high;
    CurveRaster raster(columns, std::max(1, int(plot.height())), x, view_.yAxis());
    for (const PlotCurve& curve : view_.content_.curves) {
        if (!curve.data || curve.width <= 0) {
            continue;
        }
        raster.drawCurve(*curve.data, {QColor(Qt::black), 1, {}});
        QPainterPath path;
        bool open = false;
        for (int c = 0; c < columns; ++c) {  // top and bottom of every column: as complete as the picture on screen
            const CurveRaster::Span& span = raster.spans()[size_t(c)];
            if (span.empty()) {
                open = false;
                continue;
            }
            const double at = plot.left() + c + 0.5, top = plot.top() + double(span.top),
                         bottom = plot.top() + double(span.bottom);
            const bool rising =
                open && std::fabs(path.currentPosition().y() - top) > std::fabs(path.currentPosition().y() - bottom);
            const double first = rising ? bottom : top, second = rising ? top : bottom;
            open ? path.lineTo(at, first) : path.moveTo(at, first);
            path.lineTo(span.dot ? at + 0.1 : at, second);
            open = true;
        }
        QPen pen(curve.ink.color(), curve.width, Qt::SolidLine, Qt::FlatCap, Qt::RoundJoin);
        if (!curve.dash.isEmpty()) {
            QVector<qreal> dash = curve.dash;
            for (qreal& length : dash) {
                length /= curve.width;
            }
            pen.setDashPattern(dash);
        }
        painter.strokePath(path, pen);
    }
    painter.translate(plot.topLeft());
    for (const PlotCurve& curve : view_.content_.curves) {
        view_.drawMarkers(painter, curve);
    }
}

void PlotLayer::paintLabels(QPainter& painter) const {
    const QRectF plot = view_.plotRect();
    painter.setFont(uiFont(TextSize::Small));
    painter.setPen(color(Token::Text3));
    const double space = view_.y_.high - view_.y_.low;
    double lastY = 1e9;
    for (const Tick& tick : view_.yTicks_) {
        const double y = plot.bottom() - (tick.position - view_.y_.low) / space * plot.height();
        if (y < plot.top() - 1 || y > plot.bottom() + 1 || lastY - y < 12) {
            continue;
        }
        const double middle = std::min(y, plot.bottom() - 3);
        painter.drawText(QRectF(0, middle - 8, plot.left() - 7, 16), Qt::AlignRight | Qt::AlignVCenter, tick.label);
        lastY = y;
    }
    paintLines(painter);
    paintEvents(painter);
    paintRails(painter);
    paintNotes(painter);
    if (view_.options_.xLabels) {
        paintXLabels(painter);
    }
    painter.setPen(color(Token::Line2));
    painter.drawLine(QPointF(plot.left(), plot.bottom() + 0.5), QPointF(plot.right(), plot.bottom() + 0.5));
}

void PlotLayer::paintXLabels(QPainter& painter) const {
    const QRectF plot = view_.plotRect();
    const QFontMetricsF metrics(painter.font());
    painter.setPen(color(Token::Text3));
    const auto range = view_.xRange();
    const double y = plot.bottom() + 3;
    const double unitWidth = metrics.horizontalAdvance(view_.options_.xUnit);
    const double unitLeft = view_.options_.xUnit.isEmpty() ? area_.right() : plot.right() - unitWidth;
    painter.drawText(QRectF(unitLeft - 2, y, unitWidth + 4, 16), Qt::AlignRight | Qt::AlignVCenter,
                     view_.options_.xUnit);
    double lastRight = -1e9;
    for (const Tick& tick : view_.xTicks_) {
        const double at = plot.left() + (tick.position - range.low) / (range.high - range.low) * plot.width();
        const double width = metrics.horizontalAdvance(tick.label);
        const double left = std::min(at - width / 2, area_.right() - width - 1);
        if (left < lastRight + 8 || (!view_.options_.xUnit.isEmpty() && left + width > unitLeft - 6)) {
            continue;
        }
        painter.drawText(QRectF(left, y, width + 2, 16), Qt::AlignLeft | Qt::AlignVCenter, tick.label);
        lastRight = left + width;
    }
}

void PlotLayer::paintLines(QPainter& painter) const {
    const QRectF plot = view_.plotRect();
    const QFontMetricsF metrics(painter.font());
    for (const PlotLine& line : view_.content_.lines) {
        const double unit = view_.y_.unit(line.y);
        if (!(unit >= 0 && unit <= 1)) {
            continue;
        }
        const double y = std::floor(plot.bottom() - unit * plot.height()) + 0.5;
        painter.setPen(linePen(line.ink.color(), line.dashed));
        painter.drawLine(QPointF(plot.left(), y), QPointF(plot.right(), y));
    }
    for (const PlotLine& line : view_.content_.lines) {  // names over all lines
        const double unit = view_.y_.unit(line.y);
        if (line.label.isEmpty() || !(unit >= 0 && unit <= 1)) {
            continue;
        }
        const double y = std::floor(plot.bottom() - unit * plot.height()) + 0.5;
        painter.setPen(color(line.labelInMargin ? Token::Text3 : Token::Text2));
        const double width = metrics.horizontalAdvance(line.label);
        const double left = line.labelInMargin ? plot.right() + 8
                            : line.labelRight  ? plot.right() - width - 8
                                               : plot.left() + 10;
        const double top = line.labelInMargin ? y - 8 : y - 16 < plot.top() ? y + 1 : y - 16;
        QColor ground = color(Token::Panel);  // a name stays readable over a noisy curve
        ground.setAlphaF(0.75f);
        painter.fillRect(QRectF(left - 3, top + 1, width + 6, 14), ground);
        painter.drawText(QRectF(left, top, width + 2, 16), Qt::AlignLeft | Qt::AlignVCenter, line.label);
    }
}

void PlotLayer::paintEvents(QPainter& painter) const {
    const QRectF plot = view_.plotRect();
    const auto range = view_.xRange();
    std::vector<const PlotEvent*> order;
    for (const PlotEvent& event : view_.content_.events) {
        if (event.x >= range.low && event.x <= range.high) {
            order.push_back(&event);
        }
    }
    // Where icons would overlap, the more serious one stands.
    std::stable_sort(order.begin(), order.end(), [](const PlotEvent* a, const PlotEvent* b) {
        const auto rank = [](const PlotEvent* e) {
            return e->token == Token::Nonfinite || e->token == Token::Bad ? 0 : e->token == Token::Warn ? 1 : 2;
        };
        return rank(a) < rank(b);
    });
    std::vector<double> used;
    for (const PlotEvent* event : order) {
        const double x = view_.toScene(event->x, 0).x();
        if (std::any_of(used.begin(), used.end(), [&](double other) { return std::fabs(other - x) < kIcon + 1; })) {
            continue;
        }
        used.push_back(x);
        // Many checkpoints would rule the chart: then only what is more serious keeps its line, and small charts show
        // no more.
        const bool serious =
            event->token == Token::Warn || event->token == Token::Bad || event->token == Token::Nonfinite;
        const bool grave = event->token == Token::Bad || event->token == Token::Nonfinite;
        const bool lined = order.size() <= 6 || grave || (serious && view_.options_.eventIcons && order.size() <= 14);
        if (view_.options_.eventIcons) {
            paintGlyph(painter, event->glyph, QRectF(x - kIcon / 2.0, plot.top() - kIcon - 3, kIcon, kIcon),
                       color(event->token));
        }
        if (!lined) {
            continue;
        }
        QPen pen(color(event->token), 1, Qt::CustomDashLine, Qt::FlatCap);
        pen.setDashPattern({1, 3});
        painter.setPen(pen);
        painter.drawLine(QPointF(std::floor(x) + 0.5, plot.top()), QPointF(std::floor(x) + 0.5, plot.bottom()));
    }
}

void PlotLayer::paintRails(QPainter& painter) const {
    const QRectF plot = view_.plotRect();
    const double ratio = view_.raster_.isNull() ? 1 : view_.raster_.devicePixelRatio();
    const auto at = [&](double column) { return plot.left() + (column + 0.5) / ratio; };
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setPen(Qt::NoPen);
    painter.setBrush(color(Token::Nonfinite));
    stretches(view_.marks_, kMarkNan | kMarkInf, int(7 * ratio), [&](int first, int last) {
        if (last - first > 12 * ratio) {
            painter.drawRect(QRectF(at(first), plot.top(), at(last) - at(first), 2));
            drawTriangle(painter, {at(first), plot.top() + 7}, 4, true);
            drawTriangle(painter, {at(last), plot.top() + 7}, 4, true);
        } else {
            drawTriangle(painter, {at((first + last) / 2.0), plot.top() + 7}, 4, true);
        }
    });
    painter.setBrush(color(Token::Text3));
    stretches(view_.marks_, kMarkZero, int(5 * ratio), [&](int first, int last) {
        painter.drawRect(QRectF(at(first) - 1, plot.bottom() - 2, at(last) - at(first) + 2, 2));
        drawTriangle(painter, {at((first + last) / 2.0), plot.bottom()}, 3, true);
    });
    painter.setBrush(color(Token::Text3));
    stretches(view_.marks_, kMarkAbove, int(3 * ratio), [&](int first, int last) {
        painter.drawRect(QRectF(at(first) - 0.5, plot.top(), at(last) - at(first) + 1, 1));
    });
    stretches(view_.marks_, kMarkBelow, int(3 * ratio), [&](int first, int last) {
        painter.drawRect(QRectF(at(first) - 0.5, plot.bottom() - 1, at(last) - at(first) + 1, 1));
    });
    painter.setRenderHint(QPainter::Antialiasing, false);
    if (view_.above_ > 0) {
        const QString text =
            QStringLiteral("%1 of %2 points above").arg(formatCount(view_.above_), formatCount(view_.counted_));
        const double width = QFontMetricsF(painter.font()).horizontalAdvance(text);
        const double left = plot.right() - width - 4;  // a loss falls: this end of the top is free
        painter.setRenderHint(QPainter::Antialiasing);
        drawTriangle(painter, {left - 8, plot.top() + 5}, 4, false);
        painter.setRenderHint(QPainter::Antialiasing, false);
        painter.setPen(color(Token::Text2));
        painter.drawText(QRectF(left, plot.top(), width + 2, 16), Qt::AlignLeft | Qt::AlignVCenter, text);
    }
}

PlotNote PlotNote::at(double right) const {
    if (!of || of->empty()) return *this;
    size_t i = of->lowerBound(right);
    if (i == of->size() || of->x(i) > right) {
        if (i == 0) return *this;  // all of it lies to the right
        --i;
    }
    PlotNote note = *this;
    note.y = double(of->y(i));
    note.value = text(note.y);
    if (colour) note.token = colour(note.y);
    return note;
}

std::vector<PlotNote> PlotView::notesInView() const {
    std::vector<PlotNote> notes;
    for (const PlotNote& note : content_.notes) notes.push_back(note.at(xRange().high));
    return notes;
}

void PlotLayer::paintNotes(QPainter& painter) const {
    const QRectF plot = view_.plotRect();
    struct Placed {
        const PlotNote* note;
        double top, height;
    };
    std::vector<Placed> placed;
    const std::vector<PlotNote> notes = view_.notesInView();
    for (const PlotNote& note : notes) {
        const double unit = view_.y_.unit(note.y);
        const double height = note.head.isEmpty() ? 15 : 29;
        const double y =
            std::isfinite(unit) ? plot.bottom() - std::clamp(unit, 0.0, 1.0) * plot.height() : plot.bottom();
        placed.push_back({&note, y - height / 2, height});
    }
    std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) { return a.top < b.top; });
    double room = plot.height() + 14;
    for (const Placed& note : placed) room -= note.height;
    if (room < 0) std::erase_if(placed, [](const Placed& note) { return note.note->spare; });
    double floor = plot.top() - 6;
    for (Placed& note : placed) {
        note.top = std::max(note.top, floor);
        floor = note.top + note.height;
    }
    double ceiling = plot.bottom() + 8;
    for (auto note = placed.rbegin(); note != placed.rend(); ++note) {
        note->top = std::min(note->top, ceiling - note->height);
        ceiling = note->top;
    }
    for (const Placed& note : placed) {
        const QRectF row(plot.right() + 8, note.top, area_.right() - plot.right() - 8, 15);
        if (!note.note->head.isEmpty()) {
            painter.setFont(uiFont(TextSize::Small));
            painter.setPen(color(Token::Text3));
            painter.drawText(row, Qt::AlignLeft | Qt::AlignVCenter, note.note->head);
        }
        painter.setFont(uiFont(TextSize::Small, true));
        painter.setPen(color(note.note->token));
        painter.drawText(row.translated(0, note.height - 15), Qt::AlignLeft | Qt::AlignVCenter, note.note->value);
    }
    painter.setFont(uiFont(TextSize::Small));
}

void PlotLayer::paintOverlay(QPainter& painter) const {
    const QRectF plot = view_.plotRect();
    if (view_.highlighted_ >= 0 && !highlight.isNull()) {
        painter.drawImage(plot.topLeft(), highlight);
    }
    if (view_.drag_ == PlotView::Drag::Range || view_.drag_ == PlotView::Drag::Box) {
        QRectF box = QRectF(view_.pressAt_, view_.dragAt_).normalized();
        if (view_.drag_ == PlotView::Drag::Range) {
            box.setTop(plot.top());
            box.setBottom(plot.bottom());
        }
        QColor fill = color(Token::Accent);
        fill.setAlphaF(0.16f);
        painter.setPen(color(Token::Accent));
        painter.setBrush(fill);
        painter.drawRect(box.intersected(plot));
    }
    const double cursor = view_.link_ ? view_.link_->cursor() : NAN;
    const auto range = view_.xRange();
    if (cursor >= range.low && cursor <= range.high) {
        const double x = std::floor(view_.toScene(cursor, 0).x()) + 0.5;
        painter.setPen(color(Token::Text2));
        painter.drawLine(QPointF(x, plot.top()), QPointF(x, plot.bottom()));
        if (view_.options_.readoutBox) {
            paintReadout(painter);
        }
    }
    if (view_.hasFocus()) {
        painter.setPen(color(Token::Accent));
        painter.setBrush(Qt::NoBrush);
        painter.drawRect(area_.adjusted(1.5, 0.5, -1.5, -0.5));
    }
}

void PlotLayer::paintReadout(QPainter& painter) const {
    const QRectF plot = view_.plotRect();
    const std::vector<LegendEntry> entries = view_.legend();
    QFont plain = uiFont(TextSize::Small), strong = uiFont(TextSize::Small, true);
    const QFontMetricsF metrics(plain), strongMetrics(strong);
    double nameWidth = metrics.horizontalAdvance(view_.options_.xUnit),
           valueWidth = strongMetrics.horizontalAdvance(view_.xText(view_.link_->cursor()));
    int rows = 1;
    for (const LegendEntry& entry : entries) {
        if (!entry.value.isEmpty()) {
            nameWidth = std::max(nameWidth, metrics.horizontalAdvance(entry.name) + 20);
            valueWidth = std::max(valueWidth, strongMetrics.horizontalAdvance(entry.value));
            ++rows;
        }
    }
    const double width = nameWidth + valueWidth + 34, height = rows * 17 + 12;
    // The free corner: losses fall, so the upper right; the upper left when the cursor stands there.
    const double cursorX = view_.toScene(view_.link_->cursor(), 0).x();
    double left = cursorX + 10;
    if (left + width > plot.right() - 4) {
        left = cursorX - 10 - width;
    }
    const QRectF box(left, plot.top() + 18, width, height);
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setPen(color(Token::Line2));
    painter.setBrush(color(Token::Raised));
    painter.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), 4, 4);
    double y = box.top() + 6;
    const auto row = [&](const QString& name, const QString& value, const LegendEntry* entry) {
        if (entry) {
            painter.setPen(QPen(entry->style.color, 2));
            painter.drawLine(QPointF(box.left() + 8, y + 8.5), QPointF(box.left() + 20, y + 8.5));
        }
        painter.setFont(plain);
        painter.setPen(color(Token::Text2));
        painter.drawText(QRectF(box.left() + (entry ? 26 : 8), y, nameWidth + 4, 17), Qt::AlignLeft | Qt::AlignVCenter,
                         name);
        painter.setFont(strong);
        painter.setPen(color(Token::Text));
        painter.drawText(QRectF(box.left(), y, box.width() - 10, 17), Qt::AlignRight | Qt::AlignVCenter, value);
        y += 17;
    };
    row(view_.options_.xUnit, view_.xText(view_.link_->cursor()), nullptr);
    for (const LegendEntry& entry : entries) {
        if (!entry.value.isEmpty()) {
            row(entry.name, entry.value, &entry);
        }
    }
}

}  // namespace mantissa::gui
