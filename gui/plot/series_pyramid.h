// One curve's samples with a min/max pyramid over them, so that any range is summed up in microseconds and no sample is
// ever lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace mantissa::gui {

/// What a range of samples holds. min and max are over finite values only (min > max: there is none).
struct RangeSummary {
    float min = std::numeric_limits<float>::infinity();
    float max = -std::numeric_limits<float>::infinity();
    float minPositive = std::numeric_limits<float>::infinity();  ///< smallest finite value > 0, for logarithmic axes
    uint32_t notANumber = 0;
    uint32_t infinite = 0;     ///< +Inf or -Inf
    uint32_t notPositive = 0;  ///< finite and <= 0

    bool hasFinite() const { return min <= max; }
    uint32_t nonFinite() const { return notANumber + infinite; }
    void add(float value);
    void merge(const RangeSummary& other);
};

/// Samples (x, y) in ascending order of x; y may be NaN or Inf. Nodes of 16 samples, of 16 nodes and so on are closed
/// as they fill, so append is O(1) amortised and a query touches at most about 32 nodes a level. 10 M samples take 120
/// MB and 1/8 of that in nodes. Thread: one at a time; a const pyramid may be read by several.
class SeriesPyramid {
  public:
    /// x must be finite and not below the last x; a sample that is gets dropped and false comes back.
    bool append(double x, float y);
    void reserve(size_t samples);
    void clear();

    size_t size() const { return y_.size(); }
    bool empty() const { return y_.empty(); }
    double x(size_t i) const { return x_[i]; }
    float y(size_t i) const { return y_[i]; }
    double firstX() const { return x_.front(); }
    double lastX() const { return x_.back(); }

    /// Summary of the samples [begin, end).
    RangeSummary summary(size_t begin, size_t end) const;
    /// Index of the first sample with x >= value. hint: any earlier answer at or below this one makes the search short.
    size_t lowerBound(double value, size_t hint = 0) const;
    /// A multiple of kBlock near lowerBound(value), at most kBlock - 1 below it; touches no sample while x is uniform.
    size_t blockBound(double value, size_t hint = 0) const;
    static constexpr size_t kBlock = 16;
    /// Index of the sample nearest to x; only when not empty.
    size_t nearest(double x) const;
    /// Index of the largest (or smallest) finite value in [begin, end); end when there is none.
    size_t argExtreme(size_t begin, size_t end, bool largest) const;
    /// How many finite samples of [begin, end) lie above `limit` (above = true) or below it.
    size_t countBeyond(size_t begin, size_t end, float limit, bool above) const;

  private:
    size_t countInNode(size_t level, size_t node, float limit, bool above) const;

    static constexpr size_t kFan = kBlock;
    std::vector<double> x_;
    std::vector<float> y_;
    std::vector<std::vector<RangeSummary>> levels_;  ///< levels_[k][j]: samples j * 16^(k+1) .. (j+1) * 16^(k+1)
    double step_ = 0;                                ///< spacing while uniform_
    bool uniform_ = true;  ///< all x so far are x_[0] + i * step_: indices are computed instead of searched
};

/// Exponential moving average with debias divisor, skipping non-finite samples (they stay gaps of the raw curve only):
/// m = a m + (1 - a) y, w = a w + (1 - a), smoothed = m / w. alpha in [0, 1): 0 copies.
class DebiasedEma {
  public:
    explicit DebiasedEma(double alpha = 0) : alpha_(alpha) {}
    /// The average after y; NaN before the first finite sample.
    float add(float y);
    void reset() { mean_ = weight_ = 0; }
    double alpha() const { return alpha_; }

  private:
    double alpha_ = 0, mean_ = 0, weight_ = 0;
};

/// The smoothed copy of a series, one sample for each raw one.
SeriesPyramid smoothed(const SeriesPyramid& raw, double alpha);

}  // namespace mantissa::gui
