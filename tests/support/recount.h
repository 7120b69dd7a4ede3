// What the counters of a cast have to say, counted from BF16 values by their definitions.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/dtype.h"

namespace mantissa::test {

using Counters = std::array<uint64_t, 8>;  // elements, zeros, underflow, subnormal, over_range, clipped, inf, nan

/// What the definitions in kernels/quantize/quantize.h say of one BF16 value.
inline void count(Counters& c, uint16_t bits, float scale, kernels::DType format) {
    const bool e4m3 = format == kernels::DType::E4M3;
    const float largest = e4m3 ? 448.0f : 57344.0f, minNormal = e4m3 ? 0x1p-6f : 0x1p-14f,
                minSubnormal = e4m3 ? 0x1p-9f : 0x1p-16f;
    const float value = std::abs(std::bit_cast<float>(static_cast<uint32_t>(bits) << 16));
    ++c[0];
    if (std::isnan(value)) {
        ++c[7];
        return;
    }
    const float scaled = value * scale;
    if (value == 0)
        ++c[1];
    else if (scaled <= minSubnormal / 2)
        ++c[2];
    else if (scaled < minNormal - minSubnormal / 2)
        ++c[3];
    if (scaled > std::nextafter(largest, 1e30f)) ++c[4];
    if (e4m3 ? scaled > 464.0f : scaled >= 61440.0f) ++c[5];
    if (std::isinf(value)) ++c[6];
}

}  // namespace mantissa::test
