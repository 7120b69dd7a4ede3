#include "gui/widgets/ladder_charts.h"

#include <QApplication>
#include <QClipboard>
#include <QHelpEvent>
#include <QKeyEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "gui/format/numbers.h"
#include "gui/theme/fonts.h"
#include "gui/theme/icons.h"
#include "gui/theme/theme.h"

namespace mantissa::gui {

using experiments::LadderResult;
using experiments::RungResult;
using experiments::RungState;

namespace {

const Token kPhaseTokens[] = {Token::PhaseMatmul, Token::PhaseAttention, Token::PhaseNorm, Token::PhaseOptimizer,
                              Token::PhaseGap};

QStringList phaseNames() {
    return {QStringLiteral("matmul"), QStringLiteral("attention"), QStringLiteral("norm, cast"),
            QStringLiteral("optimizer"), QStringLiteral("gap")};
}

}  // namespace

double phaseSum(const RungResult& rung) {
    return std::accumulate(std::begin(rung.phaseMs), std::end(rung.phaseMs), 0.0);
}

void paintPhases(QPainter& painter, const RungResult& rung, const QRectF& rect, double whole) {
    double x = rect.left();
    for (int phase = 0; phase < experiments::kLadderPhases && whole > 0; ++phase) {
        const double length = rung.phaseMs[phase] / whole * rect.width();
        if (length > 0)
            painter.fillRect(QRectF(x, rect.top(), std::max(0.5, length - 1), rect.height()),
                             color(kPhaseTokens[phase]));
        x += length;
    }
}

QString rungToolTip(const LadderResult& ladder, const RungResult& rung) {
    QString text = QString::fromStdString(rung.title);
    if (rung.state != RungState::Measured)
        return rung.text.empty() ? text : text + QStringLiteral("\n") + QString::fromStdString(rung.text);
    text +=
        QStringLiteral("\n%1 \u00b1 %2: median of %3 timed steps after %4, half the distance between the quartiles")
            .arg(formatMilliseconds(rung.stepMs), rung.hasSpread() ? formatMilliseconds(rung.spreadMs) : notMeasured())
            .arg(rung.timedSteps)
            .arg(ladder.warmup);
    const QStringList names = phaseNames();
    for (int phase = 0; phase < experiments::kLadderPhases; ++phase)
        text += QStringLiteral("\n%1 %2, %3")
                    .arg(names[phase], formatMilliseconds(rung.phaseMs[phase]),
                         formatShare(rung.phaseMs[phase] / std::max(1e-30, phaseSum(rung))));
    text += QStringLiteral("\nMemory %1: all that is allocated before step 0; nothing is allocated later")
                .arg(formatSize(double(rung.planBytes)));
    if (rung.millijoulesPerToken)
        text += QStringLiteral("\n%1 mJ/token: the board's energy counter over the timed steps \u00f7 tokens")
                    .arg(formatNumber(*rung.millijoulesPerToken, 3));
    return text;
}

LastRungs::LastRungs(QWidget* parent) : QWidget(parent) {
    setAccessibleName(tr("The last rungs on their own scale"));
    connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
}

void LastRungs::setLadder(std::shared_ptr<const LadderResult> ladder) {
    ladder_ = std::move(ladder);
    update();
}

void LastRungs::paintEvent(QPaintEvent*) {
    if (!ladder_) return;
    QPainter painter(this);
    std::vector<const RungResult*> rungs;
    double slowest = 0, label = 0;
    painter.setFont(uiFont(TextSize::Body));
    const QFontMetricsF metrics(painter.font());
    const auto nameOf = [](const RungResult& rung) {
        QString name = QString::fromStdString(rung.title);
        return name.remove(QLatin1String("+ ")).remove(QLatin1String("or "));
    };
    for (const RungResult& rung : ladder_->rungs) {
        if (rung.state != RungState::Measured || (rung.key != "bf16" && rung.key.rfind("fp8", 0) != 0)) continue;
        rungs.push_back(&rung);
        slowest = std::max(slowest, phaseSum(rung));
        label = std::max(label, metrics.horizontalAdvance(nameOf(rung)));
    }
    if (rungs.empty()) {
        painter.setPen(color(Token::Text3));
        painter.drawText(rect().adjusted(12, 0, -12, 0), Qt::AlignLeft | Qt::AlignVCenter,
                         tr("BF16 and FP8 appear here once they are measured."));
        return;
    }
    const double number = metrics.horizontalAdvance(QStringLiteral("0000.0")) + 12;
    const double left = 12 + label + 16, right = width() - 12 - number;
    const double row = std::min(34.0, (height() - 26.0) / double(rungs.size()));
    double y = 2;
    for (const RungResult* rung : rungs) {
        painter.setPen(color(Token::Text2));
        painter.setFont(uiFont(TextSize::Body));
        painter.drawText(QRectF(12, y, label + 4, row), Qt::AlignLeft | Qt::AlignVCenter, nameOf(*rung));
        const double bar = std::min(18.0, row - 8);
        paintPhases(painter, *rung, QRectF(left, y + (row - bar) / 2, right - left, bar), slowest);
        painter.setPen(color(Token::Text));
        painter.setFont(uiFont(TextSize::Body, true));
        painter.drawText(QRectF(right, y, number, row), Qt::AlignRight | Qt::AlignVCenter,
                         formatNumber(rung->stepMs, 3));
        y += row;
    }
    painter.setFont(uiFont(TextSize::Small));
    const QFontMetricsF small(painter.font());
    double x = left;
    const QStringList names = phaseNames();
    double total = 0;
    for (const QString& name : names) total += small.horizontalAdvance(name) + 30;
    if (x + total > width()) x = 12;
    for (int phase = 0; phase < names.size(); ++phase) {
        painter.fillRect(QRectF(x, y + 9, 8, 8), color(kPhaseTokens[phase]));
        painter.setPen(color(Token::Text2));
        const double text = small.horizontalAdvance(names[phase]);
        painter.drawText(QRectF(x + 13, y + 4, text + 2, 18), Qt::AlignLeft | Qt::AlignVCenter, names[phase]);
        x += text + 30;
    }
}

WidthChart::WidthChart(QWidget* parent) : QWidget(parent) {
    setFocusPolicy(Qt::StrongFocus);
    setAccessibleName(tr("FP8 over BF16 by width"));
    connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
}

void WidthChart::setCrossover(const experiments::Crossover& crossover, const QString& text) {
    crossover_ = crossover;
    text_ = text;
    setAccessibleDescription(crossover.points.empty() ? text : QString::fromStdString(crossover.text));
    update();
}

QRectF WidthChart::plot() const {
    return QRectF(48, 8, width() - 48 - 16, height() - 8 - 24);
}

std::pair<double, double> WidthChart::range() const {
    double low = 1, high = 1;
    for (const auto& point : crossover_.points)
        low = std::min(low, point.ratio()), high = std::max(high, point.ratio());
    const double room = std::max(0.04, (high - low) * 0.12);
    return {low - room, high + room};
}

QPointF WidthChart::place(const experiments::Crossover::Point& point) const {
    const double first = std::log2(crossover_.points.front().width), last = std::log2(crossover_.points.back().width);
    const double share = last > first ? (std::log2(point.width) - first) / (last - first) : 0.5;
    const auto [low, high] = range();
    const QRectF area = plot();
    return {area.left() + 16 + share * (area.width() - 32),
            area.bottom() - (point.ratio() - low) / (high - low) * area.height()};
}

void WidthChart::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    painter.setFont(uiFont(TextSize::Small));
    const auto ring = [&] {
        if (!hasFocus()) return;
        painter.setPen(color(Token::Accent));
        painter.setBrush(Qt::NoBrush);
        painter.drawRect(QRectF(2.5, 0.5, width() - 5, height() - 3));
    };
    if (crossover_.points.empty()) {
        painter.setPen(color(Token::Text3));
        painter.drawText(rect().adjusted(12, 0, -12, 0), Qt::AlignLeft | Qt::AlignVCenter | Qt::TextWordWrap, text_);
        return ring();
    }
    const QRectF area = plot();
    const auto [low, high] = range();
    const auto yOf = [&, low = low, high = high](double ratio) {
        return std::round(area.bottom() - (ratio - low) / (high - low) * area.height()) + 0.5;
    };
    double step = 0.02;
    for (const double wider : {0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0})
        if ((high - low) / step > area.height() / 28) step = wider;
    for (double tick = std::ceil(low / step) * step; tick <= high; tick += step) {
        painter.setPen(color(Token::Grid));
        painter.drawLine(QPointF(area.left(), yOf(tick)), QPointF(area.right(), yOf(tick)));
        painter.setPen(color(Token::Text3));
        painter.drawText(QRectF(0, yOf(tick) - 8, area.left() - 8, 16), Qt::AlignRight | Qt::AlignVCenter,
                         formatFixed(tick, step < 0.1 ? 2 : 1));
    }
    painter.setPen(color(Token::Line2));
    painter.drawLine(area.bottomLeft(), area.bottomRight());
    painter.setPen(QPen(color(Token::Text2), 1, Qt::DashLine));
    painter.drawLine(QPointF(area.left(), yOf(1)), QPointF(area.right(), yOf(1)));
    const bool above = place(crossover_.points.back()).y() > yOf(1);
    painter.setPen(color(Token::Text2));
    painter.drawText(QRectF(area.right() - 100, yOf(1) + (above ? -17 : 2), 100, 15), Qt::AlignRight | Qt::AlignVCenter,
                     tr("break-even"));
    painter.setRenderHint(QPainter::Antialiasing);
    const SeriesStyle style = Theme::instance().series(1);
    painter.setPen(QPen(style.color, 2));
    for (size_t i = 1; i < crossover_.points.size(); ++i)
        painter.drawLine(place(crossover_.points[i - 1]), place(crossover_.points[i]));
    double free = -1e9;
    for (const auto& point : crossover_.points) {
        const QPointF at = place(point);
        paintMarker(painter, style.marker, at, 3.5, style.color);
        const QString text = formatCount(point.width);
        const double wide = painter.fontMetrics().horizontalAdvance(text);
        const double left = std::clamp(at.x() - wide / 2, 0.0, width() - wide - 4.0);
        if (left < free) continue;
        painter.setPen(color(Token::Text3));
        painter.drawText(QRectF(left, area.bottom() + 4, wide + 4, 18), Qt::AlignLeft | Qt::AlignVCenter, text);
        free = left + wide + 8;
    }
    ring();
}

