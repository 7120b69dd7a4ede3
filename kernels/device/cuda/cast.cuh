// The cast to FP8 with its counters, shared by every kernel that writes codes.
//
// A block owns columns: each thread eight neighbouring columns, walked down a tile of rows. So column sums stay in
// registers, and transposed codes are gathered in shared memory (words of four rows, private to the thread until they
// are written) and leave as runs of 16 or 32 bytes.
//
// Counting costs little because it works on four packed codes at a time, and because values beyond the largest finite
// one and NaN are looked at one by one only where a vector holds any.
#pragma once

#include <cuda_fp8.h>

#include <cstdint>

#include "kernels/device/cuda/cast_dear.cuh"
#include "kernels/device/cuda/cuda_check.h"
#include "kernels/device/cuda/cuda_launch.h"
#include "kernels/device/cuda/vector.cuh"
#include "kernels/formats/fp8.h"
#include "kernels/quantize/quantize.h"
#include "kernels/simd/philox.h"

namespace mantissa::kernels::cuda {

constexpr int kTileRows = 32;

/// A CastTarget as a kernel argument.
struct CastParams {
    uint8_t* codes = nullptr;
    uint8_t* codesTransposed = nullptr;
    const float* scale = nullptr;
    TensorSlot* slot = nullptr;
    DearPartial* partials = nullptr;  ///< one a block; nullptr: no dear set
    int64_t rows = 0, cols = 0;
    uint64_t seed = 0;
    uint8_t format = 0;  ///< 0 none, 1 E4M3, 2 E5M2
    uint8_t amaxOnly = 0, exponents = 0, stochastic = 0;
    uint8_t counts = 0;    ///< the slot takes counters, not the amax alone
    uint8_t wordRows = 0;  ///< codesTransposed may be written in 16-byte pieces
    uint8_t reserved[2] = {};

    __host__ __device__ bool active() const { return format != 0; }
    __host__ __device__ bool transposes() const { return format != 0 && codesTransposed != nullptr && !amaxOnly; }
};

/// What a kernel is compiled for. Generic decides everything at run time; the others are what training steps run, in
/// rows of whole, aligned vectors.
enum class CastMode {
    Generic,
    None,  ///< no cast
    Full,  ///< codes, counted (or the amax alone, by CastParams::counts); no dear set, no stochastic rounding
    Amax,  ///< the amax alone
    Dear,  ///< Full with counters and the dear set: the steps that are probed
};
/// Modes in which castFour makes codes.
constexpr bool encodes(CastMode mode) {
    return mode == CastMode::Full || mode == CastMode::Dear;
}
constexpr bool takesDear(CastMode mode) {
    return mode == CastMode::Generic || mode == CastMode::Dear;
}

/// Per thread, for one tensor.
struct CastState {
    float scale = 1, scaleInv = 1;
    float amax = 0;
    uint32_t amaxPair = 0;                             ///< castFour: magnitudes of two BF16 values
    uint32_t cast128 = 0, normal128 = 0, zero128 = 0;  ///< castFour: codes, normal codes, zero codes, each times 128
    uint32_t zeros = 0, zeroCodes = 0, lowCodes = 0, overRange = 0, clipped = 0, inf = 0, nan = 0;
    DearState dear;

