#include "gui/widgets/format_widgets.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QLocale>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>
#include <cmath>

#include "gui/format/numbers.h"
#include "gui/theme/fonts.h"
#include "gui/theme/theme.h"

namespace mantissa::gui {
namespace {

using experiments::CodedNumber;
using experiments::FormatFacts;
using experiments::formatFacts;
using experiments::NumberFormat;

constexpr int kRow = 30, kHead = 24, kBitWidth = 17, kBitHeight = 22, kBitPitch = 19, kFieldGap = 6, kFormatWidth = 70,
              kMargin = 12;
constexpr int kLineLabel = 60;

QString nameOf(NumberFormat format) {
    return QLatin1String(formatFacts(format).name);
}

QString bitsOf(const CodedNumber& coded) {
    return QString::fromStdString(coded.code.sign + coded.code.exponent + coded.code.fraction);
}

/// Token of a bit's field: sign, exponent, fraction.
Token bitToken(const FormatFacts& facts, int bit) {
    return bit < facts.signBits ? Token::Bad : bit < facts.signBits + facts.exponentBits ? Token::Accent : Token::Ok;
}

int bitX(const FormatFacts& facts, int bit) {
    int x = bit * kBitPitch;
    if (facts.signBits > 0 && bit >= facts.signBits) x += kFieldGap;
    if (bit >= facts.signBits + facts.exponentBits) x += kFieldGap;
    return x;
}

/// Up to 5 digits, zeros at the end cut.
QString errorText(double error) {
    if (error == 0) return QStringLiteral("0");
    QString text = formatSigned(error, 5, 1e-2);
    const auto e = text.indexOf(QLatin1Char('e'));
    QString mantissa = e < 0 ? text : text.left(e), exponent = e < 0 ? QString() : text.mid(e);
    if (mantissa.contains(QLocale().decimalPoint())) {
        while (mantissa.endsWith(QLatin1Char('0'))) mantissa.chop(1);
        if (mantissa.endsWith(QLocale().decimalPoint())) mantissa.chop(1);
    }
    return mantissa + exponent;
}

/// Step of 1, 2 or 5 times a power of ten that gives at most `most` ticks.
double niceStep(double range, int most) {
    const double raw = range / most, power = std::pow(10.0, std::floor(std::log10(raw)));
    for (const double factor : {1.0, 2.0, 5.0})
        if (factor * power >= raw) return factor * power;
    return 10 * power;
}

QStringList cellsOf(NumberFormat format, const CodedNumber& coded) {
    const FormatFacts& facts = formatFacts(format);
    const auto neighbour = [](const std::optional<experiments::FormatCode>& code) {
        return code ? exactText(code->value) : notMeasured();
    };
    return {exactText(coded.value),
            errorText(coded.error),
            std::isnan(coded.relativeError) ? notMeasured()
            : coded.relativeError == 0      ? QStringLiteral("0")
                                            : formatSigned(100 * coded.relativeError, 3) + QStringLiteral("\u00a0%"),
            neighbour(coded.below),
            neighbour(coded.above),
            exactText(facts.largest),
            exactText(facts.smallest)};
}

const char* const kHeads[] = {"Value", "Error", "Relative", "Code below", "Code above", "Largest", "Smallest"};

}  // namespace

QString powerOfTwoText(int exponent) {
    static const char16_t digits[] = u"\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079";
    QString text = QStringLiteral("2");
    if (exponent < 0) text += QChar(u'\u207b');
    for (const QChar c : QString::number(std::abs(exponent))) text += QChar(digits[c.digitValue()]);
    return text;
}

QString exactText(double value) {
    if (!std::isfinite(value) || value == 0) return formatNumber(value, 4);
    int exponent = 0;
    if (std::frexp(value, &exponent) == 0.5 && (exponent - 1 < -8 || exponent - 1 > 30))
        return powerOfTwoText(exponent - 1);
    if (std::fabs(value) >= 1e7 || std::fabs(value) < 1e-4) return formatNumber(value, 4, 1);
    QString text = QString::number(value, 'g', 8);
    if (text.contains(QLatin1Char('e'))) return formatNumber(value, 4, 1);
    const auto point = text.indexOf(QLatin1Char('.'));
    const int decimals = point < 0 ? 0 : static_cast<int>(text.size() - point - 1);
    int digits = decimals;
    for (double whole = std::fabs(value); whole >= 1; whole /= 10) ++digits;
    for (double small = std::fabs(value); small < 0.1 && digits > 1; small *= 10) --digits;
    return formatNumber(value, std::max(1, digits));
}

CodesTable::CodesTable(QWidget* parent) : QWidget(parent) {
    setFocusPolicy(Qt::StrongFocus);
    setAccessibleName(tr("Codes of the number"));
    setToolTip(tr("A click or space flips a bit; arrow keys move"));
    connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
}

void CodesTable::setView(const FormatView& view) {
    view_ = view;
    row_ = std::clamp(row_, 0, std::max(0, static_cast<int>(view.formats.size()) - 1));
    QStringList parts;
    for (int i = 0; i < view.formats.size(); ++i)
        parts << tr("%1 %2").arg(nameOf(view.formats[i]), exactText(view.coded[i].value));
    setAccessibleDescription(parts.join(QStringLiteral(", ")));
    updateGeometry();
    update();
}

QSize CodesTable::sizeHint() const {
    return {bitsLeft() + 16 * kBitPitch + 2 * kFieldGap + 560,
            kHead + kRow * static_cast<int>(view_.formats.size()) + 8};
}

int CodesTable::bitsLeft() const {
    return kMargin + kFormatWidth;
}

QRect CodesTable::bitRect(int row, int bit) const {
    return {bitsLeft() + bitX(formatFacts(view_.formats[row]), bit), kHead + row * kRow + 4, kBitWidth, kBitHeight};
}

/// Right edges of the columns after the code, from the widest text of each.
QVector<int> CodesTable::columnRights() const {
    const QFontMetrics metrics(uiFont(TextSize::Body, true)), small(uiFont(TextSize::Small));
    QVector<int> widths;
    int sum = 0;
    for (int c = 0; c < 7; ++c) {
        int w = small.horizontalAdvance(tr(kHeads[c]));
        for (int i = 0; i < view_.formats.size(); ++i)
            w = std::max(w, metrics.horizontalAdvance(cellsOf(view_.formats[i], view_.coded[i])[c]));
        widths << w;
        sum += w;
    }
    const int left = bitsLeft() + 16 * kBitPitch + 2 * kFieldGap + 12 +
                     QFontMetrics(codeFont()).horizontalAdvance(QStringLiteral("0xFFFF"));
    const int gap = std::max(8, (width() - kMargin - left - sum) / 7);
    QVector<int> rights;
    int at = left;
    for (int w : widths) rights << (at += gap + w);
    return rights;
}

void CodesTable::paintEvent(QPaintEvent*) {
    QPainter p(this);
    const QVector<int> rights = columnRights();
    const int codeLeft = bitsLeft() + 16 * kBitPitch + 2 * kFieldGap + 12;
    p.setFont(uiFont(TextSize::Small));
    p.setPen(color(Token::Text3));
    p.drawText(QRect(kMargin, 0, 100, kHead - 4), Qt::AlignVCenter | Qt::AlignLeft, tr("Format"));
    p.drawText(QRect(bitsLeft(), 0, 300, kHead - 4), Qt::AlignVCenter | Qt::AlignLeft,
               tr("Bits: sign, exponent, fraction"));
    p.drawText(QRect(codeLeft, 0, 60, kHead - 4), Qt::AlignVCenter | Qt::AlignLeft, tr("Code"));
    for (int c = 0; c < 7; ++c)
        p.drawText(QRect(rights[c] - 160, 0, 160, kHead - 4), Qt::AlignVCenter | Qt::AlignRight, tr(kHeads[c]));
    p.fillRect(0, kHead - 2, width(), 1, color(Token::Line));
    for (int r = 0; r < view_.formats.size(); ++r) {
        const CodedNumber& coded = view_.coded[r];
        const FormatFacts& facts = formatFacts(view_.formats[r]);
        const QRect line(0, kHead + r * kRow, width(), kRow);
        p.setFont(uiFont(TextSize::Body, true));
        p.setPen(color(Token::Text));
        p.drawText(line.adjusted(kMargin, 0, 0, 0), Qt::AlignVCenter | Qt::AlignLeft, nameOf(view_.formats[r]));
        const QString bits = bitsOf(coded);
        p.setFont(codeFont());
        for (int b = 0; b < bits.size(); ++b) {
            const QColor edge = color(bitToken(facts, b));
            const bool set = bits[b] == QLatin1Char('1');
            p.setRenderHint(QPainter::Antialiasing);
            p.setPen(QPen(hasFocus() && r == row_ && b == bit_ ? color(Token::Text) : edge,
                          hasFocus() && r == row_ && b == bit_ ? 2 : 1));
            p.setBrush(set ? mix(color(Token::Panel), edge, 0.32) : color(Token::Panel));
            p.drawRoundedRect(QRectF(bitRect(r, b)).adjusted(.5, .5, -.5, -.5), 3, 3);
            p.setPen(color(set ? Token::Text : Token::Text2));
            p.drawText(bitRect(r, b), Qt::AlignCenter, QString(bits[b]));
        }
        p.setPen(color(Token::Text));
        p.drawText(QRect(codeLeft, line.top(), 80, kRow), Qt::AlignVCenter | Qt::AlignLeft,
                   QString::fromStdString(coded.code.hex));
        const QStringList cells = cellsOf(view_.formats[r], coded);
        for (int c = 0; c < 7; ++c) {
            p.setFont(uiFont(TextSize::Body, c == 0));
            const bool lost = c == 2 && (std::fabs(coded.relativeError) >= 0.5 || coded.saturated);
            p.setPen(color(lost ? Token::Warn : c == 0 ? Token::Text : Token::Text2));
            p.drawText(QRect(rights[c] - 200, line.top(), 200, kRow), Qt::AlignVCenter | Qt::AlignRight, cells[c]);
        }
    }
}

void CodesTable::flip(int row, int bit) {
    if (row < 0 || row >= view_.formats.size()) return;
    const int bits = formatFacts(view_.formats[row]).bits;
    if (bit < 0 || bit >= bits) return;
    Q_EMIT codeChosen(view_.formats[row], view_.coded[row].code.code ^ (1u << (bits - 1 - bit)));
}

void CodesTable::mousePressEvent(QMouseEvent* event) {
    for (int r = 0; r < view_.formats.size(); ++r)
        for (int b = 0; b < formatFacts(view_.formats[r]).bits; ++b)
            if (bitRect(r, b).contains(event->position().toPoint())) {
                row_ = r;
                bit_ = b;
                return flip(r, b);
            }
}

void CodesTable::keyPressEvent(QKeyEvent* event) {
    switch (event->key()) {
        case Qt::Key_Left:
            --bit_;
            break;
        case Qt::Key_Right:
            ++bit_;
            break;
        case Qt::Key_Up:
            --row_;
            break;
        case Qt::Key_Down:
            ++row_;
            break;
        case Qt::Key_Space:
            return flip(row_, bit_);
        default:
            return QWidget::keyPressEvent(event);
    }
    row_ = std::clamp(row_, 0, static_cast<int>(view_.formats.size()) - 1);
    bit_ = std::clamp(bit_, 0, formatFacts(view_.formats[row_]).bits - 1);
    update();
}

void CodesTable::focusInEvent(QFocusEvent* event) {
    QWidget::focusInEvent(event);
    update();
}

void CodesTable::focusOutEvent(QFocusEvent* event) {
    QWidget::focusOutEvent(event);
    update();
}

bool CodesTable::event(QEvent* event) {
    if (event->type() == QEvent::ToolTip) {
        const auto* help = static_cast<QHelpEvent*>(event);
        const int row = (help->pos().y() - kHead) / kRow;
        QString text = toolTip();
        if (help->pos().y() >= kHead && row < view_.formats.size()) {
            const FormatFacts& facts = formatFacts(view_.formats[row]);
            const CodedNumber& coded = view_.coded[row];
            text = tr("%1: value %2, error %3\nbias %4, smallest normal %5, largest %6")
                       .arg(nameOf(view_.formats[row]), exact(coded.value), exact(coded.error))
                       .arg(facts.bias)
                       .arg(exact(facts.smallestNormal), exact(facts.largest));
        }
        QToolTip::showText(help->globalPos(), text, this);
        return true;
    }
    return QWidget::event(event);
}

QString CodesTable::asText() const {
    QString text = QStringLiteral("format\tbits\tcode\tvalue\terror\trelative\tbelow\tabove\tlargest\tsmallest\n");
    for (int r = 0; r < view_.formats.size(); ++r) {
        const CodedNumber& c = view_.coded[r];
        const FormatFacts& facts = formatFacts(view_.formats[r]);
        text += QStringList{nameOf(view_.formats[r]),
                            bitsOf(c),
                            QString::fromStdString(c.code.hex),
                            exact(c.value),
                            exact(c.error),
                            exact(c.relativeError),
                            c.below ? exact(c.below->value) : QString(),
                            c.above ? exact(c.above->value) : QString(),
                            exact(facts.largest),
                            exact(facts.smallest)}
                    .join(QLatin1Char('\t')) +
                QLatin1Char('\n');
    }
    return text;
}

NumberLines::NumberLines(QWidget* parent) : QWidget(parent) {
    setAccessibleName(tr("Values around the number"));
    setToolTip(tr("Each tick is one code; the arrow is the rounding error"));
    connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
}

void NumberLines::setView(const FormatView& view) {
    view_ = view;
    updateGeometry();
    update();
}

void NumberLines::paintEvent(QPaintEvent*) {
    if (view_.coded.isEmpty()) return;
    QPainter p(this);
    const double x = view_.coded.first().scaled;
    if (!std::isfinite(x)) {
        p.setFont(uiFont(TextSize::Body));
        p.setPen(color(Token::Text2));
        p.drawText(rect(), Qt::AlignCenter, tr("A number line needs a finite number."));
        return;
    }
    // About four codes of the first format on each side.
    const CodedNumber& first = view_.coded.first();
    double gap = 0;
    if (first.above) gap = std::max(gap, first.above->value - first.code.value);
    if (first.below) gap = std::max(gap, first.code.value - first.below->value);
    if (!(gap > 0) || !std::isfinite(gap)) gap = std::max(std::fabs(x) / 8, 1e-3);
    const double half = std::max(4 * gap, 1.3 * std::fabs(first.code.value - x));
    const int left = kMargin + kLineLabel, right = width() - kMargin - 8;
    const int centre = left + (right - left) / 2;
    p.setPen(QPen(color(Token::Text), 1, Qt::DashLine));
    p.drawLine(centre, 20, centre, height() - 22);
    for (int r = 0; r < view_.formats.size(); ++r) paintLine(p, r, x - half, x + half);  // over the value's line
    p.setFont(uiFont(TextSize::Small, true));
    p.setPen(color(Token::Text));
    p.drawText(QRect(centre - 300, 2, 294, 16), Qt::AlignRight | Qt::AlignVCenter,
               view_.scale == 1 ? exactText(x)
                                : tr("%1 \u00d7 scale %2").arg(exactText(view_.number), formatScale(view_.scale)));
    p.setFont(uiFont(TextSize::Small));
    p.setPen(color(Token::Text3));
    const double step = niceStep(2 * half, 8);
    const int decimals = std::max(0, static_cast<int>(-std::floor(std::log10(step))));
    for (double tick = std::ceil((x - half) / step) * step; tick <= x + half; tick += step) {
        const double at = left + (tick - x + half) / (2 * half) * (right - left);
        const QString text =
            std::fabs(tick) < 1e7 && decimals < 9 ? formatFixed(tick, decimals) : formatNumber(tick, 4);
        p.drawText(QRectF(std::clamp<double>(at - 60, left - 40, right - 80), height() - 18, 120, 16), Qt::AlignCenter,
                   text);
    }
}

void NumberLines::paintLine(QPainter& p, int row, double low, double high) {
    const int left = kMargin + kLineLabel, right = width() - kMargin - 8;
    const double pitch = (height() - 48.0) / static_cast<double>(view_.formats.size());
    const int y = static_cast<int>(30 + row * pitch);
    const auto toX = [&](double value) { return left + (value - low) / (high - low) * (right - left); };
    p.setFont(uiFont(TextSize::Body, true));
    p.setPen(color(Token::Text));
    p.drawText(QRect(kMargin, y - 10, kLineLabel, 20), Qt::AlignVCenter | Qt::AlignLeft, nameOf(view_.formats[row]));
    p.setPen(color(Token::Line2));
    p.drawLine(left, y, right, y);
    uint64_t total = 0;
    const auto codes = experiments::codesBetween(view_.formats[row], low, high, static_cast<size_t>(width()), total);
    if (codes.empty() && total > 0) {
        p.fillRect(QRect(left, y - 6, right - left, 12), mix(color(Token::Panel), color(Token::Text3), 0.45));
        return;
    }
    const CodedNumber& coded = view_.coded[row];
    const bool sparse = total * 70 < static_cast<uint64_t>(right - left);
    const QFontMetrics metrics(uiFont(TextSize::Small));
    for (const auto& code : codes) {
        const double at = toX(code.value);
        const bool chosen = code.code == coded.code.code;
        p.setPen(QPen(color(chosen ? Token::Accent : Token::Text3), chosen ? 2 : sparse ? 2 : 1));
        const int tall = chosen ? 10 : sparse ? 7 : 6;
        p.drawLine(QPointF(at, y - tall), QPointF(at, y + tall));
        if (!sparse) continue;
        p.setFont(uiFont(TextSize::Small, chosen));
        p.setPen(color(chosen ? Token::Accent : Token::Text3));
        const QString text = exactText(code.value);
        const int w = metrics.horizontalAdvance(text) + 8;
        const QRectF label(std::clamp<double>(at - w / 2.0, left - 10, right - w + 8), y + 10, w, 14);
        p.fillRect(label.adjusted(2, 0, -2, 0), color(Token::Panel));  // the value's line does not cross it
        p.drawText(label, Qt::AlignCenter, text);
    }
    const double from = toX(coded.scaled), to = std::clamp(toX(coded.code.value), double(left), double(right));
    if (!std::isfinite(coded.code.value) || std::fabs(to - from) < 4) return;
    p.setPen(QPen(color(Token::Warn), 1.5));
    const double head = to > from ? -5 : 5;
    p.drawLine(QPointF(from, y - 13), QPointF(to, y - 13));
    p.drawLine(QPointF(to, y - 13), QPointF(to + head, y - 17));
    p.drawLine(QPointF(to, y - 13), QPointF(to + head, y - 9));
}

RangeBars::RangeBars(QWidget* parent) : QWidget(parent) {
    setAccessibleName(tr("Range of the formats"));
    setToolTip(tr("log\u2082 of the smallest and largest finite value; hatched: subnormals"));
    connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
}

void RangeBars::setView(const FormatView& view) {
    view_ = view;
    updateGeometry();
    update();
}

namespace {

/// The end of a range as a number, over the line of the value, which so crosses no digit.
void writeEnd(QPainter& p, const QRectF& room, Qt::Alignment side, const QString& text, bool onBar) {
    const double width = QFontMetricsF(p.font()).horizontalAdvance(text) + 6;
    const double from = side & Qt::AlignRight ? room.right() - width + 3 : room.left() - 3;
    if (!onBar) p.fillRect(QRectF(from, room.top(), width, room.height()), color(Token::Panel));
    p.setPen(color(onBar ? Token::OnFill : Token::Text2));
    p.drawText(room, side | Qt::AlignVCenter, text);
}

}  // namespace

void RangeBars::paintEvent(QPaintEvent*) {
    QPainter p(this);
    constexpr double low = -40, high = 20;
    const int left = kMargin + kLineLabel, right = width() - kMargin - 8;
    const auto toX = [&](double log2) {
        return left + (std::clamp(log2, low, high) - low) / (high - low) * (right - left);
    };
    const double pitch = (height() - 34.0) / std::max<double>(1, static_cast<double>(view_.formats.size()));
    const QColor bar = color(Token::Fill);
    for (int r = 0; r < view_.formats.size(); ++r) {
        const FormatFacts& facts = formatFacts(view_.formats[r]);
        const double y = 8 + r * pitch + pitch / 2;
        p.setFont(uiFont(TextSize::Body, true));
        p.setPen(color(Token::Text));
        p.drawText(QRectF(kMargin, y - 10, kLineLabel, 20), Qt::AlignVCenter | Qt::AlignLeft, nameOf(view_.formats[r]));
        const double tiny = std::log2(facts.smallest), normal = std::log2(facts.smallestNormal),
                     top = std::log2(facts.largest);
        p.fillRect(QRectF(toX(normal), y - 6, toX(top) - toX(normal), 12), bar);
        if (toX(tiny) < toX(normal))
            p.fillRect(QRectF(toX(tiny), y - 6, toX(normal) - toX(tiny), 12), QBrush(bar, Qt::BDiagPattern));
    }
    const double x = std::fabs(view_.coded.isEmpty() ? 0 : view_.coded.first().scaled);
    if (x > 0 && std::isfinite(x)) {
        p.setPen(QPen(color(Token::Text), 1, Qt::DashLine));
        p.drawLine(QPointF(toX(std::log2(x)), 2), QPointF(toX(std::log2(x)), height() - 24));
    }
    p.setFont(uiFont(TextSize::Small));
    for (int r = 0; r < view_.formats.size(); ++r) {
        const FormatFacts& facts = formatFacts(view_.formats[r]);
        const double y = 8 + r * pitch + pitch / 2;
        const double tiny = std::log2(facts.smallest), top = std::log2(facts.largest);
        const QString small = powerOfTwoText(static_cast<int>(std::lround(tiny)));
        if (tiny >= low) writeEnd(p, {toX(tiny) - 66, y - 8, 60, 16}, Qt::AlignRight, small, false);
        if (top <= high) writeEnd(p, {toX(top) + 6, y - 8, 80, 16}, Qt::AlignLeft, exactText(facts.largest), false);
        if (tiny < low) writeEnd(p, {left + 8.0, y - 8, 120, 16}, Qt::AlignLeft, tr("to %1").arg(small), true);
        if (top > high)
            writeEnd(p, {right - 128.0, y - 8, 120, 16}, Qt::AlignRight, tr("to %1").arg(exactText(facts.largest)),
                     true);
    }
    p.setPen(color(Token::Text3));
    for (int tick = static_cast<int>(low); tick <= high; tick += 10)
        p.drawText(QRectF(toX(tick) - 30, height() - 20, 60, 16), Qt::AlignCenter, formatNumber(tick, 2));
}

}  // namespace mantissa::gui
