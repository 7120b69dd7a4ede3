// Casts with a scale for each block: the op of the block recipes, and the plain host version that tests, the tensor
// bench and block scale maps use.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/quantize/block_scale.h"
#include "kernels/quantize/quantize.h"
#include "kernels/scaling/scaling.h"

namespace mantissa::kernels {

/// FP8 codes of a copy with a scaleInv for each block, in the order of block_layout.h for the matrix as it is stored.
struct BlockCodes {
    uint8_t* codes = nullptr;  ///< nullptr: none
    float* scaleInv = nullptr;
};

/// Quantizes a tensor block by block and writes the exact values of the codes, so that a BF16 product multiplies what
/// FP8 (or FP4) products would. in: (rows, cols) BF16, or F32 (rounded to BF16 first unless told otherwise), row-major,
/// dense.
///
/// The row copy has blocks of blockRows x blockCols, the column copy of blockCols x blockRows; each is quantized from
/// the input by itself. Blocks at the edges are smaller. Values are BF16, (rows, cols) row-major in both copies:
/// decode(code) * scaleInv of the block, which BF16 holds exactly for power-of-two scales and for E2M1 x E4M3. Nvfp4:
/// the tensor's own scale is apart, in the entries, and goes into the product. Block128 can write the codes themselves
/// with their scales, instead of values or beside them: the row copy's as (rows, cols), the column copy's the other way
/// round, (cols, rows), so that a block goes along a row of the storage in both. Scales that are no powers of two are
/// for such codes alone: BF16 would not hold their values. Counters are those of the row copy, or of the column copy
/// where that is the only one. slot->scaleUsed becomes the smallest block scale. Exact on every backend.
struct BlockQuantize {
    int64_t rows = 0, cols = 0;
    DType inType = DType::BF16;
    const void* in = nullptr;
    bool roundToBf16 = true;               ///< F32 input; false: not Nvfp4
    BlockKind kind = BlockKind::Block128;  ///< scales are powers of two (block128, mxfp8) or E4M3 (nvfp4)
    DType format = DType::E4M3;
    bool powerOfTwo = true;              ///< Block128: scales; false: M / amax as it is
    float epsilon = 0;                   ///< Block128: least amax
    float largestScale = kLargestBf16;   ///< Block128: instead of an infinite scale
    int blockRows = 1, blockCols = 128;  ///< of the row copy; 1 x B or B x B, B = 16, 32 or 128
    void* rowValues = nullptr;           ///< nullptr: no such copy
    void* colValues = nullptr;
    BlockCodes rowCodes, colCodes;
    ScaleEntry* rowEntry = nullptr;  ///< Nvfp4: scale and scaleInv of the tensor are written here
    ScaleEntry* colEntry = nullptr;
    bool hadamard =
        false;  ///< the column copy is turned by hadamard16 along whole groups of 16 rows, then rounded to BF16
    bool stochastic = false;  ///< Philox(seed; element index of the row copy; seed + 1 for the column copy)
    uint64_t seed = 0;
    TensorSlot* slot = nullptr;
    bool count = true, dear = false, exponents = false;

    constexpr bool hasRow() const { return rowValues || rowCodes.codes; }
    constexpr bool hasColumn() const { return colValues || colCodes.codes; }
    constexpr BlockRule rule() const { return {kind, format, powerOfTwo, epsilon, largestScale}; }
};
/// Throws ShapeMismatch unless the op keeps to the contract above.
void checkBlockQuantize(const BlockQuantize& op);

/// One copy of a tensor, cast in plain loops.
struct BlockCast {
    int64_t blocksDown = 0, blocksAcross = 0;
    std::vector<BlockScale> scales;  ///< (blocksDown, blocksAcross)
    std::vector<float> amax;         ///< likewise; NaN skipped
    std::vector<uint8_t> codes;      ///< (rows, cols); E2M1 with its sign at bit 7
    std::vector<float> values;       ///< (rows, cols) decode(code) * scaleInv of the block
    float tensorScale = 1;           ///< Nvfp4
};
/// values: (rows, cols). Round to nearest even.
BlockCast castBlocks(const BlockRule& rule, const float* values, int64_t rows, int64_t cols, int64_t blockRows,
                     int64_t blockCols);
/// Turns whole groups of 16 rows of each column by hadamard16 and rounds them to BF16.
void turnColumns(float* values, int64_t rows, int64_t cols);

}  // namespace mantissa::kernels