    /// Of a thread that cast columns beyond the row's end.
    __device__ __forceinline__ void forgetCounts() { zeros = cast128 = normal128 = zero128 = 0; }
};

/// Shared memory of one cast in a block.
template <CastMode kMode>
struct CastShared {
    static constexpr int kCopies = kMode == CastMode::Dear ? kExponentCopies : 1;
    uint32_t counters[8];
    uint32_t amaxBits;
    uint32_t exponents[takesDear(kMode) ? kExponentBins * kCopies : 1];
    DearPartial warps[takesDear(kMode) ? 32 : 1];
};

template <CastMode kMode>
__device__ __forceinline__ bool casts(const CastParams& cast) {
    return kMode == CastMode::Generic ? cast.active() : kMode != CastMode::None;
}
template <CastMode kMode>
__device__ __forceinline__ bool writesTransposed(const CastParams& cast) {
    return (kMode == CastMode::Generic || encodes(kMode)) && cast.transposes();
}

template <CastMode kMode>
__device__ __forceinline__ void beginCast(const CastParams& cast, CastState& state, CastShared<kMode>& shared) {
    if (!casts<kMode>(cast)) return;
    if (kMode != CastMode::Amax && !cast.amaxOnly) {
        state.scale = cast.scale ? *cast.scale : 1.0f;
        state.scaleInv = __frcp_rn(state.scale);
    }
    const int thread = threadIdx.x;
    if (thread < 8) shared.counters[thread] = 0;
    if (thread == 8) shared.amaxBits = 0;
    if constexpr (takesDear(kMode)) {
        if (cast.partials && cast.exponents) {
            constexpr int kCopies = CastShared<kMode>::kCopies;
            for (int i = thread; i < kExponentBins * kCopies; i += blockDim.x) shared.exponents[i] = 0;
            state.dear.exponents = shared.exponents + thread % kCopies;
        }
    }
    __syncthreads();
}

__device__ __forceinline__ float largestFinite(int format) {
    return format == 1 ? 448.0f : 57344.0f;
}

template <__nv_fp8_interpretation_t kFormat>
__device__ __forceinline__ uint32_t encode4(float a, float b, float c, float d) {
    const uint32_t low = __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, kFormat);
    const uint32_t high = __nv_cvt_float2_to_fp8x2(make_float2(c, d), __NV_SATFINITE, kFormat);
    return low | high << 16;
}

/// Eight values, already multiplied by the scale, to eight codes, the first in the lowest byte.
__device__ __forceinline__ uint2 encode8(int format, const float (&y)[kLane]) {
    if (format == 1) {
        return make_uint2(encode4<__NV_E4M3>(y[0], y[1], y[2], y[3]), encode4<__NV_E4M3>(y[4], y[5], y[6], y[7]));
    }
    return make_uint2(encode4<__NV_E5M2>(y[0], y[1], y[2], y[3]), encode4<__NV_E5M2>(y[4], y[5], y[6], y[7]));
}

__device__ __forceinline__ float decode(int format, uint32_t code) {
    const __half_raw half =
        __nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(code), format == 1 ? __NV_E4M3 : __NV_E5M2);
    return __half2float(__half(half));
}

/// The rare values: beyond the largest finite value after scaling, Inf, NaN. Counts of overRange, clipped, inf and nan
/// in the four bytes of the result. Arguments by value: a reference would drive the caller's registers into local
/// memory.
[[maybe_unused]] static __device__ __noinline__ uint32_t countRare4(int format, float scale, float x0, float x1,
                                                                    float x2, float x3) {
    // The next float after 448 / 57344; a cast rounds above the largest value from the tie on (E5M2) or beyond it
    // (E4M3).
    const float next = format == 1 ? __int_as_float(0x43E00001) : __int_as_float(0x47600001);
    const float lastNotClipped = format == 1 ? 464.0f : __int_as_float(0x476FFFFF);
    const float x[4] = {x0, x1, x2, x3};
    uint32_t counts = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float magnitude = fabsf(__fmul_rn(x[i], scale));
        counts += (magnitude > next ? 1u : 0u) + (magnitude > lastNotClipped ? 1u << 8 : 0u) +
                  (isinf(x[i]) ? 1u << 16 : 0u) + (isnan(x[i]) ? 1u << 24 : 0u);
    }
    return counts;
}

/// The dear set of one value, of any cast: what kernels of mode Generic call.
[[maybe_unused]] static __device__ __noinline__ void countDear(const CastParams& cast, float x, uint32_t code,
                                                               float scaleInv, DearState& dear) {
    if (!isfinite(x)) return;
    const double value = x;
    const double error = static_cast<double>(__fmul_rn(decode(cast.format, code), scaleInv)) - value;
    dear.sumSquares += value * value;
    dear.sumSquaredError += error * error;
    dear.sumFourth += value * value * value * value;
    const float magnitude = fabsf(x);
    if (magnitude == 0.0f) return;
    dear.minNonZero = fminf(dear.minNonZero, magnitude);
    if (cast.exponents) atomicAdd(dear.exponents + (ilogbf(magnitude) + kExponentBias), 1u);
}

