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

template <class T, bool kDear, int kMaxThreads>
__global__ void __launch_bounds__(kMaxThreads) normBackwardKernel(NormBackwardArgs args) {
    extern __shared__ uint32_t stages[];
    __shared__ CastShared shared;
    __shared__ float sums[2][32 * 2 * kRowGroup];
    const NormBackward& op = args.op;
    CastState state, againState;
    beginCast(args.cast, state, shared);
    if (args.again.active()) againState.scale = args.again.scale ? *args.again.scale : 1.0f;
    const bool transposes = args.cast.transposes(), transposesAgain = args.again.transposes();
    uint32_t* stage = stages;
    uint32_t* againStage = stages + (transposes ? stageWords(blockDim.x) : 0);
    const int64_t col = static_cast<int64_t>(threadIdx.x) * kLane;
    const int valid = static_cast<int>(max(int64_t{0}, min(int64_t{kLane}, op.cols - col)));
    const bool aligned = args.aligned && valid == kLane;
    const bool layerNorm = op.kind == NormKind::LayerNorm;
    const bool makesAgain = args.again.active() || op.outAgain;
    const float perColumn = 1.0f / static_cast<float>(op.cols);
    float gain[kLane];
    load8(static_cast<const T*>(op.gain) + col, valid, aligned, gain);
    float gainSum[kLane] = {}, biasSum[kLane] = {}, linearSum[kLane] = {};

    const int64_t rowStart = static_cast<int64_t>(blockIdx.x) * args.rowsPerBlock;
    const int64_t rowEnd = min(op.rows, rowStart + args.rowsPerBlock);
    int turn = 0;
    for (int64_t first = rowStart; first < rowStart + args.rowsPerBlock; first += kRowGroup) {
        if (first >= rowEnd && (!(transposes || transposesAgain) || (first - rowStart) % kTileRows == 0)) break;
        // dOut, then dOut * gain; residual, then its normalised value.
        float dOut[kRowGroup][kLane], hat[kRowGroup][kLane], rstd[kRowGroup], both[2 * kRowGroup];
        uint2 codes[kRowGroup] = {};
#pragma unroll
        for (int i = 0; i < kRowGroup; ++i) {
            const int64_t row = first + i, at = row * op.cols + col;
            const bool there = row < rowEnd && valid > 0;
            rstd[i] = row < rowEnd ? op.rstd[row] : 0.0f;
            const float mean = layerNorm && row < rowEnd ? op.mean[row] : 0.0f;
            if (there) {
                load8(static_cast<const T*>(op.dOut) + at, valid, aligned, dOut[i]);
                load8(static_cast<const T*>(op.residual) + at, valid, aligned, hat[i]);
            } else {
#pragma unroll
                for (int j = 0; j < kLane; ++j) dOut[i][j] = hat[i][j] = 0;
            }
            if (makesAgain && there) {
                float y[kLane], bias[kLane] = {};
                if (op.bias) load8(static_cast<const T*>(op.bias) + col, valid, aligned, bias);
#pragma unroll
                for (int j = 0; j < kLane; ++j)
                    y[j] = j < valid ? normValue(hat[i][j], mean, rstd[i], gain[j], bias[j]) : 0.0f;
                if (op.outAgain) store8(static_cast<T*>(op.outAgain) + at, valid, aligned, y);
                if (args.again.active()) {
#pragma unroll
                    for (int j = 0; j < kLane; ++j) y[j] = rounded<Bf16>(rounded<T>(y[j]));
                    codes[i] = cast8<false>(args.again, y, valid, row, col, againState, shared);
                    storeCodes(args.again, codes[i], row, col, valid, aligned);
                }
            }
            both[i] = both[kRowGroup + i] = 0;
#pragma unroll
            for (int j = 0; j < kLane; ++j) {
                hat[i][j] = j < valid ? (hat[i][j] - mean) * rstd[i] : 0.0f;
                gainSum[j] += dOut[i][j] * hat[i][j];
                biasSum[j] += dOut[i][j];
                dOut[i][j] *= gain[j];
                both[i] += dOut[i][j];
                both[kRowGroup + i] += dOut[i][j] * hat[i][j];
            }
        }
        const int group = static_cast<int>((first - rowStart) % kTileRows) / kRowGroup;
        if (transposesAgain) stageFourRows(againStage, group, codes);
        blockSum(both, sums[turn]);
        turn ^= 1;
#pragma unroll
        for (int i = 0; i < kRowGroup; ++i) {
            codes[i] = make_uint2(0, 0);
            const int64_t row = first + i, at = row * op.cols + col;
            if (row >= rowEnd || valid == 0) continue;
            const float mean = layerNorm ? both[i] * perColumn : 0.0f, dot = both[kRowGroup + i] * perColumn;
            float in[kLane] = {};
            if (op.dResidualIn) load8(static_cast<const T*>(op.dResidualIn) + at, valid, aligned, in);
#pragma unroll
            for (int j = 0; j < kLane; ++j) {
                in[j] = j < valid ? rounded<T>(in[j] + rstd[i] * (dOut[i][j] - mean - hat[i][j] * dot)) : 0.0f;
                linearSum[j] += in[j];
            }
            if (op.dResidual) store8(static_cast<T*>(op.dResidual) + at, valid, aligned, in);
            if (!args.cast.active()) continue;
            if constexpr (!std::is_same_v<T, Bf16>) {
#pragma unroll
                for (int j = 0; j < kLane; ++j) in[j] = rounded<Bf16>(in[j]);
            }
            codes[i] = cast8<kDear>(args.cast, in, valid, row, col, state, shared);
            storeCodes(args.cast, codes[i], row, col, valid, aligned);
        }
        if (transposes) stageFourRows(stage, group, codes);
        if (group == kTileRows / kRowGroup - 1) {
            const int64_t tile = first + kRowGroup - kTileRows;
            if (transposes) writeStage(args.cast, stage, tile, 0);
            if (transposesAgain) writeStage(args.again, againStage, tile, 0);
        }
    }
    if (valid > 0) {
        const int64_t at = static_cast<int64_t>(blockIdx.x) * op.cols + col;
        if (op.dGain) store8(args.gainPartials + at, valid, aligned, gainSum);
        if (op.dBias) store8(args.biasPartials + at, valid, aligned, biasSum);
        if (op.dLinearBias) store8(args.linearPartials + at, valid, aligned, linearSum);
    }
    endCast<kDear>(args.cast, state, shared, blockIdx.x, blockIdx.x == 0);
}

