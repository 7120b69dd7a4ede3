// The dear set of a cast: sums of squares, of squared errors, of fourth powers, the smallest non-zero magnitude, and
// exponents.
//
// The kernels that training steps run count eight values at a time without a call or a branch (addDear8): two
// conversions to double, two products and three additions a value, one addition in shared memory for its exponent. On
// an H200 the conversions (16 a clock and multiprocessor) are what limits, twice as long as reading the tensor.
#pragma once

#include <cuda_fp8.h>

#include <cstdint>

#include "kernels/device/cuda/vector.cuh"
#include "kernels/quantize/quantize.h"

namespace mantissa::kernels::cuda {

constexpr float kNoMinimum = 3.4028234663852886e38f;  ///< larger than any BF16 that matters: no non-zero value was seen

struct DearPartial {
    double sumSquares, sumSquaredError, sumFourth;
    float minNonZero;  ///< kNoMinimum: none
    float reserved;

    __device__ __forceinline__ void add(const DearPartial& other) {
        sumSquares += other.sumSquares;
        sumSquaredError += other.sumSquaredError;
        sumFourth += other.sumFourth;
        minNonZero = fminf(minNonZero, other.minNonZero);
    }
};

/// Copies of a block's exponents in shared memory, by lane: values of a tensor share few exponents, and lanes that add
/// to one word wait for each other.
constexpr int kExponentCopies = 8;

/// Per thread, for one tensor.
struct DearState {
    double sumSquares = 0, sumSquaredError = 0, sumFourth = 0;
    float minNonZero = kNoMinimum;
    uint32_t smallest = 0x7F7FFFFEu;  ///< addDear8: bits of the smallest non-zero magnitude, less one
    uint32_t* exponents = nullptr;    ///< addDear8: this lane's copy in shared memory; nullptr: not wanted

    __device__ __forceinline__ DearPartial partial() const {
        return {sumSquares, sumSquaredError, sumFourth, fminf(minNonZero, __uint_as_float(smallest + 1)), 0};
    }
};

/// Eight BF16 values and their codes (a format of FP8: 1 E4M3, 2 E5M2). Non-finite values are left out.
template <int kFormat>
__device__ __forceinline__ void addDear8(const Raw8<Bf16>& x, uint2 codes, float scaleInv, DearState& dear) {
    constexpr __nv_fp8_interpretation_t kKind = kFormat == 1 ? __NV_E4M3 : __NV_E5M2;
    float value[kLane];
    x.unpack(value);
#pragma unroll
    for (int pair = 0; pair < kLane / 2; ++pair) {
        const uint32_t word = pair < 2 ? codes.x : codes.y;
        const auto two = static_cast<__nv_fp8x2_storage_t>(pair % 2 ? word >> 16 : word & 0xFFFFu);
        const __half2_raw halves = __nv_cvt_fp8x2_to_halfraw2(two, kKind);
        const float2 decoded = __half22float2(__half2(halves));
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const uint32_t magnitude = __float_as_uint(value[2 * pair + i]) & 0x7FFFFFFFu;
            const bool finite = magnitude < 0x7F800000u;
            const double v = finite ? value[2 * pair + i] : 0.0f;
            const double back = finite ? __fmul_rn(i ? decoded.y : decoded.x, scaleInv) : 0.0f;
            const double error = back - v, square = v * v;
            dear.sumSquares += square;
            dear.sumSquaredError += error * error;
            dear.sumFourth += square * square;
            dear.smallest = min(dear.smallest, magnitude - 1);  // 0 becomes the largest of all
            if (!dear.exponents || !finite || magnitude == 0) continue;
            const int exponent = magnitude >= 0x00800000u ? static_cast<int>(magnitude >> 23) - 127
                                                          : -118 - __clz(static_cast<int>(magnitude));
            atomicAdd(dear.exponents + (exponent + kExponentBias) * kExponentCopies, 1u);
        }
    }
}

/// Sums of a block in a fixed order, in thread 0; `warps`: one a warp, shared memory. Every thread calls it.
__device__ __forceinline__ DearPartial blockDear(DearPartial sum, DearPartial* warps) {
    const uint32_t everyone = 0xFFFFFFFFu;
#pragma unroll
    for (int offset = 16; offset; offset /= 2) {
        DearPartial other;
        other.sumSquares = __shfl_down_sync(everyone, sum.sumSquares, offset);
        other.sumSquaredError = __shfl_down_sync(everyone, sum.sumSquaredError, offset);
        other.sumFourth = __shfl_down_sync(everyone, sum.sumFourth, offset);
        other.minNonZero = __shfl_down_sync(everyone, sum.minNonZero, offset);
        sum.add(other);
    }
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x != 0) return sum;
    for (int i = 1; i < static_cast<int>(blockDim.x) / 32; ++i) sum.add(warps[i]);
    return sum;
}

}  // namespace mantissa::kernels::cuda
