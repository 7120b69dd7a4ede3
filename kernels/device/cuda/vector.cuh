// Element types on the device: conversions and loads of eight neighbours at a time.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <string>
#include <type_traits>

#include "kernels/dtype.h"
#include "kernels/error.h"

namespace mantissa::kernels::cuda {

using Bf16 = __nv_bfloat16;
using F16 = __half;

__device__ __forceinline__ float toFloat(float value) {
    return value;
}
__device__ __forceinline__ float toFloat(Bf16 value) {
    return __bfloat162float(value);
}
__device__ __forceinline__ float toFloat(F16 value) {
    return __half2float(value);
}

template <class T>
__device__ __forceinline__ T fromFloat(float value);
template <>
__device__ __forceinline__ float fromFloat<float>(float value) {
    return value;
}
template <>
__device__ __forceinline__ Bf16 fromFloat<Bf16>(float value) {
    return __float2bfloat16_rn(value);
}
template <>
__device__ __forceinline__ F16 fromFloat<F16>(float value) {
    return __float2half_rn(value);
}

/// The value as it is after being stored in T.
template <class T>
__device__ __forceinline__ float rounded(float value) {
    return toFloat(fromFloat<T>(value));
}

constexpr int kLane = 8;  ///< neighbouring elements that a thread handles together

/// Eight neighbours as they lie in memory: loads of several rows are in flight before any is unpacked, in half the
/// registers.
template <class T>
struct Raw8 {
    static constexpr int kWords = static_cast<int>(sizeof(T)) * kLane / 4;
    uint32_t word[kWords];

    /// from[0..valid), the rest 0. aligned: `from` is 16-byte aligned and valid == 8.
    __device__ __forceinline__ void load(const T* from, int valid, bool aligned) {
        if (aligned) {
#pragma unroll
            for (int i = 0; i < kWords / 4; ++i) {
                const uint4 four = reinterpret_cast<const uint4*>(from)[i];
                word[4 * i] = four.x, word[4 * i + 1] = four.y, word[4 * i + 2] = four.z, word[4 * i + 3] = four.w;
            }
        } else {
            float value[kLane];
#pragma unroll
            for (int i = 0; i < kLane; ++i) value[i] = i < valid ? toFloat(from[i]) : 0.0f;
            pack(value);
        }
    }
    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int i = 0; i < kWords; ++i) word[i] = 0;
    }
    /// Rounds to T.
    __device__ __forceinline__ void pack(const float (&value)[kLane]) {
        if constexpr (std::is_same_v<T, float>) {
#pragma unroll
            for (int i = 0; i < kLane; ++i) word[i] = __float_as_uint(value[i]);
        } else {
#pragma unroll
            for (int i = 0; i < kLane / 2; ++i) word[i] = packTwo(value[2 * i], value[2 * i + 1]);
        }
    }
    __device__ __forceinline__ void unpack(float (&value)[kLane]) const {
#pragma unroll
        for (int i = 0; i < kLane; ++i) {
            if constexpr (std::is_same_v<T, float>) {
                value[i] = __uint_as_float(word[i]);
            } else if constexpr (std::is_same_v<T, Bf16>) {
                value[i] = __uint_as_float(i % 2 ? word[i / 2] & 0xFFFF0000u : word[i / 2] << 16);
            } else {
                const __half2 pair = *reinterpret_cast<const __half2*>(&word[i / 2]);
                value[i] = i % 2 ? __high2float(pair) : __low2float(pair);
            }
        }
    }
    __device__ __forceinline__ void store(T* to, int valid, bool aligned) const {
        if (aligned) {
#pragma unroll
            for (int i = 0; i < kWords / 4; ++i) {
                storeFour(reinterpret_cast<uint4*>(to) + i, word[4 * i], word[4 * i + 1], word[4 * i + 2],
                          word[4 * i + 3]);
            }
        } else {
            float value[kLane];
            unpack(value);
#pragma unroll
            for (int i = 0; i < kLane; ++i) {
                if (i < valid) to[i] = fromFloat<T>(value[i]);
            }
        }
    }

  private:
    static __device__ __forceinline__ uint32_t packTwo(float low, float high) {
        if constexpr (std::is_same_v<T, Bf16>) {
            const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
            return *reinterpret_cast<const uint32_t*>(&pair);
        } else {
            const __half2 pair = __floats2half2_rn(low, high);
            return *reinterpret_cast<const uint32_t*>(&pair);
        }
    }
    /// One store of 16 bytes: left to itself the compiler makes four of values that come from scalars.
    static __device__ __forceinline__ void storeFour(uint4* to, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
        asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
    }
};

/// value[0..8) = from[0..valid), the rest 0. aligned: `from` is 16-byte aligned and valid == 8.
template <class T>
__device__ __forceinline__ void load8(const T* from, int valid, bool aligned, float (&value)[kLane]) {
    Raw8<T> raw;
    raw.load(from, valid, aligned);
    raw.unpack(value);
}

/// Rounds to T as a store would, then to BF16, which is what every cast sees.
template <class T>
__device__ __forceinline__ void roundForCast(float (&value)[kLane]) {
    Raw8<T> raw;
    raw.pack(value);
    raw.unpack(value);
    if constexpr (!std::is_same_v<T, Bf16>) {
        Raw8<Bf16> half;
        half.pack(value);
        half.unpack(value);
    }
}

template <class T>
__device__ __forceinline__ void store8(T* to, int valid, bool aligned, const float (&value)[kLane]) {
    Raw8<T> raw;
    raw.pack(value);
    raw.store(to, valid, aligned);
}

/// Host: whether rows of `cols` elements that start at `pointer` are loaded eight at a time with aligned accesses.
inline bool alignedRows(const void* pointer, int64_t cols) {
    return cols % kLane == 0 && reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

template <class T>
struct TypeTag {
    using Type = T;
};

/// Host: calls body(TypeTag<T>()) with the C++ type of F32, BF16 or F16.
template <class Body>
void withType(DType type, const char* op, Body&& body) {
    switch (type) {
        case DType::F32:
            return body(TypeTag<float>());
        case DType::BF16:
            return body(TypeTag<Bf16>());
        case DType::F16:
            return body(TypeTag<F16>());
        default:
            throw Error(ErrorCode::ShapeMismatch, std::string(op) + ": type " + dtypeName(type) + " is not supported");
    }
}

}  // namespace mantissa::kernels::cuda
