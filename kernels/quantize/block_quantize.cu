// The block cast on the GPU: a thread block owns a tile of 128 x 128 in shared memory, finds the largest value of each
// block in it, then rounds every value. Simple on purpose: it serves recipes that this chip has to emulate, probed
// steps and odd sizes (what a product reads natively comes from block_codes.cu); memory traffic is 2 bytes read and 2
// or 4 written an element, and the tile's own work hides behind it only in part.
#include "kernels/device/cuda/cast.cuh"
#include "kernels/formats/block_layout.h"
#include "kernels/formats/half.h"
#include "kernels/quantize/block_codes_cuda.h"
#include "kernels/quantize/block_quantize.h"
#include "kernels/quantize/block_report.cuh"

namespace mantissa::kernels::cuda {

namespace {

constexpr int kTile = 128;
constexpr int kThreads = 256;
constexpr int kElements = kTile * kTile;
constexpr int kMostBlocks = 1024;  // of a tile: 1 x 16

struct BlockArgs {
    BlockQuantize op;
    DearPartial* partials;  ///< one a tile; nullptr: no dear set
    int64_t tilesAcross;
    bool countRow = false, countColumn = false;  ///< the copy is counted, though written elsewhere
};

/// Held: uint16_t (BF16), or float for F32 as it is.
template <class Held>
struct TileShared {
    Held values[kElements];
    union {
        uint32_t amax[kMostBlocks];
        float scale[kMostBlocks];
    };
    float scaleInv[kMostBlocks];
    uint32_t counters[7];
    uint32_t amaxBits, smallestScale;
    uint32_t exponents[kExponentBins];
    DearPartial warps[kThreads / 32];
};

struct TileArea {
    int64_t row0, col0;
    int rows, cols;
};

__device__ TileArea areaOf(const BlockArgs& args) {
    const int64_t row0 = blockIdx.x / args.tilesAcross * kTile, col0 = blockIdx.x % args.tilesAcross * kTile;
    return {row0, col0, static_cast<int>(min(static_cast<int64_t>(kTile), args.op.rows - row0)),
            static_cast<int>(min(static_cast<int64_t>(kTile), args.op.cols - col0))};
}

__device__ float asFloat(uint16_t value) {
    return decodeBf16(value);
}
__device__ float asFloat(float value) {
    return value;
}

template <class Held>
__device__ void loadTile(const BlockQuantize& op, const TileArea& area, Held* values) {
    for (int i = threadIdx.x; i < kElements; i += kThreads) {
        const int row = i / kTile, col = i % kTile;
        Held value = 0;
        if (row < area.rows && col < area.cols) {
            const int64_t at = (area.row0 + row) * op.cols + area.col0 + col;
            if constexpr (std::is_same_v<Held, float>)
                value = static_cast<const float*>(op.in)[at];
            else
                value = op.inType == DType::BF16 ? static_cast<const uint16_t*>(op.in)[at]
                                                 : encodeBf16(static_cast<const float*>(op.in)[at]);
        }
        values[i] = value;
    }
    __syncthreads();
}

/// Whole groups of 16 rows of each column, in place.
__device__ void turnTile(const TileArea& area, uint16_t* values) {
    for (int i = threadIdx.x; i < kTile * (kTile / 16); i += kThreads) {
        const int col = i % kTile, row = i / kTile * 16;
        if (col >= area.cols || row + 16 > area.rows) continue;
        float group[16];
#pragma unroll
        for (int j = 0; j < 16; ++j) group[j] = decodeBf16(values[(row + j) * kTile + col]);
        hadamard16(group);
#pragma unroll
        for (int j = 0; j < 16; ++j) values[(row + j) * kTile + col] = encodeBf16(group[j]);
    }
    __syncthreads();
}

__device__ uint32_t amaxBitsOf(float value) {
    const uint32_t bits = __float_as_uint(value) & kFloatAbs;
    return bits > kFloatInf ? 0 : bits;
}

/// Number of the block that element (row, col) of the tile is in.
struct BlockIndex {
    int high, wide, across;
    __device__ BlockIndex(int h, int w) : high(h), wide(w), across(kTile / w) {}
    __device__ int operator()(int row, int col) const { return row / high * across + col / wide; }
    __device__ int count() const { return kTile / high * across; }
};

template <class Held>
__device__ void findAmax(const BlockIndex& index, TileShared<Held>& shared) {
    for (int i = threadIdx.x; i < kMostBlocks; i += kThreads) shared.amax[i] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < kElements; i += kThreads) {
        const int row = i / kTile, col = i % kTile;
        uint32_t bits = amaxBitsOf(asFloat(shared.values[i]));  // outside the tensor: 0
        if (index.wide >= 16) {                                 // half a warp, or all of it, has one block
            for (int offset = 8; offset; offset /= 2) bits = max(bits, __shfl_xor_sync(0xFFFFFFFFu, bits, offset));
            if (threadIdx.x % 16 == 0 && bits) atomicMax(&shared.amax[index(row, col)], bits);
        } else if (bits) {
            atomicMax(&shared.amax[index(row, col)], bits);
        }
    }
    __syncthreads();
}

struct TileCounts {
    uint32_t zeros = 0, zeroValues = 0, low = 0, overRange = 0, clipped = 0, inf = 0, nan = 0;
    double sumSquares = 0, sumSquaredError = 0, sumFourth = 0;
    float minNonZero = kNoMinimum;
};

__device__ void countValue(const BlockQuantize& op, const Fp8Traits& format, float x, float scaled, float grid,
                           float scaleInv, float step, bool dear, TileCounts& counts, uint32_t* exponents) {
    const uint32_t bits = __float_as_uint(x) & kFloatAbs, magnitude = __float_as_uint(scaled) & kFloatAbs;
    const bool nan = bits > kFloatInf, dead = scaleInv == 0.0f;
    const uint32_t gridBits = __float_as_uint(grid) & kFloatAbs;
    const bool zero = dead || gridBits == 0;
    counts.zeros += bits == 0;
    counts.zeroValues += zero && !nan;
    counts.low += (zero || gridBits < format.minNormal) && !nan;
    counts.overRange += magnitude > format.lastInRange && !nan && !dead;
    counts.clipped += magnitude > format.lastNotClipped && !nan && !dead;
    counts.inf += bits == kFloatInf;
    counts.nan += nan;
    if (!dear || bits >= kFloatInf) return;
    const double value = x, error = static_cast<double>(__fmul_rn(grid, step)) - value;
    counts.sumSquares += value * value;
    counts.sumSquaredError += error * error;
    counts.sumFourth += value * value * value * value;
    if (!bits) return;
    counts.minNonZero = fminf(counts.minNonZero, fabsf(x));
    if (op.exponents) atomicAdd(&exponents[ilogbf(fabsf(x)) + kExponentBias], 1u);
}

/// Where one copy of the tile goes; nothing where a pointer is null.
struct TileOut {
    uint16_t* values;
    BlockCodes codes;
    bool turned;  ///< codes are stored the other way round
};

/// The scales of the tile's blocks: Block128 alone, whose tile is one block in a line or in all.
__device__ void storeScales(const BlockQuantize& op, const TileArea& area, const TileOut& out, bool square,
                            const float* scaleInv) {
    const int64_t height = out.turned ? op.cols : op.rows, width = out.turned ? op.rows : op.cols;
    const int64_t row0 = out.turned ? area.col0 : area.row0, col0 = out.turned ? area.row0 : area.col0;
    if (square) {
        if (threadIdx.x == 0) out.codes.scaleInv[blockScaleIndex(height, width, true, row0, col0)] = scaleInv[0];
        const int64_t last = blocksAlong(width), stride = squareScaleStride(width);
        if (col0 / kBlockEdge == last - 1 && threadIdx.x < stride - last)
            out.codes.scaleInv[row0 / kBlockEdge * stride + last + threadIdx.x] = 1;  // read by nobody, yet a number
        return;
    }
    const int lines = out.turned ? area.cols : area.rows;
    for (int line = threadIdx.x; line < lines; line += kThreads)
        out.codes.scaleInv[blockScaleIndex(height, width, false, row0 + line, col0)] = scaleInv[line];
}

/// One copy of the tile to memory. seed, tensorScale: the copy's own.
template <class Held>
__device__ void castTile(const BlockArgs& args, const TileArea& area, const BlockIndex& index, float tensorScale,
                         uint64_t seed, const TileOut& out, bool counted, TileCounts& counts,
                         TileShared<Held>& shared) {
    const BlockQuantize& op = args.op;
    const BlockRule rule = op.rule();
    const Fp8Traits format = fp8Traits(op.format);
    const float tensorInv = __frcp_rn(tensorScale);
    const bool dear = counted && op.count && args.partials;
    findAmax(index, shared);
    for (int block = threadIdx.x; block < index.count(); block += kThreads) {
        const int row = block / index.across * index.high, col = block % index.across * index.wide;
        const float amax = __uint_as_float(shared.amax[block]);
        const BlockScale scale = blockScaleOf(rule, amax, tensorScale);
        shared.scale[block] = scale.scale;
        shared.scaleInv[block] = scale.scaleInv;
        if (!counted || row >= area.rows || col >= area.cols) continue;
        atomicMax(&shared.amaxBits, __float_as_uint(amax));
        atomicMin(&shared.smallestScale, __float_as_uint(scale.scale));
    }
    __syncthreads();
    if (out.codes.codes) storeScales(op, area, out, index.high == index.wide, shared.scaleInv);
    for (int i = threadIdx.x; i < kElements; i += kThreads) {
        const int row = i / kTile, col = i % kTile;
        if (row >= area.rows || col >= area.cols) continue;
        const int block = index(row, col);
        const int64_t at = (area.row0 + row) * op.cols + area.col0 + col;
        const float x = asFloat(shared.values[i]), scaleInv = shared.scaleInv[block];
        const float scaled = __fmul_rn(x, shared.scale[block]);
        uint8_t code;
        if (op.stochastic && !isnan(scaled)) {
            const Philox4 random = philoxBlock(seed, static_cast<uint64_t>(at) / 4, 0);
            const int which = static_cast<int>(at % 4);
            code = encodeFp8Stochastic(scaled, format,
                                       which < 2 ? (which ? random.value[1] : random.value[0])
                                                 : (which == 3 ? random.value[3] : random.value[2]));
        } else {
            code = encodeScaled(scaled, op.format);
        }
        const float grid = decodeFp8(code, format);
        if (out.values) out.values[at] = encodeBf16(__fmul_rn(grid, scaleInv));
        if (out.codes.codes) out.codes.codes[out.turned ? (area.col0 + col) * op.rows + area.row0 + row : at] = code;
        if (!counted || !op.count) continue;
        const float step = op.kind == BlockKind::Nvfp4 ? __fmul_rn(scaleInv, tensorInv) : scaleInv;
        countValue(op, format, x, scaled, grid, scaleInv, step, dear, counts, shared.exponents);
    }
    __syncthreads();
}

template <class Held>
__device__ void reportTile(const BlockArgs& args, const TileCounts& counts, TileShared<Held>& shared) {
    const BlockQuantize& op = args.op;
    const uint32_t everyone = 0xFFFFFFFFu, parts[7] = {counts.zeros,   counts.zeroValues, counts.low, counts.overRange,
                                                       counts.clipped, counts.inf,        counts.nan};
    const int lane = threadIdx.x % 32;
    for (int i = 0; i < 7; ++i) {
        const uint32_t sum = __reduce_add_sync(everyone, parts[i]);
        if (lane == 0 && sum) atomicAdd(&shared.counters[i], sum);
    }
    if (args.partials) {
        DearPartial sum{counts.sumSquares, counts.sumSquaredError, counts.sumFourth, counts.minNonZero, 0};
        for (int offset = 16; offset; offset /= 2) {
            sum.sumSquares += __shfl_down_sync(everyone, sum.sumSquares, offset);
            sum.sumSquaredError += __shfl_down_sync(everyone, sum.sumSquaredError, offset);
            sum.sumFourth += __shfl_down_sync(everyone, sum.sumFourth, offset);
            sum.minNonZero = fminf(sum.minNonZero, __shfl_down_sync(everyone, sum.minNonZero, offset));
        }
        if (lane == 0) shared.warps[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicMax(reinterpret_cast<unsigned int*>(&op.slot->amax), shared.amaxBits);
        mergeScale(&op.slot->scaleUsed, shared.smallestScale);
        if (op.count) {
            CastCounters& out = op.slot->counters;
            if (blockIdx.x == 0)
                addCount(out.elements, static_cast<uint64_t>(op.rows) * static_cast<uint64_t>(op.cols));
            addCount(out.zeros, shared.counters[0]);
            addCount(out.underflow, shared.counters[1] - shared.counters[0]);
            addCount(out.subnormal, shared.counters[2] - shared.counters[1]);
            addCount(out.overRange, shared.counters[3]);
            addCount(out.clipped, shared.counters[4]);
            addCount(out.inf, shared.counters[5]);
            addCount(out.nan, shared.counters[6]);
        }
        if (args.partials) {
            DearPartial total = shared.warps[0];
            for (int i = 1; i < kThreads / 32; ++i) {
                total.sumSquares += shared.warps[i].sumSquares;
                total.sumSquaredError += shared.warps[i].sumSquaredError;
                total.sumFourth += shared.warps[i].sumFourth;
                total.minNonZero = fminf(total.minNonZero, shared.warps[i].minNonZero);
            }
            args.partials[blockIdx.x] = total;
        }
    }
    if (args.partials && op.exponents)
        for (int i = threadIdx.x; i < kExponentBins; i += kThreads)
            addCount(op.slot->dear.exponents[i], shared.exponents[i]);
}

template <class Held>
__global__ void __launch_bounds__(kThreads) blockCastKernel(BlockArgs args) {
    extern __shared__ __align__(16) char memory[];
    TileShared<Held>& shared = *reinterpret_cast<TileShared<Held>*>(memory);
    const BlockQuantize& op = args.op;
    const TileArea area = areaOf(args);
    for (int i = threadIdx.x; i < kExponentBins; i += kThreads) shared.exponents[i] = 0;
    if (threadIdx.x < 7) shared.counters[threadIdx.x] = 0;
    if (threadIdx.x == 7) shared.amaxBits = 0, shared.smallestScale = kFloatInf;
    loadTile(op, area, shared.values);
    TileCounts counts;
    const bool counts_ = op.slot != nullptr;
    const bool row = op.hasRow() || args.countRow, column = op.hasColumn() || args.countColumn;
    if (row)
        castTile(args, area, BlockIndex(op.blockRows, op.blockCols), op.rowEntry ? op.rowEntry->scale : 1.0f, op.seed,
                 {static_cast<uint16_t*>(op.rowValues), op.rowCodes, false}, counts_, counts, shared);
    if (column) {
        if constexpr (!std::is_same_v<Held, float>)
            if (op.hadamard) turnTile(area, shared.values);
        castTile(args, area, BlockIndex(op.blockCols, op.blockRows), op.colEntry ? op.colEntry->scale : 1.0f,
                 op.seed + 1, {static_cast<uint16_t*>(op.colValues), op.colCodes, true}, counts_ && !row, counts,
                 shared);
    }
    if (counts_) reportTile(args, counts, shared);
}

/// amax[0] of the tensor, amax[1] of what the column copy casts.
__global__ void __launch_bounds__(kThreads) tensorAmaxKernel(BlockArgs args, uint32_t* amax) {
    __shared__ uint16_t values[kElements];
    const TileArea area = areaOf(args);
    loadTile(args.op, area, values);
    for (int copy = 0; copy < 2; ++copy) {
        if (copy == 1 && args.op.hasColumn() && args.op.hadamard) turnTile(area, values);
        uint32_t bits = 0;
        for (int i = threadIdx.x; i < kElements; i += kThreads) bits = max(bits, amaxBitsOf(decodeBf16(values[i])));
        bits = __reduce_max_sync(0xFFFFFFFFu, bits);
        if (threadIdx.x % 32 == 0) atomicMax(amax + copy, bits);
        __syncthreads();
    }
}

__global__ void setEntriesKernel(const uint32_t* amax, ScaleEntry* row, ScaleEntry* col) {
    ScaleEntry* const entries[2] = {row, col};
    for (int i = 0; i < 2; ++i) {
        if (!entries[i]) continue;
        const float scale = nvfp4TensorScale(__uint_as_float(amax[i]));
        entries[i]->scale = scale;
        entries[i]->scaleInv = __frcp_rn(scale);
    }
}

int64_t tilesOf(int64_t n) {
    return (n + kTile - 1) / kTile;
}

bool hasDear(const BlockQuantize& op) {
    return op.slot && op.count && op.dear;
}

constexpr size_t kAmaxBytes = 256;

template <class Held>
void launchTiles(const LaunchContext& context, const BlockArgs& args, unsigned tiles) {
    constexpr int kBytes = sizeof(TileShared<Held>);
    if (kBytes > 48 * 1024)
        MANTISSA_CUDA_CHECK(
            cudaFuncSetAttribute(blockCastKernel<Held>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    blockCastKernel<Held><<<tiles, kThreads, kBytes, context.stream>>>(args);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

size_t workspaceBytes(const BlockQuantize& op) {
    const size_t tiles = static_cast<size_t>(tilesOf(op.rows) * tilesOf(op.cols));
    return kAmaxBytes + (hasDear(op) ? roundUp256(tiles * sizeof(DearPartial)) : 0);
}

void launch(const LaunchContext& context, const BlockQuantize& op) {
    checkBlockQuantize(op);
    if (op.rows == 0 || op.cols == 0) return;
    char* scratch = static_cast<char*>(context.scratch(workspaceBytes(op), "block cast"));
    const unsigned tiles = static_cast<unsigned>(tilesOf(op.rows) * tilesOf(op.cols));
    BlockArgs args{op, hasDear(op) ? reinterpret_cast<DearPartial*>(scratch + kAmaxBytes) : nullptr, tilesOf(op.cols)};
    if (castsWholeVectors(op)) {
        const bool here = !op.slot || (op.rowCodes.codes && !args.partials);  // counts there, too
        launchBlockCodes(context, op, here);
        if (here) return;
        args.countRow = op.hasRow(), args.countColumn = !op.hasRow();
        args.op.rowCodes = args.op.colCodes = BlockCodes();
    }
    args.op.exponents = op.exponents && args.partials;
    if (op.kind == BlockKind::Nvfp4) {
        auto* amax = reinterpret_cast<uint32_t*>(scratch);
        MANTISSA_CUDA_CHECK(cudaMemsetAsync(amax, 0, 2 * sizeof(uint32_t), context.stream));
        tensorAmaxKernel<<<tiles, kThreads, 0, context.stream>>>(args, amax);
        MANTISSA_CUDA_CHECK(cudaGetLastError());
        setEntriesKernel<<<1, 1, 0, context.stream>>>(amax, op.rowEntry, op.colEntry);
        MANTISSA_CUDA_CHECK(cudaGetLastError());
    }
    if (op.inType == DType::F32 && !op.roundToBf16)
        launchTiles<float>(context, args, tiles);
    else
        launchTiles<uint16_t>(context, args, tiles);
    if (!args.partials) return;
    CastParams merged;
    merged.partials = args.partials;
    merged.slot = op.slot;
    mergeDear(context, merged, tiles);
}

}  // namespace mantissa::kernels::cuda
