#include "gui/plot/axis_scale.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "gui/format/numbers.h"

namespace mantissa::gui {

namespace {

double niceStep(double span, int wanted) {
    const double raw = span / std::max(1, wanted);
    const double power = std::pow(10.0, std::floor(std::log10(raw)));
    const double fraction = raw / power;
    const double nice = fraction <= 1.0001 ? 1 : fraction <= 2.0001 ? 2 : fraction <= 5.0001 ? 5 : 10;
    return nice * power;
}

std::vector<Tick> log10Ticks(const AxisScale& scale, int wanted, const QString& suffix) {
    std::vector<Tick> result;
    const double decades = scale.high - scale.low;
    if (decades < 1.2) {  // 1-2-5 would leave one or two lines: take linear steps where they fall
        const double low = std::pow(10.0, scale.low), high = std::pow(10.0, scale.high);
        const double step = niceStep(high - low, wanted);
        for (double v : niceSteps(low, high, wanted, false)) {
            if (v > 0) {
                result.push_back({std::log10(v), axisNumber(v, step) + suffix});
            }
        }
        return result;
    }
    const int stride = std::max(1, int(std::ceil(decades / std::max(2, wanted))));
    const bool fine = decades * 2 < wanted;
    for (int d = int(std::floor(scale.low)); d <= int(std::ceil(scale.high)); ++d) {
        if ((d % stride + stride) % stride != 0) {
            continue;
        }
        for (double factor : {1.0, 2.0, 5.0}) {
            const double position = d + std::log10(factor);
            if ((factor > 1 && !fine) || position < scale.low - 1e-9 || position > scale.high + 1e-9) {
                continue;
            }
            const double value = factor * std::pow(10.0, d);
            const bool plain = d >= -4 && d < 6;
            result.push_back(
                {position, (plain ? axisNumber(value, std::pow(10.0, d)) : formatNumber(value, 1)) + suffix});
        }
    }
    return result;
}

std::vector<Tick> symLogTicks(const AxisScale& scale, int wanted, const QString& suffix) {
    std::vector<Tick> result;
    for (double position : niceSteps(scale.low, scale.high, wanted, true)) {
        const double value = scale.fromAxis(position);
        // Decades of the knee: position k holds knee * (10^k - 1), shown with two digits.
        result.push_back({position, formatNumber(value, 2) + suffix});
    }
    return result;
}

}  // namespace

double AxisScale::toAxis(double value) const {
    switch (kind) {
        case ScaleKind::Linear:
            return value;
        case ScaleKind::Log:
            return value > 0 ? std::log10(value) : value == value ? -std::numeric_limits<double>::infinity() : value;
        case ScaleKind::Log2:
            return value > 0 ? std::log2(value) : value == value ? -std::numeric_limits<double>::infinity() : value;
        case ScaleKind::SymLog:
            return std::copysign(std::log10(1 + std::fabs(value) / knee), value);
    }
    return value;
}

double AxisScale::fromAxis(double position) const {
    switch (kind) {
        case ScaleKind::Linear:
            return position;
        case ScaleKind::Log:
            return std::pow(10.0, position);
        case ScaleKind::Log2:
            return std::exp2(position);
        case ScaleKind::SymLog:
            return std::copysign(knee * (std::pow(10.0, std::fabs(position)) - 1), position);
    }
    return position;
}

void AxisScale::fit(double minimum, double maximum, double margin) {
    double a = toAxis(minimum), b = toAxis(maximum);
    if (!std::isfinite(a) && std::isfinite(b)) {
        a = b - 1;
    }
    if (!std::isfinite(a) || !std::isfinite(b)) {
        a = 0;
        b = 1;
    }
    if (a > b) {
        std::swap(a, b);
    }
    const double tiny = kind == ScaleKind::Linear ? std::max(std::fabs(a), std::fabs(b)) * 1e-6 : 1e-6;
    if (b - a <= tiny) {  // flat: a tenth of the value, or one unit around zero
        const double pad = kind == ScaleKind::Linear ? (a == 0 ? 1.0 : std::fabs(a) * 0.1) : 0.5;
        a -= pad;
        b += pad;
    } else {
        const double pad = (b - a) * margin;
        a -= pad;
        b += pad;
    }
    low = a;
    high = b;
}

std::vector<double> niceSteps(double low, double high, int wanted, bool whole) {
    std::vector<double> result;
    if (!(high > low) || !std::isfinite(high - low)) {
        return result;
    }
    double step = niceStep(high - low, wanted);
    if (whole) {
        step = std::max(1.0, step);
    }
    const double first = std::ceil(low / step - 1e-9);
    for (double k = first; k * step <= high + step * 1e-9 && result.size() < 200; ++k) {
        result.push_back(k == 0 ? 0.0 : k * step);
    }
    return result;
}

namespace {

std::vector<Tick> about(const AxisScale& scale, int wanted, const QString& suffix, bool plusSign) {
    if (scale.kind == ScaleKind::Log) {
        return log10Ticks(scale, wanted, suffix);
    }
    if (scale.kind == ScaleKind::SymLog) {
        return symLogTicks(scale, wanted, suffix);
    }
    // Linear; Log2 shows the exponent itself, as a binade is what its readers count in.
    std::vector<Tick> result;
    const bool whole = scale.kind == ScaleKind::Log2;
    const double step =
        whole ? std::max(1.0, niceStep(scale.high - scale.low, wanted)) : niceStep(scale.high - scale.low, wanted);
    for (double position : niceSteps(scale.low, scale.high, wanted, whole)) {
        const QString sign = plusSign && position > 0 ? QStringLiteral("+") : QString();
        result.push_back({position, sign + axisNumber(position, step) + suffix});
    }
    return result;
}

}  // namespace

std::vector<Tick> ticks(const AxisScale& scale, int wanted, const QString& suffix, bool plusSign) {
    std::vector<Tick> result = about(scale, wanted, suffix, plusSign);
    for (int more = 1; more <= 4 && result.size() < 2; ++more) {  // one number alone is no scale
        result = about(scale, wanted + more, suffix, plusSign);
    }
    return result;
}

QString axisNumber(double value, double step) {
    const double magnitude = std::fabs(value);
    if (value == 0 || magnitude < step * 1e-6) {
        return QStringLiteral("0");
    }
    // Digits down to the step, so that neighbouring ticks are told apart: 3.500 and 3.505.
    const int digits = int(std::floor(std::log10(magnitude) + 1e-9) - std::floor(std::log10(step) + 1e-9)) + 1;
    return formatNumber(value, std::clamp(digits, 1, 12), 1e-5);
}

}  // namespace mantissa::gui
