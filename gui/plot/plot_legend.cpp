#include "gui/plot/plot_legend.h"

#include <QPainter>

#include "gui/theme/fonts.h"
#include "gui/theme/icons.h"

namespace mantissa::gui {

PlotLegend::PlotLegend(PlotView* view, QWidget* parent) : QWidget(parent), view_(view) {
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
    setAccessibleName(QStringLiteral("Legend of %1").arg(view->options().title));
    connect(view, &PlotView::legendChanged, this, qOverload<>(&QWidget::update));
    connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
}

QSize PlotLegend::sizeHint() const {
    return {520, 20};
}

void PlotLegend::paintEvent(QPaintEvent*) {
    if (!view_) {
        return;
    }
    QPainter painter(this);
    const QFont plain = uiFont(TextSize::Small), strong = uiFont(TextSize::Small, true);
    const QFontMetricsF metrics(plain), strongMetrics(strong);
    const std::vector<LegendEntry> entries = view_->legend();
    double right = width();
    for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
        const double sample = entry->line ? 20 : 10;
        const double nameWidth = metrics.horizontalAdvance(entry->name);
        const double valueWidth = entry->value.isEmpty() ? 0 : strongMetrics.horizontalAdvance(entry->value) + 6;
        const double left = right - valueWidth - nameWidth - sample - 6;
        if (left < 0) {
            break;
        }
        const double middle = height() / 2.0;
        if (entry->line && entry->marker) {
            paintSample(painter, entry->style, QRectF(left, middle - 5, sample, 10));
        } else if (entry->line) {
            QPen pen(entry->style.color, 2, Qt::SolidLine, Qt::FlatCap);
            if (!entry->style.dash.isEmpty()) {
                pen.setDashPattern({2.5, 1.5});
            }
            painter.setPen(pen);
            painter.drawLine(QPointF(left, middle), QPointF(left + sample, middle));
        } else {
            paintMarker(painter, entry->style.marker, {left + 5, middle}, 3.2, entry->style.color);
        }
        painter.setFont(plain);
        painter.setPen(color(Token::Text2));
        painter.drawText(QRectF(left + sample + 6, 0, nameWidth + 2, height()), Qt::AlignLeft | Qt::AlignVCenter,
                         entry->name);
        if (!entry->value.isEmpty()) {
            painter.setFont(strong);
            painter.setPen(color(Token::Text));
            painter.drawText(QRectF(right - valueWidth, 0, valueWidth, height()), Qt::AlignRight | Qt::AlignVCenter,
                             entry->value);
        }
        right = left - 14;
    }
}

}  // namespace mantissa::gui
