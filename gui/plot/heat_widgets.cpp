#include "gui/plot/heat_widgets.h"

#include <QLinearGradient>
#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>

#include "gui/format/numbers.h"
#include "gui/plot/axis_scale.h"
#include "gui/theme/fonts.h"

namespace mantissa::gui {

ColorBar::ColorBar(QWidget* parent) : QWidget(parent) {
    setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Fixed);
    setAccessibleName(QStringLiteral("Colour scale"));
    setToolTip(QStringLiteral("Drag an end to change the range of the colours; double click resets it."));
    text_ = tickText_ = [](double value) { return formatNumber(value, 2); };
    connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
}

void ColorBar::setScale(const HeatScale& scale, std::function<QString(double)> text,
                        std::function<QString(double)> tickText) {
    tickText_ = tickText ? std::move(tickText) : text;
    scale_ = original_ = scale;
    text_ = std::move(text);
    setAccessibleDescription(QStringLiteral("from %1 to %2").arg(text_(scale_.low), text_(scale_.high)));
    update();
}

QString ColorBar::endText() const {
    const QString full = text_(scale_.high), number = tickText_(scale_.high);
    int unit = int(full.size());
    while (unit > 0 && !full[unit - 1].isDigit()) {
        --unit;  // whatever stands after the last digit
    }
    return number + full.mid(unit);
}

QRectF ColorBar::bar() const {
    return QRectF(8, 5, width() - 48, 8);
}

void ColorBar::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    const QRectF area = bar();
    const MapTable& map = Theme::instance().map(scale_.map);
    for (int x = 0; x < int(area.width()); ++x) {
        painter.fillRect(QRectF(area.left() + x, area.top(), 1, area.height()),
                         QColor(map[size_t(x * (kMapSize - 1) / std::max(1, int(area.width()) - 1))]));
    }
    painter.setFont(uiFont(TextSize::Small));
    for (const HeatScale::Alarm& alarm : scale_.alarms) {
        const double x = std::floor(area.left() + scale_.position(alarm.value) * area.width()) + 0.5;
        painter.setPen(color(Token::Text));
        painter.drawLine(QPointF(x, area.top() - 3), QPointF(x, area.bottom() + 3));
    }
    painter.setPen(color(Token::Text3));
    const QFontMetricsF metrics(painter.font());
    const QString top = endText();
    painter.drawText(QRectF(area.right() + 4, area.center().y() - 8, width() - area.right() - 4, 16),
                     Qt::AlignLeft | Qt::AlignVCenter, top);
    double last = -1e9;
    for (double value : scale_.ticks) {
        const double position = scale_.position(value);
        QString label = tickText_(value);  // the unit stands at the end of the bar
        const double width = metrics.horizontalAdvance(label);
        const double left = std::max(0.0, area.left() + position * area.width() - width / 2);
        if (left > last + 6 && position < 0.97) {
            painter.drawText(QRectF(left, area.bottom() + 2, width + 2, 15), Qt::AlignLeft | Qt::AlignVCenter, label);
            last = left + width;
        }
    }
}

void ColorBar::mousePressEvent(QMouseEvent* event) {
    const double x = event->position().x();
    grabbed_ = std::fabs(x - bar().left()) < 8 ? -1 : std::fabs(x - bar().right()) < 8 ? 1 : 0;
    grabbedAt_ = x;
}

void ColorBar::mouseMoveEvent(QMouseEvent* event) {
    if (!grabbed_) {
        return;
    }
    const double moved = (event->position().x() - grabbedAt_) / bar().width();
    grabbedAt_ = event->position().x();
    // Pulling an end inwards makes that end's value reach further in: the colours spread over less.
    (grabbed_ < 0 ? scale_.low : scale_.high) = scale_.valueAt(
        std::clamp(grabbed_ < 0 ? moved : 1 + moved, grabbed_ < 0 ? -2.0 : 0.15, grabbed_ < 0 ? 0.85 : 3.0));
    update();
    Q_EMIT scaleChanged(scale_);
}

void ColorBar::mouseReleaseEvent(QMouseEvent*) {
    grabbed_ = 0;
}

void ColorBar::mouseDoubleClickEvent(QMouseEvent*) {
    scale_ = original_;
    update();
    Q_EMIT scaleChanged(scale_);
}

OverviewStrip::OverviewStrip(XLink* link, QWidget* parent) : QWidget(parent), link_(link) {
    setFixedHeight(36);
    setFocusPolicy(Qt::TabFocus);
    setAccessibleName(QStringLiteral("Overview of the whole run with the visible window"));
    connect(link, &XLink::viewChanged, this, qOverload<>(&QWidget::update));
    connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
}

