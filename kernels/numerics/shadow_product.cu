// A product again on a few rows, in double, on the matrix units: BF16 values are exact in double, and so are their
// products.
//
// Three kernels: the sampled rows of A are gathered as F32 [k][64] (in a wgrad they are columns: 64 sectors for each k,
// which every block of columns would read again); blocks of 64 rows x 64 columns x a cut of k multiply; then the cuts
// are added in order and compared. An H200 has 67 TFLOP/s of these units, twice what its ordinary ones have, and a tile
// of 64 x 64 needs 1 byte of shared memory a product where one of 32 x 32 without the units needed 10.
#include "kernels/device/cuda/cast.cuh"
#include "kernels/formats/half.h"
#include "kernels/numerics/numerics_ops.h"

namespace mantissa::kernels::cuda {

namespace {

constexpr int kRows = 64, kColumns = 64, kDepth = 32;  ///< of a block's tile: sampled rows, columns, k
constexpr int kThreads = 128, kGatherThreads = 256, kSumThreads = 256;
constexpr int kPitch = 68;              ///< doubles; 4 modulo 16, so that a fragment's lanes meet in no bank
constexpr int64_t kEnoughBlocks = 396;  ///< k is cut until there are about that many: a function of the shape alone

int64_t samplesOf(const ShadowProduct& op) {
    return op.samples < op.m ? op.samples : op.m;
}

struct ShadowLayout {
    int64_t across, down, cuts, kPerCut, sumBlocks;
    size_t gathered, products, total;  ///< bytes
};

ShadowLayout shadowLayout(const ShadowProduct& op) {
    ShadowLayout layout{};
    const int64_t samples = samplesOf(op), tiles = (op.k + kDepth - 1) / kDepth;
    layout.across = (op.n + kColumns - 1) / kColumns, layout.down = (samples + kRows - 1) / kRows;
    const int64_t wanted = kEnoughBlocks / (layout.across * layout.down);
    const int64_t cuts = wanted < 1 || tiles < 1 ? 1 : wanted < tiles ? wanted : tiles;
    const int64_t tilesPerCut = (tiles + cuts - 1) / cuts;
    layout.kPerCut = tilesPerCut * kDepth;
    layout.cuts = tilesPerCut ? (tiles + tilesPerCut - 1) / tilesPerCut : 1;
    layout.sumBlocks = (samples * op.n + kSumThreads - 1) / kSumThreads;
    layout.gathered = roundUp256(static_cast<size_t>(layout.down * kRows * op.k) * sizeof(float));
    layout.products = roundUp256(static_cast<size_t>(layout.cuts * samples * op.n) * sizeof(double));
    layout.total =
        layout.gathered + layout.products + roundUp256(static_cast<size_t>(layout.sumBlocks) * sizeof(ShadowSums));
    return layout;
}

__device__ float plainAt(DType type, const void* data, int64_t i) {
    if (type == DType::BF16) return decodeBf16(static_cast<const uint16_t*>(data)[i]);
    if (type == DType::F16) return decodeFp16(static_cast<const uint16_t*>(data)[i]);
    return static_cast<const float*>(data)[i];
}

/// out (down, k, 64) F32 = the sampled rows of a, 0 where there is none. A block 32 k of 64 rows.
__global__ void __launch_bounds__(kGatherThreads)
    gatherRowsKernel(MatmulOperand a, int64_t m, int64_t k, int64_t samples, float* out) {
    __shared__ float tile[kDepth][kRows + 1];
    const int64_t k0 = static_cast<int64_t>(blockIdx.x) * kDepth, sample0 = static_cast<int64_t>(blockIdx.y) * kRows;
#pragma unroll
    for (int i = 0; i < kDepth * kRows / kGatherThreads; ++i) {
        const int at = static_cast<int>(threadIdx.x) + i * kGatherThreads;
        const int line = a.kContiguous ? at / kDepth : at % kRows, depth = a.kContiguous ? at % kDepth : at / kRows;
        const int64_t sample = sample0 + line, row = sample * m / samples, here = k0 + depth;
        float value = 0;
        if (sample < samples && here < k)
            value = plainAt(a.type, a.data, a.kContiguous ? row * a.ld + here : here * a.ld + row);
        tile[depth][line] = value;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kDepth * kRows / kGatherThreads; ++i) {
        const int at = static_cast<int>(threadIdx.x) + i * kGatherThreads;
        const int64_t here = k0 + at / kRows;
        if (here < k) out[(blockIdx.y * k + here) * kRows + at % kRows] = tile[at / kRows][at % kRows];
    }
}

/// 16 rows x 8 columns += 16 x 4 times 4 x 8. A lane holds rows lane / 4 and 8 further, columns 2 (lane % 4) and the
/// next; of a rows as the sums', k lane % 4; of b k lane % 4, column lane / 4 (PTX, mma with .f64).
__device__ __forceinline__ void multiply(double (&sum)[4], double a0, double a1, double b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+d"(sum[0]), "+d"(sum[1]), "+d"(sum[2]), "+d"(sum[3])
        : "d"(a0), "d"(a1), "d"(b));
#else
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(sum[0]), "+d"(sum[1])
        : "d"(a0), "d"(b));
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(sum[2]), "+d"(sum[3])
        : "d"(a1), "d"(b));
