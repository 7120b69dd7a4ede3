// GELU and SwiGLU with the cast after them and, backward, the bias gradient and forward's output made again. A block
// owns up to 1024 columns and a stretch of rows. Memory bound.
#include "kernels/activation/activation.h"
#include "kernels/device/cuda/cast.cuh"

namespace mantissa::kernels::cuda {

namespace {

constexpr int kThreads = 128;

__device__ __forceinline__ float sigmoid(float x) {
    return __fdividef(1.0f, 1.0f + __expf(-x));
}

__device__ __forceinline__ float reciprocal(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));  // within 1 ulp
    return y;
}

/// 2^x, subnormal results as 0: one instruction.
__device__ __forceinline__ float powerOfTwo(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/// GELU, tanh form: 0.5 x (1 + tanh(u)) = x sigmoid(2 u), 2 u = x (a + b x^2).
/// x is clamped for the sigmoid alone: at +-30 it is 0 or 1 already, and x^2 stays finite.
struct Gelu {
    float clamped, square, sigmoid;
    __device__ __forceinline__ explicit Gelu(float x) {
        constexpr float kMinusA = -1.5957691216057308f * 1.4426950408889634f, kMinusB = kMinusA * 0.044715f;
        clamped = fminf(fmaxf(x, -30.0f), 30.0f);
        square = clamped * clamped;
        sigmoid = reciprocal(1.0f + powerOfTwo(clamped * __fmaf_rn(square, kMinusB, kMinusA)));
    }
    /// The same bits in forward and where backward makes it again.
    __device__ __forceinline__ float value(float x) const { return __fmul_rn(x, sigmoid); }
    /// sigmoid + x sigmoid (1 - sigmoid) (a + 3 b x^2); where 1 - sigmoid cancels the derivative is 1 within 1e-6.
    __device__ __forceinline__ float derivative() const {
        const float slope = __fmaf_rn(square, 3.0f * 0.044715f * 1.5957691216057308f, 1.5957691216057308f);
        const float product = clamped * sigmoid;
        return __fmaf_rn(__fmaf_rn(-product, sigmoid, product), slope, sigmoid);
    }
};

struct ActivationArgs {
    const void* in;
    const void* dOut;  ///< nullptr: forward
    void* out;         ///< forward's out or dIn
    void* outAgain;
    CastParams cast, again;
    float* biasPartials;
    int64_t rows, cols, rowsPerBlock;
    bool aligned;
};

/// GELU of BF16 in whole tiles, both ways: what training steps run. Two sets of four rows take turns, one is loaded
/// while the other is worked on; nothing in the work on four rows branches but what is rare. Backward's tensor that is
/// made again is E4M3.
template <CastMode kMode, int kFormat, bool kBackward>
__global__ void __launch_bounds__(kThreads, kBackward ? 3 : 4) geluTilesKernel(ActivationArgs args) {
    using Rows = Raw8<Bf16>[4];
    extern __shared__ uint32_t stages[];
    __shared__ CastShared<kMode> shared;
    const int64_t blockCol = static_cast<int64_t>(blockIdx.x) * blockDim.x * kLane;
    const int64_t col = blockCol + threadIdx.x * kLane;
    const bool there = col < args.cols, warpThere = col - threadIdx.x % 32 * kLane < args.cols;
    const int64_t rowStart = static_cast<int64_t>(blockIdx.y) * args.rowsPerBlock;
    const int groups = warpThere ? static_cast<int>(min(args.rowsPerBlock, args.rows - rowStart)) / 4 : 0;
    const int64_t start = rowStart * args.cols + col;
    Rows x[2], d[2];
    const auto fetch = [&](int group, Rows& toX, Rows& toD) {
        const int64_t at = start + group * 4 * args.cols;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            toX[i].clear();
            if (there) toX[i].load(static_cast<const Bf16*>(args.in) + at + i * args.cols, kLane, true);
            if (!kBackward) continue;
            toD[i].clear();
            if (there) toD[i].load(static_cast<const Bf16*>(args.dOut) + at + i * args.cols, kLane, true);
        }
    };
    if (groups) fetch(0, x[0], d[0]);
    CastState state, againState;
    beginCast<kMode>(args.cast, state, shared);
    const bool makesCodes = kBackward && args.again.active(), transposesAgain = kBackward && args.again.transposes();
    if (makesCodes) againState.scale = args.again.scale ? *args.again.scale : 1.0f;
    const bool transposes = writesTransposed<kMode>(args.cast);
    uint32_t* stage = stages;
    uint32_t* againStage = stages + (transposes ? stageWords(blockDim.x) : 0);
    float sums[kLane] = {};

    const auto work = [&](int group, Rows& rowsX, Rows& rowsD) {
        const int64_t at = start + group * 4 * args.cols;
        Rows made;  // the activation
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            float value[kLane], grad[kLane];
            rowsX[i].unpack(value);
            if (kBackward) rowsD[i].unpack(grad);
#pragma unroll
            for (int j = 0; j < kLane; ++j) {
                const Gelu gelu(value[j]);
                value[j] = gelu.value(value[j]);
                if (kBackward) grad[j] *= gelu.derivative();
            }
            made[i].pack(value);
            if (!kBackward) continue;
            rowsD[i].pack(grad);
            rowsD[i].unpack(grad);
#pragma unroll
            for (int j = 0; j < kLane; ++j) sums[j] += grad[j];
        }
        const auto store = [&](void* to, const Rows& rows) {
#pragma unroll
            for (int i = 0; i < 4; ++i) rows[i].store(static_cast<Bf16*>(to) + at + i * args.cols, kLane, true);
        };
        const auto storeRows = [&](const CastParams& cast, const uint2(&codes)[4]) {
#pragma unroll
            for (int i = 0; i < 4; ++i) *reinterpret_cast<uint2*>(cast.codes + at + i * args.cols) = codes[i];
        };
        uint2 codes[4];
        if (kBackward) {
            if (args.outAgain && there) store(args.outAgain, made);
            if (makesCodes) {
                castFour<CastMode::Full, 1, false>(made, false, againState, codes);
                if (args.again.codes && there) storeRows(args.again, codes);
                if (transposesAgain) stageFourRows(againStage, group % (kTileRows / 4), codes);
            }
        }
        const Rows& result = kBackward ? rowsD : made;
        if (args.out && there) store(args.out, result);
        if constexpr (kMode != CastMode::None) {
            castFour<kMode, kFormat>(result, args.cast.counts, state, codes);
            if (encodes(kMode) && args.cast.codes && there) storeRows(args.cast, codes);
            if (transposes) stageFourRows(stage, group % (kTileRows / 4), codes);
        }
    };
