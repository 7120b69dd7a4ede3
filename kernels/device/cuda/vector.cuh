// Element types on the device: conversions and loads of eight neighbours at a time.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <string>

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

/// value[0..8) = from[0..valid), the rest 0. aligned: `from` is 16-byte aligned and valid == 8.
template <class T>
__device__ __forceinline__ void load8(const T* from, int valid, bool aligned, float (&value)[kLane]) {
    if (aligned) {
        if constexpr (sizeof(T) == 4) {
            const float4 low = reinterpret_cast<const float4*>(from)[0],
                         high = reinterpret_cast<const float4*>(from)[1];
            value[0] = low.x, value[1] = low.y, value[2] = low.z, value[3] = low.w;
            value[4] = high.x, value[5] = high.y, value[6] = high.z, value[7] = high.w;
        } else {
            const uint4 bits = *reinterpret_cast<const uint4*>(from);
            const T* elements = reinterpret_cast<const T*>(&bits);
#pragma unroll
            for (int i = 0; i < kLane; ++i) value[i] = toFloat(elements[i]);
        }
    } else {
#pragma unroll
        for (int i = 0; i < kLane; ++i) value[i] = i < valid ? toFloat(from[i]) : 0.0f;
    }
}

template <class T>
__device__ __forceinline__ void store8(T* to, int valid, bool aligned, const float (&value)[kLane]) {
    if (aligned) {
        if constexpr (sizeof(T) == 4) {
            reinterpret_cast<float4*>(to)[0] = make_float4(value[0], value[1], value[2], value[3]);
            reinterpret_cast<float4*>(to)[1] = make_float4(value[4], value[5], value[6], value[7]);
        } else {
            uint4 bits;
            T* elements = reinterpret_cast<T*>(&bits);
#pragma unroll
            for (int i = 0; i < kLane; ++i) elements[i] = fromFloat<T>(value[i]);
            *reinterpret_cast<uint4*>(to) = bits;
        }
    } else {
#pragma unroll
        for (int i = 0; i < kLane; ++i) {
            if (i < valid) to[i] = fromFloat<T>(value[i]);
        }
    }
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
