// Causal attention, forward, BF16 and F16: FlashAttention-2's order (arXiv:2307.08691) on mma.sync, sm_80 and later.
//
// A block takes 128 queries of one head; a warp 32 of them (16 at head width 128), so that each K and V fragment read
// from shared memory is used twice: with 16 the reads, not the products, would be the limit. Keys come in tiles of 64,
// double buffered by cp.async. Late query tiles, which see the most keys, start first. Products limit it.
#include "kernels/attention/attention_cuda.cuh"
#include "kernels/attention/attention_cudnn.h"
#include "kernels/device/cuda/cast.cuh"

namespace mantissa::kernels::cuda {

namespace {

constexpr int kQueries = 128, kKeys = 64;

template <class T, int D, int kMTiles>
__global__ void __launch_bounds__(kQueries / kMTiles * 2) attentionForwardKernel(AttentionTensors<T> args) {
    constexpr int kSteps = D / 16, kColumnTiles = D / 8;
    extern __shared__ __align__(128) uint8_t memory[];
    const uint32_t base = sharedAddress(memory);
    const uint32_t tileQ = base, tileK = base + kQueries * D * 2, tileV = tileK + 2 * kKeys * D * 2;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int head = blockIdx.y, batch = blockIdx.z, context = args.context;
    const int queryTile = gridDim.x - 1 - blockIdx.x, query0 = queryTile * kQueries;
    const int64_t width = static_cast<int64_t>(args.heads) * D, stride = 3 * width;
    const T* q = args.qkv + static_cast<int64_t>(batch) * context * stride + head * D;
    const T* k = q + width;
    const T* v = k + width;

    const int keyTiles = (min(context, query0 + kQueries) + kKeys - 1) / kKeys;
    Tile<D>::copy(tileQ, q + query0 * stride, stride, kQueries, context - query0);
    const auto fetch = [&](int tile) {
        const int key0 = tile * kKeys, buffer = tile % 2;
        Tile<D>::copy(tileK + buffer * kKeys * D * 2, k + key0 * stride, stride, kKeys, context - key0);
        Tile<D>::copy(tileV + buffer * kKeys * D * 2, v + key0 * stride, stride, kKeys, context - key0);
        commitCopies();
    };
    fetch(0);

    float out[kMTiles][kColumnTiles][4] = {}, largest[kMTiles][2], total[kMTiles][2] = {};
    uint32_t queries[D <= 64 ? kMTiles : 1][D <= 64 ? kSteps : 1][4];
#pragma unroll
    for (int m = 0; m < kMTiles; ++m) largest[m][0] = largest[m][1] = -INFINITY;
    const int warpRow = warp * 16 * kMTiles;
    const float scaleLog2 = args.scale * kLog2E;

    for (int tile = 0; tile < keyTiles; ++tile) {
        waitCopies<0>();
        __syncthreads();
        if (tile + 1 < keyTiles) fetch(tile + 1);
        if constexpr (D <= 64) {
            if (tile == 0) {
#pragma unroll
                for (int m = 0; m < kMTiles; ++m) {
#pragma unroll
                    for (int s = 0; s < kSteps; ++s) {
                        loadMatrix4(queries[m][s], Tile<D>::addressA(tileQ, warpRow + m * 16, s * 2, lane));
                    }
                }
            }
        }
        const int key0 = tile * kKeys;
        if (key0 > query0 + warpRow + 16 * kMTiles - 1) continue;  // all masked for this warp
        const uint32_t keys = tileK + tile % 2 * kKeys * D * 2, values = tileV + tile % 2 * kKeys * D * 2;
        float score[kMTiles][8][4] = {};
#pragma unroll
        for (int s = 0; s < kSteps; ++s) {
            uint32_t a[kMTiles][4];
            if constexpr (D > 64) {
#pragma unroll
                for (int m = 0; m < kMTiles; ++m) {
                    loadMatrix4(a[m], Tile<D>::addressA(tileQ, warpRow + m * 16, s * 2, lane));
                }
            }
#pragma unroll
            for (int n = 0; n < 4; ++n) {
                uint32_t b[4];
                loadMatrix4(b, Tile<D>::addressB(keys, n * 16, s * 2, lane));
#pragma unroll
                for (int m = 0; m < kMTiles; ++m) {
                    const uint32_t(&left)[4] = D <= 64 ? queries[D <= 64 ? m : 0][D <= 64 ? s : 0] : a[m];
                    multiply<T>(score[m][2 * n], left, b[0], b[1]);
                    multiply<T>(score[m][2 * n + 1], left, b[2], b[3]);
                }
            }
        }
        const bool masks = key0 + kKeys - 1 > query0 + warpRow || key0 + kKeys > context;
#pragma unroll
        for (int m = 0; m < kMTiles; ++m) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int row = query0 + warpRow + m * 16 + half * 8 + lane / 4;
                if (masks) {
#pragma unroll
                    for (int n = 0; n < 8; ++n) {
#pragma unroll
                        for (int e = 0; e < 2; ++e) {
                            const int key = key0 + n * 8 + lane % 4 * 2 + e;
                            if (key > row || key >= context) score[m][n][half * 2 + e] = -INFINITY;
                        }
                    }
                }
                float most = largest[m][half];
#pragma unroll
                for (int n = 0; n < 8; ++n) most = fmaxf(most, fmaxf(score[m][n][half * 2], score[m][n][half * 2 + 1]));
                most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, 1));
                most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, 2));
                const float shift = most == -INFINITY ? 0.0f : most * scaleLog2;
                const float correction = exp2f(largest[m][half] * scaleLog2 - shift);
                largest[m][half] = most;
                float sum = 0;
