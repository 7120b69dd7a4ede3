// Causal attention, backward, BF16 and F16, deterministic: no atomics and no partial dQ in memory. One kernel walks the
// queries for a tile of 64 keys (dK, dV), one walks the keys for a tile of 64 queries (dQ). Scores are made in both,
// which costs 7 products where FlashAttention-2's atomic form needs 5, and gives the same bits every time. Products and
// shared-memory reads limit both kernels.
#include "kernels/attention/attention_cuda.cuh"
#include "kernels/attention/attention_cudnn.h"
#include "kernels/device/cuda/cast.cuh"

namespace mantissa::kernels::cuda {

namespace {

constexpr int kRows = 64;      ///< queries or keys of a tile
constexpr int kThreads = 128;  ///< 4 warps of 16 rows

/// S^T = K Q^T, dP^T = V dO^T, so that P^T and dS^T come out as left operands of dV += P^T dO and dK += dS^T Q.
template <class T, int D>
__global__ void __launch_bounds__(kThreads) attentionKeysKernel(AttentionTensors<T> args) {
    constexpr int kSteps = D / 16, kColumnTiles = D / 8, kTileBytes = kRows * D * 2;
    extern __shared__ __align__(128) uint8_t memory[];
    const uint32_t base = sharedAddress(memory);
    const uint32_t tileK = base, tileV = base + kTileBytes, tileQ = base + 2 * kTileBytes,
                   tileO = base + 4 * kTileBytes;
    float* rowLse = reinterpret_cast<float*>(memory + 6 * kTileBytes);  // two buffers of 64, then delta likewise
    float* rowDelta = rowLse + 2 * kRows;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int head = blockIdx.y, batch = blockIdx.z, context = args.context, key0 = blockIdx.x * kRows;
    const int64_t width = static_cast<int64_t>(args.heads) * D, stride = 3 * width;
    const int64_t first = static_cast<int64_t>(batch) * context;
    const T* q = args.qkv + first * stride + head * D;
    const T* dOut = args.dOut + first * width + head * D;
    const float* lse = args.lse + (static_cast<int64_t>(batch) * args.heads + head) * context;
    const float* delta = args.delta + (static_cast<int64_t>(batch) * args.heads + head) * context;

    const int firstTile = key0 / kRows, tiles = (context + kRows - 1) / kRows;
    Tile<D>::copy(tileK, q + width + key0 * stride, stride, kRows, context - key0);
    Tile<D>::copy(tileV, q + 2 * width + key0 * stride, stride, kRows, context - key0);
    const auto fetch = [&](int tile) {
        const int query0 = tile * kRows, buffer = tile % 2;
        Tile<D>::copy(tileQ + buffer * kTileBytes, q + query0 * stride, stride, kRows, context - query0);
        Tile<D>::copy(tileO + buffer * kTileBytes, dOut + query0 * width, width, kRows, context - query0);
        commitCopies();
        if (threadIdx.x < kRows) {
            const int query = query0 + threadIdx.x;
            // exp2(-Inf) = 0: rows beyond the context take no part.
            rowLse[buffer * kRows + threadIdx.x] = query < context ? lse[query] * kLog2E : INFINITY;
            rowDelta[buffer * kRows + threadIdx.x] = query < context ? delta[query] : 0.0f;
        }
    };
    fetch(firstTile);
    float dK[kColumnTiles][4] = {}, dV[kColumnTiles][4] = {};
    const float scaleLog2 = args.scale * kLog2E;
    const int warpRow = warp * 16;

    for (int tile = firstTile; tile < tiles; ++tile) {
        waitCopies<0>();
        __syncthreads();
        if (tile + 1 < tiles) fetch(tile + 1);
        const int buffer = tile % 2, query0 = tile * kRows;
        const uint32_t queries = tileQ + buffer * kTileBytes, grads = tileO + buffer * kTileBytes;
        float score[8][4] = {}, dScore[8][4] = {};
#pragma unroll
        for (int s = 0; s < kSteps; ++s) {
            uint32_t k[4], v[4];
            loadMatrix4(k, Tile<D>::addressA(tileK, warpRow, s * 2, lane));
            loadMatrix4(v, Tile<D>::addressA(tileV, warpRow, s * 2, lane));
#pragma unroll
            for (int n = 0; n < 4; ++n) {
                uint32_t b[4];
                loadMatrix4(b, Tile<D>::addressB(queries, n * 16, s * 2, lane));
                multiply<T>(score[2 * n], k, b[0], b[1]);
                multiply<T>(score[2 * n + 1], k, b[2], b[3]);
                loadMatrix4(b, Tile<D>::addressB(grads, n * 16, s * 2, lane));
                multiply<T>(dScore[2 * n], v, b[0], b[1]);
                multiply<T>(dScore[2 * n + 1], v, b[2], b[3]);
            }
        }
        const bool masks = query0 < key0 + kRows - 1;
#pragma unroll
        for (int n = 0; n < 8; ++n) {
            const int column = n * 8 + lane % 4 * 2;
            const float2 l = *reinterpret_cast<const float2*>(rowLse + buffer * kRows + column);
            const float2 d = *reinterpret_cast<const float2*>(rowDelta + buffer * kRows + column);
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                float p = exp2f(__fmaf_rn(score[n][e], scaleLog2, -(e % 2 ? l.y : l.x)));
                if (masks && key0 + warpRow + lane / 4 + e / 2 * 8 > query0 + column + e % 2) p = 0.0f;
                dScore[n][e] = p * (dScore[n][e] - (e % 2 ? d.y : d.x));
                score[n][e] = p;
            }
        }
#pragma unroll
        for (int s = 0; s < kRows / 16; ++s) {
            const uint32_t p[4] = {packPair<T>(score[2 * s][0], score[2 * s][1]),
                                   packPair<T>(score[2 * s][2], score[2 * s][3]),
                                   packPair<T>(score[2 * s + 1][0], score[2 * s + 1][1]),
                                   packPair<T>(score[2 * s + 1][2], score[2 * s + 1][3])};
            const uint32_t ds[4] = {packPair<T>(dScore[2 * s][0], dScore[2 * s][1]),
                                    packPair<T>(dScore[2 * s][2], dScore[2 * s][3]),
                                    packPair<T>(dScore[2 * s + 1][0], dScore[2 * s + 1][1]),
                                    packPair<T>(dScore[2 * s + 1][2], dScore[2 * s + 1][3])};
#pragma unroll
            for (int n = 0; n < kColumnTiles / 2; ++n) {
                uint32_t b[4];
                loadMatrix4Transposed(b, Tile<D>::addressBTransposed(grads, s * 16, n * 2, lane));
                multiply<T>(dV[2 * n], p, b[0], b[1]);
                multiply<T>(dV[2 * n + 1], p, b[2], b[3]);
                loadMatrix4Transposed(b, Tile<D>::addressBTransposed(queries, s * 16, n * 2, lane));
                multiply<T>(dK[2 * n], ds, b[0], b[1]);
                multiply<T>(dK[2 * n + 1], ds, b[2], b[3]);
            }
        }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int key = key0 + warpRow + half * 8 + lane / 4;
        if (key >= context) continue;
        T* to = args.dQkv + (first + key) * stride + width + head * D + lane % 4 * 2;
#pragma unroll
        for (int n = 0; n < kColumnTiles; ++n) {
            *reinterpret_cast<uint32_t*>(to + n * 8) =
                packPair<T>(dK[n][half * 2] * args.scale, dK[n][half * 2 + 1] * args.scale);
            *reinterpret_cast<uint32_t*>(to + width + n * 8) = packPair<T>(dV[n][half * 2], dV[n][half * 2 + 1]);
        }
    }
}

/// S = Q K^T, dP = dO V^T, dQ += dS K.
template <class T, int D>
__global__ void __launch_bounds__(kThreads) attentionQueriesKernel(AttentionTensors<T> args) {
    constexpr int kSteps = D / 16, kColumnTiles = D / 8, kTileBytes = kRows * D * 2;
    extern __shared__ __align__(128) uint8_t memory[];
    const uint32_t base = sharedAddress(memory);
    const uint32_t tileQ = base, tileO = base + kTileBytes, tileK = base + 2 * kTileBytes,
                   tileV = base + 4 * kTileBytes;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int head = blockIdx.y, batch = blockIdx.z, context = args.context;
    const int query0 = (gridDim.x - 1 - blockIdx.x) * kRows;
    const int64_t width = static_cast<int64_t>(args.heads) * D, stride = 3 * width;
    const int64_t first = static_cast<int64_t>(batch) * context;
    const T* q = args.qkv + first * stride + head * D;

    const int tiles = query0 / kRows + 1;
    Tile<D>::copy(tileQ, q + query0 * stride, stride, kRows, context - query0);
    Tile<D>::copy(tileO, args.dOut + (first + query0) * width + head * D, width, kRows, context - query0);
    const auto fetch = [&](int tile) {
        const int key0 = tile * kRows, buffer = tile % 2;
        Tile<D>::copy(tileK + buffer * kTileBytes, q + width + key0 * stride, stride, kRows, context - key0);
        Tile<D>::copy(tileV + buffer * kTileBytes, q + 2 * width + key0 * stride, stride, kRows, context - key0);
        commitCopies();
    };
    fetch(0);
    const int warpRow = warp * 16;
    const float scaleLog2 = args.scale * kLog2E;
    float rowLse[2], rowDelta[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int query = query0 + warpRow + half * 8 + lane / 4;
        const int64_t at = (static_cast<int64_t>(batch) * args.heads + head) * context + query;
        rowLse[half] = query < context ? args.lse[at] * kLog2E : INFINITY;
        rowDelta[half] = query < context ? args.delta[at] : 0.0f;
    }
    float dQ[kColumnTiles][4] = {};

    for (int tile = 0; tile < tiles; ++tile) {
        waitCopies<0>();
        __syncthreads();
        if (tile + 1 < tiles) fetch(tile + 1);
        const int buffer = tile % 2, key0 = tile * kRows;
        const uint32_t keys = tileK + buffer * kTileBytes, values = tileV + buffer * kTileBytes;
        float score[8][4] = {}, dScore[8][4] = {};
#pragma unroll
        for (int s = 0; s < kSteps; ++s) {
            uint32_t a[4], o[4];
            loadMatrix4(a, Tile<D>::addressA(tileQ, warpRow, s * 2, lane));
            loadMatrix4(o, Tile<D>::addressA(tileO, warpRow, s * 2, lane));
#pragma unroll
            for (int n = 0; n < 4; ++n) {
                uint32_t b[4];
                loadMatrix4(b, Tile<D>::addressB(keys, n * 16, s * 2, lane));
                multiply<T>(score[2 * n], a, b[0], b[1]);
                multiply<T>(score[2 * n + 1], a, b[2], b[3]);
                loadMatrix4(b, Tile<D>::addressB(values, n * 16, s * 2, lane));
                multiply<T>(dScore[2 * n], o, b[0], b[1]);
                multiply<T>(dScore[2 * n + 1], o, b[2], b[3]);
            }
        }
        const bool masks = tile == tiles - 1;
#pragma unroll
        for (int n = 0; n < 8; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                float p = exp2f(__fmaf_rn(score[n][e], scaleLog2, -rowLse[e / 2]));
                const int key = key0 + n * 8 + lane % 4 * 2 + e % 2, query = query0 + warpRow + lane / 4 + e / 2 * 8;
                if (masks && key > query) p = 0.0f;
                dScore[n][e] = p * (dScore[n][e] - rowDelta[e / 2]);
            }
        }
#pragma unroll
        for (int s = 0; s < kRows / 16; ++s) {
            const uint32_t ds[4] = {packPair<T>(dScore[2 * s][0], dScore[2 * s][1]),
                                    packPair<T>(dScore[2 * s][2], dScore[2 * s][3]),
                                    packPair<T>(dScore[2 * s + 1][0], dScore[2 * s + 1][1]),
                                    packPair<T>(dScore[2 * s + 1][2], dScore[2 * s + 1][3])};
#pragma unroll
            for (int n = 0; n < kColumnTiles / 2; ++n) {
                uint32_t b[4];
                loadMatrix4Transposed(b, Tile<D>::addressBTransposed(keys, s * 16, n * 2, lane));
                multiply<T>(dQ[2 * n], ds, b[0], b[1]);
                multiply<T>(dQ[2 * n + 1], ds, b[2], b[3]);
            }
        }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int query = query0 + warpRow + half * 8 + lane / 4;
        if (query >= context) continue;
        T* to = args.dQkv + (first + query) * stride + head * D + lane % 4 * 2;
#pragma unroll
        for (int n = 0; n < kColumnTiles; ++n) {
            *reinterpret_cast<uint32_t*>(to + n * 8) =
                packPair<T>(dQ[n][half * 2] * args.scale, dQ[n][half * 2 + 1] * args.scale);
        }
    }
}

