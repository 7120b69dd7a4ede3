// What a plain copy moves on a device: the ceiling for everything that is limited by memory.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#ifdef MANTISSA_HAVE_CUDA
#include <cuda_runtime.h>
#endif

#include "bench.h"

namespace mantissa::bench {

namespace {

double processorCopyRate() {
    constexpr size_t kBytes = size_t{64} << 20;
    std::vector<char> from(kBytes, 1), to(kBytes);
    double best = 0;
    for (int i = 0; i < 5; ++i) {
        const auto start = std::chrono::steady_clock::now();
        std::memcpy(to.data(), from.data(), kBytes);
        const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
        best = std::max(best, 2.0 * kBytes / taken.count());
    }
    return best;
}

}  // namespace

double copyRate(bool gpu) {
    if (!gpu) return processorCopyRate();
    double best = 0;
#ifdef MANTISSA_HAVE_CUDA
    constexpr size_t kBytes = size_t{1} << 30;
    void *from = nullptr, *to = nullptr;
    cudaEvent_t start{}, end{};
    bool ok = cudaMalloc(&from, kBytes) == cudaSuccess && cudaMalloc(&to, kBytes) == cudaSuccess &&
              cudaEventCreate(&start) == cudaSuccess && cudaEventCreate(&end) == cudaSuccess;
    for (int i = 0; ok && i < 6; ++i) {
        float milliseconds = 0;
        ok = cudaEventRecord(start) == cudaSuccess &&
             cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDeviceToDevice) == cudaSuccess &&
             cudaEventRecord(end) == cudaSuccess && cudaEventSynchronize(end) == cudaSuccess &&
             cudaEventElapsedTime(&milliseconds, start, end) == cudaSuccess;
        if (ok && i > 0) best = std::max(best, 2.0 * kBytes / (milliseconds * 1e-3));
    }
    if (start) cudaEventDestroy(start);
    if (end) cudaEventDestroy(end);
    cudaFree(from);
    cudaFree(to);
#endif
    return best;
}

}  // namespace mantissa::bench
