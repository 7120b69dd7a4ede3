// Runs the rungs of a ladder one after the other, each as a training job of its own, on a thread that waits for them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/trainer.h"
#include "experiments/job/stepper.h"
#include "experiments/ladder/ladder.h"

namespace mantissa::experiments {

struct LadderOptions {
    std::string store;  ///< path of the workspace file
    LadderRequest request;
    engine::DeviceChoice device;
    std::string ladder;  ///< id of a ladder to fill or repeat rungs of; "": a new one. Its request is then used
    std::vector<std::string> only;  ///< keys (with a width: "bf16@512") of the rungs to run; empty: all
    StepperFactory makeStepper;     ///< empty: the engine's. For tests
    std::function<void()> wake;     ///< called on the ladder's thread when progress() changed; must return at once
};

/// Where a ladder is.
struct LadderProgress {
    std::string ladder, rung;  ///< title of the rung that goes
    int done = 0, rungs = 0;   ///< rungs that ended, rungs to run
    int64_t step = 0, steps = 0;
    std::string phase;   ///< "Waiting for cpu: …", "First step"; "" while it steps
    std::string failed;  ///< sentence when the ladder itself could not go on (store)
    bool ended = false, stopped = false;
};

/// Thread: public members from any thread. The destructor stops and joins (at most the step that goes).
class LadderJob {
  public:
    /// Writes the ladder's document, then starts. Throws InvalidConfig (widths, unknown rung), Database.
    explicit LadderJob(LadderOptions options);
    ~LadderJob();
    LadderJob(const LadderJob&) = delete;
    LadderJob& operator=(const LadderJob&) = delete;

    const std::string& id() const;
    void stop();  ///< ends the rung that goes after its step; the others are not run
    LadderProgress progress() const;
    bool ended() const;
    void join();

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace mantissa::experiments
