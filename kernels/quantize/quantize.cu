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

template <class T, CastMode kMode>
__global__ void __launch_bounds__(kThreads, kMode == CastMode::Generic ? 1 : 6) quantizeKernel(QuantizeArgs args) {
    extern __shared__ uint32_t stage[];
    __shared__ CastShared shared;
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
                    codes[i] = cast8<kMode>(args.cast, x, valid, first + i, col, state, shared);
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

template <class T, CastMode kMode>
void launchQuantize(const LaunchContext& context, const QuantizeArgs& args, const Geometry& g) {
    const size_t stage = args.cast.transposes() ? stageWords(g.threads) * sizeof(uint32_t) : 0;
    allowSharedMemory(quantizeKernel<T, kMode>, stage);
    const dim3 grid(static_cast<unsigned>(g.columnBlocks), static_cast<unsigned>(g.rowBlocks));
    quantizeKernel<T, kMode><<<grid, g.threads, stage, context.stream>>>(args);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
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
    withType(op.inType, "quantize", [&](auto tag) {
        using T = typename decltype(tag)::Type;
        withMode<T, true>(castModeOf(args.cast, args.rows, args.aligned),
                          [&](auto mode) { launchQuantize<T, decltype(mode)::value>(context, args, g); });
    });
    mergeDear(context, args.cast, g.columnBlocks * g.rowBlocks);
    if (op.dbias) {
        ColumnSums sums;
        sums.sum[0] = {args.biasPartials, op.dbias};
        reduceColumns(context, sums, g.rowBlocks, op.cols, op.accumulateBias);
    }
}

}  // namespace mantissa::kernels::cuda
