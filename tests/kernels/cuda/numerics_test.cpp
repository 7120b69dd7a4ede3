// Block casts and the looking ops on the GPU against the reference.
#include <cmath>

#include "kernels/device/cpu_ops.h"
#include "tests/support/block_cases.h"
#include "tests/support/cuda_twin.h"
#include "tests/support/probe_cases.h"

namespace mantissa::kernels {
namespace {

using BlockCastOnGpu = test::CudaTest;
using ProbesOnGpu = test::CudaTest;

void takeCodes(const test::Twins& twins, test::BlockData& data) {
    if (!data.c.codes) return;
    data.rowCodes = twins.get(data.rowCodes), data.colCodes = twins.get(data.colCodes);
    data.rowScales = twins.get(data.rowScales), data.colScales = twins.get(data.colScales);
}

/// Codes and their scales alone.
void castThere(Backend& gpu, test::BlockData& data) {
    test::Twins twins(gpu);
    twins.add(data.in.bytes), twins.add(data.entries), twins.add(data.slot);
    twins.add(data.rowCodes), twins.add(data.colCodes), twins.add(data.rowScales), twins.add(data.colScales);
    twins.run(data.op());
    takeCodes(twins, data);
}

TEST_F(BlockCastOnGpu, IsTheReference) {
    for (const test::BlockCase& c : test::blockCases()) {
        test::BlockData wanted(c), got(c);
        runReference(wanted.op());
        test::Twins twins(*gpu_);
        twins.add(got.in.bytes), twins.add(got.rowValues), twins.add(got.colValues), twins.add(got.entries),
            twins.add(got.slot);
        twins.add(got.rowCodes), twins.add(got.colCodes), twins.add(got.rowScales), twins.add(got.colScales);
        twins.run(got.op());
        takeCodes(twins, got);
        got.rowValues = twins.get(got.rowValues), got.colValues = twins.get(got.colValues),
        got.entries = twins.get(got.entries), got.slot = twins.get(got.slot);
        got.expectEqual(wanted, c.name());
    }
}

TEST_F(BlockCastOnGpu, IsWhatTransformerEngineRecorded) {
    for (bool square : {false, true})
        test::compareWithRecorded(square, square ? "128x128" : "1x128",
                                  [this](const BlockQuantize& op, auto& rows, auto& cols, const auto& input) {
                                      test::Twins twins(*gpu_);
                                      twins.add(input), twins.add(rows), twins.add(cols);
                                      twins.run(op);
                                      rows = twins.get(rows), cols = twins.get(cols);
                                  });
}

TEST_F(BlockCastOnGpu, CodesAndScalesAreTheRecordedOnesInTheirOrder) {
    for (bool square : {false, true})
        for (bool powerOfTwo : {false, true})
            test::compareCodesWithRecorded(square, powerOfTwo, square ? "128x128" : "1x128",
                                           [this](test::BlockData& data) { castThere(*gpu_, data); });
}

TEST_F(BlockCastOnGpu, BlocksOfOneValueAreTheRecordedOnes) {
    test::compareSingleBlocksWithRecorded("GPU", [this](test::BlockData& data) { castThere(*gpu_, data); });
}

TEST_F(ProbesOnGpu, CheckFiniteCountsAndNamesTheFirst) {
    for (DType type : {DType::F32, DType::BF16, DType::F16}) {
        test::Buffer values(type, 200001);
        for (int64_t i = 0; i < values.size(); ++i) values.set(i, 1.0 + static_cast<double>(i % 7));
        values.set(150000, INFINITY), values.set(70000, -INFINITY), values.set(199999, NAN);
        std::vector<FiniteCount> count(1);
        const CheckFinite op{values.size(), type, values.data(), 1000, count.data()};
        test::Twins twins(*gpu_);
        twins.add(values.bytes), twins.add(count);
        twins.run(op);
        count = twins.get(count);
        EXPECT_EQ(count[0].nan, 1u);
        EXPECT_EQ(count[0].inf, 2u);
        EXPECT_EQ(~count[0].firstInverted, 71000u);
    }
}

TEST_F(ProbesOnGpu, ShadowProductIsTheProductInDouble) {
    for (const bool large : {false, true})  // more rows than a block takes, in vectors
        for (int form = 0; form < 4; ++form)
            for (int64_t samples : {1, 5, 64, 100}) {
                const bool aK = form & 1, bK = form & 2;
                test::ShadowData data(large ? 200 : 37, large ? 72 : 150, large ? 136 : 70, aK, bK, samples);
                test::Twins twins(*gpu_);
                twins.add(data.a.bytes), twins.add(data.b.bytes), twins.add(data.out.bytes), twins.add(data.bias.bytes),
                    twins.add(data.sums);
                twins.run(data.op(samples));
                data.sums = twins.get(data.sums);
                EXPECT_NEAR(data.sums[0].wanted, data.wanted, 1e-12 * data.wanted);
                EXPECT_NEAR(data.sums[0].error, data.error, 1e-9 * data.error);
            }
}

TEST_F(ProbesOnGpu, CodeCheckCountsStaleCodes) {
    test::CodeData data;
    test::Twins twins(*gpu_);
    twins.add(data.weights), twins.add(data.codes), twins.add(data.scale), twins.add(data.different);
    twins.run(data.op());
    data.different = twins.get(data.different);
    EXPECT_EQ(data.different[0], static_cast<uint64_t>(test::CodeData::kChanged));
}

}  // namespace
}  // namespace mantissa::kernels
