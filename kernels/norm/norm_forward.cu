// Residual add, LayerNorm or RMSNorm, and the cast, in one pass. A block covers all columns (8 a thread) and walks down
// its rows four at a time; the values of a row stay in registers between the two sums, so each tensor is read once.
// Memory bound: BF16 with delta and FP8 codes moves 2 + 2 + 2 + 1 bytes an element.
#include "kernels/norm/norm_cuda.cuh"

namespace mantissa::kernels::cuda {

namespace {

constexpr int64_t kMostDearBlocks = 1056;  ///< two full turns of the largest chip

struct NormForwardArgs {
    NormForward op;
    CastParams cast;
    int64_t rowsPerBlock;
    bool aligned;
};

/// BF16 in groups of four whole rows, row codes alone: what training steps run. Blocks stay and take group after group;
/// the next one is loaded while one is worked on.
template <CastMode kMode, int kFormat, int kMaxThreads>
__global__ void __launch_bounds__(kMaxThreads) normForwardRowsKernel(NormForwardArgs args) {
    __shared__ CastShared<kMode> shared;
    __shared__ float sums[2][32 * kRowGroup];
    const NormForward& op = args.op;
    CastState state;
    const int64_t col = static_cast<int64_t>(threadIdx.x) * kLane;
    const bool there = col < op.cols, layerNorm = op.kind == NormKind::LayerNorm;
    const float perColumn = 1.0f / static_cast<float>(op.cols);
    Raw8<Bf16> gainRaw, biasRaw, in[kRowGroup], more[kRowGroup];
    const auto fetch = [&](int64_t first) {
#pragma unroll
        for (int i = 0; i < kRowGroup; ++i) {
            const int64_t at = (first + i) * op.cols + col;
            in[i].clear(), more[i].clear();
            if (there) in[i].load(static_cast<const Bf16*>(op.residualIn) + at, kLane, true);
            if (there && op.delta) more[i].load(static_cast<const Bf16*>(op.delta) + at, kLane, true);
        }
    };
    const int64_t step = static_cast<int64_t>(gridDim.x) * kRowGroup;
    int64_t first = static_cast<int64_t>(blockIdx.x) * kRowGroup;
    gainRaw.clear(), biasRaw.clear();
    if (there) gainRaw.load(static_cast<const Bf16*>(op.gain) + col, kLane, true);
    if (there && op.bias) biasRaw.load(static_cast<const Bf16*>(op.bias) + col, kLane, true);
    if (first < op.rows) fetch(first);
    beginCast<kMode>(args.cast, state, shared);
    for (; first < op.rows; first += step) {
        Raw8<Bf16> r[kRowGroup];
        float sum[kRowGroup], square[kRowGroup];
#pragma unroll
        for (int i = 0; i < kRowGroup; ++i) {
            float value[kLane], delta[kLane];
            in[i].unpack(value), more[i].unpack(delta);
#pragma unroll
            for (int j = 0; j < kLane; ++j) value[j] += delta[j];
            r[i].pack(value);
            if (op.delta && there) {
                r[i].store(static_cast<Bf16*>(op.residualOut) + (first + i) * op.cols + col, kLane, true);
            }
        }
        if (first + step < op.rows) fetch(first + step);
#pragma unroll
        for (int i = 0; i < kRowGroup; ++i) {
            float value[kLane];
            r[i].unpack(value);
            sum[i] = 0;
#pragma unroll
            for (int j = 0; j < kLane; ++j) sum[i] += value[j];
        }
        if (layerNorm) blockSum(sum, sums[0]);
#pragma unroll
        for (int i = 0; i < kRowGroup; ++i) {
            sum[i] = layerNorm ? sum[i] * perColumn : 0.0f;  // the mean
            square[i] = 0;
            float value[kLane];
            r[i].unpack(value);
#pragma unroll
            for (int j = 0; j < kLane; ++j) {
                const float centred = there ? value[j] - sum[i] : 0.0f;
                square[i] += centred * centred;
            }
        }
        blockSum(square, sums[1]);
        if (!layerNorm) __syncthreads();  // the one buffer is used again in the next turn
        float gain[kLane], bias[kLane];
        gainRaw.unpack(gain), biasRaw.unpack(bias);
#pragma unroll
        for (int i = 0; i < kRowGroup; ++i) {
            const float rstd = 1.0f / sqrtf(square[i] * perColumn + op.eps);
            if (threadIdx.x == 0) {
                if (op.mean) op.mean[first + i] = sum[i];
                if (op.rstd) op.rstd[first + i] = rstd;
            }
            float y[kLane];
            r[i].unpack(y);
#pragma unroll
            for (int j = 0; j < kLane; ++j) y[j] = normValue(y[j], sum[i], rstd, gain[j], bias[j]);
            r[i].pack(y);
            if (op.out && there) r[i].store(static_cast<Bf16*>(op.out) + (first + i) * op.cols + col, kLane, true);
        }
        if constexpr (kMode != CastMode::None) {
            if (!there) continue;
            uint2 codes[kRowGroup];
            castFour<kMode, kFormat>(r, args.cast.counts, state, codes);
            if constexpr (encodes(kMode)) {
                if (!args.cast.codes) continue;
#pragma unroll
                for (int i = 0; i < kRowGroup; ++i)
                    *reinterpret_cast<uint2*>(args.cast.codes + (first + i) * op.cols + col) = codes[i];
            }
        }
    }
    endCast<kMode>(args.cast, state, shared, blockIdx.x, blockIdx.x == 0);
}

template <class T, CastMode kMode, int kMaxThreads>
__global__ void __launch_bounds__(kMaxThreads) normForwardKernel(NormForwardArgs args) {
    constexpr int kTile = normTile(kMaxThreads);
    extern __shared__ uint32_t stage[];
    __shared__ CastShared<kMode> shared;
    __shared__ float sums[2][32 * kRowGroup];
    const NormForward& op = args.op;
    CastState state;
    beginCast<kMode>(args.cast, state, shared);
    const int64_t col = static_cast<int64_t>(threadIdx.x) * kLane;
    const Columns<kMode> columns(col, op.cols, args.aligned);
    const int valid = columns.valid;
    const bool aligned = columns.aligned, transposes = writesTransposed<kMode>(args.cast);
    const bool layerNorm = op.kind == NormKind::LayerNorm;
    const float perColumn = 1.0f / static_cast<float>(op.cols);
    float gain[kLane] = {}, bias[kLane] = {};
    if (valid > 0) load8(static_cast<const T*>(op.gain) + col, valid, aligned, gain);
    if (op.bias && valid > 0) load8(static_cast<const T*>(op.bias) + col, valid, aligned, bias);

    const int64_t rowEnd = min(op.rows, static_cast<int64_t>(blockIdx.x + 1) * args.rowsPerBlock);
    const int64_t rowStart = static_cast<int64_t>(blockIdx.x) * args.rowsPerBlock;
    for (int64_t first = rowStart; first < rowStart + args.rowsPerBlock; first += kRowGroup) {
        if (first >= rowEnd && !transposes) break;
        Raw8<T> r[kRowGroup], delta[kRowGroup];
        float sum[kRowGroup], square[kRowGroup];
#pragma unroll
        for (int i = 0; i < kRowGroup; ++i) {
            const int64_t at = (first + i) * op.cols + col;
            const bool there = hasRow<kMode>(first + i, rowEnd) && valid > 0;
            r[i].clear(), delta[i].clear();
            if (there) r[i].load(static_cast<const T*>(op.residualIn) + at, valid, aligned);
            if (there && op.delta) delta[i].load(static_cast<const T*>(op.delta) + at, valid, aligned);
        }
#pragma unroll
        for (int i = 0; i < kRowGroup; ++i) {
            float value[kLane];
            r[i].unpack(value);
            if (op.delta) {
                float more[kLane];
                delta[i].unpack(more);
#pragma unroll
                for (int j = 0; j < kLane; ++j) value[j] += more[j];
                r[i].pack(value);
                r[i].unpack(value);
                if (hasRow<kMode>(first + i, rowEnd) && valid > 0) {
                    r[i].store(static_cast<T*>(op.residualOut) + (first + i) * op.cols + col, valid, aligned);
                }
            }
            sum[i] = 0;
#pragma unroll
            for (int j = 0; j < kLane; ++j) sum[i] += value[j];
        }
        if (layerNorm) blockSum(sum, sums[0]);
#pragma unroll
        for (int i = 0; i < kRowGroup; ++i) {
            sum[i] = layerNorm ? sum[i] * perColumn : 0.0f;  // the mean
            square[i] = 0;
            float value[kLane];
            r[i].unpack(value);
#pragma unroll
            for (int j = 0; j < kLane; ++j) {
                const float centred = columns.has(j) && valid > 0 ? value[j] - sum[i] : 0.0f;
                square[i] += centred * centred;
            }
        }
        blockSum(square, sums[1]);
        if (!layerNorm) __syncthreads();  // the one buffer is used again in the next turn
        uint2 codes[kRowGroup] = {};
#pragma unroll
        for (int i = 0; i < kRowGroup; ++i) {
            const int64_t row = first + i;
            if (!hasRow<kMode>(row, rowEnd)) continue;
            const float rstd = 1.0f / sqrtf(square[i] * perColumn + op.eps);
            if (threadIdx.x == 0) {
                if (op.mean) op.mean[row] = sum[i];
                if (op.rstd) op.rstd[row] = rstd;
            }
            if (valid == 0) continue;
            float y[kLane];
            r[i].unpack(y);
#pragma unroll
            for (int j = 0; j < kLane; ++j)
                y[j] = columns.has(j) ? normValue(y[j], sum[i], rstd, gain[j], bias[j]) : 0.0f;
            if (op.out) store8(static_cast<T*>(op.out) + row * op.cols + col, valid, aligned, y);
            if (!casts<kMode>(args.cast)) continue;
            if (!op.castFromF32) roundForCast<T>(y);
            codes[i] = cast8<kMode>(args.cast, y, valid, row, col, state);
            storeCodes<kMode>(args.cast, codes[i], row * op.cols + col, valid, aligned);
        }
        if (transposes) {
            const int group = static_cast<int>((first - rowStart) % kTile) / kRowGroup;
            stageFourRows<kTile>(stage, group, codes);
            if (group == kTile / kRowGroup - 1) writeStage<kTile>(args.cast, stage, first + kRowGroup - kTile, 0);
        }
    }
    endCast<kMode>(args.cast, state, shared, blockIdx.x, blockIdx.x == 0);
}

/// Whole tiles when transposed codes are written, else few rows a block, so that small batches fill the chip.
int64_t rowsOfBlock(const NormForward& op) {
    return op.cast.codesTransposed ? kTileRows : 8;
}
int64_t blocksOf(const NormForward& op) {
    return (op.rows + rowsOfBlock(op) - 1) / rowsOfBlock(op);
}

template <class T, CastMode kMode, int kMaxThreads>
void launchForward(const LaunchContext& context, const NormForwardArgs& args, int threads) {
    const size_t stage = args.cast.transposes() ? stageWords(threads, normTile(kMaxThreads)) * sizeof(uint32_t) : 0;
    auto* kernel = normForwardKernel<T, kMode, kMaxThreads>;
    allowSharedMemory(kernel, stage);
    kernel<<<static_cast<unsigned>(blocksOf(args.op)), threads, stage, context.stream>>>(args);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
    mergeDear(context, args.cast, blocksOf(args.op));
}

/// Blocks of a launch that takes the dear set: a function of the shape alone, so that its sums are.
int64_t dearBlocks(const NormForward& op) {
    const int64_t groups = op.rows / kRowGroup;
    return groups < kMostDearBlocks ? groups : kMostDearBlocks;
}

/// As many blocks as run at once. Leaves the dear set merged.
template <CastMode kMode, int kFormat, int kMaxThreads>
void launchRows(const LaunchContext& context, const NormForwardArgs& args, int threads) {
    auto* kernel = normForwardRowsKernel<kMode, kFormat, kMaxThreads>;
    int perProcessor = 1;
    MANTISSA_CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&perProcessor, kernel, threads, 0));
    const int64_t groups = args.op.rows / kRowGroup, most = int64_t{perProcessor} * context.multiprocessors;
    const int64_t blocks = kMode == CastMode::Dear ? dearBlocks(args.op) : groups < most ? groups : most;
    kernel<<<static_cast<unsigned>(blocks), threads, 0, context.stream>>>(args);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
    mergeDear(context, args.cast, blocks);
}

}  // namespace

