// Cases of the block cast, shared by the tests of both backends.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/formats/block_layout.h"
#include "kernels/formats/fp8.h"
#include "kernels/formats/half.h"
#include "kernels/quantize/block_quantize.h"
#include "tests/support/golden.h"
#include "tests/support/op_cases.h"

namespace mantissa::test {

struct BlockCase {
    int64_t rows = 1, cols = 1;
    kernels::BlockKind kind = kernels::BlockKind::Block128;
    DType format = DType::E4M3, in = DType::BF16;
    bool square = false, row = true, col = true, hadamard = false, stochastic = false, special = false, counted = true;
    bool values = true, codes = false;  ///< what is written of each copy
    bool dear = true;
    bool powerOfTwo = true, roundToBf16 = true;
    float epsilon = 0;

    int width() const { return kind == kernels::BlockKind::Mxfp8 ? 32 : kind == kernels::BlockKind::Nvfp4 ? 16 : 128; }
    std::string name() const {
        const char* kinds[] = {"block128", "mxfp8", "nvfp4"};
        return std::string(kinds[static_cast<int>(kind)]) + " " + std::to_string(rows) + "x" + std::to_string(cols) +
               " " + kernels::dtypeName(in) + "->" + kernels::dtypeName(format) + (square ? " square" : "") +
               (row ? " row" : "") + (col ? " col" : "") + (hadamard ? " hadamard" : "") +
               (stochastic ? " stochastic" : "") + (special ? " special" : "") + (codes ? " codes" : "") +
               (codes && values ? " and values" : "") + (dear ? "" : " cheap") + (powerOfTwo ? "" : " any scale") +
               (roundToBf16 ? "" : " F32 as it is") + (epsilon > 0 ? " epsilon" : "");
    }
};

/// Codes under scales that are no powers of two, of BF16 and of F32 that is not rounded first.
inline void addAnyScaleCases(std::vector<BlockCase>& cases) {
    for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{1, 1}, {17, 129}, {144, 400}, {256, 640}})
        for (int variant = 0; variant < 8; ++variant) {
            BlockCase c;
            c.rows = rows, c.cols = cols;
            c.values = false, c.codes = true;
            c.powerOfTwo = variant % 4 == 3;
            c.roundToBf16 = variant < 2;
            c.in = variant == 0 ? DType::BF16 : DType::F32;
            c.square = variant % 2 == 1;
            c.epsilon = variant == 4 ? 1e-3f : 0;
            c.special = variant == 5;
            c.stochastic = variant == 6;
            c.format = variant == 7 ? DType::E5M2 : DType::E4M3;
            c.row = variant != 6;
            cases.push_back(c);
        }
    BlockCase mxfp8;
    mxfp8.rows = 144, mxfp8.cols = 400, mxfp8.kind = kernels::BlockKind::Mxfp8;
    mxfp8.in = DType::F32, mxfp8.roundToBf16 = false;
    cases.push_back(mxfp8);
}

