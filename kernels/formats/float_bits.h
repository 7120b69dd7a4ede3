// Bit patterns of FP32 numbers, and the inlining that code shared by several instruction sets needs.
#pragma once

#include <cstdint>

/// Functions of this folder are used by files compiled for several instruction sets. Always inlined, they leave no
/// symbol behind, so the linker can never take a copy built for a newer chip for the baseline.
#define MANTISSA_ALWAYS_INLINE [[gnu::always_inline]] inline

namespace mantissa::kernels {

inline constexpr uint32_t kFloatSign = 0x80000000u;
inline constexpr uint32_t kFloatAbs = 0x7FFFFFFFu;
inline constexpr uint32_t kFloatInf = 0x7F800000u;
inline constexpr uint32_t kFloatNan = 0x7FFFFFFFu;
inline constexpr uint32_t kFloatMaxFinite = 0x7F7FFFFFu;

MANTISSA_ALWAYS_INLINE constexpr uint32_t floatBits(float value) {
    return __builtin_bit_cast(uint32_t, value);
}
MANTISSA_ALWAYS_INLINE constexpr float floatFromBits(uint32_t bits) {
    return __builtin_bit_cast(float, bits);
}

}  // namespace mantissa::kernels
