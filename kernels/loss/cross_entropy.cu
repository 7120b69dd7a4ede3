// Cross-entropy: loss and dlogits in one kernel, in place. A row of logits is read from memory once: its second
// reading, for the gradients, comes from the L2 cache. Rows up to 1024 columns belong to a warp, longer ones to a
// block. Memory bound: 2 bytes read and 2 written a logit in BF16.
#include "kernels/device/cuda/cast.cuh"
#include "kernels/loss/loss.h"

namespace mantissa::kernels::cuda {

namespace {

struct MaxSum {
    float largest, sum;
};

/// Joins two partial (max, sum of exp(x - max)).
__device__ __forceinline__ MaxSum join(MaxSum a, MaxSum b) {
    const float largest = fmaxf(a.largest, b.largest);
    if (largest == -INFINITY) return {largest, a.sum + b.sum};  // nothing yet, or NaN alone
    return {largest, a.sum * __expf(a.largest - largest) + b.sum * __expf(b.largest - largest)};
}

/// kThreads threads a row; 32: several rows a block.
template <class T, int kThreads>
__global__ void crossEntropyKernel(CrossEntropy op, bool aligned) {
    const int group = threadIdx.x / kThreads, thread = threadIdx.x % kThreads;
    const int64_t row = static_cast<int64_t>(blockIdx.x) * (blockDim.x / kThreads) + group;
    if (row >= op.rows) return;
    T* logits = static_cast<T*>(op.logits) + row * op.vocabularyPadded;
    MaxSum mine{-INFINITY, 0.0f};
    bool nan = false;
    for (int64_t col = thread * kLane; col < op.vocabulary; col += kThreads * kLane) {
        const int valid = static_cast<int>(min(int64_t{kLane}, op.vocabulary - col));
        float x[kLane];
        load8(logits + col, valid, aligned && col + kLane <= op.vocabularyPadded, x);
        float most = mine.largest;
#pragma unroll
        for (int j = 0; j < kLane; ++j) {
            if (j >= valid) x[j] = -INFINITY;
            nan |= isnan(x[j]);
            most = fmaxf(most, x[j]);
        }
        if (most == -INFINITY) continue;
        float sum = mine.sum * __expf(mine.largest - most);
#pragma unroll
        for (int j = 0; j < kLane; ++j) sum += __expf(x[j] - most);
        mine = {most, sum};
    }
    if (nan) mine.sum = __int_as_float(0x7FC00000);
    for (int offset = 16; offset; offset /= 2) {
        mine = join(
            mine, {__shfl_xor_sync(0xFFFFFFFFu, mine.largest, offset), __shfl_xor_sync(0xFFFFFFFFu, mine.sum, offset)});
    }
    if constexpr (kThreads > 32) {
        __shared__ MaxSum warps[kThreads / 32];
        if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
        __syncthreads();
        mine = warps[0];
        for (int i = 1; i < kThreads / 32; ++i) mine = join(mine, warps[i]);
    }
    const int64_t target = op.targets[row];
    if (thread == 0) op.losses[row] = logf(mine.sum) + (mine.largest - toFloat(logits[target]));
    if (!op.backward) return;
    if constexpr (kThreads > 32) {
        __syncthreads();
    } else {
        __syncwarp();
    }
    const float scale = *op.gradientScale, inverse = 1.0f / mine.sum;
    for (int64_t col = thread * kLane; col < op.vocabularyPadded; col += kThreads * kLane) {
        const int valid = static_cast<int>(min(int64_t{kLane}, op.vocabularyPadded - col));
        const bool whole = aligned && valid == kLane;
        float x[kLane];
        load8(logits + col, valid, whole, x);
#pragma unroll
        for (int j = 0; j < kLane; ++j) {
            const float probability = __expf(x[j] - mine.largest) * inverse;
            x[j] = col + j < op.vocabulary ? (probability - (col + j == target ? 1.0f : 0.0f)) * scale : 0.0f;
        }
        store8(logits + col, valid, whole, x);
    }
}

constexpr int kSumThreads = 1024;

__global__ void __launch_bounds__(kSumThreads) sumLossesKernel(SumLosses op) {
    __shared__ double sums[kSumThreads];
    double sum = 0;
    for (int64_t row = threadIdx.x; row < op.rows; row += kSumThreads) sum += static_cast<double>(op.losses[row]);
    sums[threadIdx.x] = sum;
    for (int half = kSumThreads / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    if (threadIdx.x == 0) *op.sum = (op.accumulate ? *op.sum : 0.0) + sums[0];
}

Quantize castOf(const CrossEntropy& op) {
    Quantize cast;
    cast.rows = op.rows, cast.cols = op.vocabularyPadded, cast.inType = op.type, cast.in = op.logits,
    cast.target = op.cast;
    return cast;
}

}  // namespace

size_t workspaceBytes(const CrossEntropy& op) {
    return op.backward && op.cast.format != DType::None ? workspaceBytes(castOf(op)) : 0;
}
size_t workspaceBytes(const SumLosses&) {
    return 0;
}

void launch(const LaunchContext& context, const CrossEntropy& op) {
    require(op.rows > 0 && op.vocabulary > 0 && op.vocabularyPadded >= op.vocabulary, "cross entropy",
            "rows must be positive, vocabulary at most vocabularyPadded");
    require(op.logits && op.targets && op.losses && (!op.backward || op.gradientScale), "cross entropy",
            "logits, targets, losses and gradientScale must be given");
    const bool aligned = alignedRows(op.logits, op.vocabularyPadded);
    withType(op.type, "cross entropy", [&](auto tag) {
        using T = typename decltype(tag)::Type;
        if (op.vocabularyPadded <= 1024) {
            crossEntropyKernel<T, 32>
                <<<static_cast<unsigned>((op.rows + 3) / 4), 128, 0, context.stream>>>(op, aligned);
        } else {
            crossEntropyKernel<T, 512><<<static_cast<unsigned>(op.rows), 512, 0, context.stream>>>(op, aligned);
        }
    });
    MANTISSA_CUDA_CHECK(cudaGetLastError());
    if (op.backward && op.cast.format != DType::None) launch(context, castOf(op));
}

void launch(const LaunchContext& context, const SumLosses& op) {
    sumLossesKernel<<<1, kSumThreads, 0, context.stream>>>(op);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

}  // namespace mantissa::kernels::cuda