#endif
}

using Tile = double[kDepth][kPitch];

/// A thread's share of a tile of gathered rows on its way.
struct RowsOnTheWay {
    static constexpr int kPieces = kDepth * kRows / 4 / kThreads;
    float4 piece[kPieces];

    /// from: the row of the tile's first k.
    __device__ __forceinline__ void load(const float* from, int64_t left) {
#pragma unroll
        for (int i = 0; i < kPieces; ++i) {
            const int at = static_cast<int>(threadIdx.x) + i * kThreads;
            piece[i] = make_float4(0, 0, 0, 0);
            if (at / (kRows / 4) < left) piece[i] = reinterpret_cast<const float4*>(from)[at];
        }
    }
    __device__ __forceinline__ void store(Tile& to) const {
#pragma unroll
        for (int i = 0; i < kPieces; ++i) {
            const int at = static_cast<int>(threadIdx.x) + i * kThreads;
            double2* const place = reinterpret_cast<double2*>(&to[at / (kRows / 4)][at % (kRows / 4) * 4]);
            place[0] = make_double2(piece[i].x, piece[i].y), place[1] = make_double2(piece[i].z, piece[i].w);
        }
    }
};

/// A thread's share of a tile of B on its way: eight neighbours along k, or along the columns.
template <class T, bool kContiguous>
struct ColumnsOnTheWay {
    static constexpr int kPieces = kDepth * kColumns / kLane / kThreads;
    Raw8<T> piece[kPieces];

    static __device__ __forceinline__ int depthOf(int at) {
        return kContiguous ? at / kColumns * kLane : at / (kColumns / kLane);
    }
    static __device__ __forceinline__ int columnOf(int at) {
        return kContiguous ? at % kColumns : at % (kColumns / kLane) * kLane;
    }
    __device__ __forceinline__ void load(const ShadowProduct& op, bool aligned, int64_t k0, int64_t kEnd,
                                         int64_t column0) {
#pragma unroll
        for (int i = 0; i < kPieces; ++i) {
            const int at = static_cast<int>(threadIdx.x) + i * kThreads;
            const int64_t k = k0 + depthOf(at), column = column0 + columnOf(at);
            const int64_t left = kContiguous ? kEnd - k : op.n - column;
            const int valid = static_cast<int>(max(int64_t{0}, min(int64_t{kLane}, left)));
            const int64_t from = kContiguous ? column * op.b.ld + k : k * op.b.ld + column;
            piece[i].clear();
            if (valid > 0 && k < kEnd && column < op.n)
                piece[i].load(static_cast<const T*>(op.b.data) + from, valid, aligned && valid == kLane);
        }
    }
    __device__ __forceinline__ void store(bool round, Tile& to) const {
#pragma unroll
        for (int i = 0; i < kPieces; ++i) {
            const int at = static_cast<int>(threadIdx.x) + i * kThreads;
            float value[kLane];
            piece[i].unpack(value);
            if (std::is_same_v<T, float> && round) {
#pragma unroll
                for (int j = 0; j < kLane; ++j) value[j] = rounded<Bf16>(value[j]);
            }
            if constexpr (kContiguous) {
#pragma unroll
                for (int j = 0; j < kLane; ++j) to[depthOf(at) + j][columnOf(at)] = value[j];
            } else {
                double2* const place = reinterpret_cast<double2*>(&to[depthOf(at)][columnOf(at)]);
#pragma unroll
                for (int j = 0; j < kLane / 2; ++j) place[j] = make_double2(value[2 * j], value[2 * j + 1]);
            }
        }
    }
};

