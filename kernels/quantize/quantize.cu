// Stand-alone cast: codes, transposed codes, counters and column sums in one pass over the tensor.
//
// A block owns up to 1024 columns (128 threads of 8) and a stretch of rows. Memory bound: 2 bytes read and up to 2
// written an element.
#include "kernels/device/cuda/cast.cuh"

namespace mantissa::kernels::cuda {

namespace {

constexpr int kThreads = 128;

struct QuantizeArgs {
    const void* in;
    CastParams cast;
    float* biasPartials;  ///< (row blocks, cols), or nullptr
    int64_t rows, cols, rowsPerBlock;
    bool roundToBf16, aligned;
};

/// BF16 (or F32, rounded to BF16) in whole tiles: what training steps run. Two sets of four rows take turns, one is
/// loaded while the other is worked on.
template <class T, CastMode kMode, int kFormat>
__global__ void __launch_bounds__(kThreads, sizeof(T) == 4 ? 3 : 4) quantizeTilesKernel(QuantizeArgs args) {
    extern __shared__ uint32_t stage[];
    __shared__ CastShared<kMode> shared;
    const int64_t blockCol = static_cast<int64_t>(blockIdx.x) * blockDim.x * kLane;
    const int64_t col = blockCol + threadIdx.x * kLane;
    const bool there = col < args.cols, warpThere = col - threadIdx.x % 32 * kLane < args.cols;
    const int64_t rowStart = static_cast<int64_t>(blockIdx.y) * args.rowsPerBlock;
    const int groups = warpThere ? static_cast<int>(min(args.rowsPerBlock, args.rows - rowStart)) / 4 : 0;
    const int64_t start = rowStart * args.cols + col;
    Raw8<T> rows[2][4];
    const auto fetch = [&](int group, Raw8<T>(&to)[4]) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            to[i].clear();
            if (there) to[i].load(static_cast<const T*>(args.in) + start + (group * 4 + i) * args.cols, kLane, true);
        }
    };
    if (groups) fetch(0, rows[0]);
    CastState state;
    beginCast<kMode>(args.cast, state, shared);
    const bool transposes = writesTransposed<kMode>(args.cast);
    float sums[kLane] = {};
    const auto work = [&](int group, const Raw8<T>(&from)[4]) {
        Raw8<Bf16> x[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            float value[kLane];
            from[i].unpack(value);
            if (args.biasPartials) {
#pragma unroll
                for (int j = 0; j < kLane; ++j) sums[j] += value[j];
            }
            x[i].pack(value);
        }
        if constexpr (kMode != CastMode::None) {
            uint2 codes[4];
            castFour<kMode, kFormat>(x, args.cast.counts, state, codes);
            if (encodes(kMode) && args.cast.codes && there) {
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    *reinterpret_cast<uint2*>(args.cast.codes + start + (group * 4 + i) * args.cols) = codes[i];
            }
            if (transposes) stageFourRows(stage, group % (kTileRows / 4), codes);
        }
    };
#pragma unroll 1
    for (int group = 0; group < groups; group += 2) {
        fetch(group + 1, rows[1]);
        work(group, rows[0]);
        if (group + 2 < groups) fetch(group + 2, rows[0]);
        work(group + 1, rows[1]);
        if (transposes && group % (kTileRows / 4) == kTileRows / 4 - 2)
            writeStage<kTileRows, true>(args.cast, stage, rowStart + (group + 2) * 4 - kTileRows, blockCol);
    }
    if (args.biasPartials && there) store8(args.biasPartials + blockIdx.y * args.cols + col, kLane, true, sums);
    if (!there) state.forgetCounts();
    const int block = blockIdx.y * gridDim.x + blockIdx.x;
    endCast<kMode>(args.cast, state, shared, block, block == 0);
}

