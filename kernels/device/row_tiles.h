// How ops over rows are cut: tiles of 64 rows, and inside a tile spans of whole rows that are cast while they lie in
// L1. Both depend on the shape alone, so sums that are kept per tile or span have one order on any machine and any
// thread count.
#pragma once

#include <cstdint>

#include "kernels/formats/float_bits.h"
#include "kernels/quantize/span_stats.h"

namespace mantissa::kernels {

inline constexpr int64_t kTileRows = 64;
inline constexpr int64_t kSpanElements = 4096;

MANTISSA_ALWAYS_INLINE constexpr int64_t rowTiles(int64_t rows) {
    return (rows + kTileRows - 1) / kTileRows;
}

/// Rows of a span: the largest power of two with at most kSpanElements elements, in [1, kTileRows].
MANTISSA_ALWAYS_INLINE constexpr int64_t spanRows(int64_t cols) {
    int64_t rows = 1;
    while (2 * rows <= kTileRows && 2 * rows * cols <= kSpanElements) rows *= 2;
    return rows;
}

/// The cast that ends a fused op, for one tile.
struct TileCast {
    const CastParams* params = nullptr;  ///< nullptr: no cast
    uint8_t* codes = nullptr;            ///< of the whole tensor; nullptr: statistics alone
    SpanStats* stats = nullptr;          ///< of this tile
    void* scratch = nullptr;             ///< two rows of spanRows(cols) * cols floats, of this worker
};

}  // namespace mantissa::kernels
