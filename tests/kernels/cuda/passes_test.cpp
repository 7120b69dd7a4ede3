// The stages of norm and AdamW on the GPU against the reference; AdamW's stages together against the fused kernel.
#include <cstring>

#include "kernels/device/cpu_ops.h"
#include "tests/support/cuda_twin.h"
#include "tests/support/pass_cases.h"

namespace mantissa::test {
namespace {

using kernels::AdamWStage;
using kernels::NormStage;
using PassesOnGpu = CudaTest;

/// Runs the data's op on the GPU and brings all its buffers back.
template <class Data>
void runOnGpu(kernels::Backend& gpu, Data& data) {
    Twins twins(gpu);
    for (Buffer* buffer : data.buffers()) twins.add(buffer->bytes);
    if constexpr (requires { data.state; }) twins.add(data.state), twins.add(data.parameters);
    twins.run(data.op());
    for (Buffer* buffer : data.buffers()) {
        const auto result = twins.get(buffer->bytes);
        std::copy(result.begin(), result.end(), buffer->bytes.begin());  // in place: the op points at it
    }
}

TEST_F(PassesOnGpu, EveryStageOfTheNormMatchesTheReference) {
    for (int stage = 0; stage < kernels::kNormStages; ++stage)
        for (const RowsCase& c : rowsCases()) {
            if (c.cast != DType::None) continue;
            NormPassData got(static_cast<NormStage>(stage), c), expected = got;
            const NormPassData before = got;
            runOnGpu(*gpu_, got);
            runReference(expected.op());
            expectNormPass(got, expected);
            EXPECT_FALSE(got.bytes() == before.bytes()) << got.name() << " wrote nothing";
        }
}

TEST_F(PassesOnGpu, EveryStageOfAdamWMatchesTheReference) {
    for (int stage = 0; stage < kernels::kAdamWStages; ++stage)
        for (int64_t n : {1, 17, 1000, 70001}) {
            AdamWPassData got(static_cast<AdamWStage>(stage), n), expected = got;
            const AdamWPassData before = got;
            runOnGpu(*gpu_, got);
            runReference(expected.op());
            expectAdamWPass(got, expected, before);
            AdamWPassData skipped = before;
            skipped.state[0].applied = 0;
            runOnGpu(*gpu_, skipped);
            EXPECT_TRUE(skipped.bytes() == before.bytes()) << got.name() << " wrote though the update was skipped";
        }
}

TEST_F(PassesOnGpu, StagesOfAdamWGiveTheFusedKernelsBits) {
    AdamWPassData stages(AdamWStage::Clip, 70001), fused = stages;
    for (int stage = 0; stage < kernels::kAdamWStages; ++stage) {
        stages.stage = static_cast<AdamWStage>(stage);
        runOnGpu(*gpu_, stages);
    }
    Twins twins(*gpu_);
    for (Buffer* buffer : fused.buffers()) twins.add(buffer->bytes);
    twins.add(fused.state), twins.add(fused.parameters);
    const kernels::AdamWPass pass = twins.translated(fused.op());
    kernels::ParameterTensor tensor{0, 1, fused.n, 1, {}};
    kernels::AdamW op;
    op.n = fused.n, op.tensorCount = 1, op.tensors = &tensor;
    op.masters = pass.masters, op.moment1 = pass.moment1, op.moment2 = pass.moment2, op.gradients = pass.gradients;
    op.state = pass.state, op.parameters = pass.parameters, op.weightDecay = pass.weightDecay;
    gpu_->run(op);
    EXPECT_EQ(twins.get(fused.masters.bytes), stages.masters.bytes);
    EXPECT_EQ(twins.get(fused.moment1.bytes), stages.moment1.bytes);
    EXPECT_EQ(twins.get(fused.moment2.bytes), stages.moment2.bytes);
}

}  // namespace
}  // namespace mantissa::test