inline std::vector<BlockCase> blockCases() {
    using kernels::BlockKind;
    std::vector<BlockCase> cases;
    for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{1, 1}, {17, 129}, {128, 256}, {300, 200}})
        for (BlockKind kind : {BlockKind::Block128, BlockKind::Mxfp8, BlockKind::Nvfp4})
            for (int variant = 0; variant < 5; ++variant) {
                BlockCase c;
                c.rows = rows, c.cols = cols, c.kind = kind;
                const bool fp4 = kind == BlockKind::Nvfp4;
                c.format = fp4 ? DType::E2M1 : variant == 1 ? DType::E5M2 : DType::E4M3;
                c.in = variant == 2 ? DType::F32 : DType::BF16;
                c.square = variant == 2;
                c.row = variant != 3;
                c.col = variant != 2;
                c.hadamard = fp4 && variant % 2 == 1;
                c.stochastic = variant == 4;
                c.special = variant == 1 || variant == 3;
                cases.push_back(c);
            }
    // Codes with their scales: sizes of whole 16-byte vectors, tiles cut on either side, and sizes that are neither.
    for (const auto& [rows, cols] :
         {std::pair<int64_t, int64_t>{1, 1}, {17, 129}, {16, 16}, {128, 128}, {144, 400}, {400, 144}, {256, 640}})
        for (int variant = 0; variant < 10; ++variant) {
            BlockCase c;
            c.rows = rows, c.cols = cols;
            c.codes = true;
            c.values = variant == 9;
            c.square = variant == 1 || variant == 2 || variant == 9;
            c.in = variant == 2 || variant == 3 ? DType::F32 : DType::BF16;
            c.row = variant != 4;
            c.col = variant != 5;
            c.special = variant == 6 || variant == 2;
            c.dear = variant % 2 == 1;
            c.stochastic = variant == 7;
            c.format = variant == 8 ? DType::E5M2 : DType::E4M3;
            cases.push_back(c);
        }
    addAnyScaleCases(cases);
    return cases;
}

/// Memory of one case; op() points into it.
struct BlockData {
    BlockCase c;
    Buffer in;
    std::vector<uint16_t> rowValues, colValues;
    std::vector<uint8_t> rowCodes, colCodes;
    std::vector<float> rowScales, colScales;
    std::vector<kernels::ScaleEntry> entries{2};
    std::vector<kernels::TensorSlot> slot{1};

    explicit BlockData(const BlockCase& blockCase) : c(blockCase), in(c.in, c.rows * c.cols) {
        Numbers numbers(11);
        for (int64_t i = 0; i < in.size(); ++i) {
            // Rows of very different size, some far below what their tensor's scale reaches.
            const double size = std::exp2(static_cast<double>(i / c.cols % 40) - 30);
            in.set(i, i % 97 == 5 ? 0.0 : numbers.normal() * size);
        }
        if (c.special && in.size() > 400) in.set(130, NAN), in.set(250, INFINITY), in.set(390, -INFINITY);
        rowValues.assign(static_cast<size_t>(in.size()), 0xAAAA);
        colValues = rowValues;
        if (!c.codes) return;
        rowCodes.assign(rowValues.size(), 0xAA);
        colCodes = rowCodes;
        rowScales.assign(static_cast<size_t>(kernels::blockScaleCount(c.rows, c.cols, c.square)), 1);
        colScales.assign(static_cast<size_t>(kernels::blockScaleCount(c.cols, c.rows, c.square)), 1);
    }
    kernels::BlockQuantize op() {
        kernels::BlockQuantize op;
        op.rows = c.rows, op.cols = c.cols, op.inType = c.in, op.in = in.data();
        op.kind = c.kind, op.format = c.format;
        op.powerOfTwo = c.powerOfTwo, op.roundToBf16 = c.roundToBf16, op.epsilon = c.epsilon;
        if (!c.roundToBf16) op.largestScale = kernels::floatFromBits(kernels::kFloatMaxFinite);
        op.blockCols = c.width(), op.blockRows = c.square ? c.width() : 1;
        op.rowValues = c.row && c.values ? rowValues.data() : nullptr;
        op.colValues = c.col && c.values ? colValues.data() : nullptr;
        if (c.row && c.codes) op.rowCodes = {rowCodes.data(), rowScales.data()};
        if (c.col && c.codes) op.colCodes = {colCodes.data(), colScales.data()};
        op.rowEntry = entries.data(), op.colEntry = entries.data() + 1;
        op.hadamard = c.hadamard, op.stochastic = c.stochastic, op.seed = 77;
        op.slot = slot.data(), op.dear = op.exponents = c.dear;
        return op;
    }
    void expectEqual(const BlockData& wanted, const std::string& what) const {
        const auto differences = [](const std::vector<uint16_t>& a, const std::vector<uint16_t>& b) {
            int count = 0;
            for (size_t i = 0; i < a.size(); ++i) {
                const bool bothNan = (a[i] & 0x7FFF) > 0x7F80 && (b[i] & 0x7FFF) > 0x7F80;
                count += a[i] != b[i] && !bothNan;
            }
            return count;
        };
        EXPECT_EQ(differences(rowValues, wanted.rowValues), 0) << what << ": row copy";
        EXPECT_EQ(differences(colValues, wanted.colValues), 0) << what << ": column copy";
        EXPECT_EQ(rowCodes, wanted.rowCodes) << what << ": row codes";
        EXPECT_EQ(colCodes, wanted.colCodes) << what << ": column codes";
        EXPECT_EQ(rowScales, wanted.rowScales) << what << ": scales of the row codes";
        EXPECT_EQ(colScales, wanted.colScales) << what << ": scales of the column codes";
        if (c.kind == kernels::BlockKind::Nvfp4) {
            if (c.row) {
                EXPECT_EQ(entries[0].scale, wanted.entries[0].scale) << what;
            }
            if (c.col) {
                EXPECT_EQ(entries[1].scaleInv, wanted.entries[1].scaleInv) << what;
            }
        }
        const kernels::TensorSlot &a = slot[0], &b = wanted.slot[0];
        EXPECT_EQ(a.amax, b.amax) << what;
        EXPECT_EQ(a.scaleUsed, b.scaleUsed) << what;
        const auto counters = [](const kernels::CastCounters& x) {
            return std::vector<uint64_t>{x.elements,  x.zeros,   x.underflow, x.subnormal,
                                         x.overRange, x.clipped, x.inf,       x.nan};
        };
        EXPECT_EQ(counters(a.counters), counters(b.counters)) << what;
        EXPECT_EQ(a.dear.minNonZero, b.dear.minNonZero) << what;
        EXPECT_NEAR(a.dear.sumSquares, b.dear.sumSquares, 1e-12 * b.dear.sumSquares) << what;
        EXPECT_NEAR(a.dear.sumSquaredError, b.dear.sumSquaredError, 1e-12 * b.dear.sumSquaredError) << what;
        for (int bin = 0; bin < kernels::kExponentBins; ++bin)
            EXPECT_EQ(a.dear.exponents[bin], b.dear.exponents[bin]) << what << " bin " << bin;
    }
};

