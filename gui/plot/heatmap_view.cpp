#include "gui/plot/heatmap_view.h"

#include <QApplication>
#include <QClipboard>
#include <QMouseEvent>
#include <QPainter>
#include <QScrollBar>
#include <algorithm>
#include <cmath>

#include "gui/format/numbers.h"
#include "gui/theme/fonts.h"

namespace mantissa::gui {

namespace {

constexpr double kOpenRow = 14, kLeastRow = 4, kMostRow = 28, kGroupGap = 2;
constexpr int kTop = 22, kBottom = 22;

}  // namespace

HeatmapView::HeatmapView(XLink* link, QWidget* parent) : QWidget(parent), link_(link) {
    setMouseTracking(true);
    setFocusPolicy(Qt::StrongFocus);
    setMinimumSize(200, 140);
    setAccessibleName(QStringLiteral("Heatmap of tensors over steps"));
    scroll_ = new QScrollBar(Qt::Vertical, this);
    scroll_->hide();
    connect(scroll_, &QScrollBar::valueChanged, this, &HeatmapView::invalidate);
    connect(link, &XLink::viewChanged, this, &HeatmapView::invalidate);
    connect(link, &XLink::cursorChanged, this, qOverload<>(&QWidget::update));
    connect(&Theme::instance(), &Theme::changed, this, &HeatmapView::invalidate);
    valueText_ = [](double value) { return formatNumber(value, 3); };
}

void HeatmapView::setRows(std::vector<HeatRow> rows) {
    const int tensor = selected_ >= 0 && selected_ < int(rows_.size()) ? rows_[size_t(selected_)].tensor : -1;
    rows_ = std::move(rows);
    cells_ = HeatCells();
    selected_ = rowOfTensor(tensor);
    hovered_ = -1;
    layoutRows();
}

void HeatmapView::setCells(HeatCells cells) {
    cells_ = std::move(cells);
    invalidate();
    describe();
}

void HeatmapView::setScale(const HeatScale& scale) {
    scale_ = scale;
    invalidate();
}

void HeatmapView::setEvents(std::vector<PlotEvent> events) {
    events_ = std::move(events);
    update();
}

void HeatmapView::setEmptyText(const QString& text) {
    emptyText_ = text;
    update();
}

void HeatmapView::select(int row) {
    if (row == selected_) {
        return;
    }
    selected_ = row;
    layoutRows();
    describe();
    Q_EMIT selectionChanged(row);
}

int HeatmapView::rowOfTensor(int tensor) const {
    for (size_t row = 0; row < rows_.size(); ++row) {
        if (tensor >= 0 && rows_[row].tensor == tensor) {
            return int(row);
        }
    }
    return -1;
}

void HeatmapView::layoutRows() {
    const double room = height() - kTop - kBottom;
    const QString open = selected_ >= 0 && selected_ < int(rows_.size()) ? rows_[size_t(selected_)].group : QString();
    int opened = 0, gaps = 0;
    for (size_t row = 0; row < rows_.size(); ++row) {
        opened += rows_[row].group == open && !open.isEmpty() ? 1 : 0;
        gaps += row > 0 && rows_[row].group != rows_[row - 1].group ? 1 : 0;
    }
    int others = int(rows_.size()) - opened;
    if ((room - gaps * kGroupGap) / std::max<size_t>(1, rows_.size()) >= kOpenRow) {
        opened = 0;  // room for names everywhere: all rows alike
        others = int(rows_.size());
    }
    const double each = others > 0 ? (room - opened * kOpenRow - gaps * kGroupGap) / others : kLeastRow;
    const double row = std::clamp(std::floor(each * 2) / 2, kLeastRow, kMostRow);
    tops_.assign(rows_.size(), 0);
    heights_.assign(rows_.size(), row);
    double y = 0;
    for (size_t i = 0; i < rows_.size(); ++i) {
        if (i > 0 && rows_[i].group != rows_[i - 1].group) {
            y += kGroupGap;
        }
        tops_[i] = y;
        if (rows_[i].group == open && !open.isEmpty()) {
            heights_[i] = std::max(row, kOpenRow);
        }
        y += heights_[i];
    }
    contentHeight_ = y;
    const bool scrolls = contentHeight_ > room + 0.5;
    scroll_->setVisible(scrolls);
    scroll_->setRange(0, scrolls ? int(std::ceil(contentHeight_ - room)) : 0);
    scroll_->setPageStep(int(room));
    scroll_->setGeometry(width() - 10, kTop, 10, int(room));
    if (scrolls && selected_ >= 0) {  // the selection stays in sight
        const double top = tops_[size_t(selected_)], bottom = top + heights_[size_t(selected_)];
        if (top < scroll_->value()) {
            scroll_->setValue(int(top));
        } else if (bottom > scroll_->value() + room) {
            scroll_->setValue(int(std::ceil(bottom - room)));
        }
    }
    invalidate();
}

void HeatmapView::invalidate() {
    stale_ = true;
    update();
}

QRectF HeatmapView::plotRect() const {
    const double room = height() - kTop - kBottom;
    return QRectF(leftMargin_, kTop, std::max(1, width() - leftMargin_ - rightMargin_),
                  std::max(1.0, std::min(room, contentHeight_ > 0 ? contentHeight_ : room)));
}

QRectF HeatmapView::rowRect(int row) const {
    const QRectF plot = plotRect();
    return QRectF(plot.left(), kTop + tops_[size_t(row)] - scroll_->value(), plot.width(), heights_[size_t(row)]);
}

int HeatmapView::rowAt(double y) const {
    const double at = y - kTop + scroll_->value();
    for (size_t row = 0; row < rows_.size(); ++row) {
        if (at >= tops_[row] &&
            at < tops_[row] + heights_[row] +
                     (row + 1 < rows_.size() && rows_[row + 1].group != rows_[row].group ? kGroupGap : 0)) {
            return int(row);
        }
    }
    return -1;
}

double HeatmapView::stepAt(double x) const {
    const QRectF plot = plotRect();
    const auto view = link_ ? link_->view() : XLink::Range{};
    return view.low + (x - plot.left()) / plot.width() * (view.high - view.low);
}

double HeatmapView::xOf(double step) const {
    const QRectF plot = plotRect();
    const auto view = link_ ? link_->view() : XLink::Range{};
    return plot.left() + (step - view.low) / (view.high - view.low) * plot.width();
}

HeatCell HeatmapView::cellAt(int row, double step) const {
    if (row < 0 || row >= cells_.rows) {
        return {};
    }
    const QRectF plot = plotRect();
    const auto view = link_->view();
    return cells_.pooled(row, step, step + (view.high - view.low) / plot.width() * 0.5, scale_);
}

void HeatmapView::render(double ratio) {
    const QRectF plot = plotRect();
    const int width = std::max(1, int(std::lround(plot.width() * ratio))),
              height = std::max(1, int(std::lround(plot.height() * ratio)));
    image_ = QImage(width, height, QImage::Format_RGB32);
    image_.fill(color(Token::Panel));
    badColumns_.assign(size_t(width), 0);
    const QRgb hatch = mix(color(Token::Raised), color(Token::Text3), 0.45).rgb(), ground = color(Token::Raised).rgb();
    const QRgb bad = color(Token::Nonfinite).rgb(), outside = color(Token::Window).rgb(),
               dash = color(Token::Text3).rgb();
    const auto view = link_->view();
    const double perColumn = (view.high - view.low) / width;
    std::vector<QRgb> line(static_cast<size_t>(width));
    std::vector<uint8_t> hatched(static_cast<size_t>(width));
    for (int row = 0; row < int(rows_.size()); ++row) {
        const QRectF rect = rowRect(row);
        const double gap = rect.height() >= 8 ? 1 : 0;  // open rows keep a hairline between them
        const int top = std::max(0, int(std::lround((rect.top() - plot.top()) * ratio)));
        const int bottom = std::min(height, int(std::lround((rect.bottom() - gap - plot.top()) * ratio)));
        if (bottom <= 0 || top >= height) {
            continue;
        }
        for (int c = 0; c < width; ++c) {
            const double from = view.low + c * perColumn, to = from + perColumn;
            hatched[size_t(c)] = 0;
            if (rows_[size_t(row)].bf16) {
                line[size_t(c)] = ground;
                continue;
            }
            const bool inside = !cells_.empty() && to > cells_.firstStep && from < cells_.lastStep + 1;
            const HeatCell cell = inside && row < cells_.rows ? cells_.pooled(row, from, to, scale_) : HeatCell();
            switch (cell.state) {
                case CellState::Value:
                    line[size_t(c)] = scale_.colour(double(cell.value));
                    break;
                case CellState::NonFinite:
                    line[size_t(c)] = bad;
                    badColumns_[size_t(c)] = 1;
                    break;
                case CellState::NotProbed:
                    line[size_t(c)] = inside ? ground : outside;
                    hatched[size_t(c)] = inside || cells_.empty();
                    break;
            }
        }
        const int period = std::max(4, int(5 * ratio));
        for (int y = top; y < bottom; ++y) {
            auto* out = reinterpret_cast<QRgb*>(image_.scanLine(y));
            std::copy(line.begin(), line.end(), out);
            for (int c = 0; c < width; ++c) {
                if (hatched[size_t(c)] && (c + y) % period == 0) {
                    out[c] = hatch;
                }
            }
            if (rows_[size_t(row)].bf16 && y == (top + bottom) / 2) {
                for (int c = 0; c < width; ++c) {
                    if (c % int(28 * ratio) < int(8 * ratio)) {
                        out[c] = dash;
                    }
                }
            }
        }
    }
    image_.setDevicePixelRatio(ratio);
    stale_ = false;
}

void HeatmapView::paintLabels(QPainter& painter) const {
    const QRectF plot = plotRect();
    const QString open = selected_ >= 0 ? rows_[size_t(selected_)].group : QString();
    painter.setClipRect(QRectF(0, kTop - 8, width(), plot.height() + 16));
    double lastBottom = -1e9;
    for (int row = 0; row < int(rows_.size()); ++row) {
        const QRectF rect = rowRect(row);
        const bool isOpen = rows_[size_t(row)].group == open && !open.isEmpty();
        const bool first = row == 0 || rows_[size_t(row) - 1].group != rows_[size_t(row)].group;
        int last = row;
        while (last + 1 < int(rows_.size()) && rows_[size_t(last) + 1].group == rows_[size_t(row)].group) {
            ++last;
        }
        if (isOpen) {
            painter.setFont(uiFont(TextSize::Small, row == selected_));
            painter.setPen(color(row == selected_ ? Token::Text : Token::Text2));
            painter.drawText(QRectF(30, rect.top() - 2, leftMargin_ - 36, rect.height() + 4),
                             Qt::AlignRight | Qt::AlignVCenter, rows_[size_t(row)].label);
        }
        if (first) {
            const QRectF group(0, rect.top(), isOpen ? 26 : leftMargin_ - 26, rowRect(last).bottom() - rect.top());
            if (group.center().y() - 7 < lastBottom) {
                continue;  // 48 layers: only the names that have room
            }
            painter.setFont(uiFont(TextSize::Small, isOpen));
            painter.setPen(color(isOpen ? Token::Text : Token::Text3));
            painter.drawText(QRectF(4, group.center().y() - 8, isOpen ? 24 : leftMargin_ - 12, 16),
                             Qt::AlignLeft | Qt::AlignVCenter, rows_[size_t(row)].group);
            lastBottom = group.center().y() + 7;
        }
    }
    painter.setClipping(false);
    painter.setFont(uiFont(TextSize::Small));
    painter.setPen(color(Token::Text3));
    const auto view = link_->view();
    const auto steps = niceSteps(view.low, view.high, std::max(2, int(plot.width() / 95)), true);
    const double step = steps.size() > 1 ? steps[1] - steps[0] : 1;
    for (double at : steps) {
        painter.drawText(QRectF(xOf(at) - 50, plot.bottom() + 3, 100, 16), Qt::AlignCenter, axisNumber(at, step));
    }
}

void HeatmapView::paintWorst(QPainter& painter) const {
    if (cells_.empty() || rightMargin_ < 60) {
        return;
    }
    const QRectF plot = plotRect();
    const QRectF column(plot.right() + 8, plot.top(), rightMargin_ - 36, plot.height());
    painter.setFont(uiFont(TextSize::Small));
    painter.setPen(color(Token::Text3));
    painter.drawText(QRectF(column.left(), 2, 60, 16), Qt::AlignLeft | Qt::AlignVCenter, QStringLiteral("worst"));
    const auto view = link_->view();
    painter.setClipRect(column);
    for (int row = 0; row < std::min(int(rows_.size()), cells_.rows); ++row) {
        if (rows_[size_t(row)].bf16) {
            continue;
        }
        // Step 1 casts at the fresh scale 1: it would be the worst of every gradient and hide what came later.
        const double from = view.low < cells_.firstStep + 1 && cells_.firstStep < 2 && cells_.columns > 20
                                ? cells_.firstStep + cells_.columnWidth()
                                : view.low;
        const HeatCell cell = cells_.pooled(row, from, view.high, scale_);
        const QRectF rect = rowRect(row);
        const double gap = rect.height() >= 8 ? 1 : 0;
        if (cell.state == CellState::NonFinite) {
            painter.fillRect(QRectF(column.left(), rect.top(), column.width(), rect.height() - gap),
                             color(Token::Nonfinite));
        } else if (cell.state == CellState::Value) {
            const double length = scale_.position(double(cell.value)) * column.width();
            if (length > 0.5) {
                QColor fill = QColor(scale_.colour(double(cell.value)));
                painter.fillRect(QRectF(column.left(), rect.top(), length, rect.height() - gap), fill);
            }
        }
    }
    painter.setClipping(false);
    double lastLabel = -1e9;
    for (const HeatScale::Alarm& alarm : scale_.alarms) {
        const double x = std::floor(column.left() + scale_.position(alarm.value) * column.width()) + 0.5;
        QPen pen(color(Token::Text3), 1, Qt::CustomDashLine, Qt::FlatCap);
        pen.setDashPattern({1, 2});
        painter.setPen(pen);
        painter.drawLine(QPointF(x, plot.top()), QPointF(x, plot.bottom()));
        painter.setPen(color(Token::Text3));
        const QString label = valueText_(alarm.value);
        const double width = painter.fontMetrics().horizontalAdvance(label);
        double left = std::min(x - width / 2, this->width() - width - 3.0);
        if (left > lastLabel + 4) {
            painter.drawText(QRectF(left, plot.bottom() + 3, width + 2, 16), Qt::AlignLeft | Qt::AlignVCenter, label);
            lastLabel = left + width;
        }
    }
}

void HeatmapView::paintEvents(QPainter& painter) const {
    const QRectF plot = plotRect();
    double last = -1e9;
    for (const PlotEvent& event : events_) {
        const double x = xOf(event.x);
        if (x < plot.left() || x > plot.right()) {
            continue;
        }
        QPen pen(color(event.token), 1, Qt::CustomDashLine, Qt::FlatCap);
        pen.setDashPattern({1, 3});
        painter.setPen(pen);
        if (event.token != Token::Text2) {
            painter.drawLine(QPointF(std::floor(x) + 0.5, plot.top()), QPointF(std::floor(x) + 0.5, plot.bottom()));
        }
        if (x - last > 15) {
            paintGlyph(painter, event.glyph, QRectF(x - 6.5, 4, 13, 13), color(event.token));
            last = x;
        }
    }
    // Rail of triangles where any row is not finite.
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setPen(Qt::NoPen);
    painter.setBrush(color(Token::Nonfinite));
    const double ratio = image_.isNull() ? 1 : image_.devicePixelRatio();
    last = -1e9;
    for (size_t c = 0; c < badColumns_.size(); ++c) {
        const double x = plot.left() + (double(c) + 0.5) / ratio;
        if (badColumns_[c] && x - last > 8) {
            painter.drawPolygon(
                QPolygonF{QPointF(x, plot.top() - 1), QPointF(x - 4, plot.top() - 7), QPointF(x + 4, plot.top() - 7)});
            last = x;
        }
    }
    painter.setRenderHint(QPainter::Antialiasing, false);
}

void HeatmapView::paintCrosses(QPainter& painter) const {
    const QRectF plot = plotRect();
    const auto view = link_->view();
    QPen pen(color(Token::Window), 1.4);
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setPen(pen);
    for (int row = 0; row < std::min(int(rows_.size()), cells_.rows); ++row) {
        const QRectF rect = rowRect(row);
        if (rect.height() < 7 || rect.bottom() < plot.top() || rect.top() > plot.bottom()) {
            continue;
        }
        double last = -1e9;
        for (double x = plot.left() + 2; x < plot.right(); x += 1) {
            const double step = view.low + (x - plot.left()) / plot.width() * (view.high - view.low);
            if (x - last > 14 && cells_.pooled(row, step, step, scale_).state == CellState::NonFinite) {
                const QPointF c(x + 2, rect.center().y() - 0.5);
                painter.drawLine(c + QPointF(-2.5, -2.5), c + QPointF(2.5, 2.5));
                painter.drawLine(c + QPointF(-2.5, 2.5), c + QPointF(2.5, -2.5));
                last = x;
            }
        }
    }
    painter.setRenderHint(QPainter::Antialiasing, false);
}

void HeatmapView::paintTo(QPainter& painter, double ratio) {
    if (stale_ || image_.devicePixelRatio() != ratio) {
        render(ratio);
    }
    const QRectF plot = plotRect();
    painter.fillRect(rect(), color(Token::Panel));
    painter.drawImage(plot.topLeft(), image_);
    if (std::any_of(badColumns_.begin(), badColumns_.end(), [](uint8_t bad) { return bad; })) {
        paintCrosses(painter);
    }
    paintEvents(painter);
    paintLabels(painter);
    paintWorst(painter);
    painter.setClipRect(plot.adjusted(-2, -2, 2, 2));
    if (selected_ >= 0 && selected_ < int(rows_.size())) {
        QPen pen(color(Token::Text), 1.5);
        pen.setJoinStyle(Qt::MiterJoin);
        painter.setPen(pen);
        painter.setBrush(Qt::NoBrush);
        painter.drawRect(rowRect(selected_).adjusted(-0.5, -0.5, 0.5, -0.5));
    }
    if (dragging_) {
        QColor fill = color(Token::Accent);
        fill.setAlphaF(0.16f);
        QRectF box = QRectF(pressAt_, dragAt_).normalized();
        box.setTop(plot.top());
        box.setBottom(plot.bottom());
        painter.setPen(color(Token::Accent));
        painter.setBrush(fill);
        painter.drawRect(box);
    }
    const double cursor = link_->cursor();
    if (!std::isnan(cursor)) {
        const double x = std::floor(xOf(cursor)) + 0.5;
        painter.setPen(color(Token::Text));
        painter.drawLine(QPointF(x, plot.top()), QPointF(x, plot.bottom()));
        if (const int row = hovered_ >= 0 ? hovered_ : selected_; row >= 0 && row < int(rows_.size())) {
            painter.setRenderHint(QPainter::Antialiasing);
            painter.setPen(QPen(color(Token::Text), 1.5));
            painter.setBrush(color(Token::Window));
            painter.drawEllipse(QPointF(x, rowRect(row).center().y() - 0.5), 3, 3);
            painter.setRenderHint(QPainter::Antialiasing, false);
        }
    }
    painter.setClipping(false);
    if (!emptyText_.isEmpty() && cells_.empty()) {
        const int width = painter.fontMetrics().horizontalAdvance(emptyText_) + 28;
        const QRectF box(plot.center().x() - width / 2.0, plot.center().y() - 15, width, 30);
        painter.fillRect(box, color(Token::Panel));
        painter.setFont(uiFont(TextSize::Body));
        painter.setPen(color(Token::Text2));
        painter.drawText(box, Qt::AlignCenter, emptyText_);
    }
    if (hasFocus()) {
        painter.setPen(color(Token::Accent));
        painter.setBrush(Qt::NoBrush);
        painter.drawRect(QRectF(rect()).adjusted(1.5, 0.5, -1.5, -0.5));
    }
}

void HeatmapView::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    paintTo(painter, devicePixelRatioF());
}

QImage HeatmapView::picture(double ratio) {
    QImage image(size() * ratio, QImage::Format_ARGB32_Premultiplied);
    image.setDevicePixelRatio(ratio);
    QPainter painter(&image);
    stale_ = true;
    paintTo(painter, ratio);
    painter.end();
    stale_ = true;
    return image;
}

void HeatmapView::describe() {
    if (selected_ < 0 || cells_.empty() || selected_ >= cells_.rows) {
        setAccessibleDescription(QStringLiteral("%1 tensors, none selected").arg(rows_.size()));
        return;
    }
    const HeatCell worst = cells_.pooled(selected_, link_->view().low, link_->view().high, scale_);
    setAccessibleDescription(QStringLiteral("%1 %2 selected, worst value in view %3")
                                 .arg(rows_[size_t(selected_)].group, rows_[size_t(selected_)].label,
                                      worst.state == CellState::NonFinite   ? QStringLiteral("not finite")
                                      : worst.state == CellState::NotProbed ? notMeasured()
                                                                            : valueText_(double(worst.value))));
}

void HeatmapView::resizeEvent(QResizeEvent*) {
    layoutRows();
}

}  // namespace mantissa::gui