/// Stochastic rounding of four scaled values that start at element `index` of the tensor.
[[maybe_unused]] static __device__ __noinline__ uint32_t stochastic4(int format, uint64_t seed, int64_t index, float y0,
                                                                     float y1, float y2, float y3) {
    const Fp8Traits traits = format == 1 ? e4m3Traits() : e5m2Traits();
    const float y[4] = {y0, y1, y2, y3};
    uint32_t word = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const uint64_t element = static_cast<uint64_t>(index + i);
        const Philox4 random = philoxBlock(seed, element >> 2, 0);
        const int which = static_cast<int>(element & 3);
        const uint32_t bits =
            which < 2 ? (which ? random.value[1] : random.value[0]) : (which == 3 ? random.value[3] : random.value[2]);
        word |= static_cast<uint32_t>(encodeFp8Stochastic(y[i], traits, bits)) << (i * 8);
    }
    return word;
}

/// Casts x[0..valid) (BF16-rounded values of row `row`, columns from `col`), counts, and returns the codes in two
/// words. Lanes from `valid` on must hold 0. Writes nothing to memory.
template <CastMode kMode, bool kCounts = true>
__device__ __forceinline__ uint2 cast8(const CastParams& cast, const float (&x)[kLane], int valid, int64_t row,
                                       int64_t col, CastState& state) {
    float largest = 0;
    if constexpr (kCounts) {
#pragma unroll
        for (int i = 0; i < kLane; ++i) largest = fmaxf(largest, fabsf(x[i]));
        state.amax = fmaxf(state.amax, largest);
        if (kMode == CastMode::Generic && cast.amaxOnly) return make_uint2(0, 0);
    }
    if constexpr (kMode == CastMode::Amax) {
        return make_uint2(0, 0);
    } else {
        float y[kLane];
#pragma unroll
        for (int i = 0; i < kLane; ++i) y[i] = __fmul_rn(x[i], state.scale);
        uint2 codes = encode8(cast.format, y);
        if (kMode == CastMode::Generic && cast.stochastic) {
            const int64_t index = row * cast.cols + col;
            codes.x = stochastic4(cast.format, cast.seed, index, y[0], y[1], y[2], y[3]);
            codes.y = stochastic4(cast.format, cast.seed, index + 4, y[4], y[5], y[6], y[7]);
        }
        if (!kCounts || !cast.counts) return codes;

        const uint32_t low = codes.x & 0x7F7F7F7Fu, high = codes.y & 0x7F7F7F7Fu;
        const uint32_t toNormal = cast.format == 1 ? 0x78787878u : 0x7C7C7C7Cu;  // 128 less the smallest normal code
        const uint32_t normal = __popc((low + toNormal) & 0x80808080u) + __popc((high + toNormal) & 0x80808080u);
        const int missing = kLane - valid;
        if (normal < static_cast<uint32_t>(valid)) {
            state.lowCodes += valid - normal;
            state.zeroCodes +=
                valid - __popc((low + 0x7F7F7F7Fu) & 0x80808080u) - __popc((high + 0x7F7F7F7Fu) & 0x80808080u);
#pragma unroll
            for (int i = 0; i < kLane; ++i) state.zeros += x[i] == 0.0f;
            state.zeros -= missing;
        }
        const uint32_t nanCodes = ((low + 0x01010101u) | (high + 0x01010101u)) & 0x80808080u;
        // The product is monotone in |x|: the largest tells whether any is beyond the largest finite value.
        if (__fmul_rn(largest, state.scale) > largestFinite(cast.format) || nanCodes) {
            const uint32_t rare = countRare4(cast.format, state.scale, x[0], x[1], x[2], x[3]) +
                                  countRare4(cast.format, state.scale, x[4], x[5], x[6], x[7]);
            state.overRange += rare & 0xFF;
            state.clipped += rare >> 8 & 0xFF;
            state.inf += rare >> 16 & 0xFF;
            state.nan += rare >> 24;
        }
        if constexpr (kMode == CastMode::Generic) {
            if (cast.partials) {
#pragma unroll 1
                for (int i = 0; i < valid; ++i) {
                    countDear(cast, x[i], ((i < 4 ? codes.x : codes.y) >> (i % 4 * 8)) & 0xFF, state.scaleInv,
                              state.dear);
                }
            }
        }
        return codes;
    }
}

