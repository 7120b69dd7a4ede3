// Block casts: Transformer Engine's recorded codes and scales, cases C05 and N14, NVFP4 worked out by hand, and the
// CPU's vector code against plain loops on every instruction set.
#include "kernels/quantize/block_quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/formats/half.h"
#include "tests/support/block_cases.h"
#include "tests/support/cpu_run.h"
#include "tests/support/thread_executor.h"

namespace mantissa::kernels {
namespace {

using test::BlockCase;
using test::BlockData;

void onEveryIsa(bool square) {
    for (Isa isa : test::supportedIsas())
        test::compareWithRecorded(square, isaName(isa), [isa](const BlockQuantize& op, auto&, auto&, const auto&) {
            test::runOnCpu(op, isa);
        });
}

TEST(BlockCast, RecordedRowsOf128) {
    onEveryIsa(false);
}
TEST(BlockCast, RecordedSquaresOf128) {
    onEveryIsa(true);
}

TEST(BlockCast, RecordedCodesAndScalesInTheirOrder) {
    for (bool square : {false, true})
        for (bool powerOfTwo : {false, true}) {
            test::compareCodesWithRecorded(square, powerOfTwo, "reference",
                                           [](BlockData& data) { runReference(data.op()); });
            for (Isa isa : test::supportedIsas())
                test::compareCodesWithRecorded(square, powerOfTwo, isaName(isa),
                                               [isa](BlockData& data) { test::runOnCpu(data.op(), isa); });
        }
}

TEST(BlockCast, RecordedBlocksOfOneValue) {
    test::compareSingleBlocksWithRecorded("reference", [](BlockData& data) { runReference(data.op()); });
    for (Isa isa : test::supportedIsas())
        test::compareSingleBlocksWithRecorded(isaName(isa), [isa](BlockData& data) { test::runOnCpu(data.op(), isa); });
}

TEST(BlockCast, Mxfp8ScalesOfC05) {
    const auto scaleOf = [](DType format, float amax) {
        return int{blockScaleOf({BlockKind::Mxfp8, format}, amax, 1).code};
    };
    EXPECT_EQ(scaleOf(DType::E4M3, 0), 0);
    EXPECT_EQ(scaleOf(DType::E4M3, 0.5f), 118);
    EXPECT_EQ(scaleOf(DType::E4M3, 3), 120);
    EXPECT_EQ(scaleOf(DType::E4M3, 448), 127);
    EXPECT_EQ(scaleOf(DType::E4M3, 449), 128);
    EXPECT_EQ(scaleOf(DType::E4M3, 1000), 129);
    EXPECT_EQ(scaleOf(DType::E4M3, 0.001f), 109);
    EXPECT_EQ(scaleOf(DType::E5M2, 57345), 128);
    const std::vector<float> zeros(32, 0.0f);
    const BlockCast cast = castBlocks({BlockKind::Mxfp8, DType::E4M3}, zeros.data(), 1, 32, 1, 32);
    for (float value : cast.values) EXPECT_EQ(value, 0);
}

/// amax 6 in the first block: S = 448; s = RN(6 * 448 / 6) = 448, so a code step is exact. The second block's amax is
/// 1: s = RN(448 / 6 = 74.667) = 72 (grid of 8), stored = x * 448 / 72.
TEST(BlockCast, Nvfp4ByHand) {
    std::vector<float> x(32, 0.0f);
    const float first[] = {6, -4, 3, 2, 1.5f, 1, 0.5f, 0.25f, 5, -5.1f, 2.5f, 3.5f, 0.75f, 1.25f, 1.75f, 0.26f};
    std::copy(std::begin(first), std::end(first), x.begin());
    x[16] = 1, x[17] = -0.5f, x[18] = 0.04f;
    const BlockCast cast = castBlocks({BlockKind::Nvfp4, DType::E2M1}, x.data(), 1, 32, 1, 16);
    EXPECT_EQ(cast.tensorScale, 448);
    ASSERT_EQ(cast.scales.size(), 2u);
    EXPECT_EQ(cast.scales[0].scaleInv, 448);
    EXPECT_EQ(cast.scales[1].scaleInv, 72);
    const float grid[] = {6, -4, 3, 2, 1.5f, 1, 0.5f, 0, 4, -6, 2, 4, 1, 1, 2, 0.5f};
    for (size_t i = 0; i < 16; ++i) EXPECT_EQ(decodeFp8(cast.codes[i], DType::E2M1), grid[i]) << i;
    EXPECT_EQ(decodeFp8(cast.codes[16], DType::E2M1), 6);   // 6.22
    EXPECT_EQ(decodeFp8(cast.codes[17], DType::E2M1), -3);  // 3.11
    EXPECT_EQ(decodeFp8(cast.codes[18], DType::E2M1), 0);   // 0.2489
    EXPECT_EQ(cast.values[16], 6 * 72);
}

TEST(BlockCast, E2m1IsTheTablesOfN14) {
    for (int i = -800; i <= 800; ++i) {
        const float value = static_cast<float>(i) / 100;
        EXPECT_EQ(decodeFp8(encodeScaled(value, DType::E2M1), DType::E2M1), decodeE2m1(encodeE2m1(value))) << value;
    }
    EXPECT_EQ(encodeScaled(std::numeric_limits<float>::quiet_NaN(), DType::E2M1), 7);
    EXPECT_EQ(decodeFp8(encodeScaled(2.5f, DType::E2M1), DType::E2M1), 2);
    EXPECT_EQ(decodeFp8(encodeScaled(3.5f, DType::E2M1), DType::E2M1), 4);
    EXPECT_EQ(decodeFp8(encodeScaled(5, DType::E2M1), DType::E2M1), 4);
}

/// The turn is orthogonal: inner products along the rows stay (integers: exactly).
TEST(BlockCast, HadamardKeepsInnerProducts) {
    test::Numbers numbers(5);
    std::vector<float> a(32), b(32);
    for (float& value : a) value = static_cast<float>(numbers.integer(-3, 3));
    for (float& value : b) value = static_cast<float>(numbers.integer(-3, 3));
    const auto inner = [&] {
        double sum = 0;
        for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
        return sum;
    };
    const double before = inner();
    std::vector<float> spike(16, 0.0f);
    spike[3] = 8;
    turnColumns(a.data(), 32, 1);
    turnColumns(b.data(), 32, 1);
    EXPECT_EQ(inner(), before);
    turnColumns(spike.data(), 16, 1);
    for (float value : spike) EXPECT_EQ(std::fabs(value), 2);  // one outlier is spread over sixteen
}

TEST(BlockCast, CpuIsTheReferenceOnEveryIsa) {
    for (const BlockCase& c : test::blockCases()) {
        BlockData wanted(c);
        runReference(wanted.op());
        for (Isa isa : test::supportedIsas()) {
            BlockData got(c);
            test::ThreadExecutor executor(3);
            test::runOnCpu(got.op(), isa, executor);
            got.expectEqual(wanted, c.name() + " on " + isaName(isa));
        }
    }
}

TEST(BlockCast, RefusesShapesOutsideTheContract) {
    const std::vector<uint16_t> in(64);
    std::vector<uint16_t> out(64);
    BlockQuantize op;
    op.rows = 1, op.cols = 64, op.in = in.data(), op.rowValues = out.data(), op.blockCols = 64;
    EXPECT_THROW(test::runOnCpu(op, Isa::Sse), Error);
    op.blockCols = 32, op.format = DType::E2M1;
    EXPECT_THROW(test::runOnCpu(op, Isa::Sse), Error);
    op.kind = BlockKind::Nvfp4;
    EXPECT_THROW(test::runOnCpu(op, Isa::Sse), Error);  // no place for the tensor's scale
    BlockData codes(BlockCase{16, 32});
    op = codes.op();
    float scale = 1;
    uint8_t code[512];
    op.rowCodes = {code, nullptr};
    EXPECT_THROW(test::runOnCpu(op, Isa::Sse), Error);  // codes without their scales
    op.rowCodes = {code, &scale}, op.kind = BlockKind::Mxfp8, op.blockCols = 32;
    EXPECT_THROW(test::runOnCpu(op, Isa::Sse), Error);  // mxfp8 has no such codes
}

}  // namespace
}  // namespace mantissa::kernels
