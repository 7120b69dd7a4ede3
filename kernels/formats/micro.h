// Formats of the microscaling recipes (OCP MX v1.0): E8M0 scales and E2M1 elements.
#pragma once

#include <cstdint>

#include "kernels/formats/float_bits.h"

namespace mantissa::kernels {

/// E8M0: a power of two, code = exponent + 127, 0xFF = NaN, no sign and no zero. Rounds towards zero or up; saturates
/// to 0xFE; 0 and everything down to 2^-128 give 0x00 (2^-127). Source: the CUDA toolkit's cuda_fp8.h.
MANTISSA_ALWAYS_INLINE constexpr uint8_t encodeE8m0(float value, bool roundUp) {
    const uint32_t abs = floatBits(value) & kFloatAbs;
    if (abs > kFloatInf) return 0xFF;
    const uint32_t exponent = abs >> 23;
    const uint32_t fraction = abs & 0x7FFFFFu;
    if (exponent >= 254) return 0xFE;
    if (!roundUp) return static_cast<uint8_t>(exponent);
    if (exponent == 0) return fraction > 0x400000u ? 1 : 0;  // 0x00400000 is 2^-127
    return static_cast<uint8_t>(exponent + (fraction ? 1u : 0u));
}

MANTISSA_ALWAYS_INLINE constexpr float decodeE8m0(uint8_t code) {
    if (code == 0xFF) return floatFromBits(kFloatNan);
    return floatFromBits(code ? static_cast<uint32_t>(code) << 23 : 0x00400000u);
}

/// E2M1: +-{0, 0.5, 1, 1.5, 2, 3, 4, 6}. Nearest even, saturating; NaN becomes 0x7 (+6), as the hardware and the
/// toolkit do.
MANTISSA_ALWAYS_INLINE constexpr uint8_t encodeE2m1(float value) {
    const uint32_t bits = floatBits(value);
    if ((bits & kFloatAbs) > kFloatInf) return 0x7;
    const float abs = floatFromBits(bits & kFloatAbs);
    uint8_t code = 0;
    if (abs > 5.0f)
        code = 7;
    else if (abs >= 3.5f)
        code = 6;
    else if (abs > 2.5f)
        code = 5;
    else if (abs >= 1.75f)
        code = 4;
    else if (abs > 1.25f)
        code = 3;
    else if (abs >= 0.75f)
        code = 2;
    else if (abs > 0.25f)
        code = 1;
    return static_cast<uint8_t>(code | ((bits >> 28) & 8u));
}

MANTISSA_ALWAYS_INLINE constexpr float decodeE2m1(uint8_t code) {
    constexpr float kValues[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    const float value = kValues[code & 7];
    return (code & 8) ? -value : value;
}

}  // namespace mantissa::kernels
