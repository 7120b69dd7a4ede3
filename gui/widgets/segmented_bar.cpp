#include "gui/widgets/segmented_bar.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QPainter>
#include <QPainterPath>
#include <QToolTip>
#include <algorithm>
#include <vector>

#include "gui/theme/fonts.h"
#include "gui/theme/theme.h"

namespace mantissa::gui {

SegmentedBar::SegmentedBar(const QString& name, const QStringList& segments, QWidget* parent)
    : QWidget(parent), name_(name), segments_(segments) {
    setFixedHeight(28);
    setMouseTracking(true);
    setFocusPolicy(Qt::StrongFocus);
    setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Fixed);
    setAccessibleName(name);
    setAccessibleDescription(segments.value(0));
    connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
}

void SegmentedBar::setCurrent(int index) {
    if (index == current_ || index < 0 || index >= segments_.size()) {
        return;
    }
    current_ = index;
    setAccessibleDescription(segments_[index]);
    update();
    Q_EMIT currentChanged(index);
}

void SegmentedBar::clearCurrent() {
    current_ = -1;
    setAccessibleDescription(QString());
    update();
}

std::vector<double> SegmentedBar::edges() const {
    const QFontMetricsF metrics(uiFont(TextSize::Body, true));  // the chosen one is drawn in it
    double text = 0;
    for (const QString& segment : segments_) {
        text += metrics.horizontalAdvance(segment);
    }
    const double padding =
        std::clamp((width() - 1 - text) / double(std::max<qsizetype>(1, segments_.size())), 8.0, 24.0);
    std::vector<double> result{0};
    for (const QString& segment : segments_) {
        result.push_back(result.back() + metrics.horizontalAdvance(segment) + padding);
    }
    const double over = result.back() - width();
    if (over > 0 && current_ >= 0) {
        const double middle = (result[size_t(current_)] + result[size_t(current_) + 1]) / 2;
        const double shift = std::clamp(middle - width() / 2.0, 0.0, over);
        for (double& x : result) {
            x -= shift;
        }
    }
    return result;
}

QSize SegmentedBar::sizeHint() const {
    const QFontMetricsF metrics(uiFont(TextSize::Body, true));
    double width = 1;
    for (const QString& text : segments_) {
        width += metrics.horizontalAdvance(text) + 24;
    }
    return {int(width) + 1, 28};
}

QSize SegmentedBar::minimumSizeHint() const {
    return {std::min(120, sizeHint().width()), 28};
}

void SegmentedBar::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    const std::vector<double> at = edges();
    const QRectF whole = QRectF(0.5, 0.5, std::min<double>(width(), at.back()) - 1, height() - 1);
    QPainterPath shape;
    shape.addRoundedRect(whole, 4, 4);
    painter.save();
    painter.setClipPath(shape);
    painter.fillRect(rect(), color(Token::Raised));
    for (int i = 0; i < segments_.size(); ++i) {
        const QRectF segment(at[size_t(i)], 0, at[size_t(i) + 1] - at[size_t(i)], height());
        if (i == current_) {
            painter.fillRect(segment, color(Token::Sel));
        } else if (i == hovered_) {
            painter.fillRect(segment, color(Token::Hover));
        }
        painter.setFont(uiFont(TextSize::Body, i == current_));
        painter.setPen(color(i == current_ ? Token::Text : Token::Text2));
        painter.drawText(segment, Qt::AlignCenter, segments_[i]);
        if (i > 0) {
            painter.setPen(color(Token::Line2));
            painter.drawLine(QPointF(std::floor(segment.left()) + 0.5, 0),
                             QPointF(std::floor(segment.left()) + 0.5, height()));
        }
    }
    painter.restore();
    painter.setPen(color(hasFocus() ? Token::Accent : Token::Line2));
    painter.setBrush(Qt::NoBrush);
    painter.drawPath(shape);
}

int SegmentedBar::segmentAt(double x) const {
    const std::vector<double> at = edges();
    for (int i = 0; i < segments_.size(); ++i) {
        if (x >= at[size_t(i)] && x < at[size_t(i) + 1]) {
            return i;
        }
    }
    return -1;
}

void SegmentedBar::mousePressEvent(QMouseEvent* event) {
    setCurrent(segmentAt(event->position().x()));
}

void SegmentedBar::mouseMoveEvent(QMouseEvent* event) {
    hovered_ = segmentAt(event->position().x());
    update();
}

void SegmentedBar::leaveEvent(QEvent*) {
    hovered_ = -1;
    update();
}

void SegmentedBar::keyPressEvent(QKeyEvent* event) {
    if (event->key() == Qt::Key_Left) {
        setCurrent(current_ - 1);
    } else if (event->key() == Qt::Key_Right) {
        setCurrent(current_ + 1);
    } else {
        QWidget::keyPressEvent(event);
    }
}

bool SegmentedBar::event(QEvent* event) {
    if (event->type() == QEvent::ToolTip) {
        auto* help = static_cast<QHelpEvent*>(event);
        const QString text = toolTips_.value(segmentAt(help->pos().x()));
        text.isEmpty() ? QToolTip::hideText() : QToolTip::showText(help->globalPos(), text.toHtmlEscaped(), this);
        return true;
    }
    return QWidget::event(event);
}

}  // namespace mantissa::gui
