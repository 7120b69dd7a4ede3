// How a statistic becomes a colour: map, ends, direction, alarm thresholds; and what a cell holds.
#pragma once

#include <QString>
#include <cstdint>
#include <limits>
#include <vector>

#include "gui/theme/theme.h"

namespace mantissa::gui {

enum class HeatSpace { Linear, Log10, Log2 };

/// position() is 0 where the map begins and 1 where it ends. Quiet values lie at 0 of the heat map.
struct HeatScale {
    ColorMap map = ColorMap::Heat;
    HeatSpace space = HeatSpace::Log10;
    double low = 1e-5, high = 0.2;  ///< values at positions 0 and 1; low > high: smaller is worse (SQNR)
    bool smallerIsWorse = false;    ///< pooling takes the minimum
    bool symmetric = false;         ///< pooling takes what is farthest from 0
    struct Alarm {
        double value;
        Token token;
    };
    std::vector<Alarm> alarms;
    std::vector<double> ticks;  ///< values with a label under the colour bar
    double position(double value) const;
    double valueAt(double position) const;
    /// A first and the value furthest on towards "worse"; NaN is ignored.
    double worse(double a, double b) const;
    QRgb colour(double value) const { return Theme::instance().mapColor(map, position(value)); }
};

enum class CellState : uint8_t { Value, NotProbed, NonFinite };
struct HeatCell {
    float value = std::numeric_limits<float>::quiet_NaN();
    CellState state = CellState::NotProbed;
};

/// Rows x columns over equal ranges of steps: column c holds the steps from firstStep + c * width on, width = (lastStep
/// - firstStep + 1) / columns. Values NaN: nothing recorded there.
struct HeatCells {
    int rows = 0, columns = 0;
    double firstStep = 1, lastStep = 0;
    std::vector<float> values;       ///< [row * columns + column]
    std::vector<uint8_t> nonFinite;  ///< an Inf or NaN element was counted in one of the steps

    bool empty() const { return rows == 0 || columns == 0; }
    double columnWidth() const { return (lastStep - firstStep + 1) / columns; }
    /// The worst of all steps in [from, to); at least the column that holds `from`. Any non-finite step makes the cell
    /// so.
    HeatCell pooled(int row, double from, double to, const HeatScale& scale) const;
    /// Repeats the last recorded value over empty columns, at most `steps` steps far: statistics probed every N steps
    /// hold until the next.
    void hold(double steps);
};

}  // namespace mantissa::gui
