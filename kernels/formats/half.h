// BF16 and FP16: the two 16-bit formats. Round to nearest even; overflow gives infinity, as IEEE 754 asks; NaN stays a
// quiet NaN.
#pragma once

#include <cstdint>

#include "kernels/formats/float_bits.h"

namespace mantissa::kernels {

/// FLT_MAX becomes infinity (0x7F80), which is the correct rounding. Subnormals are kept.
MANTISSA_ALWAYS_INLINE constexpr uint16_t encodeBf16(float value) {
    const uint32_t bits = floatBits(value);
    if ((bits & kFloatAbs) > kFloatInf) return static_cast<uint16_t>((bits >> 16) | 0x40u);
    return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

MANTISSA_ALWAYS_INLINE constexpr float decodeBf16(uint16_t code) {
    return floatFromBits(static_cast<uint32_t>(code) << 16);
}

/// The value that a BF16 store would leave.
MANTISSA_ALWAYS_INLINE constexpr float roundToBf16(float value) {
    return decodeBf16(encodeBf16(value));
}

/// Stochastic rounding: up with probability (dropped bits) / 2^16. `random`: 32 uniform bits. Finite values may become
/// infinity only where nearest rounding could; Inf and NaN as encodeBf16.
MANTISSA_ALWAYS_INLINE constexpr uint16_t encodeBf16Stochastic(float value, uint32_t random) {
    const uint32_t bits = floatBits(value);
    if ((bits & kFloatAbs) >= kFloatInf) return encodeBf16(value);
    return static_cast<uint16_t>((bits + (random >> 16)) >> 16);
}

MANTISSA_ALWAYS_INLINE constexpr uint16_t encodeFp16(float value) {
    const uint32_t bits = floatBits(value);
    const uint32_t abs = bits & kFloatAbs;
    const uint32_t sign = (bits >> 16) & 0x8000u;
    if (abs > kFloatInf) return static_cast<uint16_t>(sign | 0x7E00u);
    if (abs >= 0x47800000u)
        return static_cast<uint16_t>(sign | 0x7C00u);  // 65536 and above; 65520..65535 carry into it below
    if (abs < 0x38800000u) {                           // below 2^-14: adding 2^-1 rounds to multiples of 2^-24
        const float sum = floatFromBits(abs) + 0.5f;
        return static_cast<uint16_t>(sign | (floatBits(sum) - 0x3F000000u));
    }
    const uint32_t rounded = abs + 0xFFFu + ((abs >> 13) & 1u);
    return static_cast<uint16_t>(sign | ((rounded >> 13) - (112u << 10)));
}

MANTISSA_ALWAYS_INLINE constexpr float decodeFp16(uint16_t code) {
    const uint32_t sign = static_cast<uint32_t>(code & 0x8000u) << 16;
    const uint32_t exponent = (code >> 10) & 31u;
    const uint32_t fraction = code & 0x3FFu;
    if (exponent == 31) return floatFromBits(sign | kFloatInf | (fraction << 13));
    if (exponent != 0) return floatFromBits(sign | ((exponent + 112u) << 23) | (fraction << 13));
    return floatFromBits(sign | floatBits(static_cast<float>(fraction) * 0x1p-24f));
}

}  // namespace mantissa::kernels
