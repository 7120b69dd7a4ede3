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

constexpr int kTile = 32;  ///< rows, columns and k of a block's tile
constexpr int kTileLoads = kTile * kTile / kThreads;
constexpr int64_t kEnoughBlocks = 256;  ///< k is cut until there are about that many: a function of the shape alone

int64_t samplesOf(const ShadowProduct& op) {
    return op.samples < op.m ? op.samples : op.m;
}

struct ShadowLayout {
    int64_t across, down, cuts, kPerCut, sumBlocks;
    size_t products, total;  ///< bytes
};

ShadowLayout shadowLayout(const ShadowProduct& op) {
    ShadowLayout layout{};
    const int64_t samples = samplesOf(op), tiles = (op.k + kTile - 1) / kTile;
    layout.across = (op.n + kTile - 1) / kTile, layout.down = (samples + kTile - 1) / kTile;
    const int64_t wanted = kEnoughBlocks / (layout.across * layout.down);
    layout.cuts = wanted < 1 || tiles < 1 ? 1 : wanted < tiles ? wanted : tiles;
    layout.kPerCut = (tiles + layout.cuts - 1) / layout.cuts * kTile;
    layout.sumBlocks = (samples * op.n + kThreads - 1) / kThreads;
    layout.products = roundUp256(static_cast<size_t>(layout.cuts * samples * op.n) * sizeof(double));
    layout.total = layout.products + roundUp256(static_cast<size_t>(layout.sumBlocks) * sizeof(ShadowSums));
    return layout;
}

/// A tile of one operand on its way: neighbours of a warp lie beside each other in memory.
struct TileValues {
    double value[kTileLoads];

    /// lineOf(i): the operand's line of the tile's line i, -1: there is none.
    template <class LineOf>
    __device__ __forceinline__ void load(const MatmulOperand& from, bool round, int64_t k0, int64_t kEnd,
                                         LineOf lineOf) {
#pragma unroll
        for (int i = 0; i < kTileLoads; ++i) {
            const int at = static_cast<int>(threadIdx.x) + i * kThreads;
            const int64_t k = k0 + (from.kContiguous ? at % kTile : at / kTile);
            const int64_t line = lineOf(from.kContiguous ? at / kTile : at % kTile);
            float plain = 0;
            if (line >= 0 && k < kEnd)
                plain = plainAt(from.type, from.data, from.kContiguous ? line * from.ld + k : k * from.ld + line);
            value[i] = round ? roundToBf16(plain) : plain;
        }
    }
    __device__ __forceinline__ void store(bool kContiguous, double (&to)[kTile][kTile + 1]) const {
#pragma unroll
        for (int i = 0; i < kTileLoads; ++i) {
            const int at = static_cast<int>(threadIdx.x) + i * kThreads;
            (kContiguous ? to[at % kTile][at / kTile] : to[at / kTile][at % kTile]) = value[i];
        }
    }
};

/// Block (32 columns, 32 sampled rows, one cut of k): a thread four rows of a column, k ascending; the next tiles are
/// loaded meanwhile.
__global__ void __launch_bounds__(kThreads)
    shadowProductKernel(ShadowProduct op, int64_t samples, int64_t kPerCut, double* products) {
    __shared__ double a[kTile][kTile + 1], b[kTile][kTile + 1];
    constexpr int kRows = kTile * kTile / kThreads;
    const int64_t column0 = static_cast<int64_t>(blockIdx.x) * kTile,
                  sample0 = static_cast<int64_t>(blockIdx.y) * kTile;
    const int64_t kStart = blockIdx.z * kPerCut, kEnd = min(op.k, kStart + kPerCut);
    const auto rowOf = [&](int i) { return sample0 + i < samples ? (sample0 + i) * op.m / samples : int64_t{-1}; };
    const auto columnOf = [&](int i) { return column0 + i < op.n ? column0 + i : int64_t{-1}; };
    const int column = threadIdx.x % kTile, row = threadIdx.x / kTile * kRows;
    double sum[kRows] = {};
    TileValues nextA, nextB;
    nextA.load(op.a, false, kStart, kEnd, rowOf), nextB.load(op.b, op.roundB, kStart, kEnd, columnOf);
    for (int64_t k0 = kStart; k0 < kEnd; k0 += kTile) {
        nextA.store(op.a.kContiguous, a), nextB.store(op.b.kContiguous, b);
        __syncthreads();
        nextA.load(op.a, false, k0 + kTile, kEnd, rowOf), nextB.load(op.b, op.roundB, k0 + kTile, kEnd, columnOf);
#pragma unroll 8
        for (int k = 0; k < kTile; ++k) {
            const double right = b[k][column];
#pragma unroll
            for (int i = 0; i < kRows; ++i) sum[i] += a[k][row + i] * right;
        }
        __syncthreads();
    }
    if (column0 + column >= op.n) return;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
        const int64_t sample = sample0 + row + i;
        if (sample < samples) products[(blockIdx.z * samples + sample) * op.n + column0 + column] = sum[i];
    }
}