QString WidthChart::asText() const {
    QString text = QStringLiteral("width\tBF16 ms\tFP8 ms\tFP8 over BF16\n");
    for (const auto& point : crossover_.points)
        text += QStringLiteral("%1\t%2\t%3\t%4\n")
                    .arg(point.width)
                    .arg(exact(point.bf16Ms), exact(point.fp8Ms), exact(point.ratio()));
    return text;
}

void WidthChart::keyPressEvent(QKeyEvent* event) {
    if (event->matches(QKeySequence::Copy))
        QApplication::clipboard()->setText(asText());
    else
        QWidget::keyPressEvent(event);
}

bool WidthChart::event(QEvent* event) {
    if (event->type() != QEvent::ToolTip || crossover_.points.empty()) return QWidget::event(event);
    auto* help = static_cast<QHelpEvent*>(event);
    for (const auto& point : crossover_.points)
        if (std::fabs(place(point).x() - help->pos().x()) < 12) {
            QToolTip::showText(help->globalPos(),
                               tr("d %1: BF16 %2, FP8 %3, \u00d7%4")
                                   .arg(formatCount(point.width), formatMilliseconds(point.bf16Ms),
                                        formatMilliseconds(point.fp8Ms), formatNumber(point.ratio(), 3)),
                               this);
            return true;
        }
    QToolTip::hideText();
    return true;
}

}  // namespace mantissa::gui
