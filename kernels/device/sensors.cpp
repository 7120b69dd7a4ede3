// NVML's header is no part of the toolkit's packages, so its few functions are declared here (NVML API reference R580).
#include "kernels/device/sensors.h"

#include <dlfcn.h>

namespace mantissa::kernels {

namespace {

using Device = void*;
struct Memory {
    unsigned long long total, free, used;
};
constexpr int kSuccess = 0;
constexpr unsigned kClockSm = 1, kClockMemory = 2, kTemperatureGpu = 0;

struct Functions {
    int (*init)() = nullptr;
    int (*handle)(unsigned, Device*) = nullptr;
    int (*energy)(Device, unsigned long long*) = nullptr;
    int (*power)(Device, unsigned*) = nullptr;
    int (*memory)(Device, Memory*) = nullptr;
    int (*clock)(Device, unsigned, unsigned*) = nullptr;
    int (*temperature)(Device, unsigned, unsigned*) = nullptr;
};

class NvmlSensors final : public DeviceSensors {
  public:
    NvmlSensors(const Functions& functions, Device device) : nvml_(functions), device_(device) {}
    SensorReading read() const override {
        SensorReading reading;
        unsigned long long millijoules = 0;
        if (nvml_.energy && nvml_.energy(device_, &millijoules) == kSuccess)
            reading.joules = static_cast<double>(millijoules) * 1e-3;
        unsigned milliwatts = 0;
        if (nvml_.power && nvml_.power(device_, &milliwatts) == kSuccess) reading.watts = milliwatts * 1e-3;
        Memory memory{};
        if (nvml_.memory && nvml_.memory(device_, &memory) == kSuccess) reading.memoryUsed = memory.used;
        if (nvml_.clock) {
            nvml_.clock(device_, kClockSm, &reading.smMHz);
            nvml_.clock(device_, kClockMemory, &reading.memoryMHz);
        }
        if (nvml_.temperature) nvml_.temperature(device_, kTemperatureGpu, &reading.celsius);
        return reading;
    }

  private:
    Functions nvml_;
    Device device_;
};

template <class Function>
void load(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace

std::unique_ptr<DeviceSensors> DeviceSensors::open(int index) {
    void* library = nullptr;
    for (const char* name :
         {"libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1", "/usr/local/nvidia/lib64/libnvidia-ml.so.1"})
        if ((library = dlopen(name, RTLD_NOW | RTLD_LOCAL))) break;
    if (!library) return nullptr;
    Functions nvml;
    load(library, "nvmlInit_v2", nvml.init);
    load(library, "nvmlDeviceGetHandleByIndex_v2", nvml.handle);
    load(library, "nvmlDeviceGetTotalEnergyConsumption", nvml.energy);
    load(library, "nvmlDeviceGetPowerUsage", nvml.power);
    load(library, "nvmlDeviceGetMemoryInfo", nvml.memory);
    load(library, "nvmlDeviceGetClockInfo", nvml.clock);
    load(library, "nvmlDeviceGetTemperature", nvml.temperature);
    Device device = nullptr;
    if (!nvml.init || !nvml.handle || nvml.init() != kSuccess ||
        nvml.handle(static_cast<unsigned>(index), &device) != kSuccess)
        return nullptr;
    return std::make_unique<NvmlSensors>(nvml, device);
}

}  // namespace mantissa::kernels
