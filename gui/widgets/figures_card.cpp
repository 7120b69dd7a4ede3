#include "gui/widgets/figures_card.h"

#include <QApplication>
#include <QClipboard>
#include <QHelpEvent>
#include <QKeyEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>

#include "gui/theme/icons.h"

namespace mantissa::gui {

FiguresCard::FiguresCard(QWidget* parent) : Card(QString(), QString(), parent) {
    setFixedHeight(78);
    setFocusPolicy(Qt::TabFocus);
    setAccessibleName(QStringLiteral("Figures"));
}

void FiguresCard::setFigures(std::vector<Figure> figures) {
    figures_ = std::move(figures);
    QStringList sentence;
    for (const Figure& figure : figures_) {
        sentence << QStringLiteral("%1 %2 %3").arg(figure.label, figure.value, figure.unit) +
                        (figure.meaning.isEmpty() ? QString() : QStringLiteral(", ") + figure.meaning);
    }
    setAccessibleDescription(sentence.join(QStringLiteral("; ")));
    update();
}

void FiguresCard::setStale(const QString& age) {
    if (age != stale_) {
        stale_ = age;
        update();
    }
}

std::vector<double> FiguresCard::edges() const {
    // Natural widths, stretched to the card by equal shares.
    const QFontMetricsF small(uiFont(TextSize::Small)), figure(uiFont(TextSize::Figure, true));
    std::vector<double> widths;
    double sum = 0;
    for (const Figure& f : figures_) {
        const double head = small.horizontalAdvance(f.label) + (f.series >= 0 ? 30 : 0) +
                            (f.badge.isEmpty() ? 0 : small.horizontalAdvance(f.badge) + 30);
        const double number = figure.horizontalAdvance(f.value) + small.horizontalAdvance(f.unit) + 5;
        const double meaning = small.horizontalAdvance(f.meaning) + (f.glyph >= 0 ? 18 : 0);
        widths.push_back(std::max({head, number, meaning}) + 24);
        sum += widths.back();
    }
    std::vector<double> result{0};
    const double each = figures_.empty() ? 0 : width() / double(figures_.size());
    const bool even = std::all_of(widths.begin(), widths.end(), [&](double w) { return w <= each; });
    double x = 0;
    for (double w : widths) {
        x += even ? each : w + (width() - sum) / double(widths.size());
        result.push_back(x);
    }
    return result;
}

void FiguresCard::paintEvent(QPaintEvent* event) {
    Card::paintEvent(event);
    QPainter painter(this);
    const std::vector<double> at = edges();
    const QFont small = uiFont(TextSize::Small), smallStrong = uiFont(TextSize::Small, true),
                big = uiFont(TextSize::Figure, true);
    for (size_t i = 0; i < figures_.size(); ++i) {
        const Figure& figure = figures_[i];
        double left = at[i] + 12;
        const double right = at[i + 1] - 12;
        if (i > 0) {
            painter.setPen(color(Token::Line));
            painter.drawLine(QPointF(at[i] + 0.5, 12), QPointF(at[i] + 0.5, height() - 12));
        }
        double label = left;
        if (figure.series >= 0) {
            paintSample(painter, Theme::instance().series(figure.series), QRectF(left, 13, 22, 10));
            label += 30;
        }
        painter.setFont(figure.series >= 0 ? smallStrong : small);
        painter.setPen(color(figure.series >= 0 ? Token::Text : Token::Text2));
        painter.drawText(QRectF(label, 9, right - label, 17), Qt::AlignLeft | Qt::AlignVCenter, figure.label);
        if (!figure.badge.isEmpty()) {
            painter.setFont(small);
            painter.setPen(color(figure.badgeToken));
            painter.drawText(QRectF(left, 9, right - left, 17), Qt::AlignRight | Qt::AlignVCenter, figure.badge);
            if (figure.badgeGlyph >= 0) {
                const double width = QFontMetricsF(small).horizontalAdvance(figure.badge);
                paintGlyph(painter, Glyph(figure.badgeGlyph), QRectF(right - width - 18, 11, 13, 13),
                           color(figure.badgeToken));
            }
        }
        painter.setFont(big);
        painter.setPen(color(stale_.isEmpty() ? Token::Text : Token::Text3));
        const double valueWidth = QFontMetricsF(big).horizontalAdvance(figure.value);
        painter.drawText(QRectF(left, 26, valueWidth + 2, 28), Qt::AlignLeft | Qt::AlignVCenter, figure.value);
        painter.setFont(small);
        painter.setPen(color(Token::Text3));
        painter.drawText(QRectF(left + valueWidth + 5, 30, right - left, 24), Qt::AlignLeft | Qt::AlignVCenter,
                         figure.unit);
        double meaning = left;
        if (figure.glyph >= 0) {
            paintGlyph(painter, Glyph(figure.glyph), QRectF(left, 55, 13, 13), color(figure.meaningToken));
            meaning += 18;
        }
        painter.setPen(color(figure.meaningToken));
        const QString text = i == 0 && !stale_.isEmpty() ? stale_ : figure.meaning;
        painter.drawText(QRectF(meaning, 53, right - meaning + 8, 17), Qt::AlignLeft | Qt::AlignVCenter, text);
    }
    if (hasFocus()) {
        painter.setPen(color(Token::Accent));
        painter.setBrush(Qt::NoBrush);
        painter.drawRoundedRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5), 6, 6);
    }
}

int FiguresCard::columnAt(double x) const {
    const std::vector<double> at = edges();
    for (size_t i = 0; i + 1 < at.size(); ++i) {
        if (x >= at[i] && x < at[i + 1]) {
            return int(i);
        }
    }
    return -1;
}

bool FiguresCard::event(QEvent* event) {
    if (event->type() == QEvent::ToolTip) {
        auto* help = static_cast<QHelpEvent*>(event);
        const int column = columnAt(help->pos().x());
        if (column >= 0 && !figures_[size_t(column)].tooltip.isEmpty()) {
            QToolTip::showText(help->globalPos(), figures_[size_t(column)].tooltip.toHtmlEscaped(), this);
        } else {
            QToolTip::hideText();
        }
        return true;
    }
    return Card::event(event);
}

void FiguresCard::keyPressEvent(QKeyEvent* event) {
    if (event->matches(QKeySequence::Copy)) {
        QString text;
        for (const Figure& figure : figures_) {
            text += QStringLiteral("%1\t%2\t%3\t%4\n").arg(figure.label, figure.value, figure.unit, figure.meaning);
        }
        QApplication::clipboard()->setText(text);
        return;
    }
    Card::keyPressEvent(event);
}

}  // namespace mantissa::gui
