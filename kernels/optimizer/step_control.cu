// The small ops of a step on the device: its begin, the gradient norm, the decision whether the optimizer runs, initial
// weights, fills. State lives on the device; nothing here waits for the host.
#include <cfloat>

#include "kernels/device/cuda/cast.cuh"
#include "kernels/optimizer/normal_table.h"
#include "kernels/optimizer/optimizer.h"

namespace mantissa::kernels::cuda {

namespace {

constexpr int kBlockElements = 32768, kSumThreads = 256, kControlThreads = 1024;

__global__ void stepBeginKernel(StepBegin op) {
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        op.parameters->gradientScale = op.state->lossScale / static_cast<float>(op.parameters->tokens);
        op.state->lossSum = 0;
    }
    // Slots are plain words; a block clears one.
    if (blockIdx.x >= op.slotCount) return;
    uint64_t* words = reinterpret_cast<uint64_t*>(op.slots + blockIdx.x);
    for (int i = threadIdx.x; i < static_cast<int>(sizeof(TensorSlot) / 8); i += blockDim.x) words[i] = 0;
}
static_assert(sizeof(TensorSlot) % 8 == 0);

/// partials[block]: thread sums over strides in double, then a fixed tree.
__global__ void __launch_bounds__(kSumThreads) sumSquaresKernel(SumSquares op, bool aligned) {
    __shared__ double sums[kSumThreads];
    const int64_t first = static_cast<int64_t>(blockIdx.x) * kBlockElements, last = min(op.n, first + kBlockElements);
    double sum = 0;
    if (aligned && last - first == kBlockElements) {
        const float4* values = reinterpret_cast<const float4*>(op.values + first);
#pragma unroll 8
        for (int i = threadIdx.x; i < kBlockElements / 4; i += kSumThreads) {
            const float4 v = values[i];
            sum += static_cast<double>(v.x) * v.x + static_cast<double>(v.y) * v.y + static_cast<double>(v.z) * v.z +
                   static_cast<double>(v.w) * v.w;
        }
    } else {
        for (int64_t i = first + threadIdx.x; i < last; i += kSumThreads) {
            sum += static_cast<double>(op.values[i]) * op.values[i];
        }
    }
    sums[threadIdx.x] = sum;
    for (int half = kSumThreads / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    if (threadIdx.x == 0) op.partials[blockIdx.x] = sums[0];
}

/// The rules of kernels/optimizer/step_control.cpp.
__device__ void updateLossScale(StepState& state, bool finite, int interval) {
    if (!finite) {
        state.lossScale = fmaxf(1.0f, state.lossScale / 2);
        state.goodSteps = 0;
    } else if (++state.goodSteps >= static_cast<uint32_t>(interval)) {
        state.lossScale = fminf(16777216.0f, state.lossScale * 2);
        state.goodSteps = 0;
    }
}

__global__ void __launch_bounds__(kControlThreads) gradientControlKernel(GradientControl op) {
    __shared__ double sums[kControlThreads];
    double sum = 0;
    for (int64_t i = threadIdx.x; i < op.partialCount; i += kControlThreads) sum += op.partials[i];
    sums[threadIdx.x] = sum;
    for (int half = kControlThreads / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    if (threadIdx.x != 0) return;
    StepState& state = *op.state;
    const double norm = sqrt(sums[0]) / state.lossScale;
    const bool finite = isfinite(norm) && isfinite(state.lossSum);
    state.gradientNorm = static_cast<float>(norm);
    const double clip = op.clip > 0 && norm > op.clip ? op.clip / norm : 1.0;
    state.clipFactor = static_cast<float>(clip / state.lossScale);
    state.applied = op.parameters->stop == 0 && (finite || !op.skipNonFinite);
    state.skippedRunning = state.applied ? 0 : state.skippedRunning + 1;
    if (state.applied) {
        state.beta1Power *= op.beta1;
        state.beta2Power *= op.beta2;
        ++state.updates;
    }
    if (op.dynamicLossScale && op.parameters->stop == 0) updateLossScale(state, finite, op.growthInterval);
}

__global__ void initNormalKernel(InitNormal op, const int64_t* table) {
    const int64_t pair = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (pair * 2 >= op.n) return;
    const Philox4 random = philoxBlock(op.seed, static_cast<uint64_t>(pair), op.stream);
    op.out[pair * 2] = normalValue(table, random.value[0] | static_cast<uint64_t>(random.value[1]) << 32, op.std);
    if (pair * 2 + 1 < op.n) {
        op.out[pair * 2 + 1] =
            normalValue(table, random.value[2] | static_cast<uint64_t>(random.value[3]) << 32, op.std);
    }
}

__global__ void fillKernel(Fill op) {
    const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < op.n; i += stride)
        op.out[i] = op.value;
}

}  // namespace

size_t workspaceBytes(const StepBegin&) {
    return 0;
}
size_t workspaceBytes(const SumSquares&) {
    return 0;
}
size_t workspaceBytes(const GradientControl&) {
    return 0;
}
size_t workspaceBytes(const InitNormal&) {
    return 0;
}
size_t workspaceBytes(const Fill&) {
    return 0;
}

void launch(const LaunchContext& context, const StepBegin& op) {
    const unsigned blocks = op.slotCount > 1 ? static_cast<unsigned>(op.slotCount) : 1;
    stepBeginKernel<<<blocks, 128, 0, context.stream>>>(op);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

void launch(const LaunchContext& context, const SumSquares& op) {
    if (op.n <= 0) return;
    const unsigned blocks = static_cast<unsigned>((op.n + kBlockElements - 1) / kBlockElements);
    sumSquaresKernel<<<blocks, kSumThreads, 0, context.stream>>>(op, reinterpret_cast<uintptr_t>(op.values) % 16 == 0);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

void launch(const LaunchContext& context, const GradientControl& op) {
    gradientControlKernel<<<1, kControlThreads, 0, context.stream>>>(op);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

void launch(const LaunchContext& context, const InitNormal& op) {
    if (op.n <= 0) return;
    const auto* table =
        static_cast<const int64_t*>(context.tables->table(normalTable(), kNormalTableSize * sizeof(int64_t)));
    const int64_t pairs = (op.n + 1) / 2;
    initNormalKernel<<<static_cast<unsigned>((pairs + 255) / 256), 256, 0, context.stream>>>(op, table);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

void launch(const LaunchContext& context, const Fill& op) {
    if (op.n <= 0) return;
    if (op.value == 0 && !std::signbit(op.value)) {
        MANTISSA_CUDA_CHECK(cudaMemsetAsync(op.out, 0, static_cast<size_t>(op.n) * sizeof(float), context.stream));
        return;
    }
    const int64_t blocks = (op.n + 255) / 256, most = static_cast<int64_t>(context.multiprocessors) * 16;
    fillKernel<<<static_cast<unsigned>(blocks < most ? blocks : most), 256, 0, context.stream>>>(op);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

}  // namespace mantissa::kernels::cuda