void OverviewStrip::setCells(HeatCells cells, const HeatScale& scale) {
    cells_ = std::move(cells);
    scale_ = scale;
    update();
}

QRectF OverviewStrip::strip() const {
    return QRectF(leftMargin_, 2, std::max(1, width() - leftMargin_ - rightMargin_), 14);
}

double OverviewStrip::stepAt(double x) const {
    const auto extent = link_->extent();
    return extent.low + (x - strip().left()) / strip().width() * std::max(1.0, extent.high - extent.low);
}

double OverviewStrip::xOf(double step) const {
    const auto extent = link_->extent();
    return strip().left() +
           std::clamp((step - extent.low) / std::max(1.0, extent.high - extent.low), 0.0, 1.0) * strip().width();
}

void OverviewStrip::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    const QRectF area = strip();
    const auto extent = link_->extent();
    const double per = std::max(1.0, extent.high - extent.low) / area.width();
    for (int x = 0; x < int(area.width()); ++x) {
        const double from = extent.low + x * per;
        const HeatCell cell = cells_.empty() ? HeatCell() : cells_.pooled(0, from, from + per, scale_);
        const QColor fill = cell.state == CellState::NonFinite ? color(Token::Nonfinite)
                            : cell.state == CellState::Value   ? QColor(scale_.colour(double(cell.value)))
                                                               : color(Token::Raised);
        painter.fillRect(QRectF(area.left() + x, area.top(), 1, area.height()), fill);
    }
    painter.setFont(uiFont(TextSize::Small));
    painter.setPen(color(Token::Text3));
    painter.drawText(QRectF(0, area.top(), area.left() - 7, area.height()), Qt::AlignRight | Qt::AlignVCenter,
                     QStringLiteral("run"));
    const auto view = link_->view();
    const double left = xOf(view.low), right = xOf(view.high);
    QColor shade = color(Token::Panel);
    shade.setAlphaF(0.45f);
    painter.fillRect(QRectF(area.left(), area.top(), left - area.left(), area.height()), shade);
    painter.fillRect(QRectF(right, area.top(), area.right() - right, area.height()), shade);
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setPen(QPen(color(Token::Accent), 1.5));
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(QRectF(left, area.top() - 0.5, std::max(2.0, right - left), area.height() + 1));
    painter.setBrush(color(Token::Accent));
    for (double x : {left, right}) {
        painter.drawRoundedRect(QRectF(x - 2.5, area.center().y() - 5, 5, 10), 2, 2);
    }
    painter.setPen(color(Token::Text3));
    const QFontMetricsF metrics(painter.font());
    const auto label = [&](double x, const QString& text, double& free) {
        const double width = metrics.horizontalAdvance(text),
                     at = std::clamp(x - width / 2, area.left(), area.right() - width);
        if (at >= free) {
            painter.drawText(QRectF(at, area.bottom() + 2, width + 2, 15), Qt::AlignLeft | Qt::AlignVCenter, text);
            free = at + width + 10;
        }
    };
    double free = 0;
    label(area.left(), formatCount(std::llround(extent.low)), free);
    if (view.low > extent.low) {
        label(left, formatCount(std::llround(view.low)), free);
    }
    label(area.right(), formatCount(std::llround(extent.high)), free);
}

void OverviewStrip::mousePressEvent(QMouseEvent* event) {
    const double x = event->position().x(), left = xOf(link_->view().low), right = xOf(link_->view().high);
    grab_ = std::fabs(x - left) < 6 ? Grab::Low : std::fabs(x - right) < 6 ? Grab::High : Grab::Move;
    grabStep_ = stepAt(x);
    grabView_ = link_->view();
    if (grab_ == Grab::Move && (x < left || x > right)) {  // outside: centre the window here
        const double half = (grabView_.high - grabView_.low) / 2;
        link_->setView(grabStep_ - half, grabStep_ + half);
        grabView_ = link_->view();
    }
}

void OverviewStrip::mouseMoveEvent(QMouseEvent* event) {
    const double moved = stepAt(event->position().x()) - grabStep_;
    switch (grab_) {
        case Grab::Low:
            link_->setView(std::min(grabView_.low + moved, grabView_.high - 4), grabView_.high, false);
            break;
        case Grab::High:
            link_->setView(grabView_.low, std::max(grabView_.high + moved, grabView_.low + 4), false);
            break;
        case Grab::Move:
            link_->setView(grabView_.low + moved, grabView_.high + moved, false);
            break;
        case Grab::None:
            break;
    }
}

