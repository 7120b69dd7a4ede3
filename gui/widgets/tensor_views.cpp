#include "gui/widgets/tensor_views.h"

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
#include "gui/plot/axis_scale.h"
#include "gui/theme/fonts.h"

namespace mantissa::gui {

Fp8Range fp8Range(const std::string& format) {
    if (format == "e5m2") {
        return {57344, -14, -16, "E5M2"};
    }
    if (format == "e2m1") {
        return {6, 0, -1, "E2M1"};
    }
    return {448, -6, -9, "E4M3"};
}

namespace {
constexpr int kWords = 28;  ///< two lines above the bars of an amax window
}

AmaxWindowView::AmaxWindowView(QWidget* parent) : QWidget(parent) {
    setFixedHeight(88 + kWords);
    setAccessibleName(QStringLiteral("amax window"));
    connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
}

void AmaxWindowView::setWindow(const experiments::AmaxWindow& window) {
    window_ = window;
    if (window.ruling >= 0 && window.ruling < int(window.entries.size())) {
        setAccessibleDescription(QStringLiteral("%1 entries, %2 at step %3 rules, leaves in %4 updates")
                                     .arg(window.entries.size())
                                     .arg(formatScale(double(window.entries[size_t(window.ruling)])),
                                          formatCount(window.steps[size_t(window.ruling)]),
                                          formatCount(window.leavesIn)));
    } else {
        setAccessibleDescription(QStringLiteral("no entry rules"));
    }
    update();
}

void AmaxWindowView::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    painter.setFont(uiFont(TextSize::Small));
    const QRectF area(2, 8 + kWords, width() - 4, height() - 30 - kWords);
    double low = INFINITY, high = -INFINITY;
    for (float entry : window_.entries) {
        if (std::isfinite(entry) && entry > 0) {
            low = std::min(low, std::log2(double(entry)));
            high = std::max(high, std::log2(double(entry)));
        }
    }
    painter.setPen(color(Token::Text3));
    if (window_.entries.empty() || high < low) {
        painter.drawText(QRectF(rect()), Qt::AlignCenter, QStringLiteral("The window is still empty."));
        return;
    }
    low -= std::max(1.0, (high - low) * 0.15);
    const double span = std::max(1.0, high - low);
    const size_t n = window_.entries.size();
    const double step = area.width() / double(n);
    const double bar = std::max(1.0, std::min(step - 1, 10.0));
    const auto xOf = [&](size_t i) { return area.left() + (double(i) + 0.5) * step; };
    const auto topOf = [&](float entry) {
        return area.bottom() - std::max(1.0, (std::log2(double(entry)) - low) / span * area.height());
    };
    for (size_t i = 0; i < n; ++i) {
        const float entry = window_.entries[i];
        if (!std::isfinite(entry)) {
            painter.setRenderHint(QPainter::Antialiasing);
            painter.setPen(QPen(color(Token::Nonfinite), 1.6));
            const QPointF c(xOf(i), area.top() + 5);
            painter.drawLine(c + QPointF(-3, -3), c + QPointF(3, 3));
            painter.drawLine(c + QPointF(-3, 3), c + QPointF(3, -3));
            painter.setRenderHint(QPainter::Antialiasing, false);
        } else if (entry > 0 && int(i) != window_.ruling) {
            painter.fillRect(QRectF(xOf(i) - bar / 2, topOf(entry), bar, area.bottom() - topOf(entry)),
                             color(Token::Disabled));
        }
    }
    painter.setPen(color(Token::Line2));
    painter.drawLine(QPointF(area.left(), area.bottom() + 0.5), QPointF(area.right(), area.bottom() + 0.5));
    if (window_.ruling >= 0 && window_.ruling < int(n) && std::isfinite(window_.entries[size_t(window_.ruling)])) {
        const size_t r = size_t(window_.ruling);
        const float entry = window_.entries[r];
        const double x = xOf(r), top = topOf(entry);
        const QColor ink = color(Token::Warn);
        painter.fillRect(QRectF(x - std::max(1.5, bar / 2), top, std::max(3.0, bar), area.bottom() - top), ink);
        QPen dashes(ink, 1, Qt::CustomDashLine);
        dashes.setDashPattern({3, 3});
        painter.setPen(dashes);
        painter.drawLine(QPointF(x + 4, top + 0.5), QPointF(area.right(), top + 0.5));
        painter.setPen(color(Token::Text3));
        painter.drawLine(QPointF(area.left(), top + 0.5), QPointF(x - 4, top + 0.5));
        painter.drawLine(QPointF(area.left(), top + 0.5), QPointF(area.left() + 4, top - 3.5));
        painter.drawLine(QPointF(area.left(), top + 0.5), QPointF(area.left() + 4, top + 4.5));
        const QString first =
            QStringLiteral("%1 at step %2 rules").arg(formatScale(double(entry)), formatCount(window_.steps[r]));
        const QString second = window_.frozenFor > 0
                                   ? QStringLiteral("frozen for %1 updates").arg(formatCount(window_.frozenFor))
                                   : QStringLiteral("leaves in %1 updates").arg(formatCount(window_.leavesIn));
        painter.setFont(uiFont(TextSize::Small, true));
        const double width = std::max(QFontMetricsF(painter.font()).horizontalAdvance(first),
                                      QFontMetricsF(uiFont(TextSize::Small)).horizontalAdvance(second));
        const bool leftSide = x + width > area.right();
        const QRectF line(leftSide ? x - width : x - 2, 0, width + 2, 15);  // above all bars
        painter.setPen(color(Token::Text));
        painter.drawText(line, (leftSide ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter, first);
        painter.setFont(uiFont(TextSize::Small));
        painter.setPen(color(Token::Text2));
        painter.drawText(line.translated(0, 15), (leftSide ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter,
                         second);
    }
    painter.setPen(color(Token::Text3));
    const auto oldest = std::find_if(window_.steps.begin(), window_.steps.end(), [](int64_t s) { return s > 0; });
    painter.drawText(
        QRectF(area.left(), area.bottom() + 3, area.width(), 16), Qt::AlignLeft | Qt::AlignVCenter,
        oldest != window_.steps.end() ? QStringLiteral("oldest, step %1").arg(formatCount(*oldest)) : QString());
    painter.drawText(QRectF(area.left(), area.bottom() + 3, area.width(), 16), Qt::AlignRight | Qt::AlignVCenter,
                     QStringLiteral("now"));
}

ExponentsView::ExponentsView(QWidget* parent) : QWidget(parent) {
    setFixedHeight(122);
    setAccessibleName(QStringLiteral("Exponents"));
    connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
}

void ExponentsView::setExponents(const experiments::Exponents& exponents, const Fp8Range& range, double scale,
                                 double amax) {
    exponents_ = exponents;
    range_ = range;
    scale_ = scale > 0 ? scale : 1;
    amax_ = amax;
    update();
}

void ExponentsView::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    painter.setFont(uiFont(TextSize::Small));
    const QRectF area(4, 20, width() - 8, height() - 40);
    const double total = std::accumulate(exponents_.counts.begin(), exponents_.counts.end(), 0.0);
    if (total <= 0) {
        painter.setPen(color(Token::Text3));
        painter.drawText(QRectF(rect()).adjusted(8, 0, -8, 0), Qt::AlignCenter | Qt::TextWordWrap,
                         QStringLiteral("No histogram was recorded up to this step."));
        return;
    }
    const double shift = -std::log2(scale_);
    // Values above half the smallest subnormal round up to it, so the range that survives begins one binade lower.
    const double least = range_.leastSubnormal - 1 + shift, normal = range_.leastNormal + shift,
                 most = std::log2(range_.largest) + shift;
    int first = 0, last = int(exponents_.counts.size()) - 1;
    while (first < last && exponents_.counts[size_t(first)] < total * 1e-6) {
        ++first;
    }
    while (last > first && exponents_.counts[size_t(last)] < total * 1e-7) {
        --last;
    }
    const double low = std::min(double(exponents_.firstExponent + first), std::floor(least)) - 1;
    const double high = std::max(double(exponents_.firstExponent + last + 1), std::ceil(most)) + 1;
    const auto xOf = [&](double exponent) { return area.left() + (exponent - low) / (high - low) * area.width(); };
    QColor shade = color(Token::Accent);
    shade.setAlphaF(0.10f);
    painter.fillRect(QRectF(xOf(least), area.top(), xOf(most) - xOf(least), area.height()), shade);
    QColor hatch = color(Token::Accent);
    hatch.setAlphaF(0.45f);
    painter.fillRect(QRectF(xOf(least), area.top(), xOf(normal) - xOf(least), area.height()),
                     QBrush(hatch, Qt::BDiagPattern));
    // A bin that only begins where the range ends holds values above it when amax says so.
    const bool beyond = amax_ * scale_ > range_.largest * (1 + 1e-6);
    double tallest = 0, below = 0, above = 0;
    for (size_t i = 0; i < exponents_.counts.size(); ++i) {
        tallest = std::max(tallest, double(exponents_.counts[i]));
        const double exponent = exponents_.firstExponent + double(i);
        if (exponent + 1 <= least) {
            below += double(exponents_.counts[i]);
        } else if (exponent >= most && beyond) {
            above += double(exponents_.counts[i]);
        }
    }
    for (int i = first; i <= last; ++i) {
        const double exponent = exponents_.firstExponent + i;
        const double x = xOf(exponent), width = std::max(1.0, xOf(exponent + 1) - x - 1);
        const double bar = double(exponents_.counts[size_t(i)]) / tallest * (area.height() - 4);
        const Token token = exponent + 1 <= least        ? Token::Warn
                            : exponent >= most && beyond ? Token::Bad
                                                         : Token::Text3;
        painter.fillRect(QRectF(x, area.bottom() - std::max(bar, exponents_.counts[size_t(i)] ? 1.0 : 0.0), width,
                                std::max(bar, exponents_.counts[size_t(i)] ? 1.0 : 0.0)),
                         color(token));
    }
    painter.setPen(QPen(color(Token::Accent), 1.5));
    painter.drawLine(QPointF(xOf(least), area.top()), QPointF(xOf(least), area.bottom()));
    painter.drawLine(QPointF(xOf(most), area.top()), QPointF(xOf(most), area.bottom()));
    painter.setPen(color(Token::Line2));
    painter.drawLine(QPointF(area.left(), area.bottom() + 0.5), QPointF(area.right(), area.bottom() + 0.5));

    painter.setFont(uiFont(TextSize::Small, true));
    const QString belowText = below > 0 ? QStringLiteral("%1 below").arg(formatShare(below / total)) : QString();
    const QString aboveText = above > 0 ? QStringLiteral("%1 above").arg(formatShare(above / total)) : QString();
    const QFontMetricsF metrics(painter.font());
    const double belowWidth = metrics.horizontalAdvance(belowText);
    // A range at the right end of the axis leaves less room than its name takes: both words move to the left then.
    const QString name = QStringLiteral("%1 at this scale").arg(QLatin1String(range_.name));
    const double nameWidth = metrics.horizontalAdvance(name) + 2;
    const double belowLeft =
        std::max(area.left(), std::min(xOf(least) - belowWidth - 4, area.right() - nameWidth - belowWidth - 10));
    painter.setPen(color(Token::Warn));
    painter.drawText(QRectF(belowLeft, 2, belowWidth + 2, 16), Qt::AlignLeft | Qt::AlignVCenter, belowText);
    painter.setPen(color(Token::Bad));
    painter.drawText(QRectF(area.left(), 2, area.width(), 16), Qt::AlignRight | Qt::AlignVCenter, aboveText);
    painter.setFont(uiFont(TextSize::Small));
    painter.setPen(color(Token::Accent));
    const double nameLeft = std::max(std::min(xOf((least + most) / 2) - nameWidth / 2, area.right() - nameWidth),
                                     belowWidth > 0 ? belowLeft + belowWidth + 8 : area.left());
    painter.drawText(QRectF(nameLeft, 2, nameWidth, 16), Qt::AlignLeft | Qt::AlignVCenter, name);

    const double unused = most - std::log2(amax_ > 0 ? amax_ : 1);
    if (amax_ > 0 && unused > 1.5 && xOf(most) - xOf(std::log2(amax_)) > 70) {
        const double a = xOf(std::log2(amax_)), b = xOf(most) - 2, y = area.top() + 16;
        painter.setPen(color(Token::Text2));
        painter.drawLine(QPointF(a, y), QPointF(b, y));
        for (const auto& [x, d] : {std::pair(a, 4.0), std::pair(b, -4.0)}) {
            painter.drawLine(QPointF(x, y), QPointF(x + d, y - 4));
            painter.drawLine(QPointF(x, y), QPointF(x + d, y + 4));
        }
        painter.drawText(QRectF(a, y + 2, b - a, 15), Qt::AlignCenter,
                         QStringLiteral("%1 binades").arg(formatNumber(unused, 3)));
        painter.drawText(QRectF(a, y + 16, b - a, 15), Qt::AlignCenter, QStringLiteral("unused"));
    }
    painter.setPen(color(Token::Text3));
    const auto steps = niceSteps(low, high, 6, true);
    for (double at : steps) {
        if (xOf(at) - 14 < 0 || xOf(at) + 14 > width()) {
            continue;
        }
        painter.drawText(QRectF(xOf(at) - 24, area.bottom() + 3, 48, 15), Qt::AlignCenter, axisNumber(at, 1));
    }
    setAccessibleDescription(
        QStringLiteral("step %1, %2 of the values below the range, %3 above")
            .arg(formatCount(exponents_.step), formatShare(below / total), formatShare(above / total)));
}

FactGrid::FactGrid(QWidget* parent) : QWidget(parent) {
    setFocusPolicy(Qt::TabFocus);
    setAccessibleName(QStringLiteral("Facts about the tensor"));
    connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
}

void FactGrid::setFacts(std::vector<Fact> left, std::vector<Fact> right) {
    left_ = std::move(left);
    right_ = std::move(right);
    setFixedHeight(sizeHint().height());
    setAccessibleDescription(text().replace(QLatin1Char('\n'), QStringLiteral("; ")));
    update();
}

QString FactGrid::text() const {
    QString result;
    for (const auto* column : {&left_, &right_}) {
        for (const Fact& fact : *column) {
            result += fact.name + QLatin1Char(' ') + (fact.copy.isEmpty() ? fact.value : fact.copy) + QLatin1Char('\n');
        }
    }
    return result;
}

QSize FactGrid::sizeHint() const {
    return {320, int(std::max(left_.size(), right_.size())) * 19 + 4};
}

void FactGrid::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    const double half = (width() - 24) / 2.0;
    const auto column = [&](const std::vector<Fact>& facts, double left) {
        double y = 2;
        for (const Fact& fact : facts) {
            painter.setFont(uiFont(TextSize::Body));
            painter.setPen(color(Token::Text2));
            painter.drawText(QRectF(left, y, half, 19), Qt::AlignLeft | Qt::AlignVCenter, fact.name);
            painter.setFont(uiFont(TextSize::Body, fact.token != Token::Text));
            painter.setPen(color(fact.token));
            painter.drawText(QRectF(left, y, half - 6, 19), Qt::AlignRight | Qt::AlignVCenter, fact.value);
            y += 19;
        }
    };
    column(left_, 0);
    column(right_, half + 18);
    painter.setPen(color(Token::Line));
    painter.drawLine(QPointF(std::floor(half + 6) + 0.5, 4), QPointF(std::floor(half + 6) + 0.5, height() - 4));
    if (hasFocus()) {
        painter.setPen(color(Token::Accent));
        painter.drawRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5));
    }
}