/// Sum of the bytes of `marks`, added to `sum`.
__device__ __forceinline__ uint32_t addBytes(uint32_t marks, uint32_t sum) {
    return __dp4a(marks, 0x01010101u, sum);
}

/// The larger magnitudes of two pairs of BF16; a NaN yields to a number.
__device__ __forceinline__ uint32_t largerMagnitudes(uint32_t pair, uint32_t largest) {
    const __nv_bfloat162 sum = __hmax2(__habs2(*reinterpret_cast<const __nv_bfloat162*>(&pair)),
                                       *reinterpret_cast<const __nv_bfloat162*>(&largest));
    return *reinterpret_cast<const uint32_t*>(&sum);
}

/// What castFour seldom needs: zeros where codes are below normal, values at or beyond the largest finite one.
template <int kFormat>
__device__ __forceinline__ void countSeldom(const Raw8<Bf16> (&x)[4], const uint2 (&codes)[4], bool low, bool high,
                                            CastState& state) {
    if (low) {
        uint32_t nonZero = 0, values = 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            nonZero = addBytes(((codes[i].x & 0x7F7F7F7Fu) + 0x7F7F7F7Fu) & 0x80808080u, nonZero);
            nonZero = addBytes(((codes[i].y & 0x7F7F7F7Fu) + 0x7F7F7F7Fu) & 0x80808080u, nonZero);
        }
        state.zero128 += 32 * 128 - nonZero;
        if (nonZero != 32 * 128) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    values = addBytes((((x[i].word[j] & 0x7FFF7FFFu) + 0x7FFF7FFFu) & 0x80008000u) >> 8, values);
            }
            state.zeros += 32 - values / 128;
        }
    }
    if (!high) return;
#pragma unroll 1
    for (int i = 0; i < 4; ++i) {
        Raw8<Bf16> row = x[0];
#pragma unroll
        for (int k = 1; k < 4; ++k)
            if (i == k) row = x[k];
        float value[kLane];
        row.unpack(value);
        const uint32_t rare = countRare4(kFormat, state.scale, value[0], value[1], value[2], value[3]) +
                              countRare4(kFormat, state.scale, value[4], value[5], value[6], value[7]);
        state.overRange += rare & 0xFF;
        state.clipped += rare >> 8 & 0xFF;
        state.inf += rare >> 16 & 0xFF;
        state.nan += rare >> 24;
    }
}

/// Casts four rows of eight BF16 values without a branch but for what is counted seldom, so that the compiler works on
/// all of them at once. Modes Full (codes; counters when `counts`), Dear (codes, counters, dear set) and Amax. Writes
/// nothing to memory.
template <CastMode kMode, int kFormat, bool kCounts = true>
__device__ __forceinline__ void castFour(const Raw8<Bf16> (&x)[4], bool counts, CastState& state, uint2 (&codes)[4]) {
    static_assert(encodes(kMode) || kMode == CastMode::Amax);
    if constexpr (kCounts) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int j = 0; j < 4; ++j) state.amaxPair = largerMagnitudes(x[i].word[j], state.amaxPair);
        }
    }
    if constexpr (encodes(kMode)) {
        constexpr __nv_fp8_interpretation_t kKind = kFormat == 1 ? __NV_E4M3 : __NV_E5M2;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            float y[kLane];
            x[i].unpack(y);
#pragma unroll
            for (int j = 0; j < kLane; ++j) y[j] = __fmul_rn(y[j], state.scale);
            codes[i] = make_uint2(encode4<kKind>(y[0], y[1], y[2], y[3]), encode4<kKind>(y[4], y[5], y[6], y[7]));
        }
        if (!kCounts || !counts) return;
        // In a byte without its sign: 128 less the smallest normal code, and less the largest finite one.
        constexpr uint32_t kToNormal = kFormat == 1 ? 0x78787878u : 0x7C7C7C7Cu;
        constexpr uint32_t kToLargest = kFormat == 1 ? 0x02020202u : 0x05050505u;
        uint32_t normal = 0, largest = 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const uint32_t low = codes[i].x & 0x7F7F7F7Fu, high = codes[i].y & 0x7F7F7F7Fu;
            normal = addBytes((low + kToNormal) & 0x80808080u, normal);
            normal = addBytes((high + kToNormal) & 0x80808080u, normal);
            largest |= (low + kToLargest) | (high + kToLargest);
        }
        state.cast128 += 32 * 128;
        state.normal128 += normal;
        const bool anyLow = normal != 32 * 128, anyHigh = (largest & 0x80808080u) != 0;
        if (anyLow || anyHigh) countSeldom<kFormat>(x, codes, anyLow, anyHigh, state);
        if constexpr (kMode == CastMode::Dear) {
#pragma unroll
            for (int i = 0; i < 4; ++i) addDear8<kFormat>(x[i], codes[i], state.scaleInv, state.dear);
        }
    }
}

