#include "experiments/report/device_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "kernels/device/device_info.h"
#include "kernels/error.h"
#include "kernels/simd/isa.h"

namespace mantissa::experiments {

engine::DeviceChoice resolveDevice(engine::DeviceChoice choice) {
    std::string origin = "--device";
    if (const char* name = std::getenv("MANTISSA_DEVICE"); choice.device == "auto" && name != nullptr && *name != 0) {
        choice.device = name;
        origin = "MANTISSA_DEVICE";
    }
    const std::string& device = choice.device;
    const bool numbered =
        device.rfind("cuda:", 0) == 0 && device.size() > 5 && device.size() < 9 &&
        std::all_of(device.begin() + 5, device.end(), [](unsigned char c) { return std::isdigit(c); });
    if (device != "auto" && device != "cpu" && device != "cuda" && !numbered)
        throw Error(ErrorCode::InvalidConfig,
                    fmt::format("{}: \"{}\" is not a device; allowed: auto, cpu, cuda, cuda:N", origin, device));
    return choice;
}

void checkEnvironment() {
    kernels::bestIsa();
    resolveDevice({});
    for (const auto& [name, allowed] : {std::pair{"MANTISSA_MATMUL", "first"}, std::pair{"MANTISSA_ATTENTION", "own"}})
        if (const char* word = std::getenv(name); word != nullptr && *word != 0 && std::string(word) != allowed)
            throw Error(ErrorCode::InvalidConfig,
                        fmt::format("{}: \"{}\" is no choice; allowed: {}, or nothing", name, word, allowed));
}

std::string concreteDevice(const std::string& device) {
    if (device == "cuda") return "cuda:0";
    if (device != "auto") return device;
    static const std::string best = [] {
        for (const auto& info : kernels::probeCuda())
            if (info.usable) return info.id;
        return std::string("cpu");
    }();
    return best;
}

}  // namespace mantissa::experiments