/// Sums over the block in a fixed order, in thread 0.
__device__ ShadowSums blockSums(ShadowSums mine) {
    __shared__ double wanted[kThreads], error[kThreads];
    wanted[threadIdx.x] = mine.wanted, error[threadIdx.x] = mine.error;
    for (int half = kThreads / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x >= half) continue;
        wanted[threadIdx.x] += wanted[threadIdx.x + half];
        error[threadIdx.x] += error[threadIdx.x + half];
    }
    mine.wanted = wanted[0], mine.error = error[0];
    return mine;
}

/// A thread an element: adds the cuts in order and compares.
__global__ void __launch_bounds__(kThreads)
    shadowSumsKernel(ShadowProduct op, int64_t samples, int64_t cuts, const double* products, ShadowSums* partials) {
    const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
    ShadowSums mine;
    if (at < samples * op.n) {
        const int64_t sample = at / op.n, column = at % op.n;
        double wanted = 0;
        for (int64_t cut = 0; cut < cuts; ++cut) wanted += products[cut * samples * op.n + at];
        const double bias = op.bias ? plainAt(op.biasType, op.bias, column) : 0.0;
        const double error = plainAt(op.outType, op.out, sample * op.m / samples * op.ldOut + column) - (wanted + bias);
        mine.wanted = wanted * wanted, mine.error = error * error;
    }
    const ShadowSums sums = blockSums(mine);
    if (threadIdx.x == 0) partials[blockIdx.x] = sums;
}

__global__ void __launch_bounds__(kThreads)
    mergeShadowKernel(const ShadowSums* partials, int64_t count, uint64_t rows, ShadowSums* out) {
    ShadowSums mine;
    for (int64_t i = threadIdx.x; i < count; i += kThreads)
        mine.wanted += partials[i].wanted, mine.error += partials[i].error;
    ShadowSums sums = blockSums(mine);
    sums.rows = rows;
    if (threadIdx.x == 0) *out = sums;
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
    return shadowLayout(op).total;
}

void launch(const LaunchContext& context, const ShadowProduct& op) {
    require(op.sums && op.out && op.samples >= 1, "shadow", "there is nothing to compare");
    if (op.m <= 0 || op.n <= 0) return;
    const int64_t samples = samplesOf(op);
    const ShadowLayout layout = shadowLayout(op);
    char* scratch = static_cast<char*>(context.scratch(layout.total, "shadow"));
    auto* products = reinterpret_cast<double*>(scratch);
    auto* partials = reinterpret_cast<ShadowSums*>(scratch + layout.products);
    const dim3 grid(static_cast<unsigned>(layout.across), static_cast<unsigned>(layout.down),
                    static_cast<unsigned>(layout.cuts));
    shadowProductKernel<<<grid, kThreads, 0, context.stream>>>(op, samples, layout.kPerCut, products);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
    shadowSumsKernel<<<static_cast<unsigned>(layout.sumBlocks), kThreads, 0, context.stream>>>(op, samples, layout.cuts,
                                                                                               products, partials);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
    mergeShadowKernel<<<1, kThreads, 0, context.stream>>>(partials, layout.sumBlocks, static_cast<uint64_t>(samples),
                                                          op.sums);
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