#pragma unroll 1
    for (int group = 0; group < groups; group += 2) {
        fetch(group + 1, x[1], d[1]);
        work(group, x[0], d[0]);
        if (group + 2 < groups) fetch(group + 2, x[0], d[0]);
        work(group + 1, x[1], d[1]);
        if (group % (kTileRows / 4) != kTileRows / 4 - 2) continue;
        const int64_t row0 = rowStart + (group + 2) * 4 - kTileRows;
        if (transposes) writeStage<kTileRows, true>(args.cast, stage, row0, blockCol);
        if (transposesAgain) writeStage<kTileRows, true>(args.again, againStage, row0, blockCol);
    }
    if (kBackward && args.biasPartials && there) {
        store8(args.biasPartials + blockIdx.y * args.cols + col, kLane, true, sums);
    }
    if (!there) state.forgetCounts();
    const int block = blockIdx.y * gridDim.x + blockIdx.x;
    endCast<kMode>(args.cast, state, shared, block, block == 0);
}

/// GELU both ways, SwiGLU forward, of any type and shape and with all that a cast can do.
template <class T, bool kBackward, bool kSwiGlu>
__global__ void __launch_bounds__(kThreads) activationKernel(ActivationArgs args) {
    constexpr CastMode kMode = CastMode::Generic, kAgain = CastMode::Generic;
    extern __shared__ uint32_t stages[];
    __shared__ CastShared<kMode> shared;
    CastState state, againState;
    beginCast<kMode>(args.cast, state, shared);
    if (kBackward && args.again.active()) againState.scale = args.again.scale ? *args.again.scale : 1.0f;
    const bool transposes = writesTransposed<kMode>(args.cast), transposesAgain = kBackward && args.again.transposes();
    uint32_t* stage = stages;
    uint32_t* againStage = stages + (transposes ? stageWords(blockDim.x) : 0);
    const int64_t blockCol = static_cast<int64_t>(blockIdx.x) * blockDim.x * kLane;
    const int64_t col = blockCol + threadIdx.x * kLane;
    const Columns<kMode> columns(col, args.cols, args.aligned);
    const int valid = columns.valid;
    const bool aligned = columns.aligned;
    const int64_t rowStart = static_cast<int64_t>(blockIdx.y) * args.rowsPerBlock;
    const int64_t rowEnd = min(args.rows, rowStart + args.rowsPerBlock);
    float sums[kLane] = {};
    for (int64_t row0 = rowStart; row0 < rowEnd; row0 += kTileRows) {
#pragma unroll 1
        for (int group = 0; group < kTileRows / 4; ++group) {
            const int64_t first = row0 + group * 4, firstAt = first * args.cols + col;
            if (first >= rowEnd && !transposes && !transposesAgain) break;
            uint2 codes[4] = {}, againCodes[4] = {};
            if (valid > 0) {
                Raw8<T> rawX[4], rawD[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    if (!hasRow<kMode>(first + i, rowEnd)) continue;
                    const int64_t at = firstAt + i * args.cols, inAt = kSwiGlu ? 2 * at - col : at;
                    rawX[i].load(static_cast<const T*>(args.in) + inAt, valid, aligned);
                    if (kSwiGlu) rawD[i].load(static_cast<const T*>(args.in) + inAt + args.cols, valid, aligned);
                    if (kBackward) rawD[i].load(static_cast<const T*>(args.dOut) + at, valid, aligned);
                }
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int64_t row = first + i, at = firstAt + i * args.cols;
                    if (!hasRow<kMode>(row, rowEnd)) continue;
                    float x[kLane], y[kLane], d[kLane];
                    rawX[i].unpack(x);
                    if (kBackward || kSwiGlu) rawD[i].unpack(d);
                    if (kBackward) {
                        // dIn in d, forward's output in y; one exponential serves both.
#pragma unroll
                        for (int j = 0; j < kLane; ++j) {
                            const Gelu gelu(x[j]);
                            y[j] = gelu.value(x[j]);
                            d[j] *= gelu.derivative();
                        }
                        if (args.outAgain) store8(static_cast<T*>(args.outAgain) + at, valid, aligned, y);
                        if (args.again.active()) {
                            roundForCast<T>(y);
                            againCodes[i] = cast8<kAgain, false>(args.again, y, valid, row, col, againState);
                            storeCodes<kMode>(args.again, againCodes[i], at, valid, aligned);
                        }
                        rawD[i].pack(d);
                        rawD[i].unpack(d);
#pragma unroll
                        for (int j = 0; j < kLane; ++j) sums[j] += d[j];
                    } else {
#pragma unroll
                        for (int j = 0; j < kLane; ++j) {
                            d[j] = kSwiGlu ? x[j] * sigmoid(x[j]) * d[j] : Gelu(x[j]).value(x[j]);
                        }
                        rawD[i].pack(d);
                        rawD[i].unpack(d);
                    }
                    if (args.out) rawD[i].store(static_cast<T*>(args.out) + at, valid, aligned);
                    if (!casts<kMode>(args.cast)) continue;
                    if constexpr (!std::is_same_v<T, Bf16>) roundForCast<T>(d);
                    codes[i] = cast8<kMode>(args.cast, d, valid, row, col, state);
                    storeCodes<kMode>(args.cast, codes[i], at, valid, aligned);
                }
            }
            if (transposes) stageFourRows(stage, group, codes);
            if (transposesAgain) stageFourRows(againStage, group, againCodes);
        }
        if (transposes) writeStage(args.cast, stage, row0, blockCol);
        if (transposesAgain) writeStage(args.again, againStage, row0, blockCol);
    }
    if (kBackward && args.biasPartials && valid > 0) {
        store8(args.biasPartials + blockIdx.y * args.cols + col, valid, aligned, sums);
    }
    const int block = blockIdx.y * gridDim.x + blockIdx.x;
    endCast<kMode>(args.cast, state, shared, block, block == 0);
}