/// Block (64 columns, 64 sampled rows, one cut of k), a warp 32 x 32 of it; the next tiles are loaded meanwhile.
template <class T, bool kContiguous>
__global__ void __launch_bounds__(kThreads, 3)
    shadowProductKernel(ShadowProduct op, bool aligned, const float* gathered, int64_t samples, int64_t kPerCut,
                        double* products) {
    __shared__ __align__(16) Tile a, b;
    const int64_t column0 = static_cast<int64_t>(blockIdx.x) * kColumns,
                  sample0 = static_cast<int64_t>(blockIdx.y) * kRows;
    const int64_t kStart = blockIdx.z * kPerCut, kEnd = min(op.k, kStart + kPerCut);
    const float* const rows = gathered + blockIdx.y * op.k * kRows;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = lane / 4, within = lane % 4;
    const int row0 = warp / 2 * 32, col0 = warp % 2 * 32;
    double sum[2][4][4] = {};
    RowsOnTheWay nextRows;
    ColumnsOnTheWay<T, kContiguous> nextColumns;
    nextRows.load(rows + kStart * kRows, kEnd - kStart);
    nextColumns.load(op, aligned, kStart, kEnd, column0);
    for (int64_t k0 = kStart; k0 < kEnd; k0 += kDepth) {
        nextRows.store(a), nextColumns.store(op.roundB, b);
        __syncthreads();
        nextRows.load(rows + (k0 + kDepth) * kRows, kEnd - k0 - kDepth);
        nextColumns.load(op, aligned, k0 + kDepth, kEnd, column0);
#pragma unroll 2
        for (int k = within; k < kDepth; k += 4) {
            double left[4], right[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) left[i] = a[k][row0 + i * 8 + group], right[i] = b[k][col0 + i * 8 + group];
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) multiply(sum[i][j], left[2 * i], left[2 * i + 1], right[j]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int64_t sample = sample0 + row0 + i * 16 + e / 2 * 8 + group;
                const int64_t column = column0 + col0 + j * 8 + within * 2 + e % 2;
                if (sample < samples && column < op.n)
                    products[(blockIdx.z * samples + sample) * op.n + column] = sum[i][j][e];
            }
}

/// Sums over the block in a fixed order, in thread 0.
__device__ ShadowSums blockSums(ShadowSums mine) {
    __shared__ double wanted[kSumThreads / 32], error[kSumThreads / 32];
#pragma unroll
    for (int offset = 16; offset; offset /= 2) {
        mine.wanted += __shfl_down_sync(0xFFFFFFFFu, mine.wanted, offset);
        mine.error += __shfl_down_sync(0xFFFFFFFFu, mine.error, offset);
    }
    if (threadIdx.x % 32 == 0) wanted[threadIdx.x / 32] = mine.wanted, error[threadIdx.x / 32] = mine.error;
    __syncthreads();
    if (threadIdx.x != 0) return mine;
    for (int i = 1; i < kSumThreads / 32; ++i) mine.wanted += wanted[i], mine.error += error[i];
    return mine;
}

/// A thread an element: adds the cuts in order and compares.
__global__ void __launch_bounds__(kSumThreads)
    shadowSumsKernel(ShadowProduct op, int64_t samples, int64_t cuts, const double* products, ShadowSums* partials) {
    const int64_t at = static_cast<int64_t>(blockIdx.x) * kSumThreads + threadIdx.x;
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

__global__ void __launch_bounds__(kSumThreads)
    mergeShadowKernel(const ShadowSums* partials, int64_t count, uint64_t rows, ShadowSums* out) {
    ShadowSums mine;
    for (int64_t i = threadIdx.x; i < count; i += kSumThreads)
        mine.wanted += partials[i].wanted, mine.error += partials[i].error;
    ShadowSums sums = blockSums(mine);
    sums.rows = rows;
    if (threadIdx.x == 0) *out = sums;
}

template <class T, bool kContiguous>
void multiplyTiles(const LaunchContext& context, const ShadowProduct& op, const ShadowLayout& layout,
                   const float* gathered, double* products) {
    const dim3 grid(static_cast<unsigned>(layout.across), static_cast<unsigned>(layout.down),
                    static_cast<unsigned>(layout.cuts));
    shadowProductKernel<T, kContiguous><<<grid, kThreads, 0, context.stream>>>(
        op, alignedRows(op.b.data, op.b.ld), gathered, samplesOf(op), layout.kPerCut, products);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

size_t workspaceBytes(const ShadowProduct& op) {
    return shadowLayout(op).total;
}

void launch(const LaunchContext& context, const ShadowProduct& op) {
    require(op.sums && op.out && op.samples >= 1, "shadow", "there is nothing to compare");
    if (op.m <= 0 || op.n <= 0) return;
    const int64_t samples = samplesOf(op);
    const ShadowLayout layout = shadowLayout(op);
    char* scratch = static_cast<char*>(context.scratch(layout.total, "shadow"));
    auto* gathered = reinterpret_cast<float*>(scratch);
    auto* products = reinterpret_cast<double*>(scratch + layout.gathered);
    auto* partials = reinterpret_cast<ShadowSums*>(scratch + layout.gathered + layout.products);
    if (op.k > 0) {
        const dim3 grid(static_cast<unsigned>((op.k + kDepth - 1) / kDepth), static_cast<unsigned>(layout.down));
        gatherRowsKernel<<<grid, kGatherThreads, 0, context.stream>>>(op.a, op.m, op.k, samples, gathered);
        MANTISSA_CUDA_CHECK(cudaGetLastError());
    }
    withType(op.b.type, "shadow", [&](auto tag) {
        using T = typename decltype(tag)::Type;
        if (op.b.kContiguous)
            multiplyTiles<T, true>(context, op, layout, gathered, products);
        else
            multiplyTiles<T, false>(context, op, layout, gathered, products);
    });
    shadowSumsKernel<<<static_cast<unsigned>(layout.sumBlocks), kSumThreads, 0, context.stream>>>(
        op, samples, layout.cuts, products, partials);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
    mergeShadowKernel<<<1, kSumThreads, 0, context.stream>>>(partials, layout.sumBlocks, static_cast<uint64_t>(samples),
                                                             op.sums);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

}  // namespace mantissa::kernels::cuda
