// mantissa-run ladder.
#pragma once

#include "experiments/cli/command.h"

namespace mantissa::experiments::cli {

void addLadderCommand(CLI::App& app, Context& context);

}  // namespace mantissa::experiments::cli
