#include "gui/widgets/step_ledger.h"

#include <QHelpEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <numeric>

#include "gui/format/numbers.h"
#include "gui/theme/fonts.h"

namespace mantissa::gui {

namespace {

const Token kPhases[] = {Token::PhaseMatmul, Token::PhaseAttention, Token::PhaseNorm, Token::PhaseOptimizer,
                         Token::PhaseGap};

QStringList phaseNames() {
    return {QStringLiteral("matmul"), QStringLiteral("attention"), QStringLiteral("norm, cast"),
            QStringLiteral("optimizer"), QStringLiteral("gap")};
}

double sum(const LedgerBar& bar) {
    return std::accumulate(bar.parts.begin(), bar.parts.end(), 0.0);
}

}  // namespace

StepLedger::StepLedger(QWidget* parent) : QWidget(parent) {
    setAccessibleName(QStringLiteral("Where a step goes"));
    connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
}

void StepLedger::setTime(std::vector<LedgerBar> bars) {
    bars_ = std::move(bars);
    QStringList text;
    for (const LedgerBar& bar : bars_) {
        QStringList parts;
        for (size_t i = 0; i < bar.parts.size() && i < 5; ++i) {
            parts << QStringLiteral("%1 %2").arg(phaseNames()[int(i)], formatMilliseconds(bar.parts[i]));
        }
        text << QStringLiteral("%1 %2: %3").arg(bar.name, bar.total, parts.join(QStringLiteral(", ")));
    }
    setAccessibleDescription(text.join(QStringLiteral("; ")));
    update();
}

void StepLedger::setMemory(const LedgerBar& bar, const QStringList& categories, const QString& unit) {
    memory_ = bar;
    categories_ = categories;
    memoryUnit_ = unit;
    update();
}

void StepLedger::paintBar(QPainter& painter, const LedgerBar& bar, double y, double labelWidth, double whole,
                          bool memory) {
    painter.setFont(uiFont(TextSize::Small));
    painter.setPen(color(Token::Text2));
    painter.drawText(QRectF(12, y, labelWidth, 14), Qt::AlignLeft | Qt::AlignVCenter, bar.name);
    painter.setFont(uiFont(TextSize::Small, true));
    painter.setPen(color(Token::Text));
    painter.drawText(QRectF(width() - 112, y, 100, 14), Qt::AlignRight | Qt::AlignVCenter, bar.total);
    const double left = 12 + labelWidth + 8, room = std::max(20.0, width() - 12 - 64 - left);
    double x = left;
    for (size_t i = 0; i < bar.parts.size(); ++i) {
        const double length = whole > 0 ? bar.parts[i] / whole * room : 0;
        if (length <= 0) {
            continue;
        }
        const QRectF rect(x, y, std::max(1.0, length - 1), 14);
        painter.fillRect(rect, memory ? Theme::instance().memoryColor(int(i)) : color(kPhases[std::min<size_t>(i, 4)]));
        const QString name = memory ? categories_.value(int(i)) : phaseNames().value(int(i));
        pieces_.push_back({rect, name + QStringLiteral(" ") +
                                     (memory ? formatSize(bar.parts[i]) : formatMilliseconds(bar.parts[i])) +
                                     QStringLiteral(", ") + formatShare(bar.parts[i] / std::max(1e-30, sum(bar)))});
        x += length;
    }
}

double StepLedger::paintLegend(QPainter& painter, const QStringList& names, double y, double left, bool memory) const {
    painter.setFont(uiFont(TextSize::Small));
    const QFontMetricsF metrics(painter.font());
    double x = left;
    for (int i = 0; i < names.size(); ++i) {
        if (names[i].isEmpty()) {
            continue;  // a category that takes no memory
        }
        const double width = metrics.horizontalAdvance(names[i]) + 13;
        if (x > left && x + width > this->width() - 4) {
            x = left;
            y += 15;
        }
        painter.fillRect(QRectF(x, y + 4, 7, 7),
                         memory ? Theme::instance().memoryColor(i) : color(kPhases[std::min(i, 4)]));
        painter.setPen(color(Token::Text2));
        painter.drawText(QRectF(x + 11, y, width, 15), Qt::AlignLeft | Qt::AlignVCenter, names[i]);
        x += width + 10;
    }
    return y + 15;
}

void StepLedger::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    pieces_.clear();
    const QFontMetricsF metrics(uiFont(TextSize::Small));
    double labelWidth = 0, whole = 0;
    for (const LedgerBar& bar : bars_) {
        labelWidth = std::max(labelWidth, metrics.horizontalAdvance(bar.name));
        whole = std::max(whole, sum(bar));
    }
    labelWidth = std::min(labelWidth, width() * 0.3);
    double y = 4;
    for (const LedgerBar& bar : bars_) {
        paintBar(painter, bar, y, labelWidth, whole, false);
        y += 22;
    }
    if (!bars_.empty()) {
        y = paintLegend(painter, phaseNames(), y, 12 + labelWidth + 8, false) + 11;
    } else {
        painter.setFont(uiFont(TextSize::Small));
        painter.setPen(color(Token::Text3));
        painter.drawText(QRectF(12, y, width() - 24, 16), Qt::AlignLeft | Qt::AlignVCenter,
                         QStringLiteral("Phases are measured from the first step on."));
        y += 24;
    }
    if (!memory_.parts.empty()) {
        LedgerBar bar = memory_;
        bar.name = QStringLiteral("Memory, %1").arg(memoryUnit_);
        const double label = metrics.horizontalAdvance(bar.name);
        paintBar(painter, bar, y, label, sum(bar), true);
        paintLegend(painter, categories_, y + 20, 12 + label + 8, true);
    }
}

bool StepLedger::event(QEvent* event) {
    if (event->type() == QEvent::ToolTip) {
        auto* help = static_cast<QHelpEvent*>(event);
        for (const Piece& piece : pieces_) {
            if (piece.rect.contains(help->pos())) {
                QToolTip::showText(help->globalPos(), piece.text.toHtmlEscaped(), this);
                return true;
            }
        }
        QToolTip::hideText();
        return true;
    }
    return QWidget::event(event);
}

}  // namespace mantissa::gui