/// Codes of eight neighbours to memory, from element `at` on.
template <CastMode kMode>
__device__ __forceinline__ void storeCodes(const CastParams& cast, uint2 codes, int64_t at, int valid, bool aligned) {
    if (kMode == CastMode::Amax || !cast.codes || (kMode == CastMode::Generic && cast.amaxOnly)) return;
    uint8_t* to = cast.codes + at;
    if (kMode != CastMode::Generic || aligned) {
        *reinterpret_cast<uint2*>(to) = codes;
    } else {
        for (int i = 0; i < valid; ++i) to[i] = static_cast<uint8_t>((i < 4 ? codes.x : codes.y) >> (i % 4 * 8));
    }
}

/// The columns of a thread: how many of its eight exist, and whether they are read at once.
template <CastMode kMode>
struct Columns {
    int valid;
    bool aligned;
    __device__ __forceinline__ Columns(int64_t col, int64_t cols, bool alignedRows) {
        if constexpr (kMode == CastMode::Generic) {
            valid = static_cast<int>(max(int64_t{0}, min(int64_t{kLane}, cols - col)));
            aligned = alignedRows && valid == kLane;
        } else {
            valid = col < cols ? kLane : 0;
            aligned = true;
        }
    }
    __device__ __forceinline__ bool has(int i) const { return kMode != CastMode::Generic || i < valid; }
};

/// Shared-memory words that a block of `threads` needs to gather one tensor's transposed codes of a tile of kRows rows.
constexpr int stageWords(int threads, int rows = kTileRows) {
    return kLane * (rows / 4) * threads;
}

/// Four rows of codes (rows 4 * group + 0..3 of the tile) into the stage, turned into words of four rows a column.
template <int kRows = kTileRows>
__device__ __forceinline__ void stageFourRows(uint32_t* stage, int group, const uint2 (&rows)[4]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const uint32_t a = half ? rows[0].y : rows[0].x, b = half ? rows[1].y : rows[1].x;
        const uint32_t c = half ? rows[2].y : rows[2].x, d = half ? rows[3].y : rows[3].x;
        const uint32_t ab01 = __byte_perm(a, b, 0x5140), ab23 = __byte_perm(a, b, 0x7362);
        const uint32_t cd01 = __byte_perm(c, d, 0x5140), cd23 = __byte_perm(c, d, 0x7362);
        const uint32_t words[4] = {__byte_perm(ab01, cd01, 0x5410), __byte_perm(ab01, cd01, 0x7632),
                                   __byte_perm(ab23, cd23, 0x5410), __byte_perm(ab23, cd23, 0x7632)};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int column = half * 4 + i;
            // The second 16 rows lie 16 banks further, so that the two lanes that share a column do not meet in a bank.
            stage[(column * (kRows / 4) + group) * blockDim.x + (threadIdx.x ^ (group / 4 * 16))] = words[i];
        }
    }
}

