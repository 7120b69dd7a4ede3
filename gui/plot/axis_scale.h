// How values lie along an axis: linear, log10 or symmetric log, the ticks, and how a tick is written.
#pragma once

#include <QString>
#include <vector>

namespace mantissa::gui {

enum class ScaleKind { Linear, Log, SymLog, Log2 };

/// A range in axis space: the value itself (Linear), its log10 or log2, or sign(v) * log10(1 + |v| / knee) (SymLog).
struct AxisScale {
    ScaleKind kind = ScaleKind::Linear;
    double low = 0, high = 1;  ///< axis space, low < high
    double knee = 1;           ///< SymLog: where the linear part ends

    bool isLog() const { return kind == ScaleKind::Log || kind == ScaleKind::Log2; }
    /// Axis space of a value; -Inf for what a log axis cannot hold, NaN for NaN.
    double toAxis(double value) const;
    double fromAxis(double position) const;
    /// 0 at low, 1 at high.
    double unit(double value) const { return (toAxis(value) - low) / (high - low); }
    double valueAt(double unit) const { return fromAxis(low + unit * (high - low)); }
    /// Holds [minimum, maximum] (values) with `margin` of the height on both sides; a flat or empty range is padded.
    void fit(double minimum, double maximum, double margin = 0.05);
};

struct Tick {
    double position = 0;  ///< axis space
    QString label;        ///< empty: a grid line alone
};

/// At most about `wanted` ticks in axis space: 1, 2, 5 steps; decades, and 1-2-5 or finer within few decades, on log
/// axes.
std::vector<Tick> ticks(const AxisScale& scale, int wanted, const QString& suffix = {}, bool plusSign = false);
/// Ticks along X: whole numbers when `whole`, none closer than 1 then.
std::vector<double> niceSteps(double low, double high, int wanted, bool whole);

/// A tick's number with the digits that tell it from a tick `step` away.
QString axisNumber(double value, double step);

}  // namespace mantissa::gui
