// The cast at the end of a span of rows. Only for files compiled by mantissa_isa_sources.
#pragma once

#include "kernels/device/row_tiles.h"
#include "kernels/quantize/cast_span.h"
#include "kernels/simd/vec16.h"

namespace mantissa::kernels::MANTISSA_ISA {

/// values: n elements of the tensor from row-major index `first` on, as the op stored them (F32: rounded to BF16 by the
/// cast).
MANTISSA_SIMD_INLINE void castTile(const Bf16* values, int64_t n, int64_t first, const TileCast& cast) {
    castSpanBf16(reinterpret_cast<const uint16_t*>(values), n, first, *cast.params,
                 cast.codes ? cast.codes + first : nullptr, *cast.stats);
}
MANTISSA_SIMD_INLINE void castTile(const float* values, int64_t n, int64_t first, const TileCast& cast,
                                   bool roundFirst = true) {
    castSpanF32(values, n, first, *cast.params, roundFirst, cast.codes ? cast.codes + first : nullptr, *cast.stats);
}
/// F16 tensors have no FP8 copy (the host entry refuses one).
MANTISSA_SIMD_INLINE void castTile(const F16*, int64_t, int64_t, const TileCast&) {}

}  // namespace mantissa::kernels::MANTISSA_ISA
