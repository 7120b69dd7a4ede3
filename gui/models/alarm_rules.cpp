#include "gui/models/alarm_rules.h"

#include <algorithm>
#include <cmath>

#include "gui/format/numbers.h"

namespace mantissa::gui {

using experiments::AlarmKind;
using experiments::Statistic;

namespace {

QString text(const char* utf8) {
    return QString::fromUtf8(utf8);
}

}  // namespace

const std::vector<StatisticInfo>& shownStatistics() {
    static const std::vector<StatisticInfo> all = {
        {Statistic::UnderflowShare, text("underflow"), text("Underflow"), text("% of elements"),
         text("Elements that are not zero before the cast and ±0 after it, divided by all elements. Half the smallest "
              "subnormal rounds to zero and counts."),
         false, true},
        {Statistic::OverRangeShare, text("over range"), text("Over range"), text("% of elements"),
         text("Elements with |x| × scale above the next float after the largest FP8 value, divided by all elements. "
              "Values that only round down count too."),
         false, true},
        {Statistic::ClippedShare, text("clipped"), text("Clipped"), text("% of elements"),
         text("Elements that round above the largest FP8 value (> 464 in E4M3, ≥ 61 440 in E5M2), divided by all "
              "elements."),
         false, true},
        {Statistic::Amax, text("amax"), text("amax"), text("log₂"),
         text("Largest |x| before the cast. NaN is skipped, an infinity gives infinity."), false, false},
        {Statistic::Scale, text("scale"), text("Scale ×"), text("log₂"),
         text("Multiplier before the cast: stored = x × scale."), false, false},
        {Statistic::Staleness, text("staleness"), text("Staleness"), text("amax now ÷ amax of the scale"),
         text("amax of the step divided by the amax that the scale was made from. Above 1 the largest values clip; "
              "below 1/16 four binades are unused."),
         false, false},
        {Statistic::SqnrDb, text("SQNR"), text("SQNR"), text("dB"),
         text("10·log₁₀(Σx² ÷ Σ(x̂ − x)²). About 31.5 dB in E4M3 and 25.6 dB in E5M2 when healthy; not an alarm, as an "
              "outlier raises it."),
         true, false},
        {Statistic::Kurtosis, text("kurtosis"), text("Kurtosis"), text("raw"),
         text("n·Σx⁴ ÷ (Σx²)², elementwise, not centred. 3 for a normal distribution."), true, false},
        {Statistic::SubnormalShare, text("subnormal"), text("Subnormal"), text("% of elements"),
         text("0 < |stored| < smallest normal, divided by all elements."), false, true},
        {Statistic::ZerosShare, text("zeros"), text("Zeros"), text("% of elements"),
         text("Exact zeros before the cast, divided by all elements."), false, true},
        {Statistic::NanShare, text("NaN"), text("NaN"), text("% of elements"),
         text("NaN before the cast, divided by all elements."), false, true},
        {Statistic::InfShare, text("Inf"), text("Inf"), text("% of elements"),
         text("Infinite elements before the cast, divided by all elements."), false, true},
        {Statistic::UnusedRange, text("unused range"), text("Unused range"), text("binades"),
         text("log₂(largest value ÷ scale) − log₂(amax). Below 0 the largest values clip."), false, false},
        {Statistic::DynamicRange, text("dynamic range"), text("Dynamic range"), text("binades"),
         text("log₂(amax) − log₂(smallest non-zero magnitude)."), true, false},
        {Statistic::MinNonZero, text("smallest"), text("Smallest non-zero"), text("log₂"),
         text("Smallest non-zero magnitude before the cast."), true, false},
        {Statistic::Mse, text("MSE"), text("Mean squared error"), text("log₂"),
         text("Mean of (x̂ − x)² over all elements, in the tensor's own units."), true, false},
        {Statistic::SqnrDb, text("shadow SQNR"), text("Shadow SQNR"), text("dB"),
         text("The product of the step done again in higher precision: 10·log₁₀(Σ exact² ÷ Σ error²) of its output. "
              "Rows of x show fprop, of w wgrad, of dy dgrad."),
         true, false, true}};
    return all;
}

const char* shadowGemm(engine::TensorRole role) {
    return role == engine::TensorRole::Input ? "fprop" : role == engine::TensorRole::Weight ? "wgrad" : "dgrad";
}

QString statisticText(const StatisticInfo& info, double value) {
    if (std::isnan(value)) {
        return notMeasured();
    }
    if (info.share) {
        return formatShare(value);
    }
    switch (info.statistic) {
        case Statistic::Amax:
        case Statistic::Scale:
        case Statistic::MinNonZero:
        case Statistic::Mse:
            return formatScale(value);
        case Statistic::SqnrDb:
            return formatNumber(value, 3) + text(" dB");
        case Statistic::Staleness:
            return value >= 1 || value <= 0 ? formatNumber(value, 3) : text("1/") + formatNumber(1 / value, 3);
        default:
            return formatNumber(value, 3);
    }
}

QString statisticTick(const StatisticInfo& info, double value) {
    if (info.share) {
        return formatNumber(value * 100, 1);
    }
    if (info.statistic == Statistic::Amax || info.statistic == Statistic::Scale ||
        info.statistic == Statistic::MinNonZero || info.statistic == Statistic::Mse) {
        QString exponent = QString::number(std::lround(std::log2(value)));
        const char16_t digits[] = u"⁰¹²³⁴⁵⁶⁷⁸⁹";
        for (QChar& c : exponent) {
            c = c == QLatin1Char('-') ? QChar(u'⁻') : QChar(digits[c.digitValue()]);
        }
        return QStringLiteral("2") + exponent;
    }
    return formatNumber(value, 2);
}

HeatScale heatScale(const StatisticInfo& info, double low, double high) {
    HeatScale scale;
    if (info.share) {
        scale.low = 1e-5;
        scale.high = 0.2;
        scale.ticks = {1e-5, 1e-4, 1e-3, 1e-2, 0.05};
        if (info.statistic == Statistic::UnderflowShare) {
            const auto rule = experiments::alarmRule(AlarmKind::Underflow);
            scale.alarms = {{rule.amber, Token::Warn}, {rule.red, Token::Bad}};
        } else if (info.statistic == Statistic::ClippedShare) {
            const auto rule = experiments::alarmRule(AlarmKind::Clipped);
            scale.alarms = {{rule.amber, Token::Warn}, {rule.red, Token::Bad}};
        }
        return scale;
    }
    switch (info.statistic) {
        case Statistic::Staleness:
            scale.space = HeatSpace::Log2;
            scale.low = 1;
            scale.high = 32;
            scale.ticks = {1, 2, 4, 16};
            scale.alarms = {{experiments::alarmRule(AlarmKind::Stale).amber, Token::Warn},
                            {experiments::alarmRule(AlarmKind::Stale).red, Token::Bad}};
            break;
        case Statistic::SqnrDb:
            scale.space = HeatSpace::Linear;
            scale.low = 35;
            scale.high = 10;
            scale.smallerIsWorse = true;
            scale.ticks = {35, 30, 25, 20, 15};
            break;
        case Statistic::Kurtosis:
            scale.low = 3;
            scale.high = 3e4;
            scale.ticks = {3, 30, 300, 3000};
            break;
        case Statistic::UnusedRange:
        case Statistic::DynamicRange:
            scale.map = ColorMap::Mag;
            scale.space = HeatSpace::Linear;
            scale.low = 0;
            scale.high = info.statistic == Statistic::UnusedRange ? 16 : 40;
            scale.ticks = {0, scale.high / 4, scale.high / 2, scale.high * 3 / 4};
            break;
        default: {
            scale.map = ColorMap::Mag;
            scale.space = HeatSpace::Log2;
            const double a = low > 0 && std::isfinite(low) ? std::floor(std::log2(low)) : -20;
            const double b = high > 0 && std::isfinite(high) ? std::ceil(std::log2(high)) : a + 1;
            scale.low = std::exp2(a);
            scale.high = std::exp2(std::max(b, a + 1));
            const double step = std::max(1.0, std::ceil((b - a) / 4));
            for (double at = a; at <= b; at += step) {
                scale.ticks.push_back(std::exp2(at));
            }
        }
    }
    return scale;
}

namespace {

/// The statistic is a logarithm already: its difference says what the ratio of others says.
bool isLogarithm(const StatisticInfo& info) {
    return info.statistic == Statistic::SqnrDb || info.statistic == Statistic::UnusedRange ||
           info.statistic == Statistic::DynamicRange;
}

}  // namespace

HeatScale differenceScale(const StatisticInfo& info) {
    HeatScale scale;
    scale.map = ColorMap::Div;
    scale.space = HeatSpace::Linear;
    scale.symmetric = true;
    scale.high = info.statistic == Statistic::SqnrDb ? 10 : 4;
    scale.low = -scale.high;
    scale.ticks = {scale.low, scale.low / 2, 0, scale.high / 2};
    return scale;
}

double difference(const StatisticInfo& info, double a, double b) {
    if (std::isnan(a) || std::isnan(b)) {
        return NAN;
    }
    if (isLogarithm(info)) {
        return a == b ? 0 : a - b;
    }
    if (a == b) {
        return 0;
    }
    constexpr double kFar = 64;  // one of them is zero or infinite: beyond the end of every scale
    return std::clamp(std::log2(a) - std::log2(b), -kFar, kFar);
}

QString differenceText(const StatisticInfo& info, double value) {
    if (std::isnan(value)) {
        return notMeasured();
    }
    if (isLogarithm(info)) {
        return formatSigned(value, 3) + (info.statistic == Statistic::SqnrDb ? text(" dB") : text(" binades"));
    }
    return std::fabs(value) >= 64 ? value > 0 ? text("B is 0") : text("A is 0")
                                  : text("×") + formatNumber(std::exp2(value), 3);
}

QString shortLinear(const std::string& linear) {
    const size_t dot = linear.rfind('.');
    return linear.empty() ? text("head")
                          : QString::fromStdString(dot == std::string::npos ? linear : linear.substr(dot + 1));
}

QString tensorTitle(const engine::CatalogueEntry& entry) {
    return QStringLiteral("%1 %2 · %3")
        .arg(QString::fromStdString(entry.layer), shortLinear(entry.linear),
             QLatin1String(engine::roleShortName(entry.role)));
}

QString tensorLongTitle(const engine::CatalogueEntry& entry) {
    const QString linear = entry.linear.empty() ? text("head") : QString::fromStdString(entry.linear);
    return QStringLiteral("%1 · %2 · %3")
        .arg(QString::fromStdString(entry.layer), linear, QLatin1String(engine::roleShortName(entry.role)));
}

bool isFp8(const engine::CatalogueEntry& entry) {
    return entry.format == "e4m3" || entry.format == "e5m2" || entry.format == "e2m1";
}

int alarmLevel(const StatisticInfo& info, engine::TensorRole role, double value) {
    if (std::isnan(value)) {
        return 0;
    }
    switch (info.statistic) {
        case Statistic::UnderflowShare:
            return role == engine::TensorRole::GradOutput
                       ? experiments::alarmLevel(experiments::alarmRule(AlarmKind::Underflow), value)
                       : 0;
        case Statistic::ClippedShare:
            return experiments::alarmLevel(experiments::alarmRule(AlarmKind::Clipped), value);
        case Statistic::Staleness:
            return std::max(
                experiments::alarmLevel(experiments::alarmRule(AlarmKind::Stale), value),
                value > 0 ? experiments::alarmLevel(experiments::alarmRule(AlarmKind::Wasted), 1 / value) : 0);
        default:
            return 0;
    }
}

QString healthText(AlarmKind kind, double standing) {
    switch (kind) {
        case AlarmKind::Clipped:
            return text("clipped ") + formatShare(standing);
        case AlarmKind::Underflow:
            return text("underflow ") + formatShare(standing);
        case AlarmKind::Stale:
            return text("staleness ") + formatNumber(standing, 3);
        case AlarmKind::Wasted:
            return text("staleness 1/") + formatNumber(standing, 3);
        default:
            return text("kurtosis ×") + formatNumber(standing, 2);
    }
}

HeatScale healthScale() {
    HeatScale scale;
    scale.low = 0.01;
    scale.high = 100;
    scale.ticks = {0.01, 0.1, 1, 10};
    scale.alarms = {{1, Token::Warn}};
    return scale;
}

std::vector<Finding> findings(const experiments::RunHealth& health,
                              const std::vector<engine::CatalogueEntry>& catalogue,
                              const std::vector<experiments::RunEvent>& events) {
    std::vector<Finding> result;
    for (size_t i = 0; i < catalogue.size() && i < health.tensors.size(); ++i) {
        const experiments::TensorHealth& tensor = health.tensors[i];
        if (!isFp8(catalogue[i]) || !(tensor.nonFinite || tensor.level > 0)) {
            continue;
        }
        Finding found;
        found.tensor = int(i);
        found.rank = tensor.nonFinite ? 0 : 1 + int(tensor.kind);
        found.level = tensor.nonFinite ? 2 : tensor.level;
        found.value = tensor.ratio;
        found.what = tensor.nonFinite ? text("not finite") : healthText(tensor.kind, tensor.standing);
        const char* alert = tensor.nonFinite ? "non_finite" : experiments::alarmRule(tensor.kind).alert;
        for (auto event = events.rbegin(); event != events.rend(); ++event) {
            if (event->kind == "alert" && event->tensorIndex == int(i) && event->alert == alert) {
                found.since = text("since ") + formatCount(event->step);
                break;
            }
        }
        result.push_back(found);
    }
    std::stable_sort(result.begin(), result.end(), [](const Finding& a, const Finding& b) {
        return a.rank != b.rank ? a.rank < b.rank : a.level != b.level ? a.level > b.level : a.value > b.value;
    });
    return result;
}

const Finding& worstFinding(const std::vector<Finding>& found) {
    return *std::max_element(found.begin(), found.end(), [](const Finding& a, const Finding& b) {
        const bool finiteA = a.rank != 0, finiteB = b.rank != 0;
        return finiteA != finiteB ? finiteA : a.level != b.level ? a.level < b.level : a.value < b.value;
    });
}

}  // namespace mantissa::gui