/// SwiGLU backward in plain form: dIn (rows, 2 cols) and out again; casts and sums follow as passes of their own.
template <class T>
__global__ void swiGluBackwardKernel(const T* in, const T* dOut, T* dIn, T* outAgain, int64_t rows, int64_t cols) {
    const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < rows * cols; i += stride) {
        const int64_t at = i / cols * 2 * cols + i % cols;
        const float gate = toFloat(in[at]), up = toFloat(in[at + cols]), d = toFloat(dOut[i]),
                    s = 1.0f / (1.0f + expf(-gate));
        if (outAgain) outAgain[i] = fromFloat<T>(gate * sigmoid(gate) * up);
        dIn[at] = fromFloat<T>(d * up * (s + gate * s * (1.0f - s)));
        dIn[at + cols] = fromFloat<T>(d * gate * s);
    }
}

struct Geometry {
    int threads;
    int64_t columnBlocks, rowsPerBlock, rowBlocks;
};

Geometry geometry(int64_t rows, int64_t cols) {
    Geometry g;
    g.threads = columnThreads(cols, kThreads);
    g.columnBlocks = (cols + g.threads * kLane - 1) / (g.threads * kLane);
    g.rowsPerBlock = rowsPerBlock(rows);
    g.rowBlocks = rowBlocks(rows);
    return g;
}

