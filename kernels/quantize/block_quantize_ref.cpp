// The block cast in plain loops over blocks, by encoding and decoding each value.
#include <algorithm>
#include <cmath>

#include "kernels/device/cpu_host.h"
#include "kernels/formats/block_layout.h"
#include "kernels/formats/half.h"
#include "kernels/quantize/block_quantize.h"
#include "kernels/simd/philox.h"

namespace mantissa::kernels {

namespace {

float amaxOf(const float* values, int64_t count, int64_t step = 1) {
    float amax = 0;
    for (int64_t i = 0; i < count; ++i)
        if (std::fabs(values[i * step]) > amax) amax = std::fabs(values[i * step]);
    return amax;
}

struct Rounding {
    bool stochastic = false;
    uint64_t seed = 0;
    uint8_t code(float scaled, DType format, int64_t index) const {
        if (!stochastic || std::isnan(scaled)) return encodeScaled(scaled, format);
        const Philox4 random = philoxBlock(seed, static_cast<uint64_t>(index) / 4, 0);
        return encodeFp8Stochastic(scaled, fp8Traits(format), random.value[index % 4]);
    }
};

BlockCast castWith(const BlockRule& rule, const float* values, int64_t rows, int64_t cols, int64_t blockRows,
                   int64_t blockCols, const Rounding& rounding) {
    BlockCast cast;
    cast.blocksDown = (rows + blockRows - 1) / blockRows;
    cast.blocksAcross = (cols + blockCols - 1) / blockCols;
    cast.codes.resize(static_cast<size_t>(rows * cols));
    cast.values.resize(cast.codes.size());
    if (rule.kind == BlockKind::Nvfp4) cast.tensorScale = nvfp4TensorScale(amaxOf(values, rows * cols));
    for (int64_t down = 0; down < cast.blocksDown; ++down)
        for (int64_t across = 0; across < cast.blocksAcross; ++across) {
            const int64_t rowEnd = std::min(rows, (down + 1) * blockRows),
                          colEnd = std::min(cols, (across + 1) * blockCols);
            float amax = 0;
            for (int64_t row = down * blockRows; row < rowEnd; ++row)
                amax = std::max(amax, amaxOf(values + row * cols + across * blockCols, colEnd - across * blockCols));
            const BlockScale scale = blockScaleOf(rule, amax, cast.tensorScale);
            cast.amax.push_back(amax);
            cast.scales.push_back(scale);
            for (int64_t row = down * blockRows; row < rowEnd; ++row)
                for (int64_t i = row * cols + across * blockCols; i < row * cols + colEnd; ++i) {
                    const auto at = static_cast<size_t>(i);
                    cast.codes[at] = rounding.code(values[i] * scale.scale, rule.format, i);
                    cast.values[at] = decodeFp8(cast.codes[at], rule.format) * scale.scaleInv;
                }
        }
    return cast;
}

void countOne(CastCounters& counters, DType format, float x, float scaled, float grid, bool dead) {
    const Fp8Traits traits = fp8Traits(format);
    const bool nan = std::isnan(x);
    ++counters.elements;
    counters.zeros += x == 0;
    counters.nan += nan;
    counters.inf += std::isinf(x);
    if (nan) return;
    const bool zero = dead || grid == 0;
    counters.underflow += x != 0 && zero;
    counters.subnormal += !zero && std::fabs(grid) < floatFromBits(traits.minNormal);
    counters.overRange += !dead && std::fabs(scaled) > floatFromBits(traits.lastInRange);
    counters.clipped += !dead && std::fabs(scaled) > floatFromBits(traits.lastNotClipped);
}

void countDear(DearStats& dear, bool exponents, float x, float dequantized) {
    if (!std::isfinite(x)) return;
    const double value = x, error = static_cast<double>(dequantized) - value;
    if (x != 0 && (dear.minNonZero == 0 || std::fabs(x) < dear.minNonZero)) dear.minNonZero = std::fabs(x);
    dear.sumSquares += value * value;
    dear.sumSquaredError += error * error;
    dear.sumFourth += value * value * value * value;
    if (exponents && x != 0) ++dear.exponents[std::ilogb(x) + kExponentBias];
}

/// Counts one copy: values before the cast, and what it made of them.
void countCopy(const BlockQuantize& op, const std::vector<float>& values, int64_t cols, const BlockCast& cast) {
    TensorSlot& slot = *op.slot;
    for (float amax : cast.amax) slot.amax = std::max(slot.amax, amax);
    for (const BlockScale& scale : cast.scales)
        if (slot.scaleUsed == 0 || scale.scale < slot.scaleUsed) slot.scaleUsed = scale.scale;
    if (!op.count) return;
    for (size_t i = 0; i < values.size(); ++i) {
        const int64_t row = static_cast<int64_t>(i) / cols, col = static_cast<int64_t>(i) % cols;
        const BlockScale& scale =
            cast.scales[static_cast<size_t>(row / op.blockRows * cast.blocksAcross + col / op.blockCols)];
        const float grid = decodeFp8(cast.codes[i], op.format);
        const float step = op.kind == BlockKind::Nvfp4 ? scale.scaleInv * (1.0f / cast.tensorScale) : scale.scaleInv;
        countOne(slot.counters, op.format, values[i], values[i] * scale.scale, grid, scale.scaleInv == 0);
        if (op.dear) countDear(slot.dear, op.exponents, values[i], grid * step);
    }
}

/// cast: of (rows, cols) in blocks of blockRows x blockCols. turned: stored the other way round.
void storeCodes(const BlockCodes& out, const BlockCast& cast, int64_t rows, int64_t cols, int64_t blockRows,
                int64_t blockCols, bool turned) {
    if (!out.codes) return;
    const bool square = blockRows == blockCols;
    const int64_t height = turned ? cols : rows, width = turned ? rows : cols;
    for (int64_t i = 0; square && i < blockScaleCount(height, width, true); ++i) out.scaleInv[i] = 1;
    for (int64_t row = 0; row < rows; ++row)
        for (int64_t col = 0; col < cols; ++col) {
            const int64_t r = turned ? col : row, c = turned ? row : col;
            out.codes[r * width + c] = cast.codes[static_cast<size_t>(row * cols + col)];
            out.scaleInv[blockScaleIndex(height, width, square, r, c)] =
                cast.scales[static_cast<size_t>(row / blockRows * cast.blocksAcross + col / blockCols)].scaleInv;
        }
}

void storeValues(void* out, const BlockCast& cast) {
    for (size_t i = 0; out && i < cast.values.size(); ++i) static_cast<uint16_t*>(out)[i] = encodeBf16(cast.values[i]);
}

void setEntry(ScaleEntry* entry, const BlockCast& cast) {
    if (!entry) return;
    entry->scale = cast.tensorScale;
    entry->scaleInv = 1.0f / cast.tensorScale;
}

}  // namespace

BlockCast castBlocks(const BlockRule& rule, const float* values, int64_t rows, int64_t cols, int64_t blockRows,
                     int64_t blockCols) {
    return castWith(rule, values, rows, cols, blockRows, blockCols, {});
}

void turnColumns(float* values, int64_t rows, int64_t cols) {
    for (int64_t col = 0; col < cols; ++col)
        for (int64_t row = 0; row + 16 <= rows; row += 16) {
            float group[16];
            for (int64_t i = 0; i < 16; ++i) group[i] = values[(row + i) * cols + col];
            hadamard16(group);
            for (int64_t i = 0; i < 16; ++i) values[(row + i) * cols + col] = roundToBf16(group[i]);
        }
}

void runReference(const BlockQuantize& op) {
    checkBlockQuantize(op);
    const BlockRule rule = op.rule();
    std::vector<float> values(static_cast<size_t>(op.rows * op.cols));
    for (size_t i = 0; i < values.size(); ++i)
        values[i] = op.inType == DType::BF16 ? decodeBf16(static_cast<const uint16_t*>(op.in)[i])
                    : op.roundToBf16         ? roundToBf16(static_cast<const float*>(op.in)[i])
                                             : static_cast<const float*>(op.in)[i];
    if (op.hasRow()) {
        const BlockCast cast =
            castWith(rule, values.data(), op.rows, op.cols, op.blockRows, op.blockCols, {op.stochastic, op.seed});
        storeValues(op.rowValues, cast);
        storeCodes(op.rowCodes, cast, op.rows, op.cols, op.blockRows, op.blockCols, false);
        setEntry(op.rowEntry, cast);
        if (op.slot) countCopy(op, values, op.cols, cast);
    }
    if (!op.hasColumn()) return;
    if (op.hadamard) turnColumns(values.data(), op.rows, op.cols);
    // Element numbers of stochastic rounding are those of the row-major tensor, so blocks stand upright here.
    const BlockCast cast =
        castWith(rule, values.data(), op.rows, op.cols, op.blockCols, op.blockRows, {op.stochastic, op.seed + 1});
    storeValues(op.colValues, cast);
    storeCodes(op.colCodes, cast, op.rows, op.cols, op.blockCols, op.blockRows, true);
    setEntry(op.colEntry, cast);
    if (!op.slot || op.hasRow()) return;
    BlockQuantize upright = op;
    upright.blockRows = op.blockCols, upright.blockCols = op.blockRows;
    countCopy(upright, values, op.cols, cast);
}

}  // namespace mantissa::kernels
