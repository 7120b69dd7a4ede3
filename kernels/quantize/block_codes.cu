// block128 to E4M3 codes with their scales, row copy and column copy in one pass: 2 bytes read and up to 2 written an
// element, limited by memory.
//
// A thread block of 256 owns a tile of 128 x 128; a thread has 8 rows of 8 neighbouring columns in registers. The 16
// threads of a row are half a warp, so a row's largest value is found by shuffles; a column's goes through shared
// memory. Each copy is encoded from the same registers, the column copy with four rows of a column in a word, and
// leaves through shared memory in lines of 128 bytes: chunk s of 8 bytes of the columns of thread t lies at s ^ t, so
// that neither side meets a bank conflict.
#include "kernels/device/cuda/cast.cuh"
#include "kernels/formats/block_layout.h"
#include "kernels/quantize/block_codes_cuda.h"
#include "kernels/quantize/block_report.cuh"

namespace mantissa::kernels::cuda {

namespace {

constexpr int kTile = 128;
constexpr int kThreads = 256;
constexpr int kAcross = kTile / kLane;  ///< threads that share a row
constexpr int kDown = 8;                ///< rows of a thread
constexpr int kWarps = kThreads / 32;

struct CodesArgs {
    const void* in;
    int64_t rows, cols, tilesAcross;
    BlockCodes row, col;
    TensorSlot* slot;  ///< nullptr: nothing is counted
    bool counts;       ///< the counters, not amax and scale alone
};

struct CodesShared {
    uint2 turned[kTile * kAcross];     ///< line = column: 16 chunks of 8 rows
    uint4 columnMax[kWarps][kAcross];  ///< magnitudes of 8 columns in BF16
    float columnScale[kTile];
    uint32_t tileMax[kWarps];
    uint32_t counters[7];
    uint32_t amaxBits, smallestScale;
};

__device__ __forceinline__ uint32_t maxPairs(uint32_t a, uint32_t b) {
    return __vmaxu2(a, b);
}

/// Largest magnitude of two BF16 in a word.
__device__ __forceinline__ uint32_t largerHalf(uint32_t pair) {
    return max(pair & 0xFFFFu, pair >> 16);
}

__device__ __forceinline__ BlockScale scaleOf(uint32_t bf16Magnitude) {
    return blockScaleOf({BlockKind::Block128, DType::E4M3}, __uint_as_float(bf16Magnitude << 16), 1.0f);
}

template <class In>
__device__ __forceinline__ void loadRows(const CodesArgs& args, int64_t row0, int64_t col, Raw8<Bf16> (&x)[kDown]) {
#pragma unroll
    for (int j = 0; j < kDown; ++j) {
        if (col >= args.cols || row0 + j >= args.rows) {
            x[j].clear();
            continue;
        }
        const In* from = static_cast<const In*>(args.in) + (row0 + j) * args.cols + col;
        if constexpr (std::is_same_v<In, Bf16>) {
            x[j].load(from, kLane, true);
        } else {
            Raw8<float> wide;
            wide.load(from, kLane, true);
            float value[kLane];
            wide.unpack(value);
            x[j].pack(value);
        }
    }
}

/// Counters of eight values of a row and their codes.
__device__ __forceinline__ void countRow(const Raw8<Bf16>& x, const uint2& codes, float scale, bool overflows,
                                         CastState& state) {
    const uint32_t low = codes.x & 0x7F7F7F7Fu, high = codes.y & 0x7F7F7F7Fu;
    const int normal = __popc((low + 0x78787878u) & 0x80808080u) + __popc((high + 0x78787878u) & 0x80808080u);
    if (normal < kLane) {
        state.lowCodes += kLane - normal;
        state.zeroCodes +=
            kLane - __popc((low + 0x7F7F7F7Fu) & 0x80808080u) - __popc((high + 0x7F7F7F7Fu) & 0x80808080u);
        float value[kLane];
        x.unpack(value);
#pragma unroll
        for (int i = 0; i < kLane; ++i) state.zeros += value[i] == 0.0f;
    }
    const uint32_t nanCodes = ((low + 0x01010101u) | (high + 0x01010101u)) & 0x80808080u;
    if (!overflows && !nanCodes) return;
    float value[kLane];
    x.unpack(value);
    const uint32_t rare = countRare4(1, scale, value[0], value[1], value[2], value[3]) +
                          countRare4(1, scale, value[4], value[5], value[6], value[7]);
    state.overRange += rare & 0xFF;
    state.clipped += rare >> 8 & 0xFF;
    state.inf += rare >> 16 & 0xFF;
    state.nan += rare >> 24;
}

/// Magnitudes of each of the thread's rows, two rows in a word, over the half warp.
__device__ __forceinline__ void rowMaxima(const Raw8<Bf16> (&x)[kDown], uint32_t (&out)[kDown / 2]) {
#pragma unroll
    for (int j = 0; j < kDown; j += 2) {
        uint32_t even = 0, odd = 0;
#pragma unroll
        for (int word = 0; word < 4; ++word) {
            even = largerMagnitudes(x[j].word[word], even);
            odd = largerMagnitudes(x[j + 1].word[word], odd);
        }
        out[j / 2] = largerHalf(even) | largerHalf(odd) << 16;
    }
#pragma unroll
    for (int offset = kAcross / 2; offset; offset /= 2) {
#pragma unroll
        for (int i = 0; i < kDown / 2; ++i) out[i] = maxPairs(out[i], __shfl_xor_sync(0xFFFFFFFFu, out[i], offset));
    }
}

/// Scales of the tile's columns into shared memory, and their inverses to the column copy.
__device__ void findColumnScales(const CodesArgs& args, const Raw8<Bf16> (&x)[kDown], int64_t row0, int64_t col0,
                                 CodesShared& shared) {
    uint32_t most[4] = {};
#pragma unroll
    for (int j = 0; j < kDown; ++j) {
#pragma unroll
        for (int word = 0; word < 4; ++word) most[word] = largerMagnitudes(x[j].word[word], most[word]);
    }
#pragma unroll
    for (int word = 0; word < 4; ++word)
        most[word] = maxPairs(most[word], __shfl_xor_sync(0xFFFFFFFFu, most[word], kAcross));
    if (threadIdx.x % 32 < kAcross)
        shared.columnMax[threadIdx.x / 32][threadIdx.x % 32] = make_uint4(most[0], most[1], most[2], most[3]);
    __syncthreads();
    if (threadIdx.x < kTile) {
        const uint16_t* magnitudes = reinterpret_cast<const uint16_t*>(shared.columnMax) + threadIdx.x;
        uint32_t largest = 0;
#pragma unroll
        for (int warp = 0; warp < kWarps; ++warp) largest = max(largest, uint32_t{magnitudes[warp * kTile]});
        const BlockScale scale = scaleOf(largest);
        shared.columnScale[threadIdx.x] = scale.scale;
        const int64_t col = col0 + threadIdx.x;
        if (col < args.cols)
            args.col.scaleInv[blockScaleIndex(args.cols, args.rows, false, col, row0)] = scale.scaleInv;
    }
    __syncthreads();
}

__device__ void storeSquareScale(const BlockCodes& out, int64_t rows, int64_t cols, int64_t row0, int64_t col0,
                                 float scaleInv) {
    if (!out.codes) return;
    if (threadIdx.x == 0) out.scaleInv[blockScaleIndex(rows, cols, true, row0, col0)] = scaleInv;
    const int64_t last = blocksAlong(cols), stride = squareScaleStride(cols);
    if (col0 / kBlockEdge == last - 1 && threadIdx.x < stride - last)
        out.scaleInv[row0 / kBlockEdge * stride + last + threadIdx.x] = 1;  // read by nobody, yet a number
}

/// Codes of the column copy by way of shared memory. scale(c): of the thread's column c.
template <class Scale>
__device__ __forceinline__ void writeColumns(const CodesArgs& args, const Raw8<Bf16> (&x)[kDown], int64_t row0,
                                             int64_t col0, Scale scale, CodesShared& shared) {
    const int across = threadIdx.x % kAcross, strip = threadIdx.x / kAcross;
#pragma unroll
    for (int c = 0; c < kLane; ++c) {
        const float factor = scale(c);
        float y[kDown];
#pragma unroll
        for (int j = 0; j < kDown; ++j) {
            const uint32_t word = x[j].word[c / 2];
            y[j] = __fmul_rn(__uint_as_float(c % 2 ? word & 0xFFFF0000u : word << 16), factor);
        }
        shared.turned[(across * kLane + c) * kAcross + (strip ^ across)] =
            make_uint2(encode4<__NV_E4M3>(y[0], y[1], y[2], y[3]), encode4<__NV_E4M3>(y[4], y[5], y[6], y[7]));
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kTile * kAcross / 2 / kThreads; ++i) {
        const int piece = i * kThreads + threadIdx.x, line = piece / (kAcross / 2), pair = piece % (kAcross / 2);
        const int turn = line / kLane;
        const int64_t col = col0 + line, row = row0 + pair * 16;
        const uint4 found = reinterpret_cast<const uint4*>(shared.turned)[line * (kAcross / 2) + (pair ^ turn / 2)];
        if (col >= args.cols || row >= args.rows) continue;
        *reinterpret_cast<uint4*>(args.col.codes + col * args.rows + row) =
            turn % 2 ? make_uint4(found.z, found.w, found.x, found.y) : found;
    }
}

/// amaxBits, scaleBits: the largest and the smallest that the thread found; Inf bits where it found no scale.
__device__ void report(const CodesArgs& args, const CastState& state, uint32_t amaxBits, uint32_t scaleBits,
                       CodesShared& shared) {
    const uint32_t everyone = 0xFFFFFFFFu;
    const uint32_t parts[7] = {state.zeros,   state.zeroCodes, state.lowCodes, state.overRange,
                               state.clipped, state.inf,       state.nan};
    const bool first = threadIdx.x % 32 == 0;
    if (args.counts) {
#pragma unroll
        for (int i = 0; i < 7; ++i) {
            const uint32_t sum = __reduce_add_sync(everyone, parts[i]);
            if (first && sum) atomicAdd(&shared.counters[i], sum);
        }
    }
    amaxBits = __reduce_max_sync(everyone, amaxBits);
    scaleBits = __reduce_min_sync(everyone, scaleBits);
    if (first) atomicMax(&shared.amaxBits, amaxBits), atomicMin(&shared.smallestScale, scaleBits);
    __syncthreads();
    if (threadIdx.x) return;
    atomicMax(reinterpret_cast<unsigned int*>(&args.slot->amax), shared.amaxBits);
    mergeScale(&args.slot->scaleUsed, shared.smallestScale);
    if (!args.counts) return;
    CastCounters& out = args.slot->counters;
    if (blockIdx.x == 0) addCount(out.elements, static_cast<uint64_t>(args.rows) * static_cast<uint64_t>(args.cols));
    // Codes of NaN are neither zero nor low.
    addCount(out.zeros, shared.counters[0]);
    addCount(out.underflow, shared.counters[1] - shared.counters[0]);
    addCount(out.subnormal, shared.counters[2] - shared.counters[1]);
    addCount(out.overRange, shared.counters[3]);
    addCount(out.clipped, shared.counters[4]);
    addCount(out.inf, shared.counters[5]);
    addCount(out.nan, shared.counters[6]);
}

/// kSquare: one scale for the tile, the same in both copies.
template <class In, bool kSquare>
__global__ void __launch_bounds__(kThreads) blockCodesKernel(CodesArgs args) {
    __shared__ CodesShared shared;
    const int64_t row0 = blockIdx.x / args.tilesAcross * kTile, col0 = blockIdx.x % args.tilesAcross * kTile;
    const int across = threadIdx.x % kAcross, strip = threadIdx.x / kAcross;
    const int64_t row = row0 + strip * kDown, col = col0 + across * kLane;
    if (threadIdx.x < 7) shared.counters[threadIdx.x] = 0;
    if (threadIdx.x == 7) shared.amaxBits = 0, shared.smallestScale = kFloatInf;
    Raw8<Bf16> x[kDown];
    loadRows<In>(args, row, col, x);

    uint32_t maxima[kDown / 2], amaxBits = 0, scaleBits = kFloatInf;
    rowMaxima(x, maxima);
    BlockScale mine;  // square: of the tile; else of row `across` of the thread's rows, where it is below kDown
    uint32_t mineMax = 0;
    if constexpr (kSquare) {
        const uint32_t half = maxPairs(maxPairs(maxima[0], maxima[1]), maxPairs(maxima[2], maxima[3]));
        const uint32_t warp = __reduce_max_sync(0xFFFFFFFFu, largerHalf(half));
        if (threadIdx.x % 32 == 0) shared.tileMax[threadIdx.x / 32] = warp;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < kWarps; ++i) mineMax = max(mineMax, shared.tileMax[i]);
        mine = scaleOf(mineMax);
        storeSquareScale(args.row, args.rows, args.cols, row0, col0, mine.scaleInv);
        storeSquareScale(args.col, args.cols, args.rows, col0, row0, mine.scaleInv);
        amaxBits = mineMax << 16, scaleBits = __float_as_uint(mine.scale);
    } else {
#pragma unroll
        for (int j = 0; j < kDown; ++j)
            if (across == j) mineMax = j % 2 ? maxima[j / 2] >> 16 : maxima[j / 2] & 0xFFFFu;
        mine = scaleOf(mineMax);
        if (across < kDown && row + across < args.rows) {
            if (args.row.codes)
                args.row.scaleInv[blockScaleIndex(args.rows, args.cols, false, row + across, col0)] = mine.scaleInv;
            amaxBits = mineMax << 16, scaleBits = __float_as_uint(mine.scale);
        }
    }

