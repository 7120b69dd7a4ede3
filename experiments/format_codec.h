// The codecs of kernels/formats behind one switch; inside experiments/ only.
#pragma once

#include <cstdint>

#include "experiments/format_info.h"

namespace mantissa::experiments {

/// Nearest even (E8M0: up when roundUp, else towards zero).
uint32_t encodeAs(NumberFormat format, float value, bool roundUp = false);
float decodeAs(NumberFormat format, uint32_t code);
/// Largest finite magnitude code: 0x7E, 0x7B, 7, 0xFE, 0x7F7F, 0x7BFF.
uint32_t largestCode(NumberFormat format);
/// Smallest magnitude that rounds above the largest finite value.
float clipThreshold(NumberFormat format);

}  // namespace mantissa::experiments
