// Runs of this process, one queue a device: the first runs, the others wait in the order they were added.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "experiments/job/training_job.h"

namespace mantissa::experiments {

/// Thread: all members from one thread (the GUI's, or the main thread of a program).
class RunQueue {
  public:
    struct Item {
        std::string runId, name, device;
        int place = 0;         ///< 0: going; 1: next, …
        std::string waitsFor;  ///< name of the run before it; "" when going
        std::shared_ptr<TrainingJob> job;
    };

    /// Makes the job; it starts at once when the device is free, else it waits (JobPhase says for what). Throws as
    /// TrainingJob.
    std::shared_ptr<TrainingJob> start(const RunSpec& spec, JobOptions options);
    std::vector<Item> items() const;                                    ///< all that have not ended, newest last
    std::shared_ptr<TrainingJob> find(const std::string& runId) const;  ///< null: not a run of this process
    void stopAll();     ///< asks all to stop with a checkpoint; does not wait
    bool idle() const;  ///< nothing going or waiting

  private:
    struct Entry {
        std::shared_ptr<TrainingJob> job;
        std::string device;
    };
    std::vector<Entry> entries_;
};

}  // namespace mantissa::experiments