    CastState state;
    if (args.row.codes) {
#pragma unroll
        for (int j = 0; j < kDown; ++j) {
            float scale = mine.scale;
            uint32_t largest = mineMax;
            if constexpr (!kSquare) {
                scale = __shfl_sync(0xFFFFFFFFu, mine.scale, j, kAcross);
                largest = j % 2 ? maxima[j / 2] >> 16 : maxima[j / 2] & 0xFFFFu;
            }
            if (col >= args.cols || row + j >= args.rows) continue;
            float y[kLane];
            x[j].unpack(y);
#pragma unroll
            for (int i = 0; i < kLane; ++i) y[i] = __fmul_rn(y[i], scale);
            const uint2 codes = encode8(1, y);
            *reinterpret_cast<uint2*>(args.row.codes + (row + j) * args.cols + col) = codes;
            if (args.counts) countRow(x[j], codes, scale, largest >= kFloatInf >> 16, state);
        }
    }
    if (args.col.codes) {
        if constexpr (kSquare) {
            writeColumns(
                args, x, row0, col0, [&](int) { return mine.scale; }, shared);
        } else {
            findColumnScales(args, x, row0, col0, shared);
            const float* scales = shared.columnScale + across * kLane;
            writeColumns(
                args, x, row0, col0, [&](int c) { return scales[c]; }, shared);
        }
    }
    if (!args.slot) return;
    __syncthreads();
    report(args, state, amaxBits, scaleBits, shared);
}

bool aligned(const void* pointer) {
    return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

}  // namespace

bool castsWholeVectors(const BlockQuantize& op) {
    return op.kind == BlockKind::Block128 && op.format == DType::E4M3 && !op.stochastic && !op.hadamard &&
           op.powerOfTwo && op.epsilon == 0 && op.roundToBf16 && !op.rowValues && !op.colValues &&
           (op.rowCodes.codes || op.colCodes.codes) && op.rows % 16 == 0 && op.cols % 16 == 0 && aligned(op.in) &&
           aligned(op.rowCodes.codes) && aligned(op.colCodes.codes);
}

void launchBlockCodes(const LaunchContext& context, const BlockQuantize& op, bool statistics) {
    const CodesArgs args{op.in,
                         op.rows,
                         op.cols,
                         blocksAlong(op.cols),
                         op.rowCodes,
                         op.colCodes,
                         statistics ? op.slot : nullptr,
                         statistics && op.slot && op.count};
    const unsigned tiles = static_cast<unsigned>(blocksAlong(op.rows) * blocksAlong(op.cols));
    const bool wide = op.inType == DType::F32, square = op.blockRows > 1;
    if (wide && square) blockCodesKernel<float, true><<<tiles, kThreads, 0, context.stream>>>(args);
    if (wide && !square) blockCodesKernel<float, false><<<tiles, kThreads, 0, context.stream>>>(args);
    if (!wide && square) blockCodesKernel<Bf16, true><<<tiles, kThreads, 0, context.stream>>>(args);
    if (!wide && !square) blockCodesKernel<Bf16, false><<<tiles, kThreads, 0, context.stream>>>(args);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

}  // namespace mantissa::kernels::cuda
