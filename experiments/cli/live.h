// Commands to a run that is going in another process.
#pragma once

#include <string>
#include <vector>

#include "experiments/cli/command.h"
#include "experiments/job/training_job.h"
#include "experiments/report/what_if.h"

namespace mantissa::experiments::cli {

/// The run, which must be queued, running or paused. Throws Failure.
RunSummary activeRun(RunStore& store, const std::string& name, const std::string& command);
/// Sends and waits for the event that answers: applied, refused, kept, written. Throws Failure when none comes.
std::vector<RunEvent> sendAndWait(RunStore& store, const RunSummary& run, const std::string& command,
                                  const std::string& argument, double seconds);

}  // namespace mantissa::experiments::cli
