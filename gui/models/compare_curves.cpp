#include "gui/models/compare_curves.h"

#include <cmath>

namespace mantissa::gui {

double interpolate(const SeriesPyramid& series, double x) {
    if (series.empty() || x < series.firstX() || x > series.lastX()) {
        return NAN;
    }
    const size_t i = series.lowerBound(x);
    const double right = double(series.y(i));
    if (i == 0 || series.x(i) == x) {
        return std::isfinite(right) ? right : NAN;
    }
    const double left = double(series.y(i - 1)), share = (x - series.x(i - 1)) / (series.x(i) - series.x(i - 1));
    return std::isfinite(left) && std::isfinite(right) ? left + (right - left) * share : NAN;
}

CurveGroup meanOf(const std::vector<SharedCurve>& runs) {
    CurveGroup group;
    if (runs.size() == 1) {
        group.mean = runs.front();
        return group;
    }
    auto mean = std::make_shared<SeriesPyramid>(), low = std::make_shared<SeriesPyramid>(),
         high = std::make_shared<SeriesPyramid>();
    for (size_t i = 0; !runs.empty() && i < runs.front()->size(); ++i) {  // the x of the first run
        const double x = runs.front()->x(i);
        double sum = 0, squares = 0;
        for (const SharedCurve& run : runs) {
            sum += interpolate(*run, x);
        }
        const double average = sum / double(runs.size());
        for (const SharedCurve& run : runs) {
            const double gap = interpolate(*run, x) - average;
            squares += gap * gap;
        }
        const double sd = std::sqrt(squares / double(runs.size() - 1));
        mean->append(x, float(average));  // NaN where one of them has none: a gap
        low->append(x, float(average - sd));
        high->append(x, float(average + sd));
    }
    group.mean = mean;
    group.low = low;
    group.high = high;
    return group;
}

CurveGroup differenceOf(const std::vector<std::pair<SharedCurve, SharedCurve>>& pairs, bool ratio) {
    std::vector<SharedCurve> gaps;
    for (const auto& [run, base] : pairs) {
        auto gap = std::make_shared<SeriesPyramid>();
        for (size_t i = 0; i < run->size() && !base->empty(); ++i) {
            const double x = run->x(i), b = interpolate(*base, x), y = double(run->y(i));
            if (x >= base->firstX() && x <= base->lastX()) {
                gap->append(x, float(ratio ? y / b : y - b));
            }
        }
        gaps.push_back(std::move(gap));
    }
    return meanOf(gaps);
}

}  // namespace mantissa::gui