#pragma unroll
                for (int n = 0; n < 8; ++n) {
#pragma unroll
                    for (int e = 0; e < 2; ++e) {
                        float& value = score[m][n][half * 2 + e];
                        value = exp2f(__fmaf_rn(value, scaleLog2, -shift));
                        sum += value;
                    }
                }
                total[m][half] = total[m][half] * correction + sum;
#pragma unroll
                for (int n = 0; n < kColumnTiles; ++n) {
                    out[m][n][half * 2] *= correction;
                    out[m][n][half * 2 + 1] *= correction;
                }
            }
        }
#pragma unroll
        for (int s = 0; s < kKeys / 16; ++s) {
            uint32_t a[kMTiles][4];
#pragma unroll
            for (int m = 0; m < kMTiles; ++m) {
                a[m][0] = packPair<T>(score[m][2 * s][0], score[m][2 * s][1]);
                a[m][1] = packPair<T>(score[m][2 * s][2], score[m][2 * s][3]);
                a[m][2] = packPair<T>(score[m][2 * s + 1][0], score[m][2 * s + 1][1]);
                a[m][3] = packPair<T>(score[m][2 * s + 1][2], score[m][2 * s + 1][3]);
            }
#pragma unroll
            for (int n = 0; n < kColumnTiles / 2; ++n) {
                uint32_t b[4];
                loadMatrix4Transposed(b, Tile<D>::addressBTransposed(values, s * 16, n * 2, lane));
#pragma unroll
                for (int m = 0; m < kMTiles; ++m) {
                    multiply<T>(out[m][2 * n], a[m], b[0], b[1]);
                    multiply<T>(out[m][2 * n + 1], a[m], b[2], b[3]);
                }
            }
        }
    }

#pragma unroll
    for (int m = 0; m < kMTiles; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = query0 + warpRow + m * 16 + half * 8 + lane / 4;
            float sum = total[m][half];
            sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
            sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
            if (row >= context) continue;
            const float inverse = 1.0f / sum;
            T* to = args.out + (static_cast<int64_t>(batch) * context + row) * width + head * D + lane % 4 * 2;
#pragma unroll
            for (int n = 0; n < kColumnTiles; ++n) {
                *reinterpret_cast<uint32_t*>(to + n * 8) =
                    packPair<T>(out[m][n][half * 2] * inverse, out[m][n][half * 2 + 1] * inverse);
            }
            if (lane % 4 == 0) {
                args.lse[(static_cast<int64_t>(batch) * args.heads + head) * context + row] =
                    largest[m][half] * args.scale + logf(sum);
            }
        }
    }
}

template <class T, int D, int kMTiles>
void launchForward(const LaunchContext& context, const AttentionForward& op) {
    AttentionTensors<T> args{};
    args.qkv = static_cast<const T*>(op.qkv);
    args.out = static_cast<T*>(op.out);
    args.lse = op.lse;
    args.context = static_cast<int>(op.context);
    args.heads = static_cast<int>(op.heads);
    args.scale = 1.0f / sqrtf(static_cast<float>(D));
    const size_t bytes = (kQueries + 4 * kKeys) * D * 2;
    auto* kernel = attentionForwardKernel<T, D, kMTiles>;
    allowSharedMemory(kernel, bytes);
    const dim3 grid(static_cast<unsigned>((op.context + kQueries - 1) / kQueries), static_cast<unsigned>(op.heads),
                    static_cast<unsigned>(op.batch));
    kernel<<<grid, kQueries / kMTiles * 2, bytes, context.stream>>>(args);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

template <class T>
void launchWidth(const LaunchContext& context, const AttentionForward& op) {
    switch (op.headWidth) {
        case 32:
            return launchForward<T, 32, 2>(context, op);
        case 64:
            return launchForward<T, 64, 2>(context, op);
        default:
            return launchForward<T, 128, 1>(context, op);
    }
}

/// What cannot leave the kernel itself: the cast reads `out` once more.
Quantize castOfOut(const AttentionForward& op) {
    Quantize cast;
    cast.rows = op.batch * op.context, cast.cols = op.heads * op.headWidth, cast.inType = op.type, cast.in = op.out;
    cast.target = op.cast;
    return cast;
}

}  // namespace

size_t workspaceBytes(const AttentionForward& op) {
    CudnnAttention* cudnn = cudnnAttention();
    const size_t library = cudnn && cudnn->supports(op) ? cudnn->workspaceBytes(op) : 0;
    const size_t cast = op.cast.format == DType::None ? 0 : workspaceBytes(castOfOut(op));
    return library > cast ? library : cast;
}

void launch(const LaunchContext& context, const AttentionForward& op) {
    require(op.headWidth == 32 || op.headWidth == 64 || op.headWidth == 128, "attention",
            "head width must be 32, 64 or 128");
    require(op.batch > 0 && op.context > 0 && op.heads > 0, "attention", "sizes must be positive");
    require(op.qkv && op.out && op.lse, "attention", "qkv, out and lse must be given");
    if (CudnnAttention* cudnn = cudnnAttention(); cudnn && cudnn->supports(op)) {
        cudnn->run(context, op, context.scratch(workspaceBytes(op), "attention"));
        if (op.cast.format != DType::None) launch(context, castOfOut(op));
        return;
    }
    switch (op.type) {
        case DType::F32:
            attentionForwardF32(context, op);
            break;
        case DType::BF16:
            launchWidth<Bf16>(context, op);
            break;
        case DType::F16:
            launchWidth<F16>(context, op);
            break;
        default:
            require(false, "attention", "type must be F32, BF16 or F16");
    }
    if (op.cast.format != DType::None) launch(context, castOfOut(op));
}

}  // namespace mantissa::kernels::cuda
