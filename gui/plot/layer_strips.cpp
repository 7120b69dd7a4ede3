#include "gui/plot/layer_strips.h"

#include <QPainter>
#include <algorithm>
#include <cmath>

#include "gui/plot/axis_scale.h"
#include "gui/theme/fonts.h"

namespace mantissa::gui {

LayerStrips::LayerStrips(QWidget* parent) : QWidget(parent) {
    setAccessibleName(QStringLiteral("Underflow of dy by layer and step for each run"));
    connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
}

void LayerStrips::setStrips(std::vector<LayerStrip> strips, const HeatScale& scale, double lastStep) {
    strips_ = std::move(strips);
    scale_ = scale;
    lastStep_ = std::max(1.0, lastStep);
    QStringList names;
    for (const LayerStrip& strip : strips_) {
        names << strip.name;
    }
    setAccessibleDescription(names.join(QStringLiteral(", ")));
    updateGeometry();
    update();
}

void LayerStrips::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    painter.setFont(uiFont(TextSize::Small));
    if (strips_.empty()) {
        painter.setPen(color(Token::Text3));
        painter.drawText(QRectF(12, 0, width() - 24, 20), Qt::AlignLeft | Qt::AlignVCenter,
                         QStringLiteral("None of these runs casts to FP8."));
        return;
    }
    const QFontMetricsF metrics(painter.font());
    double names = 0;
    for (const LayerStrip& strip : strips_) {
        names = std::max(names, metrics.horizontalAdvance(strip.name));
    }
    names = std::min(names, width() * 0.3);
    const double left = 12 + names + 34, right = width() - 12, bottom = height() - 20;
    const double each = std::min(64.0, (bottom - 4) / double(strips_.size()));
    for (size_t s = 0; s < strips_.size(); ++s) {
        const LayerStrip& strip = strips_[s];
        const QRectF area(left, 4 + double(s) * each, right - left, each - 6);
        painter.setPen(color(Token::Text2));
        painter.drawText(QRectF(12, area.center().y() - 8, names, 16), Qt::AlignLeft | Qt::AlignVCenter,
                         metrics.elidedText(strip.name, Qt::ElideMiddle, names));
        painter.setPen(color(Token::Text3));
        if (each > 34) {
            painter.drawText(QRectF(left - 34, area.top() - 2, 29, 14), Qt::AlignRight | Qt::AlignVCenter, strip.first);
            painter.drawText(QRectF(left - 34, area.bottom() - 12, 29, 14), Qt::AlignRight | Qt::AlignVCenter,
                             strip.last);
        }
        const int columns = std::max(1, int(area.width()));
        const double perColumn = lastStep_ / columns;
        const double row = area.height() / std::max(1, strip.cells.rows);
        for (int r = 0; r < strip.cells.rows; ++r) {
            for (int c = 0; c < columns; ++c) {
                const HeatCell cell = strip.cells.pooled(r, 1 + c * perColumn, 1 + (c + 1) * perColumn, scale_);
                const QColor fill = cell.state == CellState::Value       ? QColor(scale_.colour(double(cell.value)))
                                    : cell.state == CellState::NonFinite ? color(Token::Nonfinite)
                                                                         : color(Token::Window);
                painter.fillRect(QRectF(area.left() + c, area.top() + r * row, 1, std::ceil(row)), fill);
            }
        }
    }
    painter.setPen(color(Token::Text3));
    const auto steps = niceSteps(0, lastStep_, 3, true);
    const double step = steps.size() > 1 ? steps[1] - steps[0] : 1;
    for (double at : steps) {
        const double x = left + at / lastStep_ * (right - left);
        painter.drawText(QRectF(std::min(x - 30, width() - 62.0), bottom + 2, 60, 16), Qt::AlignCenter,
                         axisNumber(at, step));
    }
}

}  // namespace mantissa::gui
