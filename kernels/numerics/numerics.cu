// Non-finite values counted, codes against their weights: the looking ops that memory limits.
#include "kernels/device/cuda/cast.cuh"
#include "kernels/numerics/numerics_ops.h"

namespace mantissa::kernels::cuda {

namespace {

constexpr int kThreads = 256;
constexpr uint32_t kBf16Infinities = 0x7F807F80u, kF16Infinities = 0x7C007C00u;  ///< two of them

unsigned blocksFor(const LaunchContext& context, int64_t count) {
    const int64_t wanted = (count + kThreads - 1) / kThreads, most = static_cast<int64_t>(context.multiprocessors) * 16;
    return static_cast<unsigned>(wanted < most ? wanted : most);
}

/// Non-finite values of four bytes: those of two 16-bit words, or of one of 32 bits.
template <class Word>
__device__ __forceinline__ bool anyNonFinite(uint32_t bits, uint32_t infinity) {
    if constexpr (sizeof(Word) == 4) return (bits & infinity) == infinity;
    // One added to the exponent's last place carries into the sign where all its bits are set, and nowhere else.
    const uint32_t lowest = infinity == kBf16Infinities ? 0x00800080u : 0x04000400u;
    return (((bits & infinity) + lowest) & 0x80008000u) != 0;
}

/// A thread four times 16 bytes a turn; what holds a non-finite value, as good as nothing ever, is looked at again one
/// by one. infinity: of Word, twice where that has 16 bits. vectors: whole pieces of 16 bytes; the rest one by one.
template <class Word>
__global__ void __launch_bounds__(kThreads)
    checkKernel(const Word* in, int64_t n, int64_t vectors, int64_t offset, uint32_t infinity, FiniteCount* out) {
    constexpr int kWords = 16 / static_cast<int>(sizeof(Word)), kAhead = 4;
    constexpr Word kMagnitude = static_cast<Word>(~Word{0}) >> 1;
    const Word exponent = static_cast<Word>(infinity);
    const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
    const int64_t start = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    uint32_t nan = 0, inf = 0;
    unsigned long long first = 0;
    const auto look = [&](int64_t i) {
        const Word value = in[i];
        if ((value & exponent) != exponent) return;
        const unsigned long long place = ~static_cast<unsigned long long>(i + offset);
        if (place > first) first = place;
        (value & kMagnitude) == exponent ? ++inf : ++nan;
    };
    for (int64_t i = start; i < vectors; i += kAhead * stride) {
        uint4 four[kAhead] = {};
#pragma unroll
        for (int k = 0; k < kAhead; ++k)
            if (i + k * stride < vectors) four[k] = reinterpret_cast<const uint4*>(in)[i + k * stride];
#pragma unroll
        for (int k = 0; k < kAhead; ++k) {
            const uint4 bits = four[k];
            if (!(anyNonFinite<Word>(bits.x, infinity) | anyNonFinite<Word>(bits.y, infinity) |
                  anyNonFinite<Word>(bits.z, infinity) | anyNonFinite<Word>(bits.w, infinity)))
                continue;
#pragma unroll 1
            for (int j = 0; j < kWords; ++j) look((i + k * stride) * kWords + j);
        }
    }
    for (int64_t i = vectors * kWords + start; i < n; i += stride) look(i);
    if (!first) return;  // as good as always
    if (nan) atomicAdd(reinterpret_cast<unsigned long long*>(&out->nan), static_cast<unsigned long long>(nan));
    if (inf) atomicAdd(reinterpret_cast<unsigned long long*>(&out->inf), static_cast<unsigned long long>(inf));
    atomicMax(reinterpret_cast<unsigned long long*>(&out->firstInverted), first);
}

template <class Word>
void launchCheck(const LaunchContext& context, const CheckFinite& op, uint32_t infinity) {
    const bool aligned = reinterpret_cast<uintptr_t>(op.in) % 16 == 0;
    const int64_t vectors = aligned ? op.n * static_cast<int64_t>(sizeof(Word)) / 16 : 0;
    checkKernel<Word><<<blocksFor(context, aligned ? vectors + 1 : op.n), kThreads, 0, context.stream>>>(
        static_cast<const Word*>(op.in), op.n, vectors, op.offset, infinity, op.out);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

/// A thread eight values a turn, by the same conversion as the casts.
template <class T>
__global__ void __launch_bounds__(kThreads) codeCheckKernel(CodeCheck op, bool aligned) {
    const int format = op.format == DType::E4M3 ? 1 : 2;
    const float scale = *op.scale;
    const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
    uint32_t different = 0;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i * kLane < op.n; i += stride) {
        const int64_t at = i * kLane;
        const int valid = static_cast<int>(min(int64_t{kLane}, op.n - at));
        float value[kLane];
        load8(static_cast<const T*>(op.in) + at, valid, aligned && valid == kLane, value);
        roundForCast<T>(value);
#pragma unroll
        for (int j = 0; j < kLane; ++j) value[j] = __fmul_rn(value[j], scale);
        const uint2 wanted = encode8(format, value);
        if (aligned && valid == kLane) {
            const uint2 codes = *reinterpret_cast<const uint2*>(op.codes + at);
            different += (__popc(__vcmpne4(codes.x, wanted.x)) + __popc(__vcmpne4(codes.y, wanted.y))) / 8;
        } else {
            for (int j = 0; j < valid; ++j)
                different += op.codes[at + j] != (((j < 4 ? wanted.x : wanted.y) >> (j % 4 * 8)) & 0xFF);
        }
    }
    different = __reduce_add_sync(0xFFFFFFFFu, different);
    if (different && threadIdx.x % 32 == 0)
        atomicAdd(reinterpret_cast<unsigned long long*>(op.different), static_cast<unsigned long long>(different));
}

}  // namespace

size_t workspaceBytes(const CheckFinite&) {
    return 0;
}

void launch(const LaunchContext& context, const CheckFinite& op) {
    if (op.n <= 0) return;
    if (op.type == DType::F32) return launchCheck<uint32_t>(context, op, 0x7F800000u);
    launchCheck<uint16_t>(context, op, op.type == DType::BF16 ? kBf16Infinities : kF16Infinities);
}

size_t workspaceBytes(const CodeCheck&) {
    return 0;
}

void launch(const LaunchContext& context, const CodeCheck& op) {
    require(isFp8(op.format) && op.scale && op.different, "code check", "there are no FP8 codes");
    require(op.inType == DType::F32 || op.inType == DType::BF16, "code check", "the values must be F32 or BF16");
    MANTISSA_CUDA_CHECK(cudaMemsetAsync(op.different, 0, sizeof(uint64_t), context.stream));
    if (op.n <= 0) return;
    const bool aligned = alignedRows(op.in, kLane) && reinterpret_cast<uintptr_t>(op.codes) % 8 == 0;
    const unsigned blocks = blocksFor(context, (op.n + kLane - 1) / kLane);
    if (op.inType == DType::F32)
        codeCheckKernel<float><<<blocks, kThreads, 0, context.stream>>>(op, aligned);
    else
        codeCheckKernel<Bf16><<<blocks, kThreads, 0, context.stream>>>(op, aligned);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

}  // namespace mantissa::kernels::cuda
