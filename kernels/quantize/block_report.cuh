// What a thread block of a block cast adds to its tensor's slot.
#pragma once

#include <cstdint>

namespace mantissa::kernels::cuda {

__device__ __forceinline__ void addCount(uint64_t& counter, uint64_t value) {
    if (value) atomicAdd(reinterpret_cast<unsigned long long*>(&counter), static_cast<unsigned long long>(value));
}

/// The smaller of the slot's scale and this one; 0 in the slot means none yet.
__device__ inline void mergeScale(float* slot, uint32_t bits) {
    auto* const word = reinterpret_cast<unsigned int*>(slot);
    unsigned int seen = *word;
    while (seen == 0 || bits < seen) {
        const unsigned int before = atomicCAS(word, seen, bits);
        if (before == seen) break;
        seen = before;
    }
}

}  // namespace mantissa::kernels::cuda
