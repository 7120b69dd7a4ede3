// Rules that turn a step's numbers into alerts, one for a stretch of steps. Thresholds: suggestion of the diagnostics
// notes (shares of all elements).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config.h"
#include "engine/numerics.h"
#include "engine/trainer.h"
#include "experiments/store/run_types.h"

namespace mantissa::experiments {

class Alarms {
  public:
    static constexpr double kUnderflowAmber = 0.001,
                            kUnderflowRed = 0.05;  ///< of grad_output, for kUnderflowSteps steps running
    static constexpr int kUnderflowSteps = 16;
    static constexpr double kClippedRed =
        0.001;  ///< any clipped element in kClippedSteps steps running: amber; above this share: red
    static constexpr int kClippedSteps = 3;
    static constexpr double kStaleAmber = 2, kStaleRed = 16, kWastedAmber = 1.0 / 16;
    static constexpr int kStaleSteps = 3, kWastedSteps = 16;
    static constexpr int kQuietSteps = 32;  ///< a stretch is over after so many steps without the condition
    static constexpr double kKurtosisFactor = 10;
    static constexpr int64_t kKurtosisReference = 100;  ///< first probed step from here on gives the reference

    Alarms(const engine::PrecisionConfig& precision, std::vector<engine::CatalogueEntry> catalogue);
    /// Alerts that begin (or turn red) with this step; id and time are left 0. A non-finite loss, norm or tensor gives
    /// one for its stretch.
    std::vector<RunEvent> check(const engine::StepMetrics& metrics);

  private:
    enum Rule { Underflow, Clipped, Stale, Wasted, Frozen, Kurtosis, RuleCount };
    struct State {
        int running = 0, runningRed = 0, quiet = 0;
        int shown = 0;  ///< severity of the stretch so far
    };
    struct Tensor {
        State rules[RuleCount];
        bool updated = false;     ///< a scale has been made from an amax
        float kurtosis = 0;       ///< reference
        double largest = 0;       ///< M; 0: not FP8
        std::string layer, name;  ///< name: "mlp.fc1/input"
    };
    int advance(State& state, bool amber, bool red, int steps) const;
    void checkFinite(const engine::StepMetrics& metrics, std::vector<RunEvent>& out);
    void checkTensor(int index, const engine::TensorNumerics& numerics, int64_t step, std::vector<RunEvent>& out);
    RunEvent alert(int index, int64_t step, const char* kind, int severity, std::string text) const;

    engine::PrecisionConfig precision_;
    std::vector<engine::CatalogueEntry> catalogue_;
    std::vector<Tensor> tensors_;
    bool nonFinite_ = false;
};

}  // namespace mantissa::experiments
