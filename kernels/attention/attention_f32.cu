// Causal attention in FP32, both ways, and the row sums that every backward needs. A warp takes one query (or one key,
// for dK and dV) and walks the other side in steps of 32: the lanes first hold one position each for the dot products,
// then D/32 columns each for the sums. Simple rather than fast: FP32 runs are there to compare with. L1 bandwidth
// limits it.
#include "kernels/attention/attention_cuda.cuh"

namespace mantissa::kernels::cuda {

namespace {

constexpr int kWarps = 8;

__device__ __forceinline__ float warpSum(float value) {
    for (int offset = 16; offset; offset /= 2) value += __shfl_xor_sync(0xFFFFFFFFu, value, offset);
    return value;
}
__device__ __forceinline__ float warpMax(float value) {
    for (int offset = 16; offset; offset /= 2) value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFu, value, offset));
    return value;
}

template <int D>
__device__ __forceinline__ float dot(const float* fixed, const float* row) {
    float sum = 0;
#pragma unroll 4
    for (int i = 0; i < D; i += 4) {
        const float4 a = *reinterpret_cast<const float4*>(fixed + i), b = *reinterpret_cast<const float4*>(row + i);
        sum = fmaf(a.x, b.x, sum), sum = fmaf(a.y, b.y, sum), sum = fmaf(a.z, b.z, sum), sum = fmaf(a.w, b.w, sum);
    }
    return sum;
}

/// Where a warp works: position `row` of one head; false when beyond the context.
template <int D>
struct Place {
    int row, head, batch, lane;
    int64_t width, stride, first;
    bool there;
    __device__ Place(const AttentionTensors<float>& args) {
        lane = threadIdx.x % 32;
        row = blockIdx.x * kWarps + threadIdx.x / 32;
        head = blockIdx.y, batch = blockIdx.z;
        width = static_cast<int64_t>(args.heads) * D, stride = 3 * width;
        first = static_cast<int64_t>(batch) * args.context;
        there = row < args.context;
    }
    __device__ const float* q(const AttentionTensors<float>& args, int at) const {
        return args.qkv + (first + at) * stride + head * D;
    }
    __device__ int64_t rowOf(const AttentionTensors<float>& args, int at) const {
        return (static_cast<int64_t>(batch) * args.heads + head) * args.context + at;
    }
};

template <int D>
__global__ void __launch_bounds__(kWarps * 32) forwardKernel(AttentionTensors<float> args) {
    const Place<D> place(args);
    if (!place.there) return;
    const float* query = place.q(args, place.row);
    float largest = -INFINITY, total = 0, out[D / 32] = {};
    for (int key0 = 0; key0 <= place.row; key0 += 32) {
        const int key = key0 + place.lane;
        float score = key <= place.row ? dot<D>(query, place.q(args, key) + place.width) * args.scale : -INFINITY;
        const float most = fmaxf(largest, warpMax(score)), correction = expf(largest - most);
        score = expf(score - most);
        largest = most;
        total = total * correction + warpSum(score);
#pragma unroll
        for (int c = 0; c < D / 32; ++c) out[c] *= correction;
        const int count = min(32, place.row - key0 + 1);
        for (int i = 0; i < count; ++i) {
            const float p = __shfl_sync(0xFFFFFFFFu, score, i);
            const float* value = place.q(args, key0 + i) + 2 * place.width;
#pragma unroll
            for (int c = 0; c < D / 32; ++c) out[c] = fmaf(p, value[c * 32 + place.lane], out[c]);
        }
    }
    float* to = args.out + (place.first + place.row) * place.width + place.head * D;
#pragma unroll
    for (int c = 0; c < D / 32; ++c) to[c * 32 + place.lane] = out[c] / total;
    if (place.lane == 0) args.lse[place.rowOf(args, place.row)] = largest + logf(total);
}

template <int D>
__global__ void __launch_bounds__(kWarps * 32) queriesKernel(AttentionTensors<float> args) {
    const Place<D> place(args);
    if (!place.there) return;
    const float* query = place.q(args, place.row);
    const float* dOut = args.dOut + (place.first + place.row) * place.width + place.head * D;
    const float lse = args.lse[place.rowOf(args, place.row)], delta = args.delta[place.rowOf(args, place.row)];
    float dQ[D / 32] = {};
    for (int key0 = 0; key0 <= place.row; key0 += 32) {
        const int key = key0 + place.lane;
        float ds = 0;
        if (key <= place.row) {
            const float* k = place.q(args, key) + place.width;
            ds = expf(dot<D>(query, k) * args.scale - lse) * (dot<D>(dOut, k + place.width) - delta) * args.scale;
        }
        const int count = min(32, place.row - key0 + 1);
        for (int i = 0; i < count; ++i) {
            const float each = __shfl_sync(0xFFFFFFFFu, ds, i);
            const float* k = place.q(args, key0 + i) + place.width;
#pragma unroll
            for (int c = 0; c < D / 32; ++c) dQ[c] = fmaf(each, k[c * 32 + place.lane], dQ[c]);
        }
    }
    float* to = args.dQkv + (place.first + place.row) * place.stride + place.head * D;
#pragma unroll
    for (int c = 0; c < D / 32; ++c) to[c * 32 + place.lane] = dQ[c];
}

