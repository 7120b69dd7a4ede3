// AdamW written out: one kernel a stage and tensor. Memory bound: 8 to 16 bytes an element and stage.
#include "kernels/device/cuda/cast.cuh"
#include "kernels/optimizer/adamw_cuda.cuh"
#include "kernels/optimizer/adamw_passes.h"

namespace mantissa::kernels::cuda {

namespace {

constexpr int kThreads = 256;

constexpr int kPerThread = 8;

template <AdamWStage kStage>
__device__ __forceinline__ void stageAt(const AdamWPass& op, const Factors& f, int64_t i) {
    if constexpr (kStage == AdamWStage::Clip) op.a[i] = clipped(f, op.gradients[i]);
    if constexpr (kStage == AdamWStage::Moment1) op.moment1[i] = newMoment1(f, op.moment1[i], op.a[i]);
    if constexpr (kStage == AdamWStage::Square) op.b[i] = squared(f, op.a[i]);
    if constexpr (kStage == AdamWStage::Moment2) op.moment2[i] = newMoment2(f, op.moment2[i], op.b[i]);
    if constexpr (kStage == AdamWStage::Correct2) op.b[i] = __fmul_rn(op.moment2[i], f.inverse2);
    if constexpr (kStage == AdamWStage::Root) op.b[i] = __fsqrt_rn(op.b[i]);
    if constexpr (kStage == AdamWStage::Epsilon) op.b[i] = __fadd_rn(op.b[i], f.epsilon);
    if constexpr (kStage == AdamWStage::Divide) op.a[i] = quotient(f, op.moment1[i], op.b[i]);
    if constexpr (kStage == AdamWStage::Decay) op.a[i] = decayed(f, op.masters[i], op.a[i]);
    if constexpr (kStage == AdamWStage::Update) op.masters[i] = moved(f, op.masters[i], op.a[i]);
}

/// Several elements a thread, so that the quotients in double of factorsOf() do not count.
template <AdamWStage kStage>
__global__ void __launch_bounds__(kThreads) adamWPassKernel(AdamWPass op) {
    if (op.state->applied == 0) return;
    const Factors f = factorsOf(op, op.weightDecay);
    const int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads * kPerThread + threadIdx.x;
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
        const int64_t i = first + j * kThreads;
        if (i < op.n) stageAt<kStage>(op, f, i);
    }
}

template <int kStage = 0>
void launchStage(const LaunchContext& context, const AdamWPass& op) {
    if constexpr (kStage < kAdamWStages) {
        constexpr AdamWStage stage = static_cast<AdamWStage>(kStage);
        if (op.stage != stage) return launchStage<kStage + 1>(context, op);
        constexpr int64_t kBlock = kThreads * kPerThread;
        const unsigned blocks = static_cast<unsigned>((op.n + kBlock - 1) / kBlock);
        adamWPassKernel<stage><<<blocks, kThreads, 0, context.stream>>>(op);
        MANTISSA_CUDA_CHECK(cudaGetLastError());
    }
}

}  // namespace

size_t workspaceBytes(const AdamWPass&) {
    return 0;
}

void launch(const LaunchContext& context, const AdamWPass& op) {
    require(op.masters && op.moment1 && op.moment2 && op.gradients && op.a && op.b, "adamw pass",
            "all arrays must be given");
    require(op.state && op.parameters, "adamw pass", "state and parameters must be given");
    if (op.n > 0) launchStage(context, op);
}

}  // namespace mantissa::kernels::cuda