/// The value that a recorded code with its recorded scale_inv means, as BF16.
inline uint16_t recordedValue(uint8_t code, float scaleInv) {
    return kernels::encodeBf16(kernels::decodeE4m3(code) * scaleInv);
}

/// Section d of tests/data/te: 256 x 384, 1 x 128 or 128 x 128, power-of-two scales.
/// run(op, rowValues, colValues, input): runs the op and leaves what it wrote in the two buffers.
template <class Run>
void compareWithRecorded(bool square, const std::string& what, Run run) {
    constexpr int64_t kRows = 256, kCols = 384;
    const auto input = goldenArray<uint16_t>("te/d_input_256x384.bf16.bin");
    const std::string name = square ? "te/d_e4m3_2d_pow21_" : "te/d_e4m3_1d_pow21_";
    const auto rowCodes = goldenBytes(name + "rowwise_data.bin"), colCodes = goldenBytes(name + "columnwise_data.bin");
    const auto rowScale = goldenArray<float>(name + "rowwise_scale_inv.bin");
    const auto colScale = goldenArray<float>(name + "columnwise_scale_inv.bin");
    std::vector<uint16_t> rows(input.size()), cols(input.size());
    kernels::BlockQuantize op;
    op.rows = kRows, op.cols = kCols, op.in = input.data();
    op.blockRows = square ? 128 : 1;
    op.rowValues = rows.data(), op.colValues = cols.data();
    run(op, rows, cols, input);
    int different = 0;
    for (int64_t row = 0; row < kRows; ++row)
        for (int64_t col = 0; col < kCols; ++col) {
            const auto at = static_cast<size_t>(row * kCols + col), turned = static_cast<size_t>(col * kRows + row);
            const float rowInv = square ? rowScale[static_cast<size_t>(row / 128 * 4 + col / 128)]
                                        : rowScale[static_cast<size_t>(col / 128 * kRows + row)];
            const float colInv = square ? colScale[static_cast<size_t>(col / 128 * 4 + row / 128)]
                                        : colScale[static_cast<size_t>(row / 128 * kCols + col)];
            different += rows[at] != recordedValue(rowCodes[at], rowInv);
            different += cols[at] != recordedValue(colCodes[turned], colInv);
        }
    EXPECT_EQ(different, 0) << what;
}