void FactGrid::keyPressEvent(QKeyEvent* event) {
    if (event->matches(QKeySequence::Copy)) {
        QApplication::clipboard()->setText(text());
        return;
    }
    QWidget::keyPressEvent(event);
}

bool FactGrid::event(QEvent* event) {
    if (event->type() == QEvent::ToolTip) {
        auto* help = static_cast<QHelpEvent*>(event);
        const auto& facts = help->pos().x() < width() / 2 ? left_ : right_;
        const size_t row = size_t(std::max(0, help->pos().y() - 2) / 19);
        if (row < facts.size() && !facts[row].tooltip.isEmpty()) {
            QToolTip::showText(help->globalPos(), facts[row].tooltip.toHtmlEscaped(), this);
        } else {
            QToolTip::hideText();
        }
        return true;
    }
    return QWidget::event(event);
}

ChipRow::ChipRow(QWidget* parent) : QWidget(parent) {
    setFixedHeight(24);
    connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
}

void ChipRow::setChips(const QStringList& chips, const std::vector<Token>& tokens) {
    chips_ = chips;
    tokens_ = tokens;
    setAccessibleName(chips.join(QStringLiteral(", ")));
    place();
    update();
}

void ChipRow::place() {
    const QFontMetricsF metrics(uiFont(TextSize::Small));
    places_.clear();
    double x = 0.5, y = 2.5;
    for (const QString& chip : chips_) {
        const double wide = metrics.horizontalAdvance(chip) + 18;
        if (x > 1 && x + wide > width()) x = 0.5, y += 24;
        places_.emplace_back(x, y, wide, 19);
        x += wide + 6;
    }
    setFixedHeight(int(y + 21.5));
}

void ChipRow::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setFont(uiFont(TextSize::Small));
    for (int i = 0; i < chips_.size(); ++i) {
        const QRectF& place = places_[size_t(i)];
        const Token token = size_t(i) < tokens_.size() ? tokens_[size_t(i)] : Token::Text2;
        painter.setPen(color(token == Token::Text2 ? Token::Line2 : token));
        painter.setBrush(color(Token::Raised));
        painter.drawRoundedRect(place, 9.5, 9.5);
        painter.setPen(color(token));
        painter.drawText(place, Qt::AlignCenter, chips_[i]);
    }
}

}  // namespace mantissa::gui