template <class T, int D>
void launchBackward(const LaunchContext& context, const AttentionBackward& op, float* delta) {
    AttentionTensors<T> args{};
    args.qkv = static_cast<const T*>(op.qkv);
    args.dOut = static_cast<const T*>(op.dOut);
    args.dQkv = static_cast<T*>(op.dQkv);
    args.lse = const_cast<float*>(op.lse);
    args.delta = delta;
    args.context = static_cast<int>(op.context);
    args.heads = static_cast<int>(op.heads);
    args.scale = 1.0f / sqrtf(static_cast<float>(D));
    const dim3 grid(static_cast<unsigned>((op.context + kRows - 1) / kRows), static_cast<unsigned>(op.heads),
                    static_cast<unsigned>(op.batch));
    const size_t tiles = 6 * kRows * D * 2, bytes = tiles + 4 * kRows * sizeof(float);
    allowSharedMemory(attentionKeysKernel<T, D>, bytes);
    attentionKeysKernel<T, D><<<grid, kThreads, bytes, context.stream>>>(args);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
    allowSharedMemory(attentionQueriesKernel<T, D>, tiles);
    attentionQueriesKernel<T, D><<<grid, kThreads, tiles, context.stream>>>(args);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

template <class T>
void launchWidth(const LaunchContext& context, const AttentionBackward& op, float* delta) {
    switch (op.headWidth) {
        case 32:
            return launchBackward<T, 32>(context, op, delta);
        case 64:
            return launchBackward<T, 64>(context, op, delta);
        default:
            return launchBackward<T, 128>(context, op, delta);
    }
}

size_t deltaBytes(const AttentionBackward& op) {
    return roundUp256(static_cast<size_t>(op.batch * op.heads * op.context) * sizeof(float));
}

Quantize castOfGradient(const AttentionBackward& op) {
    Quantize cast;
    cast.rows = op.batch * op.context, cast.cols = 3 * op.heads * op.headWidth, cast.inType = op.type,
    cast.in = op.dQkv;
    cast.target = op.cast, cast.dbias = op.dBias, cast.accumulateBias = op.accumulate;
    return cast;
}

Quantize castAgain(const AttentionBackward& op) {
    Quantize cast;
    cast.rows = op.batch * op.context, cast.cols = op.heads * op.headWidth, cast.inType = op.type, cast.in = op.out;
    cast.target = op.again, cast.target.slot = nullptr;
    return cast;
}

void runOwn(const LaunchContext& context, const AttentionBackward& op, float* delta) {
    attentionDelta(context, op, delta);
    switch (op.type) {
        case DType::F32:
            attentionBackwardF32(context, op, delta);
            break;
        case DType::BF16:
            launchWidth<Bf16>(context, op, delta);
            break;
        case DType::F16:
            launchWidth<F16>(context, op, delta);
            break;
        default:
            require(false, "attention", "type must be F32, BF16 or F16");
    }
}

}  // namespace

