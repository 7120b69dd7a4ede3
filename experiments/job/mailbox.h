// The two queues between a job's thread and the rest of the program.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "experiments/job/stepper.h"
#include "experiments/job/training_job.h"

namespace mantissa::experiments {

struct JobCommand {
    enum class Kind : uint8_t { Pause, Resume, Stop, StopNow, Checkpoint, Set, Precision, Capture } kind = Kind::Pause;
    std::vector<SpecSet> sets;          ///< Set
    engine::PrecisionConfig precision;  ///< Precision
    std::string tensor;                 ///< Capture
};

/// Both queues are guarded by `mutex_`. Any thread puts; the job's thread takes commands, one reader takes messages.
class Mailbox {
  public:
    void send(JobCommand command) {
        const std::lock_guard lock(mutex_);
        commands_.push_back(std::move(command));
        arrived_.notify_all();
    }
    std::vector<JobCommand> takeCommands() {
        const std::lock_guard lock(mutex_);
        return std::exchange(commands_, {});
    }
    bool hasCommands() const {
        const std::lock_guard lock(mutex_);
        return !commands_.empty();
    }
    /// Returns at once when a command waits, else after `ms` at the latest.
    void waitForCommand(int ms) {
        std::unique_lock lock(mutex_);
        arrived_.wait_for(lock, std::chrono::milliseconds(ms), [&] { return !commands_.empty(); });
    }
    void post(JobMessage message) {
        {
            const std::lock_guard lock(mutex_);
            messages_.push_back(std::move(message));
        }
        if (wake) wake();
    }
    std::vector<JobMessage> takeMessages() {
        const std::lock_guard lock(mutex_);
        return std::exchange(messages_, {});
    }
    std::function<void()> wake;      ///< set before the thread starts
    std::atomic<bool> ended{false};  ///< after the last message was posted

  private:
    mutable std::mutex mutex_;
    std::condition_variable arrived_;
    std::vector<JobCommand> commands_;
    std::vector<JobMessage> messages_;
};

}  // namespace mantissa::experiments
