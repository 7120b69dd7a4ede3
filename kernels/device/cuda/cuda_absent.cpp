// Stands in for the CUDA backend in a build without it (the probe: kernels/device/probe_cuda.cpp).
#include "kernels/backend.h"

namespace mantissa::kernels {

namespace {
constexpr const char* kReason = "This build has no CUDA backend (it was configured without CUDA 12.9 or newer).";
}

std::unique_ptr<Backend> createCudaBackend(int) {
    throw Error(ErrorCode::DeviceUnavailable, kReason);
}

}  // namespace mantissa::kernels
