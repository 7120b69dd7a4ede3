// The block cast, compiled once per instruction set: plain loops over a tile of 128 x 128 that the compiler vectorises.
// The column copy works on the transposed tile, where its blocks are those of the row copy.
#include "kernels/formats/block_layout.h"
#include "kernels/formats/half.h"
#include "kernels/quantize/block_quantize_kernels.h"
#include "kernels/simd/philox.h"

namespace mantissa::kernels::MANTISSA_ISA {
namespace {

constexpr int kTile = static_cast<int>(kBlockTile);
constexpr int kLead = static_cast<int>(kBlockLead);
constexpr int kPatch = 16;  ///< side of the squares that transposes work in

/// The part of the tensor that a tile covers.
struct Area {
    int64_t row0, col0;
    int rows, cols;
};

Area areaOf(const BlockQuantize& op, int64_t tileRow, int64_t tileCol) {
    const int64_t row0 = tileRow * kBlockTile, col0 = tileCol * kBlockTile;
    const int64_t rows = op.rows - row0 < kBlockTile ? op.rows - row0 : kBlockTile;
    const int64_t cols = op.cols - col0 < kBlockTile ? op.cols - col0 : kBlockTile;
    return {row0, col0, static_cast<int>(rows), static_cast<int>(cols)};
}

void load(const BlockQuantize& op, const Area& area, float* x) {
    for (int row = 0; row < area.rows; ++row) {
        const int64_t first = (area.row0 + row) * op.cols + area.col0;
        float* to = x + row * kLead;
        if (op.inType == DType::BF16) {
            const uint16_t* from = static_cast<const uint16_t*>(op.in) + first;
            for (int i = 0; i < area.cols; ++i) to[i] = decodeBf16(from[i]);
        } else {
            const float* from = static_cast<const float*>(op.in) + first;
            if (op.roundToBf16)
                for (int i = 0; i < area.cols; ++i) to[i] = roundToBf16(from[i]);
            else
                for (int i = 0; i < area.cols; ++i) to[i] = from[i];
        }
    }
}

void transpose(const float* from, int rows, int cols, float* to) {
    for (int row0 = 0; row0 < rows; row0 += kPatch)
        for (int col0 = 0; col0 < cols; col0 += kPatch) {
            const int rowEnd = row0 + kPatch < rows ? row0 + kPatch : rows;
            const int colEnd = col0 + kPatch < cols ? col0 + kPatch : cols;
            for (int row = row0; row < rowEnd; ++row)
                for (int col = col0; col < colEnd; ++col) to[col * kLead + row] = from[row * kLead + col];
        }
}

/// The transposed tile back to BF16 rows.
void storeTransposed(const float* turned, const Area& area, int64_t ld, uint16_t* out) {
    for (int row0 = 0; row0 < area.rows; row0 += kPatch)
        for (int col0 = 0; col0 < area.cols; col0 += kPatch) {
            const int rowEnd = row0 + kPatch < area.rows ? row0 + kPatch : area.rows;
            const int colEnd = col0 + kPatch < area.cols ? col0 + kPatch : area.cols;
            uint16_t patch[kPatch][kPatch];
            for (int col = col0; col < colEnd; ++col)
                for (int row = row0; row < rowEnd; ++row)
                    patch[row - row0][col - col0] = encodeBf16(turned[col * kLead + row]);
            for (int row = row0; row < rowEnd; ++row)
                for (int col = col0; col < colEnd; ++col) out[row * ld + col] = patch[row - row0][col - col0];
        }
}

/// Along the rows of the transposed tile.
void turn(float* x, int lines, int length) {
    for (int line = 0; line < lines; ++line)
        for (int first = 0; first + 16 <= length; first += 16) {
            float group[16];
            float* values = x + line * kLead + first;
            for (int i = 0; i < 16; ++i) group[i] = values[i];
            hadamard16(group);
            for (int i = 0; i < 16; ++i) values[i] = roundToBf16(group[i]);
        }
}

uint32_t amaxBits(const float* x, int n) {
    uint32_t largest = 0;
    for (int i = 0; i < n; ++i) {
        uint32_t bits = floatBits(x[i]) & kFloatAbs;
        bits = bits > kFloatInf ? 0 : bits;
        largest = bits > largest ? bits : largest;
    }
    return largest;
}

/// |scaled| rounded to the format's grid with the sign of scaled; NaN stays NaN (E2M1: +6).
MANTISSA_ALWAYS_INLINE float roundedTo(float scaled, const Fp8Traits& format, bool nanIsLargest) {
    const uint32_t bits = floatBits(scaled);
    const uint32_t whole = bits & kFloatAbs;
    const uint32_t abs = whole > format.maxFinite ? format.maxFinite : whole;
    uint32_t exponent = abs & kFloatInf;
    exponent = exponent < format.minNormal ? format.minNormal : exponent;
    const float magic = floatFromBits(exponent + (static_cast<uint32_t>(23 - format.mantissaBits) << 23));
    const uint32_t rounded = floatBits((floatFromBits(abs) + magic) - magic) | (bits & ~kFloatAbs);
    const uint32_t nan = nanIsLargest ? format.maxFinite : kFloatNan;
    return floatFromBits(whole > kFloatInf ? nan : rounded);
}

float stochasticOf(float scaled, DType format, uint64_t seed, int64_t index) {
    const Philox4 random = philoxBlock(seed, static_cast<uint64_t>(index) / 4, 0);
    if (format == DType::E2M1 && (floatBits(scaled) & kFloatAbs) > kFloatInf) return 6;
    return decodeFp8(encodeFp8Stochastic(scaled, fp8Traits(format), random.value[index % 4]), format);
}

struct Counts {
    uint32_t zeros = 0, zeroValues = 0, low = 0, overRange = 0, clipped = 0, inf = 0, nan = 0;
};

/// One line of a tile. x: before the cast, scaled: times its block's scale, q: on the format's grid, scaleInv: of its
/// block; a block whose scaleInv is 0 gives zeros.
void count(const float* x, const float* scaled, const float* q, const float* scaleInv, int n, const Fp8Traits& format,
           Counts& counts) {
    uint32_t zeros = 0, zeroValues = 0, low = 0, overRange = 0, clipped = 0, inf = 0, nans = 0;
    const uint32_t minNormal = format.minNormal, lastInRange = format.lastInRange,
                   lastNotClipped = format.lastNotClipped;
    for (int i = 0; i < n; ++i) {
        const uint32_t bits = floatBits(x[i]) & kFloatAbs, magnitude = floatBits(scaled[i]) & kFloatAbs;
        const uint32_t alive = floatBits(scaleInv[i]) != 0 ? ~0u : 0u, nan = bits > kFloatInf ? ~0u : 0u;
        const uint32_t grid = floatBits(q[i]) & kFloatAbs & alive;
        zeros += bits == 0 ? 1u : 0u;
        zeroValues += (grid == 0 ? 1u : 0u) & ~nan;
        low += (grid < minNormal ? 1u : 0u) & ~nan;
        overRange += (magnitude > lastInRange ? 1u : 0u) & alive & ~nan;
        clipped += (magnitude > lastNotClipped ? 1u : 0u) & alive & ~nan;
        inf += bits == kFloatInf ? 1u : 0u;
        nans += nan & 1u;
    }
    counts.zeros += zeros;
    counts.zeroValues += zeroValues;
    counts.low += low;
    counts.overRange += overRange;
    counts.clipped += clipped;
    counts.inf += inf;
    counts.nan += nans;
}

/// step: what a unit of the grid is worth, block by block.
void countDear(const float* x, const float* q, const float* step, int n, bool exponents, SpanStats& stats) {
    for (int i = 0; i < n; ++i) {
        const uint32_t bits = floatBits(x[i]) & kFloatAbs;
        if (bits >= kFloatInf) continue;
        const double value = x[i], error = static_cast<double>(q[i] * step[i]) - value;
        stats.sumSquares += value * value;
        stats.sumSquaredError += error * error;
        stats.sumFourth += value * value * value * value;
        if (!bits) continue;
        if (!stats.minNonZeroBits || bits < stats.minNonZeroBits) stats.minNonZeroBits = bits;
        if (!exponents) continue;
        const int field = static_cast<int>(bits >> 23);
        const int exponent = field ? field - 127 : 31 - __builtin_clz(bits) - 149;
        ++stats.exponents[exponent + kExponentBias];
    }
}

/// One copy of the tile in place: x (lines, length) becomes the values of its codes. Element (line, i) has the number
/// first + line * lineStep + i * step in the tensor.
struct Copy {
    float tensorScale;
    uint64_t seed;
    int64_t first, lineStep, step;
    bool counted;
    BlockCodes codes;  ///< of the tensor as this copy is stored, (height, width); codes nullptr: none
    int64_t height = 0, width = 0;
    int64_t row = 0, col = 0;  ///< where line 0 begins in it
};

/// A line's codes and its scale; q: on the format's grid.
void storeCodes(const Copy& copy, DType format, bool square, int line, const float* q, int length, float scaleInv) {
    const int64_t row = copy.row + line;
    uint8_t* const to = copy.codes.codes + row * copy.width + copy.col;
    for (int i = 0; i < length; ++i) to[i] = encodeScaled(q[i], format);
    copy.codes.scaleInv[blockScaleIndex(copy.height, copy.width, square, row, copy.col)] = scaleInv;
    if (!square || copy.col + length < copy.width) return;
    for (int64_t i = blocksAlong(copy.width); i < squareScaleStride(copy.width); ++i)  // read by nobody, yet a number
        copy.codes.scaleInv[row / kBlockEdge * squareScaleStride(copy.width) + i] = 1;
}

/// Scales of the blocks of lines [line0, lineEnd), spread over the elements of a line.
struct LineScales {
    float scale[kTile], scaleInv[kTile], step[kTile];
};

void findScales(const BlockQuantize& op, const Copy& copy, const float* x, int line0, int lineEnd, int length,
                LineScales& scales, BlockStats& stats) {
    const BlockRule rule = op.rule();
    const float tensorInv = 1.0f / copy.tensorScale;
    for (int first = 0; first < length; first += op.blockCols) {
        const int n = length - first < op.blockCols ? length - first : op.blockCols;
        uint32_t largest = 0;
        for (int line = line0; line < lineEnd; ++line) {
            const uint32_t bits = amaxBits(x + line * kLead + first, n);
            largest = bits > largest ? bits : largest;
        }
        const BlockScale block = blockScaleOf(rule, floatFromBits(largest), copy.tensorScale);
        const float step = op.kind == BlockKind::Nvfp4 ? block.scaleInv * tensorInv : block.scaleInv;
        for (int i = first; i < first + n; ++i) {
            scales.scale[i] = block.scale;
            scales.scaleInv[i] = block.scaleInv;
            scales.step[i] = step;
        }
        if (!copy.counted) continue;
        if (stats.smallestScale == 0 || block.scale < stats.smallestScale) stats.smallestScale = block.scale;
        if (largest > stats.span.amaxBits) stats.span.amaxBits = largest;
    }
}

void castCopy(const BlockQuantize& op, const Copy& copy, float* x, int lines, int length, BlockStats& stats) {
    const Fp8Traits format = fp8Traits(op.format);
    const bool fp4 = op.format == DType::E2M1;
    float scaled[kTile], q[kTile];
    LineScales scales;
    Counts counts;
    for (int line0 = 0; line0 < lines; line0 += op.blockRows) {
        const int lineEnd = line0 + op.blockRows < lines ? line0 + op.blockRows : lines;
        findScales(op, copy, x, line0, lineEnd, length, scales, stats);
        for (int line = line0; line < lineEnd; ++line) {
            float* values = x + line * kLead;
            for (int i = 0; i < length; ++i) scaled[i] = values[i] * scales.scale[i];
            if (op.stochastic) {
                const int64_t number = copy.first + line * copy.lineStep;
                for (int i = 0; i < length; ++i)
                    q[i] = stochasticOf(scaled[i], op.format, copy.seed, number + i * copy.step);
            } else {
                for (int i = 0; i < length; ++i) q[i] = roundedTo(scaled[i], format, fp4);
            }
            if (copy.codes.codes) storeCodes(copy, op.format, op.blockRows > 1, line, q, length, scales.scaleInv[0]);
            if (copy.counted && op.count) {
                count(values, scaled, q, scales.scaleInv, length, format, counts);
                if (op.dear) countDear(values, q, scales.step, length, op.exponents, stats.span);
            }
            for (int i = 0; i < length; ++i) values[i] = q[i] * scales.scaleInv[i];
        }
    }
    if (!copy.counted || !op.count) return;
    CastCounters& c = stats.span.counters;
    c.elements += static_cast<uint64_t>(lines) * static_cast<uint64_t>(length);
    c.zeros += counts.zeros;
    c.underflow += counts.zeroValues - counts.zeros;
    c.subnormal += counts.low - counts.zeroValues;
    c.overRange += counts.overRange;
    c.clipped += counts.clipped;
    c.inf += counts.inf;
    c.nan += counts.nan;
}

void amax(const BlockQuantize& op, int64_t tileRow, int64_t tileCol, float* scratch, BlockStats& stats) {
    const Area area = areaOf(op, tileRow, tileCol);
    float* x = scratch;
    float* turned = scratch + kTile * kLead;
    load(op, area, x);
    for (int row = 0; row < area.rows; ++row) {
        const uint32_t bits = amaxBits(x + row * kLead, area.cols);
        if (bits > stats.rowAmaxBits) stats.rowAmaxBits = bits;
    }
    stats.colAmaxBits = stats.rowAmaxBits;
    if (!op.hasColumn() || !op.hadamard) return;
    transpose(x, area.rows, area.cols, turned);
    turn(turned, area.cols, area.rows);
    stats.colAmaxBits = 0;
    for (int col = 0; col < area.cols; ++col) {
        const uint32_t bits = amaxBits(turned + col * kLead, area.rows);
        if (bits > stats.colAmaxBits) stats.colAmaxBits = bits;
    }
}

void cast(const BlockQuantize& op, const BlockTensorScales& tensor, int64_t tileRow, int64_t tileCol, float* scratch,
          BlockStats& stats) {
    const Area area = areaOf(op, tileRow, tileCol);
    float* x = scratch;
    float* turned = scratch + kTile * kLead;
    load(op, area, x);
    const int64_t first = area.row0 * op.cols + area.col0;
    if (op.hasColumn()) {
        transpose(x, area.rows, area.cols, turned);
        if (op.hadamard) turn(turned, area.cols, area.rows);
        const Copy copy{tensor.col,  op.seed + 1, first,   1,         op.cols,  !op.hasRow(),
                        op.colCodes, op.cols,     op.rows, area.col0, area.row0};
        castCopy(op, copy, turned, area.cols, area.rows, stats);
        if (op.colValues) storeTransposed(turned, area, op.cols, static_cast<uint16_t*>(op.colValues) + first);
    }
    if (!op.hasRow()) return;
    const Copy copy{tensor.row, op.seed, first, op.cols, 1, true, op.rowCodes, op.rows, op.cols, area.row0, area.col0};
    castCopy(op, copy, x, area.rows, area.cols, stats);
    if (!op.rowValues) return;
    auto* out = static_cast<uint16_t*>(op.rowValues) + first;
    for (int row = 0; row < area.rows; ++row)
        for (int col = 0; col < area.cols; ++col) out[row * op.cols + col] = encodeBf16(x[row * kLead + col]);
}

}  // namespace

extern const BlockQuantizeKernels blockQuantizeKernels;
const BlockQuantizeKernels blockQuantizeKernels = {amax, cast};

}  // namespace mantissa::kernels::MANTISSA_ISA
