// What norm's forward and backward kernels share: sums over a row by a block, and the value of y, so that backward
// makes forward's codes again bit for bit.
#pragma once

#include "kernels/device/cuda/cast.cuh"
#include "kernels/norm/norm.h"

namespace mantissa::kernels::cuda {

constexpr int kRowGroup = 4;  ///< rows that a block works on at once: their loads and reductions overlap

/// Rows of a tile of transposed codes: 32 leave as whole sectors; wide rows take 16, so that two tensors' stages fit a
/// block's shared memory.
constexpr int normTile(int maxThreads) {
    return maxThreads <= 256 ? 32 : 16;
}

/// Sums value[i] over the block for each of N values, in a fixed order (warp tree, then warps ascending). One barrier;
/// `buffer` must alternate between calls (two buffers of 32 x N floats).
template <int N>
__device__ __forceinline__ void blockSum(float (&value)[N], float* buffer) {
#pragma unroll
    for (int offset = 16; offset; offset /= 2) {
#pragma unroll
        for (int i = 0; i < N; ++i) value[i] += __shfl_xor_sync(0xFFFFFFFFu, value[i], offset);
    }
    const int warps = blockDim.x / 32;
    if (threadIdx.x % 32 == 0) {
#pragma unroll
        for (int i = 0; i < N; ++i) buffer[threadIdx.x / 32 * N + i] = value[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < N; ++i) value[i] = buffer[i];
    for (int warp = 1; warp < warps; ++warp) {
#pragma unroll
        for (int i = 0; i < N; ++i) value[i] += buffer[warp * N + i];
    }
}

__device__ __forceinline__ float normValue(float r, float mean, float rstd, float gain, float bias) {
    return __fmaf_rn(__fmul_rn(r - mean, rstd), gain, bias);
}

}  // namespace mantissa::kernels::cuda
