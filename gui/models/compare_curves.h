// Curves of several runs side by side: mean and spread over seeds, difference and ratio to a baseline. Plain functions.
#pragma once

#include <memory>
#include <vector>

#include "gui/plot/series_pyramid.h"

namespace mantissa::gui {

using SharedCurve = std::shared_ptr<const SeriesPyramid>;

/// Value at x by linear interpolation between finite neighbours; NaN outside the series and beside a non-finite sample.
double interpolate(const SeriesPyramid& series, double x);

struct CurveGroup {
    SharedCurve mean, low, high;  ///< mean ± one sample standard deviation; low and high null for a single run
};
/// Mean over runs at the x of the first one, where all of them have a value. One run: itself.
CurveGroup meanOf(const std::vector<SharedCurve>& runs);

/// (run - baseline) or run / baseline for each pair, at the run's x where both have a value; then mean and spread over
/// the pairs.
CurveGroup differenceOf(const std::vector<std::pair<SharedCurve, SharedCurve>>& pairs, bool ratio);

}  // namespace mantissa::gui
