// Looks for CUDA devices without linking a CUDA library: the driver's library is opened at run time.
#include <dlfcn.h>

#include <string>

#include "kernels/device/device_info.h"

namespace mantissa::kernels {
namespace {

DeviceInfo unusable(const std::string& reason) {
    DeviceInfo info;
    info.id = "cuda:0";
    info.usable = false;
    info.reason = reason;
    return info;
}

/// Why no device can be used, or "" with the number of devices in `count`.
std::string askDriver(void* driver, int& count) {
    using Init = int (*)(unsigned);
    using GetCount = int (*)(int*);
    const auto init = reinterpret_cast<Init>(dlsym(driver, "cuInit"));
    const auto getCount = reinterpret_cast<GetCount>(dlsym(driver, "cuDeviceGetCount"));
    count = 0;
    if (!init || !getCount) return "The NVIDIA driver's library libcuda.so.1 lacks cuInit or cuDeviceGetCount.";
    if (const int code = init(0))
        return "The NVIDIA driver did not start (cuInit returned " + std::to_string(code) + ").";
    if (const int code = getCount(&count))
        return "The NVIDIA driver could not count its devices (cuDeviceGetCount returned " + std::to_string(code) +
               ").";
    return count == 0 ? "The NVIDIA driver is installed, but it finds no GPU." : "";
}

}  // namespace

std::vector<DeviceInfo> probeCuda() {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!driver) return {unusable("No NVIDIA driver is installed (libcuda.so.1 was not found).")};
    int count = 0;
    const std::string problem = askDriver(driver, count);
    dlclose(driver);
    if (!problem.empty()) return {unusable(problem)};
    std::vector<DeviceInfo> devices;
    for (int i = 0; i < count; ++i) {
        devices.push_back(unusable("This build has no CUDA backend."));
        devices.back().id = "cuda:" + std::to_string(i);
        devices.back().name = "NVIDIA GPU";
    }
    return devices;
}

}  // namespace mantissa::kernels
