// The time of a step where several results may be read at once.
#pragma once

#include <cstddef>
#include <deque>

namespace mantissa::experiments {

/// Mean time of the steps that ended in the last quarter of a second (the newest one counted). The GPU's results are
/// read one step late: a commit that keeps the thread busy makes one step look long and lets the next seem to take no
/// time, while the device worked evenly. Not thread-safe.
class StepClock {
  public:
    static constexpr double kWindowSeconds = 0.25;

    /// elapsed: seconds since the step before. Returns seconds of one step. A step that fills the window by itself (the
    /// first one of a run) stands alone and is not part of later means.
    double add(double elapsed) {
        if (elapsed >= kWindowSeconds) {
            steps_.clear();
            sum_ = 0;
            return elapsed;
        }
        steps_.push_back(elapsed);
        sum_ += elapsed;
        while (steps_.size() > 1 && sum_ - steps_.front() >= kWindowSeconds) {
            sum_ -= steps_.front();
            steps_.pop_front();
        }
        return sum_ / static_cast<double>(steps_.size());
    }

  private:
    std::deque<double> steps_;
    double sum_ = 0;
};

}  // namespace mantissa::experiments
