// Turns failures of the CUDA runtime into typed errors with the call, the place and the library's own text.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "kernels/error.h"

namespace mantissa::kernels::cuda {

/// Throws OutOfMemory for cudaErrorMemoryAllocation, else DeviceFailure. Also clears the runtime's sticky-free error.
[[noreturn]] void throwCudaError(cudaError_t code, const char* expression, const char* file, int line);

}  // namespace mantissa::kernels::cuda

/// After every runtime call; MANTISSA_CUDA_CHECK(cudaGetLastError()) after every launch.
#define MANTISSA_CUDA_CHECK(expression)                                                                   \
    do {                                                                                                  \
        const cudaError_t mantissaCudaCode = (expression);                                                \
        if (mantissaCudaCode != cudaSuccess) {                                                            \
            ::mantissa::kernels::cuda::throwCudaError(mantissaCudaCode, #expression, __FILE__, __LINE__); \
        }                                                                                                 \
    } while (false)