/// Writes the stage of a tile whose first row is `row0` and whose thread 0 owns the columns from `blockCol` on. A warp
/// writes what its own threads staged, a lane 16 rows of a column. Call with the whole warp.
template <int kRows = kTileRows, bool kWordRows = false>
__device__ __forceinline__ void writeStage(const CastParams& cast, const uint32_t* stage, int64_t row0,
                                           int64_t blockCol) {
    constexpr int kParts = kRows / 16;  // lanes a column
    __syncwarp();
    const int lane = threadIdx.x % 32, part = lane % kParts, owner = threadIdx.x - lane + lane / kParts;
    const int64_t rowFrom = row0 + part * 16;
    if (rowFrom < cast.rows) {
#pragma unroll
        for (int step = 0; step < kParts; ++step) {
            const int from = owner + step * (32 / kParts);
            const int64_t col = blockCol + static_cast<int64_t>(from) * kLane;
            const uint32_t* words = stage + part * 4 * blockDim.x + (from ^ (part * 16));
            uint8_t* to = cast.codesTransposed + col * cast.rows + rowFrom;
#pragma unroll 4
            for (int column = 0; column < kLane; ++column, words += kRows / 4 * blockDim.x, to += cast.rows) {
                if (col + column >= cast.cols) break;
                const uint4 bytes =
                    make_uint4(words[0], words[blockDim.x], words[2 * blockDim.x], words[3 * blockDim.x]);
                if (kWordRows || cast.wordRows) {
                    *reinterpret_cast<uint4*>(to) = bytes;
                } else {
                    const uint32_t four[4] = {bytes.x, bytes.y, bytes.z, bytes.w};
                    const int count = static_cast<int>(min(static_cast<int64_t>(16), cast.rows - rowFrom));
                    for (int i = 0; i < count; ++i) to[i] = static_cast<uint8_t>(four[i / 4] >> (i % 4 * 8));
                }
            }
        }
    }
    __syncwarp();
}