void OverviewStrip::mouseReleaseEvent(QMouseEvent*) {
    grab_ = Grab::None;
}
void OverviewStrip::mouseDoubleClickEvent(QMouseEvent*) {
    link_->showAll();
}

void OverviewStrip::keyPressEvent(QKeyEvent* event) {
    const auto view = link_->view();
    const double tenth = (view.high - view.low) / 10;
    switch (event->key()) {
        case Qt::Key_Left:
            link_->pan(-tenth);
            return;
        case Qt::Key_Right:
            link_->pan(tenth);
            return;
        case Qt::Key_0:
            link_->showAll();
            return;
        default:
            QWidget::keyPressEvent(event);
    }
}

HealthGrid::HealthGrid(QWidget* parent) : QWidget(parent) {
    setMouseTracking(true);
    setFocusPolicy(Qt::StrongFocus);
    setAccessibleName(QStringLiteral("FP8 health by layer and tensor"));
    text_ = [](double value) { return formatShare(value); };
    connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
}

void HealthGrid::setCells(const QStringList& layers, const QStringList& linears, const QStringList& roles,
                          std::vector<GridCell> cells, const HeatScale& scale) {
    const bool resized = layers.size() != layers_.size();
    layers_ = layers;
    linears_ = linears;
    roles_ = roles;
    cells_ = std::move(cells);
    scale_ = scale;
    const GridCell* worst = nullptr;
    for (const GridCell& cell : cells_) {
        if (cell.state == CellState::NonFinite ||
            (cell.state == CellState::Value &&
             (!worst || (worst->state == CellState::Value &&
                         scale_.position(double(cell.value)) > scale_.position(double(worst->value)))))) {
            worst = &cell;
        }
    }
    setAccessibleDescription(worst ? QStringLiteral("%1 tensors, worst %2: %3")
                                         .arg(cells_.size())
                                         .arg(worst->name, worst->state == CellState::NonFinite
                                                               ? QStringLiteral("not finite")
                                                               : valueText(*worst))
                                   : QStringLiteral("nothing recorded yet"));
    if (resized) {
        updateGeometry();
    }
    update();
}

QString HealthGrid::valueText(const GridCell& cell) const {
    return cell.text.isEmpty() ? text_(double(cell.value)) : cell.text;
}

void HealthGrid::setMarked(int tensor) {
    marked_ = tensor;
    update();
}

QSize HealthGrid::sizeHint() const {
    return {240, 34 + std::clamp(int(layers_.size()) * 13, 26, 200)};
}

QRectF HealthGrid::cellRect(int layer, int column) const {
    const int roles = std::max(1, int(roles_.size())), linears = std::max(1, int(linears_.size()));
    const double left = 36, top = 32, groupGap = 6;
    const double width = (this->width() - left - (linears - 1) * groupGap) / (linears * roles);
    const double height =
        std::clamp((this->height() - top) / std::max(1.0, double(layers_.size())), 4.0, double(tallest_));
    return QRectF(left + column * width + column / roles * groupGap, top + layer * height, width - 1, height - 1);
}

int HealthGrid::cellAt(const QPointF& position) const {
    const int columns = int(linears_.size() * roles_.size());
    for (int index = 0; index < int(cells_.size()); ++index) {
        if (cellRect(index / columns, index % columns).adjusted(-0.5, -0.5, 0.5, 0.5).contains(position)) {
            return index;
        }
    }
    return -1;
}

