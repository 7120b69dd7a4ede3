// The median of one figure over a whole run, however long, in bounded memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace mantissa::experiments {

/// Exact up to kKept values; of more, every second, fourth, ... is kept, evenly over the run. Thread: one at a time.
class RunMedian {
  public:
    static constexpr size_t kKept = 8192;

    void add(double value) {
        if (seen_++ % stride_ != 0) return;
        kept_.push_back(value);
        if (kept_.size() < kKept) return;
        for (size_t i = 0; 2 * i < kKept; ++i) kept_[i] = kept_[2 * i];
        kept_.resize(kKept / 2);
        stride_ *= 2;
    }

    /// The upper median; 0 when nothing was added.
    double median() const {
        if (kept_.empty()) return 0;
        std::vector<double> sorted = kept_;
        const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
        std::nth_element(sorted.begin(), middle, sorted.end());
        return *middle;
    }

  private:
    std::vector<double> kept_;
    size_t seen_ = 0, stride_ = 1;
};

}  // namespace mantissa::experiments
