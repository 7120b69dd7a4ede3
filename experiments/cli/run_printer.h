// What `run`, `resume` and `fork` print: JSON lines, or text and a progress line.
#pragma once

#include <chrono>
#include <string>

#include "experiments/job/training_job.h"

namespace mantissa::experiments::cli {

class RunPrinter {
  public:
    /// run: its id, named at the end of one that never starts.
    RunPrinter(bool json, bool quiet, int64_t steps, std::string run);
    void print(const JobMessage& message);
    void note(const std::string& text);  ///< a line on standard error
    const JobEnded& ended() const { return ended_; }

  private:
    void on(const JobPhase& phase);
    void on(const JobStarted& started);
    void on(const JobStep& step);
    void on(const JobEval& eval);
    void on(const JobCheckpoint& checkpoint);
    void on(const JobEventRow& row);
    void on(const JobState& state);
    void on(const JobPrecision& precision);
    void on(const JobSpec& spec);
    void on(const JobCapture& capture);
    void on(const JobStorage& storage);
    void on(const JobEnded& ended);
    void line(const std::string& text);  ///< standard output, clear of the progress line
    void progress(const JobStep& step);
    void clearProgress();

    bool json_, quiet_, terminal_, showing_ = false, evaluated_ = false;
    int64_t steps_, firstStep_ = 1;
    std::string run_, name_;
    JobEnded ended_;
    double lastLoss_ = 0, lastRate_ = 0, stepSeconds_ = 0;
    int64_t lastStep_ = 0;
    std::chrono::steady_clock::time_point lastProgress_{}, lastStorage_{};
    bool storageTrouble_ = false;
};

}  // namespace mantissa::experiments::cli
