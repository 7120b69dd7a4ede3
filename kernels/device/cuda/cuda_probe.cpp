// What CUDA devices there are, and in one sentence why there are none.
#include <cuda_runtime_api.h>

#include <string>

#include "kernels/attention/attention_cudnn.h"
#include "kernels/device/cuda/cublaslt_cuda_api.h"
#include "kernels/device/cuda/cuda_probe.h"
#include "kernels/device/cuda/library.h"
#include "kernels/device/device_info.h"

namespace mantissa::kernels {

namespace cuda {

std::string missingDriver() {
    std::string error;
    const Library driver =
        Library::open({"libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1"}, error);
    if (!driver && !isAbsence(error)) return "The NVIDIA driver cannot be loaded: " + error + ".";
    if (!driver) return "No NVIDIA driver is installed (libcuda.so.1 was not found).";
    const auto version = reinterpret_cast<int (*)(int*)>(driver.symbol("cuDriverGetVersion"));
    int number = 0;
    if (!version || version(&number) != 0) return "The NVIDIA driver does not answer.";
    if (number < CUDART_VERSION) {
        return "The NVIDIA driver supports CUDA " + std::to_string(number / 1000) + "." +
               std::to_string(number % 1000 / 10) + "; this program needs CUDA " +
               std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION % 1000 / 10) +
               ": install a newer driver (R580 or later).";
    }
    return "";
}

std::string architectureName(int major, int minor) {
    const std::string name = "sm_" + std::to_string(major) + std::to_string(minor);
    return name == "sm_90" ? "sm_90a" : name;
}

namespace {

void listCapabilities(const cudaDeviceProp& properties, DeviceInfo& info) {
    const int capability = properties.major * 10 + properties.minor;
    // What computes attention also decides its bits, so it belongs to the determinism class.
    if (const CudnnAttention* cudnn = cudnnAttention()) {
        info.native.push_back({"Fused attention", "cuDNN " + cudnn->version() + ", deterministic backward"});
        info.determinismClass += "+cudnn";
    } else {
        info.native.push_back(
            {"Fused attention",
             "own kernels, deterministic backward; cuDNN's, which are faster, are not used: " + whyNoCudnnAttention()});
    }
    info.native.push_back({"BF16 and FP16 products", "tensor cores with FP32 sums"});
    info.native.push_back({"TF32 products", "inputs cut to 10 bits by the tensor cores"});
    if (capability >= 89) {
        info.native.push_back({"FP8 E4M3 and E5M2 products", "one scale a tensor, through cuBLASLt"});
        info.native.push_back({"FP8 casts", "round to nearest even, saturating to the largest finite value"});
    } else {
        info.emulated.push_back(
            {"FP8 E4M3 and E5M2 products",
             "compute capability " + std::to_string(properties.major) + "." + std::to_string(properties.minor) +
                 " has no FP8 units (8.9 and later have): the codes are decoded and multiplied in BF16"});
    }
    const std::string found = std::to_string(properties.major) + "." + std::to_string(properties.minor);
    if (capability == 90) {
        info.native.push_back({"FP8 products with block scales",
                               "1 x 128 values of activations and gradients, 128 x 128 of weights, through cuBLASLt"});
    } else {
        info.emulated.push_back(
            {"FP8 products with block scales", "cuBLASLt has them for compute capability 9.0, this is " + found +
                                                   ": the codes' values are multiplied in BF16"});
    }
    info.emulated.push_back({"MXFP8 and NVFP4 products",
                             (capability < 100 ? "block-scaled formats need compute capability 10, this is " + found
                                               : std::string("the chip's own are not used yet")) +
                                 ": the codes' values are multiplied in BF16"});
}

DeviceInfo describe(int index) {
    DeviceInfo info;
    info.id = "cuda:" + std::to_string(index);
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, index) != cudaSuccess) {
        info.usable = false;
        info.reason = "Device " + info.id + " does not answer.";
        return info;
    }
    info.name = properties.name;
    info.isa = architectureName(properties.major, properties.minor);
    info.determinismClass = "sm_" + std::to_string(properties.major) + std::to_string(properties.minor);
    info.memoryTotal = properties.totalGlobalMem;
    if (properties.major < 8) {
        info.usable = false;
        info.reason = info.name + " has compute capability " + std::to_string(properties.major) + "." +
                      std::to_string(properties.minor) + "; 8.0 or later is needed.";
        return info;
    }
    size_t free = 0, total = 0;
    if (cudaSetDevice(index) != cudaSuccess || cudaMemGetInfo(&free, &total) != cudaSuccess) {
        info.usable = false;
        info.reason = info.name + " cannot be opened: " + cudaGetErrorString(cudaGetLastError()) + ".";
        return info;
    }
    info.memoryFree = free;
    if (const cudaError_t code = runTrivialKernel(); code != cudaSuccess) {
        cudaGetLastError();
        info.usable = false;
        info.reason = "This build has no code that runs on " + info.name + " (" + info.isa +
                      "): " + cudaGetErrorString(code) + ".";
        return info;
    }
    std::string reason;
    if (!cublasLt(reason)) {
        info.usable = false;
        info.reason = reason;
        return info;
    }
    listCapabilities(properties, info);
    return info;
}

DeviceInfo unusable(const std::string& reason) {
    DeviceInfo info;
    info.id = "cuda:0";
    info.usable = false;
    info.reason = reason;
    return info;
}

}  // namespace
}  // namespace cuda

std::vector<DeviceInfo> probeCuda() {
    if (const std::string reason = cuda::missingDriver(); !reason.empty()) return {cuda::unusable(reason)};
    int count = 0;  // the call leaves it alone on error
    const cudaError_t code = cudaGetDeviceCount(&count);
    if (code != cudaSuccess) {
        cudaGetLastError();
        return {cuda::unusable(std::string("The CUDA runtime found no device: ") + cudaGetErrorString(code) + ".")};
    }
    if (count == 0) return {cuda::unusable("No NVIDIA GPU was found.")};
    std::vector<DeviceInfo> devices;
    for (int index = 0; index < count; ++index) devices.push_back(cuda::describe(index));
    return devices;
}

}  // namespace mantissa::kernels
