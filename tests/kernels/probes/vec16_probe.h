// Functions of kernels/simd/{vec16,math16}.h over arrays, compiled once per instruction set, so that a test can reach
// them.
#pragma once

#include <cstdint>

#include "kernels/simd/dispatch.h"

namespace mantissa::kernels {

struct Vec16Probe {
    // n is a multiple of 16.
    void (*exp)(const float* in, float* out, int64_t n);
    void (*sigmoid)(const float* in, float* out, int64_t n);
    void (*toBf16)(const float* in, uint16_t* out, int64_t n);
    void (*fromBf16)(const uint16_t* in, float* out, int64_t n);
    void (*toF16)(const float* in, uint16_t* out, int64_t n);
    void (*fromF16)(const uint16_t* in, float* out, int64_t n);
    float (*sumLanes)(const float* in);
    float (*maxLanes)(const float* in);
    float (*sumRow)(const float* in, int64_t n);                     ///< any n
    void (*copyPart)(const uint16_t* in, uint16_t* out, int64_t n);  ///< n in 0 ... 16, BF16
};

MANTISSA_DECLARE_ISA_TABLE(Vec16Probe, vec16Probe)

}  // namespace mantissa::kernels
