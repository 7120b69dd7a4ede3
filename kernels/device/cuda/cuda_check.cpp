#include "kernels/device/cuda/cuda_check.h"

#include <cstring>

namespace mantissa::kernels::cuda {

void throwCudaError(cudaError_t code, const char* expression, const char* file, int line) {
    cudaGetLastError();  // a failed allocation must not poison the next check
    const char* slash = std::strrchr(file, '/');
    const std::string sentence = std::string("CUDA: ") + cudaGetErrorString(code) + " (" + cudaGetErrorName(code) +
                                 ") in " + expression + " at " + (slash ? slash + 1 : file) + ":" +
                                 std::to_string(line);
    throw Error(code == cudaErrorMemoryAllocation ? ErrorCode::OutOfMemory : ErrorCode::DeviceFailure, sentence);
}

}  // namespace mantissa::kernels::cuda
