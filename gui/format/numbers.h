// How numbers are written on screen: the locale's decimal sign, a thin space between groups of three, a real minus,
// never "0.0000" for a value that is not zero. Files and the clipboard's CSV use exact() instead.
#pragma once

#include <QString>
#include <QtGlobal>
#include <optional>

namespace mantissa::gui {

inline constexpr char16_t kThinSpace = u'\u2009';
inline constexpr char16_t kMinus = u'\u2212';
/// What stands where a number was not measured.
QString notMeasured();

/// `digits` significant digits; whole when |x| >= 10^digits; "3.390e38" from 1e7 on (counts use formatCount) and below
/// `smallest`. 0 is "0", NaN "NaN", infinities "Inf" and "−Inf".
QString formatNumber(double value, int digits, double smallest = 1e-4);
/// formatNumber with "+" or "−" always (0 is "0").
QString formatSigned(double value, int digits, double smallest = 1e-5);
/// `decimals` places after the sign, for axis ticks: all labels of an axis have the same.
QString formatFixed(double value, int decimals);
/// Integer with thin spaces from four digits on: "18 420".
QString formatCount(qint64 value);
/// Loss: 4 digits. Difference of losses: 2 digits, signed.
QString formatLoss(double value);
QString formatLossDifference(double value);
/// amax, scale, scale_inv: 4 digits, exponent below 0.01 ("5.360e−5").
QString formatScale(double value);
/// The same with at least 6 digits for tooltips and copies.
QString formatScaleExact(double value);
/// A share of 1 in percent, 2 digits: "4.6 %", "100 %", below 0.0001 % as "3e−5 %".
QString formatShare(double share);
/// 1.15 -> "×1.15"; -0.11 -> "−11 %".
QString formatRatio(double ratio);
QString formatChange(double relative);
/// 4 digits with k or M: "661.2 k". Unit "tokens/s" is written beside it.
QString formatRate(double perSecond);
/// A count in short form: "40 k", "1.23 M", whole below 10 000.
QString formatShortCount(qint64 value);

/// Sizes in binary units, 3 digits. unit(): "GiB", below 0.1 GiB "MiB", below 0.1 MiB "KiB"; number() in the unit of
/// another size, so that parts of a whole share it.
struct SizeUnit {
    double bytes = 1;
    QString name;
};
SizeUnit sizeUnit(double bytes);
QString formatSizeIn(double bytes, const SizeUnit& unit);
QString formatSize(double bytes);  ///< "11.3 GiB"

/// Step times, 3 digits: "49.6 ms", "1.25 s".
QString formatMilliseconds(double milliseconds);
/// Two units, "17 min 50 s", "2 h 39 min", "3 d 4 h"; seconds below a minute whole.
QString formatDuration(double seconds);
/// As formatDuration, rounded to 10 s from one minute on: for the time left.
QString formatTimeLeft(double seconds);

/// C locale, shortest text that reads back to the same number; "NaN", "Infinity", "-Infinity".
QString exact(double value);

/// Reads what a person types: spaces of any width, the locale's or C's decimal sign, "−", "1e-3". Empty on anything
/// else.
std::optional<double> parseNumber(const QString& text);
std::optional<qint64> parseCount(const QString& text);

}  // namespace mantissa::gui