void HealthGrid::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    if (linears_.isEmpty() || roles_.isEmpty()) {
        return;
    }
    const int roles = int(roles_.size()), columns = int(linears_.size()) * roles;
    painter.setFont(uiFont(TextSize::Small, true));
    painter.setPen(color(Token::Text2));
    for (int l = 0; l < linears_.size(); ++l) {
        const QRectF first = cellRect(0, l * roles), last = cellRect(0, l * roles + roles - 1);
        painter.drawText(QRectF(first.left() - 4, 0, last.right() - first.left() + 8, 15), Qt::AlignCenter,
                         linears_[l]);
    }
    painter.setFont(uiFont(TextSize::Small));
    painter.setPen(color(Token::Text3));
    for (int c = 0; c < columns; ++c) {
        const QRectF cell = cellRect(0, c);
        painter.drawText(QRectF(cell.left() - 4, 15, cell.width() + 8, 15), Qt::AlignCenter, roles_[c % roles]);
    }
    double lastLabel = -1e9;
    for (int layer = 0; layer < layers_.size(); ++layer) {
        const QRectF row = cellRect(layer, 0);
        if (row.center().y() - lastLabel >= 12) {
            painter.setPen(color(Token::Text3));
            painter.drawText(QRectF(0, row.center().y() - 8, 30, 16), Qt::AlignRight | Qt::AlignVCenter,
                             layers_[layer]);
            lastLabel = row.center().y();
        }
        for (int c = 0; c < columns; ++c) {
            const GridCell& cell = cells_[size_t(layer * columns + c)];
            const QRectF rect = cellRect(layer, c);
            if (cell.tensor < 0) {
                continue;
            }
            if (cell.bf16) {
                painter.fillRect(rect, color(Token::Raised));
                painter.fillRect(QRectF(rect.center().x() - 3, rect.center().y() - 0.5, 6, 1), color(Token::Text3));
            } else if (cell.state == CellState::NonFinite) {
                painter.fillRect(rect, color(Token::Nonfinite));
                painter.setRenderHint(QPainter::Antialiasing);
                painter.setPen(QPen(color(Token::Window), 1.4));
                const QPointF m = rect.center();
                painter.drawLine(m + QPointF(-2.5, -2.5), m + QPointF(2.5, 2.5));
                painter.drawLine(m + QPointF(-2.5, 2.5), m + QPointF(2.5, -2.5));
                painter.setRenderHint(QPainter::Antialiasing, false);
            } else if (cell.state == CellState::Value) {
                painter.fillRect(rect, QColor(scale_.colour(double(cell.value))));
            } else {
                painter.fillRect(rect, color(Token::Raised));
                painter.fillRect(rect, QBrush(color(Token::Disabled), Qt::BDiagPattern));
            }
        }
    }
    painter.setBrush(Qt::NoBrush);
    for (int index = 0; index < int(cells_.size()); ++index) {
        const QRectF rect = cellRect(index / columns, index % columns);
        if (cells_[size_t(index)].tensor == marked_ && marked_ >= 0) {
            painter.setPen(QPen(color(Token::Text), 1.5));
            painter.drawRect(rect.adjusted(-1, -1, 0.5, 0.5));
        }
        if (hasFocus() && index == focus_) {
            painter.setPen(QPen(color(Token::Accent), 1));
            painter.drawRect(rect.adjusted(-1.5, -1.5, 1, 1));
        }
    }
}

void HealthGrid::mouseMoveEvent(QMouseEvent* event) {
    const int index = cellAt(event->position());
    if (index < 0 || cells_[size_t(index)].tensor < 0) {
        Q_EMIT hovered(QString());
        return;
    }
    const GridCell& cell = cells_[size_t(index)];
    const QString value = cell.bf16                            ? QStringLiteral("BF16 by plan")
                          : cell.state == CellState::NonFinite ? QStringLiteral("not finite")
                          : cell.state == CellState::NotProbed ? QStringLiteral("not recorded")
                                                               : valueText(cell);
    Q_EMIT hovered(cell.name + QStringLiteral("  ") + value);
}

void HealthGrid::mousePressEvent(QMouseEvent* event) {
    const int index = cellAt(event->position());
    if (index >= 0 && cells_[size_t(index)].tensor >= 0) {
        focus_ = index;
        Q_EMIT tensorClicked(cells_[size_t(index)].tensor);
    }
}

void HealthGrid::leaveEvent(QEvent*) {
    Q_EMIT hovered(QString());
}

void HealthGrid::keyPressEvent(QKeyEvent* event) {
    const int columns = int(linears_.size() * roles_.size());
    int next = focus_;
    switch (event->key()) {
        case Qt::Key_Left:
            next -= 1;
            break;
        case Qt::Key_Right:
            next += 1;
            break;
        case Qt::Key_Up:
            next -= columns;
            break;
        case Qt::Key_Down:
            next += columns;
            break;
        case Qt::Key_Return:
        case Qt::Key_Space:
            if (focus_ < int(cells_.size()) && cells_[size_t(focus_)].tensor >= 0) {
                Q_EMIT tensorClicked(cells_[size_t(focus_)].tensor);
            }
            return;
        default:
            QWidget::keyPressEvent(event);
            return;
    }
    focus_ = std::clamp(next, 0, std::max(0, int(cells_.size()) - 1));
    if (!cells_.empty()) {
        const GridCell& cell = cells_[size_t(focus_)];
        Q_EMIT hovered(cell.name);
    }
    update();
}

}  // namespace mantissa::gui