template <class Kernel>
void launchKernel(const LaunchContext& context, Kernel* kernel, const ActivationArgs& args, const Geometry& g) {
    const int staged = (args.cast.transposes() ? 1 : 0) + (args.again.transposes() ? 1 : 0);
    const size_t bytes = staged * stageWords(g.threads) * sizeof(uint32_t);
    allowSharedMemory(kernel, bytes);
    const dim3 grid(static_cast<unsigned>(g.columnBlocks), static_cast<unsigned>(g.rowBlocks));
    kernel<<<grid, g.threads, bytes, context.stream>>>(args);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

/// Whether geluTilesKernel serves.
bool inTiles(DType type, const ActivationArgs& args) {
    if (type != DType::BF16 || castModeOf(args.cast, args.rows, args.aligned) == CastMode::Generic) return false;
    return !args.again.active() ||
           (args.again.format == 1 && !args.again.stochastic && (!args.again.transposes() || args.again.wordRows));
}

template <bool kBackward, bool kSwiGlu>
void launchTyped(const LaunchContext& context, DType type, const ActivationArgs& args, const Geometry& g) {
    if (!kSwiGlu && inTiles(type, args)) {
        withFormat(castModeOf(args.cast, args.rows, args.aligned), args.cast, [&](auto mode, auto format) {
            launchKernel(context, geluTilesKernel<decltype(mode)::value, decltype(format)::value, kBackward>, args, g);
        });
        mergeDear(context, args.cast, g.columnBlocks * g.rowBlocks);
        return;
    }
    withType(type, "activation", [&](auto tag) {
        launchKernel(context, activationKernel<typename decltype(tag)::Type, kBackward, kSwiGlu>, args, g);
    });
    mergeDear(context, args.cast, g.columnBlocks * g.rowBlocks);
}

size_t biasBytes(const ActivationBackward& op) {
    return op.dBias ? roundUp256(static_cast<size_t>(rowBlocks(op.rows) * op.cols) * sizeof(float)) : 0;
}

Quantize castOf(const void* in, DType type, int64_t rows, int64_t cols, const CastTarget& target) {
    Quantize cast;
    cast.rows = rows, cast.cols = cols, cast.inType = type, cast.in = in, cast.target = target;
    return cast;
}

Quantize swiGluCast(const ActivationBackward& op, const void* dIn) {
    Quantize cast = castOf(dIn, op.type, op.rows, 2 * op.cols, op.cast);
    cast.dbias = op.dBias, cast.accumulateBias = op.accumulate;
    return cast;
}

size_t swiGluBytes(const ActivationBackward& op) {
    const size_t element = dtypeSize(op.type), one = roundUp256(static_cast<size_t>(op.rows * op.cols) * element);
    return (op.dIn ? 0 : roundUp256(2 * static_cast<size_t>(op.rows * op.cols) * element)) + (op.outAgain ? 0 : one);
}

void launchSwiGluBackward(const LaunchContext& context, const ActivationBackward& op) {
    char* scratch = static_cast<char*>(context.scratch(workspaceBytes(op), "activation backward"));
    void* dIn = op.dIn;
    void* again = op.outAgain;
    LaunchContext rest = context;
    if (!dIn) dIn = scratch, scratch += roundUp256(2 * static_cast<size_t>(op.rows * op.cols) * dtypeSize(op.type));
    if (!again) again = scratch, scratch += roundUp256(static_cast<size_t>(op.rows * op.cols) * dtypeSize(op.type));
    rest.workspace = scratch;
    rest.workspaceBytes = context.workspaceBytes - swiGluBytes(op);
    withType(op.type, "activation backward", [&](auto tag) {
        using T = typename decltype(tag)::Type;
        swiGluBackwardKernel<T><<<context.multiprocessors * 16, 256, 0, context.stream>>>(
            static_cast<const T*>(op.in), static_cast<const T*>(op.dOut), static_cast<T*>(dIn), static_cast<T*>(again),
            op.rows, op.cols);
    });
    MANTISSA_CUDA_CHECK(cudaGetLastError());
    if (op.cast.format != DType::None || op.dBias) launch(rest, swiGluCast(op, dIn));
    if (op.again.format == DType::None) return;
    Quantize second = castOf(again, op.type, op.rows, op.cols, op.again);
    second.target.slot = nullptr;
    launch(rest, second);
}

}  // namespace