size_t workspaceBytes(const NormForward& op) {
    const int64_t blocks = blocksOf(op), dear = dearBlocks(op);
    return dearBytes(op.cast, blocks > dear ? blocks : dear);
}

void launch(const LaunchContext& context, const NormForward& op) {
    require(op.rows > 0 && op.cols > 0 && op.cols <= 8192, "norm forward", "rows must be positive, columns 1 to 8192");
    require(op.residualIn && op.gain, "norm forward", "residualIn and gain must be given");
    require(!op.delta || op.residualOut, "norm forward", "a delta needs residualOut");
    NormForwardArgs args{op, castParams(op.cast, op.rows, op.cols, "norm forward"), rowsOfBlock(op), false};
    if (dearBytes(op.cast, blocksOf(op))) {
        args.cast.partials = static_cast<DearPartial*>(context.scratch(workspaceBytes(op), "norm forward"));
    }
    args.aligned = alignedRows(op.residualIn, op.cols) && alignedRows(op.delta, op.cols) &&
                   alignedRows(op.residualOut, op.cols) && alignedRows(op.out, op.cols) &&
                   alignedRows(op.gain, op.cols) && alignedRows(op.bias, op.cols) &&
                   alignedRows(op.cast.codes, op.cols);
    const int threads = columnThreads(op.cols, 1024);
    withType(op.type, "norm forward", [&](auto tag) {
        using T = typename decltype(tag)::Type;
        if constexpr (std::is_same_v<T, Bf16>) {
            if (threads > 512) return launchForward<T, CastMode::Generic, 1024>(context, args, threads);
        }
        require(threads <= 512, "norm forward", "more than 4096 columns are supported in BF16 only");
        const CastMode mode = castModeOf(args.cast, op.rows, args.aligned);
        if constexpr (std::is_same_v<T, Bf16>) {
            if (mode != CastMode::Generic && !args.cast.transposes() && !op.castFromF32) {
                return withFormat(mode, args.cast, [&](auto fixed, auto format) {
                    constexpr CastMode kMode = decltype(fixed)::value;
                    constexpr int kFormat = decltype(format)::value;
                    if (threads <= 256) return launchRows<kMode, kFormat, 256>(context, args, threads);
                    launchRows<kMode, kFormat, 512>(context, args, threads);
                });
            }
        }
        launchForward<T, CastMode::Generic, 512>(context, args, threads);
    });
}

}  // namespace mantissa::kernels::cuda
