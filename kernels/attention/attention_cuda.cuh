// Pieces of the attention kernels: matrix instructions for 16-bit types, asynchronous copies, swizzled shared-memory
// tiles.
//
// Tiles are (rows, D) of 16-bit elements in shared memory. A row is D / 8 pieces of 16 bytes; piece p of row r lies at
// p ^ swizzle(r), so that the eight rows an ldmatrix reads fall into different banks.
#pragma once

#include <cstdint>

#include "kernels/attention/attention.h"
#include "kernels/device/cuda/cuda_check.h"
#include "kernels/device/cuda/cuda_launch.h"
#include "kernels/device/cuda/vector.cuh"

namespace mantissa::kernels::cuda {

constexpr float kLog2E = 1.4426950408889634f;

/// Strides and pointers of one attention op; rows of qkv are 3 C elements, those of out C.
template <class T>
struct AttentionTensors {
    const T* qkv;
    const T* dOut;
    T* out;
    T* dQkv;
    float* lse;
    float* delta;  ///< (batch, heads, T): sum over the head's columns of dOut * out
    int context, heads;
    float scale;  ///< 1 / sqrt(D)
};

__device__ __forceinline__ uint32_t sharedAddress(const void* pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

/// 16 bytes from global to shared memory; zeros when !there.
__device__ __forceinline__ void copyAsync16(uint32_t to, const void* from, bool there) {
    const int size = there ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(size));
}
__device__ __forceinline__ void commitCopies() {
    asm volatile("cp.async.commit_group;");
}
template <int kPending>
__device__ __forceinline__ void waitCopies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending));
}

__device__ __forceinline__ void loadMatrix4(uint32_t (&r)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
}
__device__ __forceinline__ void loadMatrix4Transposed(uint32_t (&r)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
}

/// c (16 x 8, F32) += a (16 x 16) b (16 x 8).
template <class T>
__device__ __forceinline__ void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    if constexpr (std::is_same_v<T, Bf16>) {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    } else {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
}

template <class T>
__device__ __forceinline__ uint32_t packPair(float low, float high) {
    if constexpr (std::is_same_v<T, Bf16>) {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
        return *reinterpret_cast<const uint32_t*>(&pair);
    } else {
        const __half2 pair = __floats2half2_rn(low, high);
        return *reinterpret_cast<const uint32_t*>(&pair);
    }
}

/// A (rows, D) tile in shared memory.
template <int D>
struct Tile {
    static constexpr int kPieces = D / 8;
    static __device__ __forceinline__ int swizzle(int row) { return D == 32 ? (row >> 1) & 3 : row & 7; }
    static __device__ __forceinline__ uint32_t at(uint32_t base, int row, int piece) {
        return base + static_cast<uint32_t>((row * kPieces + (piece ^ swizzle(row))) * 16);
    }
    /// The 16 x 16 block at (row0, piece0) as operand A, or, for row-major storage (n, k), as B of two n-tiles.
    static __device__ __forceinline__ uint32_t addressA(uint32_t base, int row0, int piece0, int lane) {
        return at(base, row0 + lane % 16, piece0 + lane / 16);
    }
    static __device__ __forceinline__ uint32_t addressB(uint32_t base, int row0, int piece0, int lane) {
        return at(base, row0 + lane / 16 * 8 + lane % 8, piece0 + lane / 8 % 2);
    }
    /// B from storage (k, n), to be loaded transposed: two n-tiles at piece0 and piece0 + 1.
    static __device__ __forceinline__ uint32_t addressBTransposed(uint32_t base, int row0, int piece0, int lane) {
        return at(base, row0 + lane % 16, piece0 + lane / 16);
    }
    /// Copies `rows` rows from global memory (row stride in elements); rows from `count` on become zeros.
    template <class T>
    static __device__ __forceinline__ void copy(uint32_t base, const T* from, int64_t stride, int rows, int count) {
        for (int i = threadIdx.x; i < rows * kPieces; i += blockDim.x) {
            const int row = i / kPieces, piece = i % kPieces;
            const bool there = row < count;
            copyAsync16(at(base, row, piece), from + (there ? row * stride + piece * 8 : 0), there);
        }
    }
};

// The F32 kernels (attention_f32.cu).
void attentionForwardF32(const LaunchContext& context, const AttentionForward& op);
void attentionBackwardF32(const LaunchContext& context, const AttentionBackward& op, float* delta);

/// delta (batch, heads, T) of any type; used by every backward.
void attentionDelta(const LaunchContext& context, const AttentionBackward& op, float* delta);

}  // namespace mantissa::kernels::cuda