size_t workspaceBytes(const AttentionBackward& op) {
    CudnnAttention* cudnn = cudnnAttention();
    const size_t own = deltaBytes(op) + workspaceBytes(castOfGradient(op));
    const size_t library = cudnn && cudnn->supports(op) ? cudnn->workspaceBytes(op) : 0;
    return library > own ? library : own;
}

void launch(const LaunchContext& context, const AttentionBackward& op) {
    require(op.headWidth == 32 || op.headWidth == 64 || op.headWidth == 128, "attention",
            "head width must be 32, 64 or 128");
    require(op.batch > 0 && op.context > 0 && op.heads > 0, "attention", "sizes must be positive");
    require(op.qkv && op.out && op.lse && op.dOut && op.dQkv, "attention",
            "qkv, out, lse, dOut and dQkv must be given");
    void* scratch = context.scratch(workspaceBytes(op), "attention backward");
    if (CudnnAttention* cudnn = cudnnAttention(); cudnn && cudnn->supports(op)) {
        cudnn->run(context, op, scratch);
    } else {
        runOwn(context, op, static_cast<float*>(scratch));
    }
    LaunchContext rest = context;
    rest.workspace = static_cast<char*>(context.workspace) + deltaBytes(op);
    rest.workspaceBytes -= deltaBytes(op);
    if (op.cast.format != DType::None || op.dBias) launch(rest, castOfGradient(op));
    if (op.again.format != DType::None) launch(rest, castAgain(op));
}

}  // namespace mantissa::kernels::cuda
