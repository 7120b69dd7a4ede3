// Power, energy, memory and clocks of an NVIDIA GPU, through NVML opened at run time.
#pragma once

#include <cstdint>
#include <memory>

namespace mantissa::kernels {

struct SensorReading {
    double joules = 0;  ///< the board's own energy counter since the driver was loaded; take differences over >= 10 s
    double watts = 0;   ///< mean of about the last second (NVML's power reading)
    uint64_t memoryUsed = 0;  ///< bytes in use on the device by all processes
    uint32_t smMHz = 0, memoryMHz = 0, celsius = 0;
};

/// Thread: one at a time.
class DeviceSensors {
  public:
    /// Sensors of GPU `index` in NVML's order; nullptr where NVML or the device is missing.
    static std::unique_ptr<DeviceSensors> open(int index);
    virtual ~DeviceSensors() = default;
    /// Values that the board does not report stay 0.
    virtual SensorReading read() const = 0;
};

}  // namespace mantissa::kernels
