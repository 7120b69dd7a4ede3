// Parts of the cast that are the same for every op: kernel arguments, the dear set's merge, column sums from partials.
#include "kernels/device/cuda/cast.cuh"

namespace mantissa::kernels::cuda {

namespace {

constexpr int kMergeThreads = 256;

/// One block. Adds the blocks' partials in a fixed order: thread t takes t, t + 256, ...; then a tree of each warp.
__global__ void __launch_bounds__(kMergeThreads)
    mergeDearKernel(const DearPartial* partials, int64_t blocks, DearStats* out) {
    __shared__ DearPartial warps[kMergeThreads / 32];
    DearPartial sum{0, 0, 0, kNoMinimum, 0};
    for (int64_t i = threadIdx.x; i < blocks; i += kMergeThreads) sum.add(partials[i]);
    sum = blockDear(sum, warps);
    if (threadIdx.x != 0) return;
    out->sumSquares += sum.sumSquares;
    out->sumSquaredError += sum.sumSquaredError;
    out->sumFourth += sum.sumFourth;
    if (sum.minNonZero != kNoMinimum) {
        out->minNonZero = out->minNonZero == 0.0f ? sum.minNonZero : fminf(out->minNonZero, sum.minNonZero);
    }
}

/// Block (32 columns, 16 rows of partials); grid (columns / 32, sums). Few blocks, so each thread has 16 loads in
/// flight, which are added in order.
__global__ void reduceColumnsKernel(ColumnSums sums, int64_t blocks, int64_t cols, bool accumulate) {
    __shared__ float part[16][33];
    // Chosen, not indexed: an index sends the parameters through local memory (H200: 1.8 microseconds a launch).
    const ColumnSum which = blockIdx.y == 0 ? sums.sum[0] : blockIdx.y == 1 ? sums.sum[1] : sums.sum[2];
    if (!which.out) return;
    const int64_t col = static_cast<int64_t>(blockIdx.x) * 32 + threadIdx.x;
    float sum = 0;
    if (col < cols) {
#pragma unroll 16
        for (int64_t block = threadIdx.y; block < blocks; block += 16) sum += which.partials[block * cols + col];
    }
    part[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y != 0 || col >= cols) return;
    for (int i = 1; i < 16; ++i) sum += part[i][threadIdx.x];
    which.out[col] = accumulate ? which.out[col] + sum : sum;
}

}  // namespace

CastParams castParams(const CastTarget& target, int64_t rows, int64_t cols, const char* op) {
    CastParams cast;
    if (target.format == DType::None) return cast;
    require(isFp8(target.format), op, "a cast's format must be E4M3 or E5M2");
    require(!target.amaxOnly || target.slot, op, "an amax-only cast needs a slot");
    cast.codes = target.codes;
    cast.codesTransposed = target.codesTransposed;
    cast.scale = target.scale;
    cast.slot = target.slot;
    cast.rows = rows;
    cast.cols = cols;
    cast.seed = target.seed;
    cast.format = target.format == DType::E4M3 ? 1 : 2;
    cast.amaxOnly = target.amaxOnly;
    cast.counts = target.slot && target.count && !target.amaxOnly;
    cast.exponents = cast.counts && target.dear && target.exponents;
    cast.stochastic = target.stochastic;
    cast.wordRows = rows % 16 == 0 && reinterpret_cast<uintptr_t>(target.codesTransposed) % 16 == 0;
    return cast;
}

size_t dearBytes(const CastTarget& target, int64_t blocks) {
    const bool wanted = target.format != DType::None && target.dear && target.slot && target.count && !target.amaxOnly;
    return wanted ? roundUp256(static_cast<size_t>(blocks) * sizeof(DearPartial)) : 0;
}

void mergeDear(const LaunchContext& context, const CastParams& cast, int64_t blocks) {
    if (!cast.partials) return;
    mergeDearKernel<<<1, kMergeThreads, 0, context.stream>>>(cast.partials, blocks, &cast.slot->dear);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

void reduceColumns(const LaunchContext& context, const ColumnSums& sums, int64_t blocks, int64_t cols,
                   bool accumulate) {
    if (!sums.sum[0].out && !sums.sum[1].out && !sums.sum[2].out) return;
    const dim3 grid(static_cast<unsigned>((cols + 31) / 32), 3);
    reduceColumnsKernel<<<grid, dim3(32, 16), 0, context.stream>>>(sums, blocks, cols, accumulate);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

}  // namespace mantissa::kernels::cuda
