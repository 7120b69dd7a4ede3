// What every command of mantissa-run knows beside its own options.
#pragma once

#include <functional>
#include <string>

namespace mantissa::experiments {

struct GlobalOptions {
    std::string store;  ///< --store; "" = MANTISSA_STORE, else the default
    bool json = false;  ///< standard output carries JSON and nothing else
    bool quiet = false;
    /// Set by the command that was parsed; runs it and returns the exit code. Errors leave it as exceptions.
    std::function<int()> run;
};

}  // namespace mantissa::experiments
