// Philox4x32-10, a counter-based random generator: the same (key, counter) gives the same four numbers on every device
// and thread. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011; known answers in
// tests/kernels/philox_test.cpp.
#pragma once

#include <cstdint>

#include "kernels/formats/float_bits.h"

namespace mantissa::kernels {

struct Philox4 {
    uint32_t value[4];
};

/// Ten rounds. counter: 128 bits as four words, low word first; key: 64 bits.
MANTISSA_ALWAYS_INLINE constexpr Philox4 philox4x32(Philox4 counter, uint64_t key) {
    uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
    uint32_t c0 = counter.value[0], c1 = counter.value[1], c2 = counter.value[2], c3 = counter.value[3];
    for (int round = 0; round < 10; ++round) {
        const uint64_t p0 = static_cast<uint64_t>(0xD2511F53u) * c0;
        const uint64_t p1 = static_cast<uint64_t>(0xCD9E8D57u) * c2;
        c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
        c1 = static_cast<uint32_t>(p1);
        c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
        c3 = static_cast<uint32_t>(p0);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return {{c0, c1, c2, c3}};
}

/// Four numbers of stream (seed, stream) at position `block`; element i of a tensor uses word i % 4 of block i / 4.
MANTISSA_ALWAYS_INLINE constexpr Philox4 philoxBlock(uint64_t seed, uint64_t block, uint64_t stream) {
    return philox4x32({{static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), static_cast<uint32_t>(stream),
                        static_cast<uint32_t>(stream >> 32)}},
                      seed);
}

}  // namespace mantissa::kernels
