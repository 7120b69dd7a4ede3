// FP8 scales on the device: the delayed update of every tensor in one launch (a block a tensor), and the current scale.
#include <cfloat>

#include "kernels/device/cuda/cuda_check.h"
#include "kernels/device/cuda/cuda_launch.h"

namespace mantissa::kernels::cuda {

namespace {

constexpr int kThreads = 128;

__device__ float largestFinite(DType format) {
    return format == DType::E4M3 ? 448.0f : 57344.0f;
}

__global__ void __launch_bounds__(kThreads) delayedUpdateKernel(DelayedUpdate op) {
    const int tensor = blockIdx.x, thread = threadIdx.x;
    const ScalingTensor description = op.tensors[tensor];
    if (!description.delayed || (description.isWeight && op.applied && *op.applied == 0)) return;
    float* window = op.history + description.historyOffset;
    const int length = description.historyLength;
    const float amax = op.slots[tensor].amax;
    // A NaN in slot 0 rolls like a number, though no maximum sees it.
    const float newest = isnan(amax) || isnan(window[0]) ? __int_as_float(0x7FC00000) : fmaxf(window[0], amax);
    if (newest == 0.0f) return;  // did not run: nothing changes

    __shared__ float warps[kThreads / 32];
    float largest = newest;
    if (description.algorithm == AmaxAlgorithm::Max) {
        for (int i = 1 + thread; i < length; i += kThreads) largest = fmaxf(largest, window[i]);
        for (int offset = 16; offset; offset /= 2) {
            largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, offset));
        }
        if (thread % 32 == 0) warps[thread / 32] = largest;
        __syncthreads();
        for (int i = 0; i < kThreads / 32; ++i) largest = fmaxf(largest, warps[i]);
    }
    // Roll: slot i takes slot i + 1, the last slot takes this step's amax, slot 0 becomes 0. In strides, reads before
    // writes.
    __syncthreads();
    for (int base = 0; base < length; base += kThreads) {
        const int i = base + thread;
        float value = 0;
        if (i < length) value = i + 1 < length ? window[i + 1] : newest;
        __syncthreads();
        if (i < length) window[i] = i == 0 ? 0.0f : value;
        __syncthreads();
    }
    if (thread != 0) return;
    if (length == 1) window[0] = 0;
    ScaleEntry& entry = op.table[tensor];
    const float before = entry.scale;
    float scale = before;
    if (largest > 0.0f && !isinf(largest)) {
        scale = __fdiv_rn(ldexpf(largestFinite(description.format), -description.margin), largest);
        if (isinf(scale)) scale = FLT_MAX;
    }
    entry.scale = scale;
    entry.scaleInv = __frcp_rn(scale);
    entry.updates += 1;
    if (scale != before) entry.lastChange = entry.updates;
}

__global__ void currentScaleKernel(CurrentScale op) {
    const float amax = op.slot->amax > op.epsilon ? op.slot->amax : op.epsilon;
    float scale = 1;
    if (amax > 0.0f && !isinf(amax)) {
        scale = __fdiv_rn(largestFinite(op.format), amax);
        if (isinf(scale)) scale = FLT_MAX;
        if (op.powerOfTwo) scale = __int_as_float(__float_as_int(scale) & 0xFF800000);
    }
    op.entry->scale = scale;
    op.entry->scaleInv = __frcp_rn(scale);
}

}  // namespace

size_t workspaceBytes(const DelayedUpdate&) {
    return 0;
}
size_t workspaceBytes(const CurrentScale&) {
    return 0;
}

void launch(const LaunchContext& context, const DelayedUpdate& op) {
    if (op.count == 0) return;
    delayedUpdateKernel<<<op.count, kThreads, 0, context.stream>>>(op);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

void launch(const LaunchContext& context, const CurrentScale& op) {
    currentScaleKernel<<<1, 1, 0, context.stream>>>(op);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

}  // namespace mantissa::kernels::cuda
