// mantissa-run as a test calls it: through the shell, in a folder of its own.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/experiments/support.h"

namespace mantissa::experiments::test {

/// How a call ended and what it printed.
struct Result {
    int code = -1;
    std::string out, err;
    nlohmann::json json() const { return nlohmann::json::parse(out); }
};

/// Runs a whole shell command in `folder`, with $M the program, the store s.mantissa there and no device from outside.
inline Result shellIn(const TempFolder& folder, const std::string& command) {
    const std::string all = "export M='" MANTISSA_RUN "' MANTISSA_STORE='" + (folder / "s.mantissa") +
                            "' MANTISSA_DEVICE=; cd '" + folder.path() + "'; (" + command + ") >'" + (folder / "out") +
                            "' 2>'" + (folder / "err") + "'";
    const int status = std::system(all.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, readAll(folder / "out"), readAll(folder / "err")};
}

}  // namespace mantissa::experiments::test