/// Block-wide: merges what the threads counted into the slot. Every thread of the block calls it once, at its end.
/// first: this block also reports the elements and the scale.
template <CastMode kMode>
__device__ __forceinline__ void endCast(const CastParams& cast, CastState& state, CastShared<kMode>& shared, int block,
                                        bool first) {
    if (!casts<kMode>(cast) || !cast.slot) return;
    const uint32_t everyone = 0xFFFFFFFFu;
    if constexpr (kMode != CastMode::Generic) {  // what castFour counted
        state.amax = fmaxf(state.amax,
                           fmaxf(__uint_as_float(state.amaxPair << 16), __uint_as_float(state.amaxPair & 0xFFFF0000u)));
        state.zeroCodes += state.zero128 / 128;
        state.lowCodes += (state.cast128 - state.normal128) / 128;
    }
    const int lane = threadIdx.x % 32;
    const uint32_t amaxBits = __reduce_max_sync(everyone, __float_as_uint(state.amax));
    uint32_t counts[7] = {state.zeros,   state.zeroCodes, state.lowCodes, state.overRange,
                          state.clipped, state.inf,       state.nan};
    if (lane == 0) atomicMax(&shared.amaxBits, amaxBits);
    if (cast.counts) {
#pragma unroll
        for (int i = 0; i < 7; ++i) {
            const uint32_t sum = __reduce_add_sync(everyone, counts[i]);
            if (lane == 0 && sum) atomicAdd(&shared.counters[i], sum);
        }
    }
    if constexpr (takesDear(kMode)) {
        if (cast.partials) {
            const DearPartial total = blockDear(state.dear.partial(), shared.warps);
            if (threadIdx.x == 0) cast.partials[block] = total;
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        if (shared.amaxBits) atomicMax(reinterpret_cast<unsigned int*>(&cast.slot->amax), shared.amaxBits);
        if (first && !cast.amaxOnly) cast.slot->scaleUsed = state.scale;
        if (cast.counts) {
            const auto add = [](uint64_t& counter, uint64_t value) {
                if (value)
                    atomicAdd(reinterpret_cast<unsigned long long*>(&counter), static_cast<unsigned long long>(value));
            };
            CastCounters& out = cast.slot->counters;
            const uint32_t* sums = shared.counters;
            if (first) add(out.elements, static_cast<uint64_t>(cast.rows) * static_cast<uint64_t>(cast.cols));
            add(out.zeros, sums[0]);
            add(out.underflow, sums[1] - sums[0]);
            add(out.subnormal, sums[2] - sums[1]);
            add(out.overRange, sums[3]);
            add(out.clipped, sums[4]);
            add(out.inf, sums[5]);
            add(out.nan, sums[6]);
        }
    }
    if constexpr (takesDear(kMode)) {
        if (!cast.partials || !cast.exponents) return;
        for (int i = threadIdx.x; i < kExponentBins; i += blockDim.x) {
            constexpr int kCopies = CastShared<kMode>::kCopies;
            uint32_t count = 0;
#pragma unroll
            for (int copy = 0; copy < kCopies; ++copy) count += shared.exponents[i * kCopies + copy];
            if (count) {
                atomicAdd(reinterpret_cast<unsigned long long*>(&cast.slot->dear.exponents[i]),
                          static_cast<unsigned long long>(count));
            }
        }
    }
}

// ---- host side ----

/// One set of column sums: out (cols) (+)= sum over blocks of partials (blocks, cols), in order of blocks.
struct ColumnSum {
    const float* partials = nullptr;
    float* out = nullptr;  ///< nullptr: not wanted
};
struct ColumnSums {
    ColumnSum sum[3];
};
void reduceColumns(const LaunchContext& context, const ColumnSums& sums, int64_t blocks, int64_t cols, bool accumulate);

/// Checks the target and turns it into kernel arguments. Throws ShapeMismatch.
CastParams castParams(const CastTarget& target, int64_t rows, int64_t cols, const char* op);
/// Bytes of dear partials for `blocks` blocks; 0 when the target has no dear set.
size_t dearBytes(const CastTarget& target, int64_t blocks);
/// Adds the blocks' dear partials to the slot, in order.
void mergeDear(const LaunchContext& context, const CastParams& cast, int64_t blocks);

/// Rows of one block of a column-owning kernel that leaves column sums: a function of the rows alone (determinism), at
/// most 1024 blocks of rows, whole tiles.
inline int64_t rowsPerBlock(int64_t rows) {
    const int64_t tiles = (rows + kTileRows - 1) / kTileRows;
    return (tiles + 1023) / 1024 * kTileRows;
}
inline int64_t rowBlocks(int64_t rows) {
    return (rows + rowsPerBlock(rows) - 1) / rowsPerBlock(rows);
}

/// Threads of a column-owning block that covers `cols` columns, at most `limit`.
inline int columnThreads(int64_t cols, int limit) {
    const int64_t threads = ((cols + kLane - 1) / kLane + 31) / 32 * 32;
    return static_cast<int>(threads < limit ? threads : limit);
}

/// The mode a launch over `rows` rows needs. aligned: every row of every tensor starts at a multiple of 16 bytes and
/// has whole vectors.
inline CastMode castModeOf(const CastParams& cast, int64_t rows, bool aligned) {
    if (!aligned || rows % kTileRows != 0 || cast.stochastic) return CastMode::Generic;
    if (!cast.active()) return CastMode::None;
    if (cast.transposes() && !cast.wordRows) return CastMode::Generic;
    if (cast.amaxOnly) return CastMode::Amax;
    return cast.partials ? CastMode::Dear : CastMode::Full;
}
/// Whether a row exists: whole tiles have no rows beyond the end.
template <CastMode kMode>
__device__ __forceinline__ bool hasRow(int64_t row, int64_t rowEnd) {
    return kMode != CastMode::Generic || row < rowEnd;
}
template <CastMode kMode>
using ModeTag = std::integral_constant<CastMode, kMode>;

/// Calls body(mode, format) for a launch of castFour: format 0 where nothing is encoded.
template <class Body>
void withFormat(CastMode mode, const CastParams& cast, Body&& body) {
    if (mode == CastMode::None) return body(ModeTag<CastMode::None>(), std::integral_constant<int, 0>());
    if (mode == CastMode::Amax) return body(ModeTag<CastMode::Amax>(), std::integral_constant<int, 0>());
    const auto withCodes = [&](auto kind) {
        if (mode == CastMode::Dear) return body(ModeTag<CastMode::Dear>(), kind);
        body(ModeTag<CastMode::Full>(), kind);
    };
    if (cast.format == 1) return withCodes(std::integral_constant<int, 1>());
    withCodes(std::integral_constant<int, 2>());
}

template <class Kernel>
void allowSharedMemory(Kernel* kernel, size_t bytes) {
    if (bytes > 32 * 1024) {  // with a kernel's static shared memory more than the 48 KiB that need no asking
        MANTISSA_CUDA_CHECK(
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
    }
}

inline size_t roundUp256(size_t bytes) {
    return (bytes + 255) / 256 * 256;
}

}  // namespace mantissa::kernels::cuda
