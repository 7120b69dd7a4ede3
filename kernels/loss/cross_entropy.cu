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

constexpr int kRowThreads = 512;

/// One value of a block by `join`, in a fixed order.
template <class Join>
__device__ __forceinline__ float blockJoin(float value, float* warps, Join joinTwo) {
    for (int offset = 16; offset; offset /= 2) value = joinTwo(value, __shfl_xor_sync(0xFFFFFFFFu, value, offset));
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
    __syncthreads();
    value = warps[0];
    for (int i = 1; i < kRowThreads / 32; ++i) value = joinTwo(value, warps[i]);
    return value;
}

/// 2^x, subnormal results as 0: one instruction.
__device__ __forceinline__ float powerOfTwo(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
/// x log2(e), or 0 where there is no number yet.
__device__ __forceinline__ float shiftOf(float largest) {
    return largest == -INFINITY ? 0.0f : largest * 1.4426950408889634f;
}

/// A block a row of 16-bit logits, kept in shared memory: every thread copies and reads its own vectors. Maximum and
/// sum run along while the row is still on its way.
template <class T>
__global__ void __launch_bounds__(kRowThreads, 2) crossEntropyKeptKernel(CrossEntropy op) {
    constexpr int kParts = 4;
    extern __shared__ uint4 kept[];
    __shared__ float largestOf[kRowThreads / 32], sumOf[kRowThreads / 32];
    const int64_t row = blockIdx.x;
    uint4* logits = reinterpret_cast<uint4*>(static_cast<T*>(op.logits) + row * op.vocabularyPadded);
    const int vectors = static_cast<int>(op.vocabularyPadded / kLane), words = static_cast<int>(op.vocabulary);
    const int part = (vectors + kParts * kRowThreads - 1) / (kParts * kRowThreads) * kRowThreads;
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
        for (int i = p * part + threadIdx.x; i < min(vectors, (p + 1) * part); i += kRowThreads) {
            const uint32_t to = static_cast<uint32_t>(__cvta_generic_to_shared(kept + i));
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(logits + i));
        }
        asm volatile("cp.async.commit_group;");
    }
    const int64_t target = op.targets[row];
    const float wanted = toFloat(static_cast<const T*>(op.logits)[row * op.vocabularyPadded + target]);

    const auto unpack = [&](int i, float(&x)[kLane]) {
        Raw8<T> raw;
        const uint4 bits = kept[i];
        raw.word[0] = bits.x, raw.word[1] = bits.y, raw.word[2] = bits.z, raw.word[3] = bits.w;
        raw.unpack(x);
        if (i * kLane + kLane > words) {
#pragma unroll
            for (int j = 0; j < kLane; ++j) {
                if (i * kLane + j >= words) x[j] = -INFINITY;
            }
        }
    };
    float largest = -INFINITY, sum = 0;
    const auto take = [&](int p) {
        for (int i = p * part + threadIdx.x; i < min(vectors, (p + 1) * part); i += kRowThreads) {
            float x[kLane];
            unpack(i, x);
            float most = largest;
#pragma unroll
            for (int j = 0; j < kLane; ++j) most = fmaxf(most, x[j]);
            if (most > largest) {
                if (largest != -INFINITY) sum *= powerOfTwo(shiftOf(largest) - shiftOf(most));
                largest = most;
            }
            const float shift = shiftOf(largest);
#pragma unroll
            for (int j = 0; j < kLane; ++j) sum += powerOfTwo(__fmaf_rn(x[j], 1.4426950408889634f, -shift));  // or NaN
        }
    };
    asm volatile("cp.async.wait_group 3;" ::: "memory");
    take(0);
    asm volatile("cp.async.wait_group 2;" ::: "memory");
    take(1);
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    take(2);
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    take(3);
    static_assert(kParts == 4);
    const float most = blockJoin(largest, largestOf, [](float a, float b) { return fmaxf(a, b); });
    const float shift = shiftOf(most);
    if (largest != -INFINITY) sum *= powerOfTwo(shiftOf(largest) - shift);
    sum = blockJoin(sum, sumOf, [](float a, float b) { return a + b; });
    if (threadIdx.x == 0) op.losses[row] = logf(sum) + (most - wanted);
    if (!op.backward) return;
    // The block has read `wanted` (blockJoin's barriers), so the row may be written over.
    const float scale = *op.gradientScale, inverse = scale / sum;
    for (int i = threadIdx.x; i < vectors; i += kRowThreads) {
        float x[kLane];
        unpack(i, x);
#pragma unroll
        for (int j = 0; j < kLane; ++j) x[j] = powerOfTwo(__fmaf_rn(x[j], 1.4426950408889634f, -shift)) * inverse;
        if (target / kLane == i) {
#pragma unroll
            for (int j = 0; j < kLane; ++j)
                if (target % kLane == j) x[j] -= scale;
        }
        Raw8<T> raw;
        raw.pack(x);
        raw.store(reinterpret_cast<T*>(logits + i), kLane, true);
    }
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

constexpr size_t kKeptBytes = 110 * 1024;  ///< two blocks fit Hopper's 227 KiB

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
            return;
        }
        const unsigned rows = static_cast<unsigned>(op.rows);
        if constexpr (sizeof(T) == 2) {
            const size_t bytes = static_cast<size_t>(op.vocabularyPadded) * sizeof(T);
            if (aligned && bytes <= kKeptBytes && bytes + 1024 <= static_cast<size_t>(context.sharedMemoryPerBlock)) {
                allowSharedMemory(crossEntropyKeptKernel<T>, bytes);
                crossEntropyKeptKernel<T><<<rows, kRowThreads, bytes, context.stream>>>(op);
                return;
            }
        }
        crossEntropyKernel<T, kRowThreads><<<rows, kRowThreads, 0, context.stream>>>(op, aligned);
    });
    MANTISSA_CUDA_CHECK(cudaGetLastError());
    if (op.backward && op.cast.format != DType::None) launch(context, castOf(op));
}

void launch(const LaunchContext& context, const SumLosses& op) {
    sumLossesKernel<<<1, kSumThreads, 0, context.stream>>>(op);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

}  // namespace mantissa::kernels::cuda
