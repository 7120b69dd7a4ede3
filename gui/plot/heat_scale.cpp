#include "gui/plot/heat_scale.h"

#include <algorithm>
#include <cmath>

namespace mantissa::gui {

namespace {

double spaced(HeatSpace space, double value) {
    switch (space) {
        case HeatSpace::Linear:
            return value;
        case HeatSpace::Log10:
            return value > 0 ? std::log10(value) : -400;
        case HeatSpace::Log2:
            return value > 0 ? std::log2(value) : -1100;
    }
    return value;
}

}  // namespace

double HeatScale::position(double value) const {
    if (std::isnan(value)) {
        return 0;
    }
    const double a = spaced(space, low), b = spaced(space, high);
    return a == b ? 0 : std::clamp((spaced(space, value) - a) / (b - a), 0.0, 1.0);
}

double HeatScale::valueAt(double position) const {
    const double a = spaced(space, low), b = spaced(space, high), at = a + position * (b - a);
    return space == HeatSpace::Linear ? at : space == HeatSpace::Log10 ? std::pow(10.0, at) : std::exp2(at);
}

double HeatScale::worse(double a, double b) const {
    if (std::isnan(a) || std::isnan(b)) {
        return std::isnan(a) ? b : a;
    }
    if (symmetric) {
        return std::fabs(b) > std::fabs(a) ? b : a;
    }
    return smallerIsWorse ? std::min(a, b) : std::max(a, b);
}

HeatCell HeatCells::pooled(int row, double from, double to, const HeatScale& scale) const {
    HeatCell cell;
    if (empty() || to <= firstStep || from > lastStep) {
        return cell;
    }
    const double width = columnWidth();
    const int begin = std::clamp(int(std::floor((from - firstStep) / width)), 0, columns - 1);
    const int end = std::clamp(int(std::ceil((to - firstStep) / width)), begin + 1, columns);
    const float* line = values.data() + size_t(row) * size_t(columns);
    double worst = std::numeric_limits<double>::quiet_NaN();
    for (int c = begin; c < end; ++c) {
        worst = scale.worse(worst, double(line[c]));
        if (!nonFinite.empty() && nonFinite[size_t(row) * size_t(columns) + size_t(c)]) {
            cell.state = CellState::NonFinite;
        }
    }
    cell.value = float(worst);
    if (cell.state != CellState::NonFinite && !std::isnan(worst)) {
        cell.state = CellState::Value;
    }
    return cell;
}

void HeatCells::hold(double steps) {
    if (empty()) {
        return;
    }
    const int reach = int(std::ceil(steps / columnWidth()));
    for (int row = 0; row < rows; ++row) {
        float* line = values.data() + size_t(row) * size_t(columns);
        int last = -1;
        float held = 0;
        for (int c = 0; c < columns; ++c) {
            if (!std::isnan(line[c])) {
                last = c;
                held = line[c];
            } else if (last >= 0 && c - last < reach) {
                line[c] = held;
            }
        }
    }
}

}  // namespace mantissa::gui
