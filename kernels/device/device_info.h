// What a device is and what it does natively; made by the probe, read by reports and the run's record.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/simd/isa.h"

namespace mantissa::kernels {

struct Capability {
    std::string what;  ///< e.g. "FP8 E4M3/E5M2 products", "BF16 dot product"
    std::string why;   ///< the reason, in words, for emulated and missing ones
};

struct DeviceInfo {
    std::string id;    ///< "cpu", "cuda:0"
    std::string name;  ///< e.g. "Intel(R) Xeon(R) Processor", "NVIDIA H200"
    std::string isa;   ///< instruction set in use: "sse", "avx2", "avx512", "avx512bf16", "sm_90a"
    std::string
        determinismClass;  ///< "x86-fma", "x86-sse", "amx", "sm_90": same spec, seed and class give the same bits
    int threads = 0;       ///< CPU: usable hardware threads
    uint64_t memoryTotal = 0, memoryFree = 0;  ///< bytes
    bool usable = true;
    std::string reason;  ///< when not usable: one sentence
    std::vector<Capability> native, emulated, missing;
};

/// The CPU's description. `isa` is the best supported one, or MANTISSA_ISA (sse, avx2, avx512, avx512bf16) when set and
/// supported.
DeviceInfo probeCpu();
DeviceInfo probeCpu(Isa isa);  ///< the same for a given instruction set
/// All CUDA devices, or one entry with usable = false and the reason. Never throws, never blocks longer than the driver
/// does.
std::vector<DeviceInfo> probeCuda();

}  // namespace mantissa::kernels
