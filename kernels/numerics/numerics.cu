// The looking ops on the GPU: memory-bound counts, and double products on a few rows.
#include "kernels/device/cuda/cast.cuh"
#include "kernels/formats/half.h"
#include "kernels/numerics/numerics_ops.h"

namespace mantissa::kernels::cuda {

namespace {

constexpr int kThreads = 256;

unsigned blocksFor(const LaunchContext& context, int64_t count) {
    const int64_t wanted = (count + kThreads - 1) / kThreads, most = static_cast<int64_t>(context.multiprocessors) * 16;
    return static_cast<unsigned>(wanted < most ? wanted : most);
}

template <class Word>
__global__ void checkKernel(const Word* in, int64_t n, int64_t offset, Word infinity, Word magnitude,
                            FiniteCount* out) {
    const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
    uint32_t nan = 0, inf = 0;
    unsigned long long first = 0;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) {
        const Word value = in[i];
        if ((value & infinity) != infinity) continue;
        if (!first) first = ~static_cast<unsigned long long>(i + offset);
        (value & magnitude) == infinity ? ++inf : ++nan;
    }
    if (!first) return;  // as good as always
    if (nan) atomicAdd(reinterpret_cast<unsigned long long*>(&out->nan), static_cast<unsigned long long>(nan));
    if (inf) atomicAdd(reinterpret_cast<unsigned long long*>(&out->inf), static_cast<unsigned long long>(inf));
    atomicMax(reinterpret_cast<unsigned long long*>(&out->firstInverted), first);
}

__device__ float plainAt(DType type, const void* data, int64_t i) {
    if (type == DType::BF16) return decodeBf16(static_cast<const uint16_t*>(data)[i]);
    if (type == DType::F16) return decodeFp16(static_cast<const uint16_t*>(data)[i]);
    return static_cast<const float*>(data)[i];
}

/// Block (128 columns) of grid (columns / 128, sampled rows): a thread a column, k ascending.
__global__ void __launch_bounds__(128) shadowKernel(ShadowProduct op, int64_t samples, ShadowSums* partials) {
    __shared__ double wantedSums[128], errorSums[128];
    const int64_t row = blockIdx.y * op.m / samples, column = static_cast<int64_t>(blockIdx.x) * 128 + threadIdx.x;
    double wanted = 0, error = 0;
    if (column < op.n) {
        for (int64_t i = 0; i < op.k; ++i) {
            const float a = plainAt(op.a.type, op.a.data, op.a.kContiguous ? row * op.a.ld + i : i * op.a.ld + row);
            float b = plainAt(op.b.type, op.b.data, op.b.kContiguous ? column * op.b.ld + i : i * op.b.ld + column);
            if (op.roundB) b = roundToBf16(b);
            wanted += static_cast<double>(a) * static_cast<double>(b);
        }
        const double bias = op.bias ? plainAt(op.biasType, op.bias, column) : 0.0;
        error = plainAt(op.outType, op.out, row * op.ldOut + column) - (wanted + bias);
    }
    wantedSums[threadIdx.x] = wanted * wanted;
    errorSums[threadIdx.x] = error * error;
    __syncthreads();
    if (threadIdx.x != 0) return;
    ShadowSums sums;
    for (int i = 0; i < 128; ++i) sums.wanted += wantedSums[i], sums.error += errorSums[i];
    partials[blockIdx.y * gridDim.x + blockIdx.x] = sums;
}

__global__ void mergeShadowKernel(const ShadowSums* partials, int64_t count, uint64_t rows, ShadowSums* out) {
    ShadowSums sums;
    for (int64_t i = 0; i < count; ++i) sums.wanted += partials[i].wanted, sums.error += partials[i].error;
    sums.rows = rows;
    *out = sums;
}

__global__ void codeCheckKernel(CodeCheck op) {
    const Fp8Traits format = fp8Traits(op.format);
    const float scale = *op.scale;
    const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
    uint32_t different = 0;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < op.n; i += stride) {
        const float value = roundToBf16(plainAt(op.inType, op.in, i));
        different += encodeFp8(__fmul_rn(value, scale), format) != op.codes[i];
    }
    if (different)
        atomicAdd(reinterpret_cast<unsigned long long*>(op.different), static_cast<unsigned long long>(different));
}

int64_t samplesOf(const ShadowProduct& op) {
    return op.samples < op.m ? op.samples : op.m;
}
int64_t columnBlocks(const ShadowProduct& op) {
    return (op.n + 127) / 128;
}

}  // namespace

size_t workspaceBytes(const CheckFinite&) {
    return 0;
}

void launch(const LaunchContext& context, const CheckFinite& op) {
    if (op.n <= 0) return;
    const unsigned blocks = blocksFor(context, op.n);
    if (op.type == DType::F32)
        checkKernel<<<blocks, kThreads, 0, context.stream>>>(static_cast<const uint32_t*>(op.in), op.n, op.offset,
                                                             0x7F800000u, 0x7FFFFFFFu, op.out);
    else
        checkKernel<<<blocks, kThreads, 0, context.stream>>>(
            static_cast<const uint16_t*>(op.in), op.n, op.offset,
            op.type == DType::BF16 ? uint16_t{0x7F80} : uint16_t{0x7C00}, uint16_t{0x7FFF}, op.out);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

size_t workspaceBytes(const ShadowProduct& op) {
    return roundUp256(static_cast<size_t>(samplesOf(op) * columnBlocks(op)) * sizeof(ShadowSums));
}

void launch(const LaunchContext& context, const ShadowProduct& op) {
    require(op.sums && op.out && op.samples >= 1, "shadow", "there is nothing to compare");
    if (op.m <= 0 || op.n <= 0) return;
    auto* partials = static_cast<ShadowSums*>(context.scratch(workspaceBytes(op), "shadow"));
    const int64_t samples = samplesOf(op), across = columnBlocks(op);
    const dim3 grid(static_cast<unsigned>(across), static_cast<unsigned>(samples));
    shadowKernel<<<grid, 128, 0, context.stream>>>(op, samples, partials);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
    mergeShadowKernel<<<1, 1, 0, context.stream>>>(partials, samples * across, static_cast<uint64_t>(samples), op.sums);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

size_t workspaceBytes(const CodeCheck&) {
    return 0;
}

void launch(const LaunchContext& context, const CodeCheck& op) {
    require(isFp8(op.format) && op.scale && op.different, "code check", "there are no FP8 codes");
    MANTISSA_CUDA_CHECK(cudaMemsetAsync(op.different, 0, sizeof(uint64_t), context.stream));
    if (op.n <= 0) return;
    codeCheckKernel<<<blocksFor(context, op.n), kThreads, 0, context.stream>>>(op);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

}  // namespace mantissa::kernels::cuda