size_t workspaceBytes(const ActivationForward& op) {
    const Geometry g = geometry(op.rows, op.cols);
    return dearBytes(op.cast, g.columnBlocks * g.rowBlocks);
}

size_t workspaceBytes(const ActivationBackward& op) {
    if (op.kind == Activation::SwiGlu) return swiGluBytes(op) + workspaceBytes(swiGluCast(op, op.dIn));
    const Geometry g = geometry(op.rows, op.cols);
    return biasBytes(op) + dearBytes(op.cast, g.columnBlocks * g.rowBlocks);
}

void launch(const LaunchContext& context, const ActivationForward& op) {
    require(op.rows > 0 && op.cols > 0 && op.in, "activation forward", "sizes must be positive and in must be given");
    const Geometry g = geometry(op.rows, op.cols);
    ActivationArgs args{};
    args.in = op.in, args.out = op.out, args.rows = op.rows, args.cols = op.cols, args.rowsPerBlock = g.rowsPerBlock;
    args.cast = castParams(op.cast, op.rows, op.cols, "activation forward");
    args.aligned = alignedRows(op.in, op.cols) && alignedRows(op.out, op.cols) && alignedRows(op.cast.codes, op.cols);
    if (workspaceBytes(op)) {
        args.cast.partials = static_cast<DearPartial*>(context.scratch(workspaceBytes(op), "activation forward"));
    }
    if (op.kind == Activation::SwiGlu) {
        launchTyped<false, true>(context, op.type, args, g);
    } else {
        launchTyped<false, false>(context, op.type, args, g);
    }
}

void launch(const LaunchContext& context, const ActivationBackward& op) {
    require(op.rows > 0 && op.cols > 0 && op.in && op.dOut, "activation backward",
            "sizes must be positive, in and dOut must be given");
    if (op.kind == Activation::SwiGlu) return launchSwiGluBackward(context, op);
    const Geometry g = geometry(op.rows, op.cols);
    char* scratch = static_cast<char*>(context.scratch(workspaceBytes(op), "activation backward"));
    ActivationArgs args{};
    args.in = op.in, args.dOut = op.dOut, args.out = op.dIn, args.outAgain = op.outAgain;
    args.rows = op.rows, args.cols = op.cols, args.rowsPerBlock = g.rowsPerBlock;
    args.cast = castParams(op.cast, op.rows, op.cols, "activation backward");
    CastTarget again = op.again;
    again.slot = nullptr;  // made again: never counted twice
    args.again = castParams(again, op.rows, op.cols, "activation backward");
    if (op.dBias) args.biasPartials = reinterpret_cast<float*>(scratch);
    if (workspaceBytes(op) > biasBytes(op))
        args.cast.partials = reinterpret_cast<DearPartial*>(scratch + biasBytes(op));
    args.aligned = alignedRows(op.in, op.cols) && alignedRows(op.dOut, op.cols) && alignedRows(op.dIn, op.cols) &&
                   alignedRows(op.outAgain, op.cols) && alignedRows(op.cast.codes, op.cols) &&
                   alignedRows(op.again.codes, op.cols);
    launchTyped<true, false>(context, op.type, args, g);
    ColumnSums sums;
    sums.sum[0] = {args.biasPartials, op.dBias};
    reduceColumns(context, sums, g.rowBlocks, op.cols, op.accumulate);
}

}  // namespace mantissa::kernels::cuda
