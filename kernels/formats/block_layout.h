// Where the scales of FP8 codes in blocks of 128 lie, so that a product can read them beside the codes: cuBLASLt's
// VEC128 and BLK128x128 orders (cuBLAS 13 documentation, 3.1.4.4), which are also those of Transformer Engine.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/formats/float_bits.h"

namespace mantissa::kernels {

inline constexpr int64_t kBlockEdge = 128;

MANTISSA_ALWAYS_INLINE constexpr int64_t blocksAlong(int64_t n) {
    return (n + kBlockEdge - 1) / kBlockEdge;
}

/// Square blocks: floats from one row of blocks to the next, for a matrix of `cols` columns.
MANTISSA_ALWAYS_INLINE constexpr int64_t squareScaleStride(int64_t cols) {
    return (blocksAlong(cols) + 3) / 4 * 4;
}

/// Floats that the scales of a (rows, cols) matrix take. square: blocks of 128 x 128, else of 1 x 128.
MANTISSA_ALWAYS_INLINE constexpr int64_t blockScaleCount(int64_t rows, int64_t cols, bool square) {
    return square ? blocksAlong(rows) * squareScaleStride(cols) : blocksAlong(cols) * rows;
}

/// Place of the scale of element (row, col).
MANTISSA_ALWAYS_INLINE constexpr int64_t blockScaleIndex(int64_t rows, int64_t cols, bool square, int64_t row,
                                                         int64_t col) {
    return square ? row / kBlockEdge * squareScaleStride(cols) + col / kBlockEdge : col / kBlockEdge * rows + row;
}

/// Codes and scales in one piece of memory: where the scales begin, and its size.
MANTISSA_ALWAYS_INLINE constexpr size_t blockScaleOffset(int64_t rows, int64_t cols) {
    return (static_cast<size_t>(rows * cols) + 255) / 256 * 256;
}
MANTISSA_ALWAYS_INLINE constexpr size_t blockCodeBytes(int64_t rows, int64_t cols, bool square) {
    return blockScaleOffset(rows, cols) + static_cast<size_t>(blockScaleCount(rows, cols, square)) * sizeof(float);
}

}  // namespace mantissa::kernels
