// What this machine does natively, what is emulated, what is missing and why; plain values for the Device page and
// `devices`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mantissa::experiments {

struct CapabilityRow {
    std::string what, why;
};
struct DeviceReport {
    std::string device;  ///< "cpu", "cuda:0"
    std::string name;
    std::string isa, determinismClass;
    int threads = 0;
    uint64_t memoryTotal = 0, memoryFree = 0;
    bool usable = true;
    std::string reason;  ///< when not usable
    std::vector<CapabilityRow> native, emulated, missing;
};

/// CPU first, then each CUDA device, or one unusable entry with the reason. May take as long as the driver: not on the
/// GUI thread.
std::vector<DeviceReport> deviceReports();

}  // namespace mantissa::experiments
