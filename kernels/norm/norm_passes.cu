// The norm written out: one kernel a stage. Element stages: a thread an element; sums over a row: a warp a row, in a
// fixed order; sums over columns: a thread a column and stretch of rows, the stretches then added in order. Memory
// bound, each stage reads and writes its tensors once.
#include "kernels/norm/norm_cuda.cuh"
#include "kernels/norm/norm_passes.h"

namespace mantissa::kernels::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int64_t kStretchRows = 128;  ///< rows that one thread adds up in a sum over columns

template <class T, NormStage kStage>
__global__ void __launch_bounds__(kThreads) normElementKernel(NormPass op) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
    if (i >= op.rows * op.cols) return;
    const int64_t row = i / op.cols, col = i - row * op.cols;
    const T *in = static_cast<const T*>(op.in), *gain = static_cast<const T*>(op.gain);
    T* out = static_cast<T*>(op.out);
    const float k = op.rowIn ? op.rowIn[row] : 0.0f;
    if constexpr (kStage == NormStage::AddResidual)
        out[i] = fromFloat<T>(__fadd_rn(toFloat(in[i]), toFloat(static_cast<const T*>(op.in2)[i])));
    if constexpr (kStage == NormStage::Center) op.workOut[i] = __fsub_rn(toFloat(in[i]), k);
    if constexpr (kStage == NormStage::Scale) op.workOut[i] = __fmul_rn(op.work[i], k);
    if constexpr (kStage == NormStage::GainBias) {
        const float bias = op.bias ? toFloat(static_cast<const T*>(op.bias)[col]) : 0.0f;
        out[i] = fromFloat<T>(__fmaf_rn(op.work[i], toFloat(gain[col]), bias));
    }
    if constexpr (kStage == NormStage::TimesGain) op.workOut[i] = __fmul_rn(toFloat(in[i]), toFloat(gain[col]));
    if constexpr (kStage == NormStage::Shift) op.workOut[i] = __fsub_rn(op.work[i], k);
    if constexpr (kStage == NormStage::SubtractDot) op.workOut[i] = __fmaf_rn(-op.work2[i], k, op.work[i]);
    if constexpr (kStage == NormStage::ScaleAdd)
        out[i] = fromFloat<T>(__fmaf_rn(op.work[i], k, in ? toFloat(in[i]) : 0.0f));
}

template <class T, NormStage kStage>
__global__ void __launch_bounds__(kThreads) normRowKernel(NormPass op) {
    const int64_t row = static_cast<int64_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
    if (row >= op.rows) return;
    const int lane = threadIdx.x % 32;
    const int64_t first = row * op.cols;
    float sum = 0;
    for (int64_t col = lane; col < op.cols; col += 32) {
        if constexpr (kStage == NormStage::Mean) sum += toFloat(static_cast<const T*>(op.in)[first + col]);
        if constexpr (kStage == NormStage::WorkMean) sum += op.work[first + col];
        if constexpr (kStage == NormStage::Rstd) sum = __fmaf_rn(op.work[first + col], op.work[first + col], sum);
        if constexpr (kStage == NormStage::WorkDot) sum = __fmaf_rn(op.work[first + col], op.work2[first + col], sum);
    }
    for (int offset = 16; offset; offset /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, offset);
    if (lane != 0) return;
    const float mean = __fdiv_rn(sum, static_cast<float>(op.cols));
    if constexpr (kStage == NormStage::Rstd) {
        op.rowOut[row] = __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(mean, op.eps)));
    } else {
        op.rowOut[row] = mean;
    }
}

/// partials (stretches, cols): sums over kStretchRows rows.
template <class T, NormStage kStage>
__global__ void __launch_bounds__(kThreads) normColumnKernel(NormPass op, float* partials) {
    const int64_t col = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
    if (col >= op.cols) return;
    const int64_t first = static_cast<int64_t>(blockIdx.y) * kStretchRows, last = min(op.rows, first + kStretchRows);
    float sum = 0;
    for (int64_t row = first; row < last; ++row) {
        const int64_t i = row * op.cols + col;
        const float x = toFloat(static_cast<const T*>(op.in)[i]);
        sum = kStage == NormStage::ColumnDot ? __fmaf_rn(x, op.work[i], sum) : sum + x;
    }
    partials[blockIdx.y * op.cols + col] = sum;
}

__global__ void __launch_bounds__(kThreads)
    normColumnEndKernel(const float* partials, int64_t stretches, int64_t cols, float* out, bool accumulate) {
    const int64_t col = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
    if (col >= cols) return;
    double sum = accumulate ? out[col] : 0.0;
    for (int64_t i = 0; i < stretches; ++i) sum += partials[i * cols + col];
    out[col] = static_cast<float>(sum);
}

int64_t stretchesOf(const NormPass& op) {
    return (op.rows + kStretchRows - 1) / kStretchRows;
}
unsigned blocksFor(int64_t items, int64_t perBlock) {
    return static_cast<unsigned>((items + perBlock - 1) / perBlock);
}

template <class T, NormStage kStage>
void launchStage(const LaunchContext& context, const NormPass& op) {
    if constexpr (sumsColumns(kStage)) {
        float* partials = static_cast<float*>(context.scratch(workspaceBytes(op), "norm pass"));
        const dim3 grid(blocksFor(op.cols, kThreads), static_cast<unsigned>(stretchesOf(op)));
        normColumnKernel<T, kStage><<<grid, kThreads, 0, context.stream>>>(op, partials);
        MANTISSA_CUDA_CHECK(cudaGetLastError());
        normColumnEndKernel<<<blocksFor(op.cols, kThreads), kThreads, 0, context.stream>>>(
            partials, stretchesOf(op), op.cols, op.columnOut, op.accumulate);
    } else if constexpr (kStage == NormStage::Mean || kStage == NormStage::Rstd || kStage == NormStage::WorkMean ||
                         kStage == NormStage::WorkDot) {
        normRowKernel<T, kStage><<<blocksFor(op.rows, kThreads / 32), kThreads, 0, context.stream>>>(op);
    } else {
        normElementKernel<T, kStage><<<blocksFor(op.rows * op.cols, kThreads), kThreads, 0, context.stream>>>(op);
    }
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

template <class T, int kStage = 0>
void launchOf(const LaunchContext& context, const NormPass& op) {
    if constexpr (kStage < kNormStages) {
        constexpr NormStage stage = static_cast<NormStage>(kStage);
        if (op.stage == stage) return launchStage<T, stage>(context, op);
        launchOf<T, kStage + 1>(context, op);
    }
}

}  // namespace

size_t workspaceBytes(const NormPass& op) {
    return sumsColumns(op.stage) ? roundUp256(static_cast<size_t>(stretchesOf(op) * op.cols) * sizeof(float)) : 0;
}

void launch(const LaunchContext& context, const NormPass& op) {
    require(op.rows > 0 && op.cols > 0, "norm pass", "rows and columns must be positive");
    require(complete(op), "norm pass", "an input or output of the stage is missing");
    withType(op.type, "norm pass", [&](auto tag) { launchOf<typename decltype(tag)::Type>(context, op); });
}

}  // namespace mantissa::kernels::cuda
