// How long a thread had to wait for a processor: the sign of other programs at work beside us.
#pragma once

namespace mantissa::engine {

/// Of the thread that constructs it; seconds() from any thread while that one lives.
class RunDelay {
  public:
    RunDelay();
    ~RunDelay();
    RunDelay(const RunDelay&) = delete;
    RunDelay& operator=(const RunDelay&) = delete;

    /// Seconds, since the thread began, in which it could have run but another one had the processor (second field of
    /// /proc/PID/task/TID/schedstat: Documentation/scheduler/sched-stats.rst of the kernel). 0 where the kernel does
    /// not count it.
    double seconds() const;

  private:
    int file_ = -1;
};

}  // namespace mantissa::engine
