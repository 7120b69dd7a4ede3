// Normal deviates from integers: a table of the inverse of the normal tail, the same on every device and in every
// compiler.
//
// A 64-bit number gives a sign (bit 63) and a tail probability p = (2 r + 1) / 2^64 from its low 63 bits r, p in (0,
// 1). Octave e holds p in (2^-(e+1), 2^-e], cut into kNormalSegments equal pieces. The table holds z with P(|N(0,1)| >
// z) = p at the ends of the pieces, in units of 2^-32; between them z is interpolated in 64-bit integers. p below
// 2^-kNormalOctaves (z = 6.3, one number in 4 billion) counts as 2^-kNormalOctaves. Error of z: below 1e-4, from the
// chords.
#pragma once

#include <cstdint>

#include "kernels/formats/float_bits.h"
#include "kernels/simd/philox.h"

namespace mantissa::kernels {

inline constexpr int kNormalOctaves = 32;
inline constexpr int kNormalSegments = 64;
inline constexpr int kNormalTableSize = kNormalOctaves * kNormalSegments + 1;

/// Entry e * kNormalSegments + j: z at p = 2^-e (1 - j / (2 kNormalSegments)), rising from z = 0 at entry 0.
/// kNormalTableSize entries. Made on first use from additions, products, quotients and rounding of doubles alone, which
/// IEEE 754 fixes to the bit. Thread: any.
const int64_t* normalTable();

/// The deviate of 64 random bits, in units of 2^-32.
MANTISSA_ALWAYS_INLINE constexpr int64_t normalDeviate(const int64_t* table, uint64_t random) {
    const uint64_t p = ((random & 0x7FFFFFFFFFFFFFFFull) << 1) | 1u;  // p * 2^64, odd: never 0
    int octave = 0;
    uint64_t top = p;
    while (octave < kNormalOctaves && !(top >> 63)) {
        top <<= 1;
        ++octave;
    }
    int64_t z = table[kNormalTableSize - 1];
    if (octave < kNormalOctaves) {
        const uint64_t below = 0 - top;  // 2^64 - top in (0, 2^63): distance from the octave's upper end
        const uint64_t segment = below >> 57;
        const int64_t fraction = static_cast<int64_t>((below >> 41) & 0xFFFFu);
        const int64_t* entry = table + octave * kNormalSegments + segment;
        z = entry[0] + (((entry[1] - entry[0]) * fraction) >> 16);
    }
    return random >> 63 ? -z : z;
}

/// N(0, std) of 64 random bits: one product in double, one rounding to float.
MANTISSA_ALWAYS_INLINE constexpr float normalValue(const int64_t* table, uint64_t random, float std) {
    return static_cast<float>(static_cast<double>(normalDeviate(table, random)) * (0x1p-32 * static_cast<double>(std)));
}

/// Element i of a tensor of N(0, std): elements 2j and 2j + 1 take the low and the high two words of block j of stream
/// (seed, stream).
MANTISSA_ALWAYS_INLINE constexpr float normalElement(const int64_t* table, uint64_t seed, uint64_t stream, int64_t i,
                                                     float std) {
    const Philox4 random = philoxBlock(seed, static_cast<uint64_t>(i) / 2, stream);
    const int word = 2 * static_cast<int>(i % 2);
    return normalValue(table, random.value[word] | static_cast<uint64_t>(random.value[word + 1]) << 32, std);
}

}  // namespace mantissa::kernels
