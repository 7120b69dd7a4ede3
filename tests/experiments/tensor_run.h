// Calls of the built program's command `tensor`, for its tests.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/device/device_info.h"

namespace mantissa::experiments {

using nlohmann::json;

struct Output {
    int code = -1;
    std::string out, err;
};

inline std::string readFile(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

/// Runs the built program `mantissa-run tensor ...`.
inline Output runProgram(const std::vector<std::string>& arguments) {
    const std::string files =
        (std::filesystem::temp_directory_path() / ("mantissa_tensor_run_" + std::to_string(::getpid()))).string();
    std::string command = std::string("'") + MANTISSA_RUN + "' tensor";
    for (const std::string& argument : arguments) command += " '" + argument + "'";
    const int status = std::system((command + " >" + files + ".out 2>" + files + ".err").c_str());
    Output output{WIFEXITED(status) ? WEXITSTATUS(status) : -1, readFile(files + ".out"), readFile(files + ".err")};
    std::filesystem::remove(files + ".out");
    std::filesystem::remove(files + ".err");
    return output;
}

/// Where the cases are cast: MANTISSA_TENSOR_DEVICE=cuda runs them on a GPU, what only the CPU casts apart.
inline std::string tensorDevice() {
    const char* device = std::getenv("MANTISSA_TENSOR_DEVICE");
    return device ? device : "cpu";
}

inline bool hasGpu() {
    const auto devices = kernels::probeCuda();
    return std::any_of(devices.begin(), devices.end(), [](const auto& device) { return device.usable; });
}

inline std::string runText(std::vector<std::string> arguments) {
    const bool onCpuAlone = std::any_of(arguments.begin(), arguments.end(), [](const std::string& word) {
        return word == "e2m1" || word == "e8m0" || word == "bf16" || word == "fp16";
    });
    if (!onCpuAlone) arguments.insert(arguments.end(), {"--device", tensorDevice()});
    const Output output = runProgram(arguments);
    EXPECT_EQ(output.code, 0) << output.err;
    EXPECT_EQ(output.err, "");
    return output.out;
}

inline json run(std::vector<std::string> arguments) {
    arguments.push_back("--json");
    return json::parse(runText(std::move(arguments)));
}

/// The one line on standard error of a call that must be refused.
inline std::string sentence(const std::vector<std::string>& arguments, int code = 2) {
    const Output output = runProgram(arguments);
    EXPECT_EQ(output.code, code) << output.err;
    EXPECT_EQ(output.out, "");
    EXPECT_EQ(output.err.find("error: "), 0u);
    EXPECT_EQ(std::count(output.err.begin(), output.err.end(), '\n'), 1) << output.err;
    return output.err;
}

}  // namespace mantissa::experiments