/// Of any type and shape, with all that a cast can do.
template <class T>
__global__ void __launch_bounds__(kThreads) quantizeKernel(QuantizeArgs args) {
    constexpr CastMode kMode = CastMode::Generic;
    extern __shared__ uint32_t stage[];
    __shared__ CastShared<kMode> shared;
    CastState state;
    beginCast<kMode>(args.cast, state, shared);
    const int64_t blockCol = static_cast<int64_t>(blockIdx.x) * blockDim.x * kLane;
    const int64_t col = blockCol + threadIdx.x * kLane;
    const Columns<kMode> columns(col, args.cols, args.aligned);
    const int valid = columns.valid;
    const bool aligned = columns.aligned, transposes = writesTransposed<kMode>(args.cast);
    const int64_t rowEnd = min(args.rows, static_cast<int64_t>(blockIdx.y + 1) * args.rowsPerBlock);
    float sums[kLane] = {};
    for (int64_t row0 = static_cast<int64_t>(blockIdx.y) * args.rowsPerBlock; row0 < rowEnd; row0 += kTileRows) {
#pragma unroll 1
        for (int group = 0; group < kTileRows / 4; ++group) {
            const int64_t first = row0 + group * 4, firstAt = first * args.cols + col;
            if (first >= rowEnd && !transposes) break;
            uint2 codes[4] = {};
            if (valid > 0) {
                Raw8<T> raw[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    if (!hasRow<kMode>(first + i, rowEnd)) continue;
                    raw[i].load(static_cast<const T*>(args.in) + firstAt + i * args.cols, valid, aligned);
                }
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    if (!hasRow<kMode>(first + i, rowEnd)) continue;
                    float x[kLane];
                    raw[i].unpack(x);
                    if (args.biasPartials) {
#pragma unroll
                        for (int j = 0; j < kLane; ++j) sums[j] += x[j];
                    }
                    if (!casts<kMode>(args.cast)) continue;
                    if (!std::is_same_v<T, Bf16> && args.roundToBf16) roundForCast<T>(x);
                    codes[i] = cast8<kMode>(args.cast, x, valid, first + i, col, state);
                    storeCodes<kMode>(args.cast, codes[i], firstAt + i * args.cols, valid, aligned);
                }
            }
            if (transposes) stageFourRows(stage, group, codes);
        }
        if (transposes) writeStage(args.cast, stage, row0, blockCol);
    }
    if (args.biasPartials && valid > 0) {
        store8(args.biasPartials + blockIdx.y * args.cols + col, valid, aligned, sums);
    }
    const int block = blockIdx.y * gridDim.x + blockIdx.x;
    endCast<kMode>(args.cast, state, shared, block, block == 0);
}

struct Geometry {
    int threads;
    int64_t columnBlocks, rowsPerBlock, rowBlocks;
};

Geometry geometry(const Quantize& op) {
    Geometry g;
    g.threads = columnThreads(op.cols, kThreads);
    g.columnBlocks = (op.cols + g.threads * kLane - 1) / (g.threads * kLane);
    g.rowsPerBlock = rowsPerBlock(op.rows);
    g.rowBlocks = rowBlocks(op.rows);
    return g;
}

template <class Kernel>
void launchKernel(const LaunchContext& context, Kernel* kernel, const QuantizeArgs& args, const Geometry& g) {
    const size_t stage = args.cast.transposes() ? stageWords(g.threads) * sizeof(uint32_t) : 0;
    allowSharedMemory(kernel, stage);
    const dim3 grid(static_cast<unsigned>(g.columnBlocks), static_cast<unsigned>(g.rowBlocks));
    kernel<<<grid, g.threads, stage, context.stream>>>(args);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

template <class T>
void launchQuantize(const LaunchContext& context, const QuantizeArgs& args, const Geometry& g) {
    const CastMode mode = castModeOf(args.cast, args.rows, args.aligned);
    if constexpr (std::is_same_v<T, Bf16> || std::is_same_v<T, float>) {
        if (mode != CastMode::Generic && (std::is_same_v<T, Bf16> || args.roundToBf16)) {
            return withFormat(mode, args.cast, [&](auto fixed, auto format) {
                launchKernel(context, quantizeTilesKernel<T, decltype(fixed)::value, decltype(format)::value>, args, g);
            });
        }
    }
    launchKernel(context, quantizeKernel<T>, args, g);
}

size_t biasBytes(const Quantize& op, const Geometry& g) {
    return op.dbias ? roundUp256(static_cast<size_t>(g.rowBlocks * op.cols) * sizeof(float)) : 0;
}

}  // namespace

size_t workspaceBytes(const Quantize& op) {
    if (op.rows <= 0 || op.cols <= 0) return 0;
    const Geometry g = geometry(op);
    return dearBytes(op.target, g.columnBlocks * g.rowBlocks) + biasBytes(op, g);
}

void launch(const LaunchContext& context, const Quantize& op) {
    require(op.rows >= 0 && op.cols >= 0, "quantize", "sizes must not be negative");
    if (op.rows == 0 || op.cols == 0) return;
    const Geometry g = geometry(op);
    const size_t dear = dearBytes(op.target, g.columnBlocks * g.rowBlocks);
    char* scratch = static_cast<char*>(context.scratch(workspaceBytes(op), "quantize"));
    QuantizeArgs args{};
    args.in = op.in;
    args.cast = castParams(op.target, op.rows, op.cols, "quantize");
    if (dear) args.cast.partials = reinterpret_cast<DearPartial*>(scratch);
    if (op.dbias) args.biasPartials = reinterpret_cast<float*>(scratch + dear);
    args.rows = op.rows, args.cols = op.cols, args.rowsPerBlock = g.rowsPerBlock;
    args.roundToBf16 = op.roundToBf16;
    args.aligned = alignedRows(op.in, op.cols) && reinterpret_cast<uintptr_t>(op.target.codes) % 8 == 0;
    withType(op.inType, "quantize", [&](auto tag) { launchQuantize<typename decltype(tag)::Type>(context, args, g); });
    mergeDear(context, args.cast, g.columnBlocks * g.rowBlocks);
    if (op.dbias) {
        ColumnSums sums;
        sums.sum[0] = {args.biasPartials, op.dbias};
        reduceColumns(context, sums, g.rowBlocks, op.cols, op.accumulateBias);
    }
}

}  // namespace mantissa::kernels::cuda
