// The stages that a fused norm and a fused AdamW are written out into: against the reference, and the same bits on all
// machines. That all stages together give the fused op's bits is shown in engine/unfused_test.
#include "tests/support/pass_cases.h"

namespace mantissa::test {
namespace {

using kernels::AdamWStage;
using kernels::NormStage;

std::vector<RowsCase> passCases() {
    std::vector<RowsCase> cases;
    for (const RowsCase& c : rowsCases())
        if (c.cast == DType::None) cases.push_back(c);
    return cases;
}

TEST(NormPasses, EveryStageMatchesTheReference) {
    for (int stage = 0; stage < kernels::kNormStages; ++stage)
        for (const RowsCase& c : passCases()) {
            NormPassData got(static_cast<NormStage>(stage), c), expected = got, before = got;
            runOnCpu(got.op(), kernels::bestIsa());
            runReference(expected.op());
            expectNormPass(got, expected);
            EXPECT_FALSE(got.bytes() == before.bytes()) << got.name() << " wrote nothing";
        }
}

TEST(NormPasses, SameBitsOnAllThreadsAndInstructionSets) {
    for (int stage = 0; stage < kernels::kNormStages; ++stage)
        for (const RowsCase& c : passCases())
            if (c.rows * c.cols <= 10000) {
                const NormPassData data(static_cast<NormStage>(stage), c);
                expectSameBitsEverywhere(data.name(), data);
            }
}

TEST(NormPasses, RefuseWhatIsMissing) {
    NormPassData data(NormStage::WorkDot, {3, 16});
    kernels::NormPass op = data.op();
    op.work2 = nullptr;
    EXPECT_THROW(runOnCpu(op, kernels::bestIsa()), Error);
}

TEST(AdamWPasses, EveryStageMatchesTheReference) {
    for (int stage = 0; stage < kernels::kAdamWStages; ++stage)
        for (int64_t n : {1, 17, 1000, 70001}) {
            AdamWPassData got(static_cast<AdamWStage>(stage), n), expected = got;
            const AdamWPassData before = got;
            runOnCpu(got.op(), kernels::bestIsa());
            runReference(expected.op());
            expectAdamWPass(got, expected, before);
            EXPECT_FALSE(got.bytes() == before.bytes()) << got.name() << " wrote nothing";
            AdamWPassData skipped = before;
            skipped.state[0].applied = 0;
            runOnCpu(skipped.op(), kernels::bestIsa());
            EXPECT_TRUE(skipped.bytes() == before.bytes()) << got.name() << " wrote though the update was skipped";
        }
}

TEST(AdamWPasses, SameBitsOnAllThreadsAndInstructionSets) {
    for (int stage = 0; stage < kernels::kAdamWStages; ++stage) {
        const AdamWPassData data(static_cast<AdamWStage>(stage), 70001);
        expectSameBitsEverywhere(data.name(), data);
    }
}

}  // namespace
}  // namespace mantissa::test
