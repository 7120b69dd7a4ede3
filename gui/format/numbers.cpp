#include "gui/format/numbers.h"

#include <QLocale>
#include <algorithm>
#include <cmath>

namespace mantissa::gui {
namespace {

QString nonFinite(double value) {
    if (std::isnan(value)) return QStringLiteral("NaN");
    return value > 0 ? QStringLiteral("Inf") : QChar(kMinus) + QStringLiteral("Inf");
}

/// C-locale digits ("-12345.678", "1.2e-05") to screen form.
QString toScreen(QString text) {
    QString exponent;
    if (const auto e = text.indexOf(QLatin1Char('e')); e >= 0) {
        exponent =
            QStringLiteral("e") + QString::number(text.mid(e + 1).toInt()).replace(QLatin1Char('-'), QChar(kMinus));
        text.truncate(e);
    }
    QString sign;
    if (text.startsWith(QLatin1Char('-'))) {
        sign = QChar(kMinus);
        text.remove(0, 1);
    }
    auto point = text.indexOf(QLatin1Char('.'));
    QString whole = point < 0 ? text : text.left(point);
    for (auto at = whole.size() - 3; at > 0; at -= 3) whole.insert(at, QChar(kThinSpace));
    if (point >= 0) whole += QLocale().decimalPoint() + text.mid(point + 1);
    return sign + whole + exponent;
}

int magnitude(double value) {
    return static_cast<int>(std::floor(std::log10(std::fabs(value))));
}

}  // namespace

QString notMeasured() {
    return QStringLiteral("\u2013");
}

QString formatNumber(double value, int digits, double smallest) {
    if (!std::isfinite(value)) return nonFinite(value);
    if (value == 0) return QStringLiteral("0");
    if (std::fabs(value) < smallest || std::fabs(value) >= 1e7)
        return toScreen(QString::number(value, 'e', digits - 1));
    int decimals = std::max(0, digits - 1 - magnitude(value));
    const double rounded = std::round(std::fabs(value) * std::pow(10.0, decimals)) / std::pow(10.0, decimals);
    if (rounded > 0 && magnitude(rounded * (1 + 1e-15)) > magnitude(value)) decimals = std::max(0, decimals - 1);
    return toScreen(QString::number(value, 'f', decimals));
}

QString formatSigned(double value, int digits, double smallest) {
    const QString text = formatNumber(value, digits, smallest);
    return value > 0 ? QLatin1Char('+') + text : text;
}

QString formatFixed(double value, int decimals) {
    if (!std::isfinite(value)) return nonFinite(value);
    const QString text = toScreen(QString::number(value, 'f', decimals));
    return std::fabs(value) < 0.5 * std::pow(10.0, -decimals) ? toScreen(QString::number(0.0, 'f', decimals)) : text;
}

QString formatCount(qint64 value) {
    return toScreen(QString::number(value));
}
QString formatLoss(double value) {
    return formatNumber(value, 4);
}
QString formatLossDifference(double value) {
    return formatSigned(value, 2, 1e-5);
}
QString formatScale(double value) {
    return formatNumber(value, 4, 1e-2);
}
QString formatScaleExact(double value) {
    return formatNumber(value, 8, 1e-2);
}

QString formatShare(double share) {
    if (!std::isfinite(share)) return nonFinite(share);
    const double percent = 100 * share;
    const QString unit = QStringLiteral("\u00a0%");
    if (percent == 0) return QStringLiteral("0") + unit;
    if (std::fabs(percent) < 1e-4) return toScreen(QString::number(percent, 'e', 0)) + unit;
    return formatNumber(percent, 2, 0) + unit;
}

QString formatRatio(double ratio) {
    return QStringLiteral("\u00d7") + formatNumber(ratio, 3);
}

QString formatChange(double relative) {
    return formatSigned(100 * relative, 2) + QStringLiteral("\u00a0%");
}

QString formatRate(double perSecond) {
    if (perSecond >= 1e9) return formatNumber(perSecond / 1e9, 4) + QStringLiteral("\u00a0G");
    if (perSecond >= 1e6) return formatNumber(perSecond / 1e6, 4) + QStringLiteral("\u00a0M");
    if (perSecond >= 1e4) return formatNumber(perSecond / 1e3, 4) + QStringLiteral("\u00a0k");
    return formatNumber(perSecond, 4);
}

QString formatShortCount(qint64 value) {
    const double x = static_cast<double>(value);
    const auto trimmed = [](double part, const char* unit) {
        return toScreen(QString::number(part, 'g', 3)) + QChar(u'\u00a0') + QLatin1String(unit);
    };
    if (value >= 1'000'000'000) return trimmed(x / 1e9, "G");
    if (value >= 1'000'000) return trimmed(x / 1e6, "M");
    if (value >= 10'000) return trimmed(x / 1e3, "k");
    return formatCount(value);
}

SizeUnit sizeUnit(double bytes) {
    constexpr double kib = 1024, mib = kib * kib, gib = mib * kib;
    if (bytes >= 0.1 * gib) return {gib, QStringLiteral("GiB")};
    if (bytes >= 0.1 * mib || bytes == 0) return {mib, QStringLiteral("MiB")};
    return {kib, QStringLiteral("KiB")};
}

QString formatSizeIn(double bytes, const SizeUnit& unit) {
    return formatNumber(bytes / unit.bytes, 3);
}

QString formatSize(double bytes) {
    const SizeUnit unit = sizeUnit(bytes);
    return formatSizeIn(bytes, unit) + QChar(u'\u00a0') + unit.name;
}

QString formatMilliseconds(double milliseconds) {
    if (milliseconds >= 1000) return formatNumber(milliseconds / 1000, 3) + QStringLiteral("\u00a0s");
    return formatNumber(milliseconds, 3) + QStringLiteral("\u00a0ms");
}

QString formatDuration(double seconds) {
    if (!std::isfinite(seconds) || seconds < 0) return notMeasured();
    if (seconds < 1 && seconds > 0) return formatNumber(seconds, 1) + QStringLiteral("\u00a0s");
    const qint64 total = std::llround(seconds);
    const auto two = [](qint64 big, const char* bigUnit, qint64 small, const char* smallUnit) {
        QString text = formatCount(big) + QChar(u'\u00a0') + QLatin1String(bigUnit);
        if (small > 0) text += QChar(u'\u00a0') + formatCount(small) + QChar(u'\u00a0') + QLatin1String(smallUnit);
        return text;
    };
    if (total < 60) return two(total, "s", 0, "");
    if (total < 3600) return two(total / 60, "min", total % 60, "s");
    if (total < 86400) return two(total / 3600, "h", total % 3600 / 60, "min");
    return two(total / 86400, "d", total % 86400 / 3600, "h");
}

QString formatTimeLeft(double seconds) {
    if (!std::isfinite(seconds) || seconds < 0) return notMeasured();
    return formatDuration(seconds < 60 ? std::ceil(seconds) : std::round(seconds / 10) * 10);
}

QString exact(double value) {
    if (std::isnan(value)) return QStringLiteral("NaN");
    if (std::isinf(value)) return value > 0 ? QStringLiteral("Infinity") : QStringLiteral("-Infinity");
    return QLocale::c().toString(value, 'g', QLocale::FloatingPointShortest).remove(QLatin1Char(','));
}

std::optional<double> parseNumber(const QString& text) {
    QString clean;
    for (const QChar c : text.trimmed()) {
        if (c.isSpace()) continue;
        clean += c == QChar(kMinus) ? QLatin1Char('-') : c;
    }
    const QString lower = clean.toLower();
    if (lower == QLatin1String("nan")) return std::nan("");
    if (lower == QLatin1String("inf") || lower == QLatin1String("+inf")) return HUGE_VAL;
    if (lower == QLatin1String("-inf")) return -HUGE_VAL;
    if (QLocale().decimalPoint() == QLatin1String(",") && clean.count(QLatin1Char(',')) == 1)
        clean.replace(QLatin1Char(','), QLatin1Char('.'));
    bool ok = false;
    const double value = clean.toDouble(&ok);
    if (!ok || clean.isEmpty()) return std::nullopt;
    return value;
}

std::optional<qint64> parseCount(const QString& text) {
    const auto value = parseNumber(text);
    if (!value || *value != std::floor(*value) || std::fabs(*value) > 9e15) return std::nullopt;
    return static_cast<qint64>(*value);
}

}  // namespace mantissa::gui
