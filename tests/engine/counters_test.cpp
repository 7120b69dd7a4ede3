// P03: the counters of a run, summed over its steps, equal a recount of the tensors that were cast, made here from
// their BF16 values.
#include <gtest/gtest.h>

#include <map>

#include "engine/trainer_core.h"
#include "tests/support/engine_configs.h"
#include "tests/support/forwarding_backend.h"
#include "tests/support/recount.h"

namespace mantissa::engine {
namespace {

using kernels::DType;
using kernels::TensorSlot;
using test::count;
using test::Counters;

/// Looks at each tensor after the op that cast it and before the product that reads it.
class Recount {
  public:
    explicit Recount(test::ForwardingBackend& backend) {
        backend.onNormForward = [this](kernels::NormForward& op) { seen(op.cast, op.out, op.rows * op.cols); };
        backend.onActivationForward = [this](kernels::ActivationForward& op) {
            seen(op.cast, op.out, op.rows * op.cols);
        };
        backend.onAttentionForward = [this](kernels::AttentionForward& op) {
            seen(op.cast, op.out, op.batch * op.context * op.heads * op.headWidth);
        };
        backend.onNormBackward = [this](kernels::NormBackward& op) { seen(op.cast, op.dResidual, op.rows * op.cols); };
        backend.onActivationBackward = [this](kernels::ActivationBackward& op) {
            seen(op.cast, op.dIn, op.rows * op.cols);
        };
        backend.onAttentionBackward = [this](kernels::AttentionBackward& op) {
            seen(op.cast, op.dQkv, 3 * op.batch * op.context * op.heads * op.headWidth);
        };
        backend.onQuantize = [this](kernels::Quantize& op) {
            void* in = const_cast<void*>(op.in);
            seen(op.target, in, op.rows * op.cols);
        };
        backend.onMatmul = [this](kernels::Matmul&) { recountPending(); };
    }
    std::map<const TensorSlot*, Counters> counters;

  private:
    void seen(const kernels::CastTarget& cast, void*& values, int64_t count) {
        recountPending();
        if (cast.format == DType::None || cast.amaxOnly || !cast.slot) return;
        if (!values) {  // the op keeps no plain values: give it room for them
            scratch_.resize(static_cast<size_t>(count));
            values = scratch_.data();
        }
        pending_ = {values, count, *cast.scale, cast.format, cast.slot};
    }
    void recountPending() {
        if (!pending_.values) return;
        const auto* values = static_cast<const uint16_t*>(pending_.values);
        for (int64_t i = 0; i < pending_.count; ++i)
            count(counters[pending_.slot], values[i], pending_.scale, pending_.format);
        pending_ = {};
    }
    struct Pending {
        const void* values = nullptr;
        int64_t count = 0;
        float scale = 0;
        DType format = DType::None;
        const TensorSlot* slot = nullptr;
    } pending_;
    std::vector<uint16_t> scratch_;
};

void expectCountersOfARun(RecipeKind recipe) {
    TrainerConfig config = test::tinyConfig(PrecisionMode::Fp8, recipe);
    config.precision.historyLength = 4;
    config.accumulation = 2;
    config.batch = 2;
    kernels::SerialExecutor executor;
    const auto inner = kernels::createCpuBackend(executor);
    test::ForwardingBackend backend(*inner);
    TrainerCore core(config, backend, test::tokensFor(config));
    const StepProgram& program = core.program();
    const PrecisionPlan& plan = program.precision();
    const std::vector<int> slots = plan.catalogueSlots();
    Recount recount(backend);
    std::vector<Counters> reported(slots.size()), weights(static_cast<size_t>(plan.linearCount()));
    for (int step = 0; step < 6; ++step) {
        if (recipe != RecipeKind::Current)  // cast by AdamW, before the step that uses them
            for (const ParameterInfo& tensor : program.layout().tensors) {
                if (tensor.linear < 0 || tensor.linear == plan.headIndex()) continue;
                const auto* values = reinterpret_cast<const uint16_t*>(program.parameters().compute) + tensor.offset;
                const float scale = program.scaling().table()[plan.slot(tensor.linear, TensorRole::Weight)].scale;
                for (int64_t i = 0; i < tensor.count(); ++i)
                    count(weights[static_cast<size_t>(tensor.linear)], values[i], scale, plan.weightFormat);
            }
        const auto record = core.step().numerics;
        for (size_t i = 0; i < slots.size(); ++i)
            for (size_t k = 0; k < 8; ++k) reported[i][k] += record->tensors[i].counters[k];
    }
    uint64_t total = 0;
    for (size_t i = 0; i < slots.size(); ++i) {
        const int linear = plan.linearOfSlot(slots[i]);
        if (linear == plan.headIndex()) continue;
        const bool weight = plan.roleOfSlot(slots[i]) == TensorRole::Weight;
        const TensorSlot* own = program.scaling().slots() + (weight ? plan.tensorCount() + linear : slots[i]);
        const Counters expected =
            weight && recipe != RecipeKind::Current ? weights[static_cast<size_t>(linear)] : recount.counters[own];
        EXPECT_EQ(reported[i], expected) << tensorName(core.catalogue()[i]);
        total += reported[i][2] + reported[i][3];
    }
    EXPECT_GT(total, 0u) << "nothing to count, the test says nothing";
}

TEST(Counters, DelayedRunEqualsARecount) {
    expectCountersOfARun(RecipeKind::Delayed);
}
TEST(Counters, CurrentRunEqualsARecount) {
    expectCountersOfARun(RecipeKind::Current);
}
TEST(Counters, UnscaledRunEqualsARecount) {
    expectCountersOfARun(RecipeKind::Fixed);
}

}  // namespace
}  // namespace mantissa::engine
