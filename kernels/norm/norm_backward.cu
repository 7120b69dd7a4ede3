// Backward of the norm with the residual's gradient, the column sums (gain, bias, and the bias of the linear before),
// the cast of the result, and forward's y made again. A block covers all columns and walks down its rows four at a
// time; column sums stay in registers, transposed codes in shared memory until a tile of 32 rows is complete. Memory
// bound: BF16 with FP8 codes and transposes of both tensors moves 2 + 2 + 2 + 2 + 1 + 1 + 1 bytes an element.
#include "kernels/norm/norm_cuda.cuh"

namespace mantissa::kernels::cuda {

namespace {

struct NormBackwardArgs {
    NormBackward op;
    CastParams cast, again;
    float* gainPartials;
    float* biasPartials;
    float* linearPartials;
    int64_t rowsPerBlock;
    bool aligned;
};

constexpr int kPair = 2;
static_assert(kRowGroup / kPair == 2, "the two buffers of blockSum alternate within a group and from group to group");

template <class T, CastMode kMode, int kMaxThreads>
__global__ void __launch_bounds__(kMaxThreads) normBackwardKernel(NormBackwardArgs args) {
    constexpr int kTile = normTile(kMaxThreads);
    extern __shared__ uint32_t stages[];
    __shared__ CastShared shared;
    __shared__ float sums[2][32 * 2 * kPair];
    const NormBackward& op = args.op;
    CastState state, againState;
    beginCast<kMode>(args.cast, state, shared);
    if (args.again.active()) againState.scale = args.again.scale ? *args.again.scale : 1.0f;
    const bool transposes = writesTransposed<kMode>(args.cast), transposesAgain = args.again.transposes();
    uint32_t* stage = stages;
    uint32_t* againStage = stages + (transposes ? stageWords(blockDim.x, kTile) : 0);
    const int64_t col = static_cast<int64_t>(threadIdx.x) * kLane;
    const Columns<kMode> columns(col, op.cols, args.aligned);
    const int valid = columns.valid;
    const bool aligned = columns.aligned;
    const bool layerNorm = op.kind == NormKind::LayerNorm;
    const bool makesAgain = args.again.active() || op.outAgain;
    const float perColumn = 1.0f / static_cast<float>(op.cols);
    float gain[kLane] = {};
    if (valid > 0) load8(static_cast<const T*>(op.gain) + col, valid, aligned, gain);
    float gainSum[kLane] = {}, biasSum[kLane] = {}, linearSum[kLane] = {};

    const int64_t rowStart = static_cast<int64_t>(blockIdx.x) * args.rowsPerBlock;
    const int64_t rowEnd = min(op.rows, rowStart + args.rowsPerBlock);
    for (int64_t first = rowStart; first < rowStart + args.rowsPerBlock; first += kRowGroup) {
        if (first >= rowEnd && (!(transposes || transposesAgain) || (first - rowStart) % kTile == 0)) break;
        uint2 codes[kRowGroup] = {}, againCodes[kRowGroup] = {};
#pragma unroll
        for (int half = 0; half < kRowGroup / kPair; ++half) {
            // Two rows at once: with four, registers would leave too few warps to hide the loads.
            Raw8<T> dOut[kPair], residual[kPair], in[kPair];
            float mean[kPair], rstd[kPair], both[2 * kPair];
#pragma unroll
            for (int i = 0; i < kPair; ++i) {
                const int64_t row = first + half * kPair + i, at = row * op.cols + col;
                const bool there = row < rowEnd && valid > 0;
                rstd[i] = row < rowEnd ? op.rstd[row] : 0.0f;
                mean[i] = layerNorm && row < rowEnd ? op.mean[row] : 0.0f;
                dOut[i].clear(), residual[i].clear(), in[i].clear();
                if (!there) continue;
                dOut[i].load(static_cast<const T*>(op.dOut) + at, valid, aligned);
                residual[i].load(static_cast<const T*>(op.residual) + at, valid, aligned);
                if (op.dResidualIn) in[i].load(static_cast<const T*>(op.dResidualIn) + at, valid, aligned);
            }
#pragma unroll
            for (int i = 0; i < kPair; ++i) {
                const int64_t row = first + half * kPair + i, at = row * op.cols + col;
                float d[kLane], r[kLane];
                residual[i].unpack(r);
                if (makesAgain && row < rowEnd && valid > 0) {
                    float y[kLane], bias[kLane] = {};
                    if (op.bias) load8(static_cast<const T*>(op.bias) + col, valid, aligned, bias);
#pragma unroll
                    for (int j = 0; j < kLane; ++j) {
                        y[j] = columns.has(j) ? normValue(r[j], mean[i], rstd[i], gain[j], bias[j]) : 0.0f;
                    }
                    if (op.outAgain) store8(static_cast<T*>(op.outAgain) + at, valid, aligned, y);
                    if (args.again.active()) {
                        roundForCast<T>(y);
                        uint2& code = againCodes[half * kPair + i];
                        code = cast8 < kMode == CastMode::Generic ? CastMode::Generic : CastMode::Full,
                        false > (args.again, y, valid, row, col, againState, shared);
                        storeCodes<kMode>(args.again, code, row, col, valid, aligned);
                    }
                }
                dOut[i].unpack(d);
                both[i] = both[kPair + i] = 0;
#pragma unroll
                for (int j = 0; j < kLane; ++j) {
                    const float hat = columns.has(j) ? (r[j] - mean[i]) * rstd[i] : 0.0f;
                    gainSum[j] += d[j] * hat;
                    biasSum[j] += d[j];
                    d[j] *= gain[j];
                    both[i] += d[j];
                    both[kPair + i] += d[j] * hat;
                }
            }
            blockSum(both, sums[half % 2]);
#pragma unroll
            for (int i = 0; i < kPair; ++i) {
                const int64_t row = first + half * kPair + i;
                if (row >= rowEnd || valid == 0) continue;
                const float shift = layerNorm ? both[i] * perColumn : 0.0f, dot = both[kPair + i] * perColumn;
                float d[kLane], r[kLane], value[kLane];
                dOut[i].unpack(d), residual[i].unpack(r), in[i].unpack(value);
#pragma unroll
                for (int j = 0; j < kLane; ++j) {
                    const float hat = (r[j] - mean[i]) * rstd[i];
                    value[j] = columns.has(j) ? value[j] + rstd[i] * (d[j] * gain[j] - shift - hat * dot) : 0.0f;
                }
                in[i].pack(value);
                in[i].unpack(value);
#pragma unroll
                for (int j = 0; j < kLane; ++j) linearSum[j] += value[j];
                if (op.dResidual) in[i].store(static_cast<T*>(op.dResidual) + row * op.cols + col, valid, aligned);
                if (!casts<kMode>(args.cast)) continue;
                if constexpr (!std::is_same_v<T, Bf16>) roundForCast<T>(value);
                codes[half * kPair + i] = cast8<kMode>(args.cast, value, valid, row, col, state, shared);
                storeCodes<kMode>(args.cast, codes[half * kPair + i], row, col, valid, aligned);
            }
        }
        const int group = static_cast<int>((first - rowStart) % kTile) / kRowGroup;
        if (transposes) stageFourRows<kTile>(stage, group, codes);
        if (transposesAgain) stageFourRows<kTile>(againStage, group, againCodes);
        if (group == kTile / kRowGroup - 1) {
            const int64_t tile = first + kRowGroup - kTile;
            if (transposes) writeStage<kTile>(args.cast, stage, tile, 0);
            if (transposesAgain) writeStage<kTile>(args.again, againStage, tile, 0);
        }
    }
    if (valid > 0) {
        const int64_t at = static_cast<int64_t>(blockIdx.x) * op.cols + col;
        if (op.dGain) store8(args.gainPartials + at, valid, aligned, gainSum);
        if (op.dBias) store8(args.biasPartials + at, valid, aligned, biasSum);
        if (op.dLinearBias) store8(args.linearPartials + at, valid, aligned, linearSum);
    }
    endCast<kMode>(args.cast, state, shared, blockIdx.x, blockIdx.x == 0);
}

size_t partialBytes(const NormBackward& op) {
    return roundUp256(static_cast<size_t>(rowBlocks(op.rows) * op.cols) * sizeof(float));
}

template <class T, CastMode kMode, int kMaxThreads>
void launchBackward(const LaunchContext& context, const NormBackwardArgs& args, int threads) {
    const int staged = (args.cast.transposes() ? 1 : 0) + (args.again.transposes() ? 1 : 0);
    const size_t bytes = staged * stageWords(threads, normTile(kMaxThreads)) * sizeof(uint32_t);
    auto* kernel = normBackwardKernel<T, kMode, kMaxThreads>;
    allowSharedMemory(kernel, bytes);
    kernel<<<static_cast<unsigned>(rowBlocks(args.op.rows)), threads, bytes, context.stream>>>(args);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

/// Both stages of a very wide row do not fit a block's shared memory: then y is made again in plain values and cast by
/// a pass of its own.
bool stagesFit(const NormBackward& op) {
    const int threads = columnThreads(op.cols, 1024);
    return threads <= 512 || !op.cast.codesTransposed || !op.again.codesTransposed;
}

size_t plainBytes(const NormBackward& op) {
    return stagesFit(op) || op.outAgain ? 0 : roundUp256(static_cast<size_t>(op.rows * op.cols) * dtypeSize(op.type));
}

void launchWide(const LaunchContext& context, const NormBackward& op) {
    LaunchContext rest = context;
    NormBackward first = op;
    first.again = {};
    if (!op.outAgain) {
        first.outAgain = context.scratch(workspaceBytes(op), "norm backward");
        rest.workspace = static_cast<char*>(context.workspace) + plainBytes(op);
        rest.workspaceBytes -= plainBytes(op);
    }
    launch(rest, first);
    Quantize second;
    second.rows = op.rows, second.cols = op.cols, second.inType = op.type, second.in = first.outAgain;
    second.target = op.again;
    second.target.slot = nullptr;
    launch(rest, second);
}

}  // namespace

size_t workspaceBytes(const NormBackward& op) {
    return 3 * partialBytes(op) + dearBytes(op.cast, rowBlocks(op.rows)) + plainBytes(op);
}

void launch(const LaunchContext& context, const NormBackward& op) {
    require(op.rows > 0 && op.cols > 0 && op.cols <= 8192, "norm backward", "rows must be positive, columns 1 to 8192");
    require(op.dOut && op.residual && op.gain && op.rstd, "norm backward",
            "dOut, residual, gain and rstd must be given");
    require(op.mean || op.kind == NormKind::RmsNorm, "norm backward", "LayerNorm needs the means");
    const int threads = columnThreads(op.cols, 1024);
    if (!stagesFit(op)) return launchWide(context, op);
    char* scratch = static_cast<char*>(context.scratch(workspaceBytes(op), "norm backward"));
    NormBackwardArgs args{};
    args.op = op;
    args.cast = castParams(op.cast, op.rows, op.cols, "norm backward");
    CastTarget again = op.again;
    again.slot = nullptr;  // made again: never counted twice
    args.again = castParams(again, op.rows, op.cols, "norm backward");
    args.gainPartials = reinterpret_cast<float*>(scratch);
    args.biasPartials = reinterpret_cast<float*>(scratch + partialBytes(op));
    args.linearPartials = reinterpret_cast<float*>(scratch + 2 * partialBytes(op));
    if (dearBytes(op.cast, rowBlocks(op.rows))) {
        args.cast.partials = reinterpret_cast<DearPartial*>(scratch + 3 * partialBytes(op));
    }
    args.rowsPerBlock = rowsPerBlock(op.rows);
    args.aligned = alignedRows(op.dOut, op.cols) && alignedRows(op.residual, op.cols) &&
                   alignedRows(op.gain, op.cols) && alignedRows(op.bias, op.cols) &&
                   alignedRows(op.dResidualIn, op.cols) && alignedRows(op.dResidual, op.cols) &&
                   alignedRows(op.outAgain, op.cols) && alignedRows(op.cast.codes, op.cols) &&
                   alignedRows(op.again.codes, op.cols);
    withType(op.type, "norm backward", [&](auto tag) {
        using T = typename decltype(tag)::Type;
        if constexpr (std::is_same_v<T, Bf16>) {
            if (threads > 512) return launchBackward<T, CastMode::Generic, 1024>(context, args, threads);
        }
        require(threads <= 512, "norm backward", "more than 4096 columns are supported in BF16 only");
        withMode<T>(castModeOf(args.cast, args.aligned), [&](auto mode) {
            constexpr CastMode kMode = decltype(mode)::value;
            if constexpr (kMode != CastMode::Generic) {
                if (threads <= 256) return launchBackward<T, kMode, 256>(context, args, threads);
            }
            launchBackward<T, kMode, 512>(context, args, threads);
        });
    });
    mergeDear(context, args.cast, rowBlocks(op.rows));
    ColumnSums sums;
    sums.sum[0] = {args.gainPartials, op.dGain};
    sums.sum[1] = {args.biasPartials, op.dBias};
    sums.sum[2] = {args.linearPartials, op.dLinearBias};
    reduceColumns(context, sums, rowBlocks(op.rows), op.cols, op.accumulate);
}

}  // namespace mantissa::kernels::cuda