template <int D>
__global__ void __launch_bounds__(kWarps * 32) keysKernel(AttentionTensors<float> args) {
    const Place<D> place(args);
    if (!place.there) return;
    const float* key = place.q(args, place.row) + place.width;
    float dK[D / 32] = {}, dV[D / 32] = {};
    for (int query0 = place.row; query0 < args.context; query0 += 32) {
        const int at = query0 + place.lane;
        float p = 0, ds = 0;
        if (at < args.context) {
            const float* dOut = args.dOut + (place.first + at) * place.width + place.head * D;
            p = expf(dot<D>(key, place.q(args, at)) * args.scale - args.lse[place.rowOf(args, at)]);
            ds = p * (dot<D>(key + place.width, dOut) - args.delta[place.rowOf(args, at)]) * args.scale;
        }
        const int count = min(32, args.context - query0);
        for (int i = 0; i < count; ++i) {
            const float eachP = __shfl_sync(0xFFFFFFFFu, p, i), eachDs = __shfl_sync(0xFFFFFFFFu, ds, i);
            const float* query = place.q(args, query0 + i);
            const float* dOut = args.dOut + (place.first + query0 + i) * place.width + place.head * D;
#pragma unroll
            for (int c = 0; c < D / 32; ++c) {
                dK[c] = fmaf(eachDs, query[c * 32 + place.lane], dK[c]);
                dV[c] = fmaf(eachP, dOut[c * 32 + place.lane], dV[c]);
            }
        }
    }
    float* to = args.dQkv + (place.first + place.row) * place.stride + place.width + place.head * D;
#pragma unroll
    for (int c = 0; c < D / 32; ++c) {
        to[c * 32 + place.lane] = dK[c];
        to[place.width + c * 32 + place.lane] = dV[c];
    }
}

/// A warp a (position, head): delta = sum over the head's columns of dOut * out.
template <class T>
__global__ void deltaKernel(const T* dOut, const T* out, float* delta, int64_t rows, int context, int heads,
                            int headWidth) {
    const int64_t index = static_cast<int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
    if (index >= rows * heads) return;
    const int64_t row = index / heads;
    const int head = static_cast<int>(index % heads), lane = threadIdx.x % 32;
    const int64_t at = row * heads * headWidth + head * headWidth;
    float sum = 0;
    for (int i = lane; i < headWidth; i += 32) sum += toFloat(dOut[at + i]) * toFloat(out[at + i]);
    sum = warpSum(sum);
    if (lane == 0) delta[(row / context * heads + head) * context + row % context] = sum;
}

template <class Op>
AttentionTensors<float> tensorsOf(const Op& op) {
    AttentionTensors<float> args{};
    args.qkv = static_cast<const float*>(op.qkv);
    args.context = static_cast<int>(op.context);
    args.heads = static_cast<int>(op.heads);
    args.scale = 1.0f / sqrtf(static_cast<float>(op.headWidth));
    return args;
}

template <class Op>
dim3 gridOf(const Op& op) {
    return dim3(static_cast<unsigned>((op.context + kWarps - 1) / kWarps), static_cast<unsigned>(op.heads),
                static_cast<unsigned>(op.batch));
}

template <class Body>
void withWidth(int64_t headWidth, Body&& body) {
    switch (headWidth) {
        case 32:
            return body(std::integral_constant<int, 32>());
        case 64:
            return body(std::integral_constant<int, 64>());
        default:
            return body(std::integral_constant<int, 128>());
    }
}

}  // namespace

void attentionForwardF32(const LaunchContext& context, const AttentionForward& op) {
    AttentionTensors<float> args = tensorsOf(op);
    args.out = static_cast<float*>(op.out);
    args.lse = op.lse;
    withWidth(op.headWidth, [&](auto width) {
        forwardKernel<decltype(width)::value><<<gridOf(op), kWarps * 32, 0, context.stream>>>(args);
    });
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

void attentionBackwardF32(const LaunchContext& context, const AttentionBackward& op, float* delta) {
    AttentionTensors<float> args = tensorsOf(op);
    args.dOut = static_cast<const float*>(op.dOut);
    args.dQkv = static_cast<float*>(op.dQkv);
    args.lse = const_cast<float*>(op.lse);
    args.delta = delta;
    withWidth(op.headWidth, [&](auto width) {
        queriesKernel<decltype(width)::value><<<gridOf(op), kWarps * 32, 0, context.stream>>>(args);
        keysKernel<decltype(width)::value><<<gridOf(op), kWarps * 32, 0, context.stream>>>(args);
    });
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

void attentionDelta(const LaunchContext& context, const AttentionBackward& op, float* delta) {
    const int64_t rows = op.batch * op.context;
    const unsigned blocks = static_cast<unsigned>((rows * op.heads + 7) / 8);
    withType(op.type, "attention backward", [&](auto tag) {
        using T = typename decltype(tag)::Type;
        deltaKernel<T><<<blocks, 256, 0, context.stream>>>(
            static_cast<const T*>(op.dOut), static_cast<const T*>(op.out), delta, rows, static_cast<int>(op.context),
            static_cast<int>(op.heads), static_cast<int>(op.headWidth));
    });
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

}  // namespace mantissa::kernels::cuda
