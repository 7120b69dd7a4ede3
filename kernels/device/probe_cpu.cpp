// What this processor is and can do natively.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "kernels/device/device_info.h"
#include "kernels/matmul/matmul_kernels.h"
#include "kernels/simd/isa.h"

namespace mantissa::kernels {
namespace {

/// "model name" of /proc/cpuinfo; "CPU" where the kernel does not say.
std::string processorName() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);)
        if (line.rfind("model name", 0) == 0)
            if (const size_t colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
    return "CPU";
}

bool processorHasFlag(const std::string& flag) {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);)
        if (line.rfind("flags", 0) == 0) return (line + " ").find(" " + flag + " ") != std::string::npos;
    return false;
}

/// A field of /proc/meminfo in bytes, 0 when it is not there.
uint64_t memoryField(const std::string& name) {
    std::ifstream file("/proc/meminfo");
    for (std::string key; file >> key;) {
        uint64_t kilobytes = 0;
        if (key == name + ":" && file >> kilobytes) return kilobytes * 1024;
        file.ignore(1000, '\n');
    }
    return 0;
}

/// A number from a control-group file; UINT64_MAX where there is no limit or no such file.
uint64_t groupValue(const char* path) {
    std::ifstream file(path);
    uint64_t value = 0;
    return file >> value ? value : UINT64_MAX;
}

int usableThreads() {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
    return std::max(1, CPU_COUNT(&set));
}

void describe(DeviceInfo& info, Isa isa) {
    const bool fma = isa != Isa::Sse, avx512 = isa == Isa::Avx512 || isa == Isa::Avx512Bf16;
    info.native.push_back({"FP32 products", avx512 ? "AVX-512 FMA" : fma ? "AVX2 FMA" : "SSE multiply and add"});
    if (matmulKernels(isa).usesBf16())
        info.native.push_back({"BF16 products", "AVX-512-BF16 dot product, sums in FP32"});
    else if (isa == Isa::Avx512Bf16)
        info.emulated.push_back({"BF16 products",
                                 "widened to FP32 and multiplied there: this processor's BF16 dot product gives the "
                                 "same bits at half the speed"});
    else
        info.emulated.push_back({"BF16 products", "no AVX-512-BF16: widened to FP32 and multiplied there"});
    info.emulated.push_back(
        {"FP8 E4M3/E5M2 products", "no x86 instruction multiplies FP8: real codes, decoded while they are packed"});
    for (const char* what : {"FP8 products with block scales", "MXFP8 and NVFP4 products"})
        info.emulated.push_back({what, "the exact values of the codes are multiplied as BF16"});
    info.emulated.push_back({"FP16 products", "widened to FP32 and multiplied there"});
    info.emulated.push_back({"TF32 products", "inputs cut to 10 fraction bits, product in FP32"});
    if (processorHasFlag("amx_bf16"))
        info.missing.push_back(
            {"AMX products", "the processor has AMX; not used, because it sums in another order than the other paths"});
    else
        info.missing.push_back({"AMX products", "this processor has no AMX"});
}

}  // namespace

DeviceInfo probeCpu(Isa isa) {
    DeviceInfo info;
    info.id = "cpu";
    info.name = processorName();
    info.isa = isaName(isa);
    info.determinismClass = isa == Isa::Sse ? "x86-sse" : "x86-fma";
    info.threads = usableThreads();
    const uint64_t limit = groupValue("/sys/fs/cgroup/memory.max");
    info.memoryTotal = std::min(memoryField("MemTotal"), limit);
    info.memoryFree = memoryField("MemAvailable");
    if (limit != UINT64_MAX) {
        const uint64_t used = groupValue("/sys/fs/cgroup/memory.current");
        info.memoryFree = std::min(info.memoryFree, used < limit ? limit - used : 0);
    }
    describe(info, isa);
    return info;
}

DeviceInfo probeCpu() {
    return probeCpu(bestIsa());
}

}  // namespace mantissa::kernels
