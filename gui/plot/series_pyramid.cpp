#include "gui/plot/series_pyramid.h"

#include <algorithm>
#include <cmath>

namespace mantissa::gui {

void RangeSummary::add(float value) {
    if (std::isnan(value)) {
        ++notANumber;
    } else if (std::isinf(value)) {
        ++infinite;
    } else {
        min = std::min(min, value);
        max = std::max(max, value);
        if (value > 0) {
            minPositive = std::min(minPositive, value);
        } else {
            ++notPositive;
        }
    }
}

void RangeSummary::merge(const RangeSummary& other) {
    min = std::min(min, other.min);
    max = std::max(max, other.max);
    minPositive = std::min(minPositive, other.minPositive);
    notANumber += other.notANumber;
    infinite += other.infinite;
    notPositive += other.notPositive;
}

bool SeriesPyramid::append(double x, float y) {
    if (!std::isfinite(x) || (!x_.empty() && x < x_.back())) {
        return false;
    }
    if (x_.size() == 1) {
        step_ = x - x_.front();
        uniform_ = step_ > 0;
    } else if (uniform_ && x_.size() > 1) {
        uniform_ = x == x_.front() + step_ * double(x_.size());
    }
    x_.push_back(x);
    y_.push_back(y);
    if (y_.size() % kFan != 0) {
        return true;
    }
    RangeSummary node;
    for (size_t i = y_.size() - kFan; i < y_.size(); ++i) {
        node.add(y_[i]);
    }
    for (size_t level = 0;; ++level) {
        if (level == levels_.size()) {
            levels_.emplace_back();
        }
        auto& nodes = levels_[level];
        nodes.push_back(node);
        if (nodes.size() % kFan != 0) {
            return true;
        }
        node = RangeSummary();
        for (size_t i = nodes.size() - kFan; i < nodes.size(); ++i) {
            node.merge(nodes[i]);
        }
    }
}

void SeriesPyramid::reserve(size_t samples) {
    x_.reserve(samples);
    y_.reserve(samples);
}

void SeriesPyramid::clear() {
    *this = SeriesPyramid();
}

RangeSummary SeriesPyramid::summary(size_t begin, size_t end) const {
    RangeSummary result;
    end = std::min(end, y_.size());
    for (size_t i = begin; i < end;) {
        size_t span = 1, level = 0;
        while (level < levels_.size() && i % (span * kFan) == 0 && i + span * kFan <= end) {
            span *= kFan;
            ++level;
        }
        if (level == 0) {
            result.add(y_[i]);
        } else {
            result.merge(levels_[level - 1][i / span]);
        }
        i += span;
    }
    return result;
}

size_t SeriesPyramid::lowerBound(double value, size_t hint) const {
    const size_t n = x_.size();
    if (n == 0 || value <= x_.front()) {
        return 0;
    }
    if (value > x_.back()) {
        return n;
    }
    if (uniform_ && n > 1) {
        size_t i = std::min(n - 1, size_t((value - x_.front()) / step_));
        while (i > 0 && x_[i - 1] >= value) {
            --i;
        }
        while (i < n && x_[i] < value) {
            ++i;
        }
        return i;
    }
    if (hint >= n || x_[hint] >= value) {
        hint = 0;
    }
    size_t low = hint, stride = 1;
    while (low + stride < n && x_[low + stride] < value) {
        low += stride;
        stride *= 2;
    }
    const auto first = x_.begin() + std::ptrdiff_t(low);
    const auto last = x_.begin() + std::ptrdiff_t(std::min(n, low + stride + 1));
    return size_t(std::lower_bound(first, last, value) - x_.begin());
}

size_t SeriesPyramid::blockBound(double value, size_t hint) const {
    const size_t n = x_.size();
    if (!uniform_ || n < 2) {
        return lowerBound(value, hint) / kFan * kFan;
    }
    const double at = (value - x_.front()) / step_;
    return at <= 0 ? 0 : std::min(n, size_t(std::ceil(at))) / kFan * kFan;
}

size_t SeriesPyramid::nearest(double x) const {
    const size_t i = lowerBound(x);
    if (i == 0) {
        return 0;
    }
    if (i == size()) {
        return size() - 1;
    }
    return x - x_[i - 1] <= x_[i] - x ? i - 1 : i;
}

size_t SeriesPyramid::argExtreme(size_t begin, size_t end, bool largest) const {
    end = std::min(end, y_.size());
    const RangeSummary all = summary(begin, end);
    if (!all.hasFinite()) {
        return end;
    }
    const float wanted = largest ? all.max : all.min;
    // Halve towards the first block that holds the value: O(log n) summaries instead of a scan over all samples.
    while (end - begin > kFan) {
        const size_t middle = begin + (end - begin) / 2;
        const RangeSummary left = summary(begin, middle);
        if (left.hasFinite() && (largest ? left.max : left.min) == wanted) {
            end = middle;
        } else {
            begin = middle;
        }
    }
    while (begin < end && y_[begin] != wanted) {
        ++begin;
    }
    return begin;
}

size_t SeriesPyramid::countInNode(size_t level, size_t node, float limit, bool above) const {
    const auto beyond = [&](float value) { return std::isfinite(value) && (above ? value > limit : value < limit); };
    if (level == 0) {
        return beyond(y_[node]) ? 1 : 0;
    }
    const RangeSummary& known = levels_[level - 1][node];
    if (!known.hasFinite() || (above ? known.max <= limit : known.min >= limit)) {
        return 0;
    }
    size_t count = 0;
    for (size_t child = node * kFan; child < (node + 1) * kFan; ++child) {
        count += countInNode(level - 1, child, limit, above);
    }
    return count;
}

size_t SeriesPyramid::countBeyond(size_t begin, size_t end, float limit, bool above) const {
    size_t count = 0;
    end = std::min(end, y_.size());
    for (size_t i = begin; i < end;) {
        size_t span = 1, level = 0;
        while (level < levels_.size() && i % (span * kFan) == 0 && i + span * kFan <= end) {
            span *= kFan;
            ++level;
        }
        count += countInNode(level, i / span, limit, above);
        i += span;
    }
    return count;
}

float DebiasedEma::add(float y) {
    if (std::isfinite(y)) {
        mean_ = alpha_ * mean_ + (1 - alpha_) * double(y);
        weight_ = alpha_ * weight_ + (1 - alpha_);
    }
    return weight_ > 0 ? float(mean_ / weight_) : std::numeric_limits<float>::quiet_NaN();
}

SeriesPyramid smoothed(const SeriesPyramid& raw, double alpha) {
    SeriesPyramid result;
    result.reserve(raw.size());
    DebiasedEma average(alpha);
    for (size_t i = 0; i < raw.size(); ++i) {
        result.append(raw.x(i), average.add(raw.y(i)));
    }
    return result;
}

}  // namespace mantissa::gui