size_t partialBytes(const NormBackward& op) {
    return roundUp256(static_cast<size_t>(rowBlocks(op.rows) * op.cols) * sizeof(float));
}

template <class T, bool kDear, int kMaxThreads>
void launchBackward(const LaunchContext& context, const NormBackwardArgs& args, int threads) {
    const int staged = (args.cast.transposes() ? 1 : 0) + (args.again.transposes() ? 1 : 0);
    const size_t bytes = staged * stageWords(threads) * sizeof(uint32_t);
    auto* kernel = normBackwardKernel<T, kDear, kMaxThreads>;
    allowSharedMemory(kernel, bytes);
    kernel<<<static_cast<unsigned>(rowBlocks(args.op.rows)), threads, bytes, context.stream>>>(args);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

/// Both stages of a wide row do not fit a block's shared memory: then y is cast again by a pass of its own.
bool stagesFit(const LaunchContext& context, const NormBackward& op, int threads) {
    const int staged = (op.cast.codesTransposed ? 1 : 0) + (op.again.codesTransposed ? 1 : 0);
    return staged * stageWords(threads) * sizeof(uint32_t) + 16 * 1024 <=
           static_cast<size_t>(context.sharedMemoryPerBlock);
}

}  // namespace

size_t workspaceBytes(const NormBackward& op) {
    return 3 * partialBytes(op) + dearBytes(op.cast, rowBlocks(op.rows));
}

void launch(const LaunchContext& context, const NormBackward& op) {
    require(op.rows > 0 && op.cols > 0 && op.cols <= 8192, "norm backward", "rows must be positive, columns 1 to 8192");
    require(op.dOut && op.residual && op.gain && op.rstd, "norm backward",
            "dOut, residual, gain and rstd must be given");
    require(op.mean || op.kind == NormKind::RmsNorm, "norm backward", "LayerNorm needs the means");
    const int threads = columnThreads(op.cols, 1024);
    if (!stagesFit(context, op, threads)) {
        NormBackward first = op;
        first.again.codesTransposed = nullptr;
        if (!first.again.codes) first.again.format = DType::None;
        require(op.outAgain && op.type != DType::F16, "norm backward",
                "so wide a row needs outAgain to make y's codes again");
        launch(context, first);
        Quantize second;
        second.rows = op.rows, second.cols = op.cols, second.inType = op.type, second.in = op.outAgain;
        second.target = op.again;
        second.target.codes = nullptr;
        second.target.slot = nullptr;
        return launch(context, second);
    }
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
            if (threads > 512) return launchBackward<T, true, 1024>(context, args, threads);
            if (!args.cast.partials) return launchBackward<T, false, 512>(context, args, threads);
        }
        require(threads <= 512, "norm backward", "more than 4096 columns are supported in BF16 only");
        launchBackward<T, true, 512>(context, args, threads);
    });
    mergeDear(context, args.cast, rowBlocks(op.rows));
    ColumnSums sums;
    sums.sum[0] = {args.gainPartials, op.dGain};
    sums.sum[1] = {args.biasPartials, op.dBias};
    sums.sum[2] = {args.linearPartials, op.dLinearBias};
    reduceColumns(context, sums, rowBlocks(op.rows), op.cols, op.accumulate);
}

}  // namespace mantissa::kernels::cuda