/// The same tensor to codes, whose scales are powers of two or not: codes and scales are the recorded ones byte for
/// byte, in the recorded order. run(data): runs the op and leaves what it wrote in data.
template <class Run>
void compareCodesWithRecorded(bool square, bool powerOfTwo, const std::string& what, Run run) {
    BlockCase c;
    c.powerOfTwo = powerOfTwo;
    c.rows = 256, c.cols = 384;
    c.values = false, c.codes = true, c.square = square, c.dear = false;
    BlockData data(c);
    const auto input = goldenBytes("te/d_input_256x384.bf16.bin");
    data.in.bytes.assign(input.begin(), input.end());
    run(data);
    const std::string name = std::string("te/d_e4m3_") + (square ? "2d" : "1d") + "_pow2" + (powerOfTwo ? "1_" : "0_");
    EXPECT_EQ(data.rowCodes, goldenArray<uint8_t>(name + "rowwise_data.bin")) << what;
    EXPECT_EQ(data.colCodes, goldenArray<uint8_t>(name + "columnwise_data.bin")) << what;
    const auto expectScales = [&](const std::vector<float>& got, const std::string& file, int64_t rows, int64_t cols) {
        const auto wanted = goldenArray<float>(name + file);
        ASSERT_EQ(got.size(), wanted.size()) << what << " " << file;
        for (int64_t row = 0; row < rows; ++row)
            for (int64_t col = 0; col < cols; col += 128) {
                const auto at = static_cast<size_t>(kernels::blockScaleIndex(rows, cols, square, row, col));
                EXPECT_EQ(got[at], wanted[at]) << what << " " << file << " " << row << "," << col;
            }
    };
    expectScales(data.rowScales, "rowwise_scale_inv.bin", c.rows, c.cols);
    expectScales(data.colScales, "columnwise_scale_inv.bin", c.cols, c.rows);
}

/// The recorded blocks of one value: F32 as it is and BF16, from 0 to Inf and NaN. run as above.
template <class Run>
void compareSingleBlocksWithRecorded(const std::string& what, Run run) {
    const auto bytes = goldenBytes("te/d_block.json");
    const nlohmann::json recorded = nlohmann::json::parse(bytes.begin(), bytes.end())["single_block"];
    EXPECT_EQ(recorded.size(), 40u);
    for (const auto& [key, entry] : recorded.items()) {
        BlockCase c;
        c.values = false, c.codes = true, c.col = false, c.dear = false;
        c.powerOfTwo = key.find("pow2=1") != std::string::npos;
        c.roundToBf16 = key.find("bfloat16") != std::string::npos;
        c.in = c.roundToBf16 ? DType::BF16 : DType::F32;
        BlockData data(c);
        const float value = std::strtof(key.substr(5).c_str(), nullptr);  // after "amax "
        if (c.roundToBf16) {
            const uint16_t rounded = kernels::encodeBf16(value);
            std::memcpy(data.in.data(), &rounded, sizeof(rounded));
        } else {
            std::memcpy(data.in.data(), &value, sizeof(value));
        }
        run(data);
        EXPECT_EQ(data.rowCodes[0], hexBits(entry["code"])) << what << " " << key;
        EXPECT_EQ(kernels::floatBits(data.rowScales[0]), hexBits(entry["scale_inv"]["hex"][0])) << what << " " << key;
    }
}

}  // namespace mantissa::test
