// FP8 codes of the Open Compute Project (OFP8 revision 1.0): E4M3 (4 exponent bits, bias 7, no infinity) and E5M2 (bias
// 15).
//
// encode: round to nearest even, then saturate to the largest finite value; Inf saturates, every NaN gives 0x7F; signed
// zero is kept. These are the bytes of cvt.rn.satfinite and of the CUDA toolkit's host conversions
// (tests/data/formats).
#pragma once

#include <cstdint>

#include "kernels/dtype.h"
#include "kernels/formats/float_bits.h"

namespace mantissa::kernels {

/// Constants of an FP8 format, all FP32 bit patterns of positive numbers unless said.
struct Fp8Traits {
    int mantissaBits;
    int bias;
    uint8_t maxCode;          ///< largest finite code: 0x7E (448), 0x7B (57344)
    uint32_t maxFinite;       ///< 448, 57344
    uint32_t minNormal;       ///< 2^-6, 2^-14
    uint32_t minSubnormal;    ///< 2^-9, 2^-16
    uint32_t lastNotClipped;  ///< largest value that rounds to maxFinite or below: 464 (a tie, 448 is even); just below
                              ///< 61440
    uint32_t lastInRange;     ///< next float after maxFinite: up to here the rounding of the scale alone can bring amax
    uint8_t subnormalCodes;   ///< codes 1 ... this are subnormal: 7, 3
};

// Made by functions: device code may use the value of a constexpr object, but must not bind a reference to it.
MANTISSA_ALWAYS_INLINE constexpr Fp8Traits e4m3Traits() {
    return {3, 7, 0x7E, 0x43E00000u, 0x3C800000u, 0x3B000000u, 0x43E80000u, 0x43E00001u, 7};
}
MANTISSA_ALWAYS_INLINE constexpr Fp8Traits e5m2Traits() {
    return {2, 15, 0x7B, 0x47600000u, 0x38800000u, 0x37800000u, 0x476FFFFFu, 0x47600001u, 3};
}
/// E2M1 by the same rules, its codes with the sign at bit 7: 6 is the largest, 7 ties to 8 and is clipped.
MANTISSA_ALWAYS_INLINE constexpr Fp8Traits e2m1Traits() {
    return {1, 1, 0x07, 0x40C00000u, 0x3F800000u, 0x3F000000u, 0x40DFFFFFu, 0x40C00001u, 1};
}

inline constexpr Fp8Traits kE4m3 = e4m3Traits(), kE5m2 = e5m2Traits();  ///< for the host

MANTISSA_ALWAYS_INLINE constexpr Fp8Traits fp8Traits(DType format) {
    if (format == DType::E2M1) return e2m1Traits();
    return format == DType::E5M2 ? e5m2Traits() : e4m3Traits();
}

/// Adding 2^(e + 23 - mantissaBits) rounds a value of exponent e (at least the smallest normal's) to the format's
/// spacing in one FP32 addition; what the sum's last bits hold is then the mantissa with its hidden bit.
MANTISSA_ALWAYS_INLINE constexpr uint8_t encodeFp8(float value, const Fp8Traits& format) {
    const uint32_t bits = floatBits(value);
    uint32_t abs = bits & kFloatAbs;
    if (abs > kFloatInf) return 0x7F;
    if (abs > format.maxFinite) abs = format.maxFinite;
    uint32_t exponent = abs & kFloatInf;
    if (exponent < format.minNormal) exponent = format.minNormal;
    const uint32_t magic = exponent + (static_cast<uint32_t>(23 - format.mantissaBits) << 23);
    const uint32_t mantissa = floatBits(floatFromBits(abs) + floatFromBits(magic)) - magic;
    const uint32_t code = mantissa + ((exponent - format.minNormal) >> (23 - format.mantissaBits));
    return static_cast<uint8_t>(code | ((bits >> 24) & 0x80u));
}

/// Stochastic rounding: away from zero with probability (distance to the code below) / (spacing); unbiased within the
/// finite range, saturated above it. `random`: 32 uniform bits. Zeros, Inf and NaN as encodeFp8.
MANTISSA_ALWAYS_INLINE constexpr uint8_t encodeFp8Stochastic(float value, const Fp8Traits& format, uint32_t random) {
    const uint32_t bits = floatBits(value);
    const uint32_t abs = bits & kFloatAbs;
    if (abs >= kFloatInf || abs == 0) return encodeFp8(value, format);
    const uint32_t sign = (bits >> 24) & 0x80u;
    const int dropped = 23 - format.mantissaBits;
    const int field = static_cast<int>(abs >> 23);
    const int minField = static_cast<int>(format.minNormal >> 23);
    uint64_t code = 0;
    if (field >= minField) {
        code = ((abs + (random >> (32 - dropped))) >> dropped) -
               ((format.minNormal >> 23) - 1u) * (1u << format.mantissaBits);
    } else {
        uint64_t mantissa = (abs & 0x7FFFFFu) | (field ? 0x800000u : 0u);
        int shift = dropped + minField - (field ? field : 1);
        if (shift > 32) {
            mantissa = shift - 32 > 63 ? 0 : mantissa >> (shift - 32);
            shift = 32;
        }
        code = (mantissa + (static_cast<uint64_t>(random) >> (32 - shift))) >> shift;
    }
    if (code > format.maxCode) code = format.maxCode;
    return static_cast<uint8_t>(code | sign);
}

/// Exact: every code is an FP32 (and a BF16) number. NaN codes give a NaN of the code's sign; E5M2 0x7C is infinity.
MANTISSA_ALWAYS_INLINE constexpr float decodeFp8(uint8_t code, const Fp8Traits& format) {
    const uint32_t sign = static_cast<uint32_t>(code & 0x80u) << 24;
    const uint32_t magnitude = code & 0x7Fu;
    const int dropped = 23 - format.mantissaBits;
    if (magnitude > format.maxCode) {
        if (format.mantissaBits == 2 && magnitude == 0x7C) return floatFromBits(sign | kFloatInf);
        return floatFromBits(sign | kFloatNan);
    }
    if (magnitude <= format.subnormalCodes)
        return floatFromBits(sign | floatBits(static_cast<float>(magnitude) * floatFromBits(format.minSubnormal)));
    return floatFromBits(sign | ((magnitude << dropped) + format.minNormal - (1u << 23)));
}

MANTISSA_ALWAYS_INLINE constexpr uint8_t encodeE4m3(float value) {
    return encodeFp8(value, e4m3Traits());
}
MANTISSA_ALWAYS_INLINE constexpr uint8_t encodeE5m2(float value) {
    return encodeFp8(value, e5m2Traits());
}
MANTISSA_ALWAYS_INLINE constexpr float decodeE4m3(uint8_t code) {
    return decodeFp8(code, e4m3Traits());
}
MANTISSA_ALWAYS_INLINE constexpr float decodeE5m2(uint8_t code) {
    return decodeFp8(code, e5m2Traits());
}
MANTISSA_ALWAYS_INLINE constexpr uint8_t encodeFp8(float value, DType format) {
    return encodeFp8(value, fp8Traits(format));
}
MANTISSA_ALWAYS_INLINE constexpr float decodeFp8(uint8_t code, DType format) {
    return decodeFp8(code, fp8Traits(format));
}
/// Largest finite value as a number.
MANTISSA_ALWAYS_INLINE constexpr float maxFinite(DType format) {
    return floatFromBits(fp8Traits(format).maxFinite);
}

}  // namespace mantissa::kernels
