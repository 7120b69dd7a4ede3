// Turns a step's numbers into alerts, one for a stretch of steps. The limits of statistics stand in alarm_rules.h.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "engine/config.h"
#include "engine/numerics.h"
#include "engine/trainer.h"
#include "experiments/job/alarm_rules.h"
#include "experiments/spec/run_spec.h"
#include "experiments/store/run_types.h"

namespace mantissa::experiments {

class Alarms {
  public:
    static constexpr int kNeverSteps = 4;  ///< updates after which a scale must have followed its amaxes
    static constexpr int kLossWindow = 64, kLossNeeded = 32;  ///< losses that a jump is measured against
    static constexpr double kLossShare = 0.05;                ///< and at least this share of their mean
    static constexpr int kQuietSteps = 32;              ///< a stretch is over after so many steps without the condition
    static constexpr int64_t kKurtosisReference = 100;  ///< first probed step from here on gives the reference

    Alarms(const engine::PrecisionConfig& precision, std::vector<engine::CatalogueEntry> catalogue,
           const AlarmSpec& limits = {});
    /// Reads the amax window of a tensor as it is; asked only when a scale does not follow it. May be empty.
    std::function<engine::WindowState(int)> window;
    /// Last step in which a few clipped elements are no alert: the weights grow faster than a window follows while the
    /// rate warms up.
    int64_t warmUntil = 0;
    /// Alerts that begin (or turn red) with this step; id and time are left 0. A non-finite loss, norm or tensor gives
    /// one for its stretch.
    std::vector<RunEvent> check(const engine::StepMetrics& metrics);

  private:
    /// Those without a limit stand after the AlarmKinds.
    enum Rule { Frozen = static_cast<int>(AlarmKind::Count), Never, StaleCodes, RuleCount };
    struct State {
        int running = 0, runningRed = 0, quiet = 0;
        int shown = 0;  ///< severity of the stretch so far
    };
    struct Tensor {
        State rules[RuleCount];
        bool updated = false;  ///< a scale has been made from an amax
        int64_t updates = 0;   ///< updates seen
        /// (number of the update, amax) of the entries that can still become the largest of the window, largest first.
        std::deque<std::pair<int64_t, float>> window;
        float lastScale = 0;      ///< of the step before; 0: none
        float kurtosis = 0;       ///< reference
        double largest = 0;       ///< M; 0: not FP8
        std::string layer, name;  ///< name: "mlp.fc1/input"
    };
    int advance(State& state, bool amber, bool red, int steps) const;
    int advance(int index, AlarmKind kind, double value);
    void checkLoss(const engine::StepMetrics& metrics, std::vector<RunEvent>& out);
    void checkDelayed(int index, const engine::TensorNumerics& numerics, const engine::StepMetrics& metrics,
                      std::vector<RunEvent>& out);
    bool frozenByInf(int index, const engine::StepMetrics& metrics, std::vector<RunEvent>& out);
    bool follows(const Tensor& tensor, const engine::TensorNumerics& numerics) const;
    void checkFinite(const engine::StepMetrics& metrics, std::vector<RunEvent>& out);
    void checkTensor(int index, const engine::TensorNumerics& numerics, const engine::StepMetrics& metrics,
                     std::vector<RunEvent>& out);
    RunEvent alert(int index, int64_t step, const char* kind, int severity, std::string text) const;

    engine::PrecisionConfig precision_;
    std::vector<engine::CatalogueEntry> catalogue_;
    AlarmSpec limits_;
    std::vector<Tensor> tensors_;
    std::deque<double> losses_;  ///< finite ones before this step
    State lossState_;
    bool nonFinite_ = false;
};

}  // namespace mantissa::experiments
