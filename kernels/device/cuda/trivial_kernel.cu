#include "kernels/device/cuda/cuda_probe.h"

namespace mantissa::kernels::cuda {

namespace {
__global__ void trivialKernel() {}
}  // namespace

cudaError_t runTrivialKernel() {
    trivialKernel<<<1, 1>>>();
    const cudaError_t code = cudaGetLastError();
    return code == cudaSuccess ? cudaDeviceSynchronize() : code;
}

}  // namespace mantissa::kernels::cuda
