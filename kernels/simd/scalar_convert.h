// Scalar loads and stores of the element types, for reference versions and tails. Exact; bfloat16 and half round to
// nearest even.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/dtype.h"

namespace mantissa::kernels {

inline float bitsToFloat(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

inline uint32_t floatToBits(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

/// Drops the 13 low bits of the fraction (TF32 keeps 10); Inf and NaN stay what they are.
inline float cutToTf32(float value) {
    return std::isnan(value) ? value : bitsToFloat(floatToBits(value) & 0xFFFFE000u);
}

inline uint16_t floatToBf16(float value) {
    const uint32_t bits = floatToBits(value);
    if (value != value) return static_cast<uint16_t>((bits >> 16) | 0x0040u);
    return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

inline float bf16ToFloat(uint16_t bits) {
    return bitsToFloat(static_cast<uint32_t>(bits) << 16);
}

/// IEEE binary16: 1 sign, 5 exponent (bias 15), 10 fraction bits.
inline float halfToFloat(uint16_t half) {
    const uint32_t sign = (half & 0x8000u) << 16, exponent = (half >> 10) & 31u, fraction = half & 0x3FFu;
    if (exponent == 31) return bitsToFloat(sign | 0x7F800000u | (fraction << 13));
    if (exponent == 0) return bitsToFloat(sign | floatToBits(static_cast<float>(fraction) * 0x1p-24f));
    return bitsToFloat(sign | ((exponent + 112) << 23) | (fraction << 13));
}

inline uint16_t floatToHalf(float value) {
    const uint32_t bits = floatToBits(value), sign = (bits >> 16) & 0x8000u;
    const float magnitude = std::fabs(value);
    if (value != value) return static_cast<uint16_t>(sign | 0x7E00u);
    if (magnitude >= 65520.0f) return static_cast<uint16_t>(sign | 0x7C00u);
    if (magnitude < 0x1p-14f)
        return static_cast<uint16_t>(sign | static_cast<uint32_t>(std::nearbyint(magnitude * 0x1p24f)));
    const uint32_t m = bits & 0x7FFFFFFFu;
    return static_cast<uint16_t>(sign | ((m + 0xFFFu + ((m >> 13) & 1u) - (112u << 23)) >> 13));
}

/// E5M2 is the upper byte of a binary16 (OFP8 rev 1.0).
inline float e5m2ToFloat(uint8_t code) {
    return halfToFloat(static_cast<uint16_t>(code << 8));
}

/// E4M3: bias 7, no infinity, 0x7F and 0xFF are NaN (OFP8 rev 1.0).
inline float e4m3ToFloat(uint8_t code) {
    const uint32_t sign = (code & 0x80u) << 24, exponent = (code >> 3) & 15u, fraction = code & 7u;
    if ((code & 0x7F) == 0x7F) return bitsToFloat(sign | 0x7FC00000u);
    if (exponent == 0) return bitsToFloat(sign | floatToBits(static_cast<float>(fraction) * 0x1p-9f));
    return bitsToFloat(sign | ((exponent + 120) << 23) | (fraction << 20));
}

inline float loadScalar(const void* data, DType type, int64_t index) {
    switch (type) {
        case DType::F32:
            return static_cast<const float*>(data)[index];
        case DType::BF16:
            return bf16ToFloat(static_cast<const uint16_t*>(data)[index]);
        case DType::F16:
            return halfToFloat(static_cast<const uint16_t*>(data)[index]);
        case DType::E4M3:
            return e4m3ToFloat(static_cast<const uint8_t*>(data)[index]);
        case DType::E5M2:
            return e5m2ToFloat(static_cast<const uint8_t*>(data)[index]);
        default:
            return 0;
    }
}

/// F32, BF16 and F16 only.
inline void storeScalar(void* data, DType type, int64_t index, float value) {
    if (type == DType::F32) static_cast<float*>(data)[index] = value;
    if (type == DType::BF16) static_cast<uint16_t*>(data)[index] = floatToBf16(value);
    if (type == DType::F16) static_cast<uint16_t*>(data)[index] = floatToHalf(value);
}

}  // namespace mantissa::kernels
