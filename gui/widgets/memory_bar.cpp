#include "gui/widgets/memory_bar.h"

#include <QPainter>
#include <algorithm>
#include <numeric>

#include "gui/theme/theme.h"

namespace mantissa::gui {

MemoryBar::MemoryBar(QWidget* parent) : QWidget(parent) {
    setFixedHeight(14);
    setMinimumWidth(80);
    setAccessibleName(tr("Memory by category"));
    connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
}

void MemoryBar::setValues(const QVector<double>& bytes, double available) {
    bytes_ = bytes;
    available_ = available;
    update();
}

void MemoryBar::paintEvent(QPaintEvent*) {
    QPainter p(this);
    p.fillRect(rect(), color(Token::Hover));
    const double sum = std::accumulate(bytes_.begin(), bytes_.end(), 0.0);
    const double whole = std::max(sum, available_);
    if (whole <= 0) return;
    double at = 0;
    for (int i = 0; i < bytes_.size(); ++i) {
        const double w = bytes_[i] / whole * width();
        if (w > 0) p.fillRect(QRectF(at, 0, std::max(1.0, w - 1), height()), Theme::instance().memoryColor(i));
        at += w;
    }
    if (available_ <= 0 || sum <= available_) return;
    const double limit = available_ / whole * width();
    p.fillRect(QRectF(limit, 0, width() - limit, height()), QBrush(color(Token::Bad), Qt::BDiagPattern));
    p.fillRect(QRectF(limit, 0, 2, height()), color(Token::Text));
}

}  // namespace mantissa::gui
