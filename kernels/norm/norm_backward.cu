// Backward of the norm with the residual's gradient, the column sums (gain, bias, and the bias of the linear before),
// the cast of the result, and forward's y made again.
//
// Two passes: a warp a row takes the row's two sums; then blocks that own up to 1024 columns walk down tiles of rows.
// The second needs no barrier and few registers, so it keeps the memory busy; one pass with a block a row moved 4 bytes
// an element less but waited for its own barriers (4096 columns on an H200: 365 microseconds where 97 are the floor).
// Transposed codes leave in runs of 32 rows: runs of 16 bytes, half a sector of the L2 cache, doubled the time (768
// columns: 264 microseconds instead of 127). Memory bound: BF16 with FP8 codes and transposes of both tensors moves 4 +
// 2 + 2 + 2 + 2 + 1 + 1 + 1 bytes an element.
#include "kernels/norm/norm_cuda.cuh"

namespace mantissa::kernels::cuda {

namespace {

constexpr int kThreads = 128, kSumWarps = 8;

/// A row's statistics: forward's, and the two means that every element of its gradient needs.
struct RowTerms {
    float mean, rstd, shift, dot;
};

struct NormBackwardArgs {
    NormBackward op;
    CastParams cast, again;
    RowTerms* terms;  ///< (rows)
    float* gainPartials;
    float* biasPartials;
    float* linearPartials;
    int64_t rowsPerBlock;
    bool aligned;
};

/// A warp a row: shift = mean of dOut * gain, dot = mean of dOut * gain * normalised.
template <class T>
__global__ void __launch_bounds__(kSumWarps * 32) normRowTermsKernel(NormBackwardArgs args) {
    const NormBackward& op = args.op;
    const int64_t row = static_cast<int64_t>(blockIdx.x) * kSumWarps + threadIdx.x / 32;
    if (row >= op.rows) return;
    const int lane = threadIdx.x % 32;
    const bool layerNorm = op.kind == NormKind::LayerNorm;
    const float mean = layerNorm ? op.mean[row] : 0.0f, rstd = op.rstd[row];
    float sum = 0, dot = 0;
#pragma unroll 2
    for (int64_t col = lane * kLane; col < op.cols; col += 32 * kLane) {
        const int valid = static_cast<int>(min(int64_t{kLane}, op.cols - col));
        const bool aligned = args.aligned && valid == kLane;
        float d[kLane], r[kLane], gain[kLane];
        load8(static_cast<const T*>(op.dOut) + row * op.cols + col, valid, aligned, d);
        load8(static_cast<const T*>(op.residual) + row * op.cols + col, valid, aligned, r);
        load8(static_cast<const T*>(op.gain) + col, valid, aligned, gain);
#pragma unroll
        for (int j = 0; j < kLane; ++j) {
            const float scaled = d[j] * gain[j];  // 0 beyond the row's end
            sum += scaled;
            dot += scaled * ((r[j] - mean) * rstd);
        }
    }
    for (int offset = 16; offset; offset /= 2) {
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, offset);
        dot += __shfl_xor_sync(0xFFFFFFFFu, dot, offset);
    }
    const float perColumn = 1.0f / static_cast<float>(op.cols);
    if (lane == 0) args.terms[row] = {mean, rstd, layerNorm ? sum * perColumn : 0.0f, dot * perColumn};
}

constexpr int kPair = 2;  ///< rows whose loads are in flight at once

/// BF16 in whole tiles: what training steps run. Two pairs of rows take turns, one is loaded while the other is worked
/// on. The tensor that is made again is E4M3.
template <CastMode kMode, int kFormat>
__global__ void __launch_bounds__(kThreads, 3) normBackwardTilesKernel(NormBackwardArgs args) {
    struct Pair {
        Raw8<Bf16> dOut[kPair], residual[kPair], in[kPair];
    };
    extern __shared__ uint32_t stages[];
    __shared__ CastShared<kMode> shared;
    __shared__ float4 tileTerms[kThreads / 32][kTileRows];  // a warp's own copy
    const NormBackward& op = args.op;
    const int64_t blockCol = static_cast<int64_t>(blockIdx.x) * blockDim.x * kLane;
    const int64_t col = blockCol + threadIdx.x * kLane;
    const int lane = threadIdx.x % 32;
    const bool there = col < op.cols, warpThere = col - lane * kLane < op.cols;
    const int64_t rowStart = static_cast<int64_t>(blockIdx.y) * args.rowsPerBlock;
    const int pairs = warpThere ? static_cast<int>(min(args.rowsPerBlock, op.rows - rowStart)) / kPair : 0;
    const int64_t start = rowStart * op.cols + col;
    Pair pair[2];
    const auto fetch = [&](int number, Pair& to) {
#pragma unroll
        for (int i = 0; i < kPair; ++i) {
            const int64_t at = start + (number * kPair + i) * op.cols;
            to.dOut[i].clear(), to.residual[i].clear(), to.in[i].clear();
            if (there) to.dOut[i].load(static_cast<const Bf16*>(op.dOut) + at, kLane, true);
            if (there) to.residual[i].load(static_cast<const Bf16*>(op.residual) + at, kLane, true);
            if (there && op.dResidualIn) to.in[i].load(static_cast<const Bf16*>(op.dResidualIn) + at, kLane, true);
        }
    };
    if (pairs) fetch(0, pair[0]);
    Raw8<Bf16> gainRaw, biasRaw;
    gainRaw.clear(), biasRaw.clear();
    if (there) gainRaw.load(static_cast<const Bf16*>(op.gain) + col, kLane, true);
    if (there && op.bias) biasRaw.load(static_cast<const Bf16*>(op.bias) + col, kLane, true);
    CastState state, againState;
    beginCast<kMode>(args.cast, state, shared);
    const bool makesCodes = args.again.active(), transposesAgain = args.again.transposes();
    if (makesCodes) againState.scale = args.again.scale ? *args.again.scale : 1.0f;
    const bool transposes = writesTransposed<kMode>(args.cast);
    uint32_t* stage = stages;
    uint32_t* againStage = stages + (transposes ? stageWords(blockDim.x) : 0);
    float gainSum[kLane] = {}, biasSum[kLane] = {}, linearSum[kLane] = {};

    Raw8<Bf16> grads[kRowGroup], made[kRowGroup];
    const auto work = [&](int tileRow, int64_t at, Pair& rows, int half) {
#pragma unroll
        for (int i = 0; i < kPair; ++i) {
            float4 terms = tileTerms[threadIdx.x / 32][tileRow + i];  // mean, rstd, shift, dot
            if (!there) terms = make_float4(0, 0, 0, 0);              // beyond the row's end all values are 0
            float d[kLane], r[kLane], gain[kLane], value[kLane], y[kLane];
            rows.residual[i].unpack(r), rows.dOut[i].unpack(d), rows.in[i].unpack(value);
            gainRaw.unpack(gain), biasRaw.unpack(y);
#pragma unroll
            for (int j = 0; j < kLane; ++j) {
                const float hat = __fmul_rn(r[j] - terms.x, terms.y);
                y[j] = __fmaf_rn(hat, gain[j], y[j]);
                gainSum[j] += d[j] * hat;
                biasSum[j] += d[j];
                value[j] += terms.y * (d[j] * gain[j] - terms.z - hat * terms.w);
            }
            Raw8<Bf16>& grad = grads[half * kPair + i];
            made[half * kPair + i].pack(y);
            grad.pack(value);
            grad.unpack(value);
#pragma unroll
            for (int j = 0; j < kLane; ++j) linearSum[j] += value[j];
            if (op.dResidual && there) grad.store(static_cast<Bf16*>(op.dResidual) + at + i * op.cols, kLane, true);
        }
    };
    const auto storeRows = [&](const CastParams& cast, int64_t at, const uint2(&codes)[kRowGroup]) {
#pragma unroll
        for (int i = 0; i < kRowGroup; ++i) *reinterpret_cast<uint2*>(cast.codes + at + i * op.cols) = codes[i];
    };
#pragma unroll 1
    for (int number = 0; number < pairs; number += 2) {
        const int tileRow = number * kPair % kTileRows;
        const int64_t at = start + number * kPair * op.cols;
        if (tileRow == 0) {
            __syncwarp();
            tileTerms[threadIdx.x / 32][lane] =
                *reinterpret_cast<const float4*>(args.terms + rowStart + number * kPair + lane);
            __syncwarp();
        }
        fetch(number + 1, pair[1]);
        work(tileRow, at, pair[0], 0);
        if (number + 2 < pairs) fetch(number + 2, pair[0]);
        work(tileRow + kPair, at + kPair * op.cols, pair[1], 1);
        const int group = tileRow / kRowGroup;
        uint2 codes[kRowGroup];
        if (op.outAgain && there) {
#pragma unroll
            for (int i = 0; i < kRowGroup; ++i)
                made[i].store(static_cast<Bf16*>(op.outAgain) + at + i * op.cols, kLane, true);
        }
        if (makesCodes) {
            castFour<CastMode::Full, 1, false>(made, false, againState, codes);
            if (args.again.codes && there) storeRows(args.again, at, codes);
            if (transposesAgain) stageFourRows(againStage, group, codes);
        }
        if constexpr (kMode != CastMode::None) {
            castFour<kMode, kFormat>(grads, args.cast.counts, state, codes);
            if (encodes(kMode) && args.cast.codes && there) storeRows(args.cast, at, codes);
            if (transposes) stageFourRows(stage, group, codes);
        }
        if (group != kTileRows / kRowGroup - 1) continue;
        const int64_t row0 = rowStart + (number + 2) * kPair - kTileRows;
        if (transposes) writeStage<kTileRows, true>(args.cast, stage, row0, blockCol);
        if (transposesAgain) writeStage<kTileRows, true>(args.again, againStage, row0, blockCol);
    }
    if (there) {
        const int64_t at = static_cast<int64_t>(blockIdx.y) * op.cols + col;
        if (op.dGain) store8(args.gainPartials + at, kLane, true, gainSum);
        if (op.dBias) store8(args.biasPartials + at, kLane, true, biasSum);
        if (op.dLinearBias) store8(args.linearPartials + at, kLane, true, linearSum);
    } else {
        state.forgetCounts();
    }
    const int block = blockIdx.y * gridDim.x + blockIdx.x;
    endCast<kMode>(args.cast, state, shared, block, block == 0);
}

/// Of any type and shape, with all that a cast can do.
template <class T>
__global__ void __launch_bounds__(kThreads) normBackwardKernel(NormBackwardArgs args) {
    constexpr CastMode kMode = CastMode::Generic, kAgain = CastMode::Generic;
    extern __shared__ uint32_t stages[];
    __shared__ CastShared<kMode> shared;
    const NormBackward& op = args.op;
    CastState state, againState;
    beginCast<kMode>(args.cast, state, shared);
    if (args.again.active()) againState.scale = args.again.scale ? *args.again.scale : 1.0f;
    const bool transposes = writesTransposed<kMode>(args.cast), transposesAgain = args.again.transposes();
    uint32_t* stage = stages;
    uint32_t* againStage = stages + (transposes ? stageWords(blockDim.x) : 0);
    const int64_t blockCol = static_cast<int64_t>(blockIdx.x) * blockDim.x * kLane;
    const int64_t col = blockCol + threadIdx.x * kLane;
    const Columns<kMode> columns(col, op.cols, args.aligned);
    const int valid = columns.valid;
    const bool aligned = columns.aligned, makesAgain = args.again.active() || op.outAgain;
    Raw8<T> gainRaw, biasRaw;
    gainRaw.clear(), biasRaw.clear();
    if (valid > 0) gainRaw.load(static_cast<const T*>(op.gain) + col, valid, aligned);
    if (valid > 0 && makesAgain && op.bias) biasRaw.load(static_cast<const T*>(op.bias) + col, valid, aligned);
    float gainSum[kLane] = {}, biasSum[kLane] = {}, linearSum[kLane] = {};

    const int64_t rowStart = static_cast<int64_t>(blockIdx.y) * args.rowsPerBlock;
    const int64_t rowEnd = min(op.rows, rowStart + args.rowsPerBlock);
    for (int64_t row0 = rowStart; row0 < rowEnd; row0 += kTileRows) {
#pragma unroll 1
        for (int group = 0; group < kTileRows / kRowGroup; ++group) {
            const int64_t first = row0 + group * kRowGroup, firstAt = first * op.cols + col;
            if (first >= rowEnd && !transposes && !transposesAgain) break;
            uint2 codes[kRowGroup] = {}, againCodes[kRowGroup] = {};
#pragma unroll
            for (int half = 0; half < kRowGroup / kPair && valid > 0; ++half) {
                Raw8<T> dOut[kPair], residual[kPair], in[kPair];
#pragma unroll
                for (int i = 0; i < kPair; ++i) {
                    const int64_t row = first + half * kPair + i, at = firstAt + (half * kPair + i) * op.cols;
                    in[i].clear();
                    if (!hasRow<kMode>(row, rowEnd)) continue;
                    dOut[i].load(static_cast<const T*>(op.dOut) + at, valid, aligned);
                    residual[i].load(static_cast<const T*>(op.residual) + at, valid, aligned);
                    if (op.dResidualIn) in[i].load(static_cast<const T*>(op.dResidualIn) + at, valid, aligned);
                }
#pragma unroll
                for (int i = 0; i < kPair; ++i) {
                    const int64_t row = first + half * kPair + i, at = firstAt + (half * kPair + i) * op.cols;
                    if (!hasRow<kMode>(row, rowEnd)) continue;
                    const float4 bits = *reinterpret_cast<const float4*>(args.terms + row);
                    const RowTerms terms{bits.x, bits.y, bits.z, bits.w};
                    float d[kLane], r[kLane], gain[kLane], value[kLane];
                    residual[i].unpack(r), gainRaw.unpack(gain);
                    if (makesAgain) {
                        float y[kLane], bias[kLane];
                        biasRaw.unpack(bias);
#pragma unroll
                        for (int j = 0; j < kLane; ++j) {
                            y[j] = columns.has(j) ? normValue(r[j], terms.mean, terms.rstd, gain[j], bias[j]) : 0.0f;
                        }
                        if (op.outAgain) store8(static_cast<T*>(op.outAgain) + at, valid, aligned, y);
                        if (args.again.active()) {
                            roundForCast<T>(y);
                            uint2& code = againCodes[half * kPair + i];
                            code = cast8<kAgain, false>(args.again, y, valid, row, col, againState);
                            storeCodes<kMode>(args.again, code, at, valid, aligned);
                        }
                    }
                    dOut[i].unpack(d), in[i].unpack(value);
#pragma unroll
                    for (int j = 0; j < kLane; ++j) {
                        const float hat = (r[j] - terms.mean) * terms.rstd;
                        gainSum[j] += d[j] * hat;
                        biasSum[j] += d[j];
                        value[j] += terms.rstd * (d[j] * gain[j] - terms.shift - hat * terms.dot);
                        if (!columns.has(j)) value[j] = 0.0f;
                    }
                    in[i].pack(value);
                    in[i].unpack(value);
#pragma unroll
                    for (int j = 0; j < kLane; ++j) linearSum[j] += value[j];
                    if (op.dResidual) in[i].store(static_cast<T*>(op.dResidual) + at, valid, aligned);
                    if (!casts<kMode>(args.cast)) continue;
                    if constexpr (!std::is_same_v<T, Bf16>) roundForCast<T>(value);
                    codes[half * kPair + i] = cast8<kMode>(args.cast, value, valid, row, col, state);
                    storeCodes<kMode>(args.cast, codes[half * kPair + i], at, valid, aligned);
                }
            }
            if (transposes) stageFourRows(stage, group, codes);
            if (transposesAgain) stageFourRows(againStage, group, againCodes);
        }
        if (transposes) writeStage(args.cast, stage, row0, blockCol);
        if (transposesAgain) writeStage(args.again, againStage, row0, blockCol);
    }
    if (valid > 0) {
        const int64_t at = static_cast<int64_t>(blockIdx.y) * op.cols + col;
        if (op.dGain) store8(args.gainPartials + at, valid, aligned, gainSum);
        if (op.dBias) store8(args.biasPartials + at, valid, aligned, biasSum);
        if (op.dLinearBias) store8(args.linearPartials + at, valid, aligned, linearSum);
    }
    const int block = blockIdx.y * gridDim.x + blockIdx.x;
    endCast<kMode>(args.cast, state, shared, block, block == 0);
}

struct Layout {
    int threads;
    int64_t columnBlocks, blocks;
    size_t terms, partials, total;  ///< terms, three sets of partials, dear partials
};

Layout layoutOf(const NormBackward& op) {
    Layout layout{};
    layout.threads = columnThreads(op.cols, kThreads);
    layout.columnBlocks = (op.cols + layout.threads * kLane - 1) / (layout.threads * kLane);
    layout.blocks = layout.columnBlocks * rowBlocks(op.rows);
    layout.terms = roundUp256(static_cast<size_t>(op.rows) * sizeof(RowTerms));
    layout.partials = roundUp256(static_cast<size_t>(rowBlocks(op.rows) * op.cols) * sizeof(float));
    layout.total = layout.terms + 3 * layout.partials + dearBytes(op.cast, layout.blocks);
    return layout;
}

template <class Kernel>
void launchColumns(const LaunchContext& context, Kernel* kernel, const NormBackwardArgs& args, const Layout& layout) {
    const int staged = (args.cast.transposes() ? 1 : 0) + (args.again.transposes() ? 1 : 0);
    const size_t bytes = staged * stageWords(layout.threads) * sizeof(uint32_t);
    const dim3 grid(static_cast<unsigned>(layout.columnBlocks), static_cast<unsigned>(rowBlocks(args.op.rows)));
    allowSharedMemory(kernel, bytes);
    kernel<<<grid, layout.threads, bytes, context.stream>>>(args);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

template <class T>
void launchBackward(const LaunchContext& context, const NormBackwardArgs& args, const Layout& layout) {
    const unsigned rowBlocksOfWarps = static_cast<unsigned>((args.op.rows + kSumWarps - 1) / kSumWarps);
    normRowTermsKernel<T><<<rowBlocksOfWarps, kSumWarps * 32, 0, context.stream>>>(args);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
    const CastMode mode = castModeOf(args.cast, args.op.rows, args.aligned);
    const CastParams& again = args.again;
    const bool againInTiles =
        !again.active() || (again.format == 1 && !again.stochastic && (!again.transposes() || again.wordRows));
    if constexpr (std::is_same_v<T, Bf16>) {
        if (mode != CastMode::Generic && againInTiles) {
            return withFormat(mode, args.cast, [&](auto fixed, auto format) {
                launchColumns(context, normBackwardTilesKernel<decltype(fixed)::value, decltype(format)::value>, args,
                              layout);
            });
        }
    }
    launchColumns(context, normBackwardKernel<T>, args, layout);
}

}  // namespace

size_t workspaceBytes(const NormBackward& op) {
    return layoutOf(op).total;
}

void launch(const LaunchContext& context, const NormBackward& op) {
    require(op.rows > 0 && op.cols > 0, "norm backward", "rows and columns must be positive");
    require(op.dOut && op.residual && op.gain && op.rstd, "norm backward",
            "dOut, residual, gain and rstd must be given");
    require(op.mean || op.kind == NormKind::RmsNorm, "norm backward", "LayerNorm needs the means");
    const Layout layout = layoutOf(op);
    char* scratch = static_cast<char*>(context.scratch(layout.total, "norm backward"));
    NormBackwardArgs args{};
    args.op = op;
    args.cast = castParams(op.cast, op.rows, op.cols, "norm backward");
    CastTarget again = op.again;
    again.slot = nullptr;  // made again: never counted twice
    args.again = castParams(again, op.rows, op.cols, "norm backward");
    args.terms = reinterpret_cast<RowTerms*>(scratch);
    float* partials = reinterpret_cast<float*>(scratch + layout.terms);
    args.gainPartials = partials;
    args.biasPartials = partials + layout.partials / sizeof(float);
    args.linearPartials = partials + 2 * layout.partials / sizeof(float);
    if (dearBytes(op.cast, layout.blocks)) {
        args.cast.partials = reinterpret_cast<DearPartial*>(scratch + layout.terms + 3 * layout.partials);
    }
    args.rowsPerBlock = rowsPerBlock(op.rows);
    args.aligned = alignedRows(op.dOut, op.cols) && alignedRows(op.residual, op.cols) &&
                   alignedRows(op.gain, op.cols) && alignedRows(op.bias, op.cols) &&
                   alignedRows(op.dResidualIn, op.cols) && alignedRows(op.dResidual, op.cols) &&
                   alignedRows(op.outAgain, op.cols) && alignedRows(op.cast.codes, op.cols) &&
                   alignedRows(op.again.codes, op.cols);
    withType(op.type, "norm backward",
             [&](auto tag) { launchBackward<typename decltype(tag)::Type>(context, args, layout); });
    mergeDear(context, args.cast, layout.blocks);
    ColumnSums sums;
    sums.sum[0] = {args.gainPartials, op.dGain};
    sums.sum[1] = {args.biasPartials, op.dBias};
    sums.sum[2] = {args.linearPartials, op.dLinearBias};
    reduceColumns(context, sums, rowBlocks(op.rows), op.cols, op.accumulate);
}

}  // namespace mantissa::kernels::cuda
