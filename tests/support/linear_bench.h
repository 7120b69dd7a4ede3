// One linear under a recipe, with memory of its own: what the engine does with it in a step, for tests with recorded
// values.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "engine/model/linear.h"
#include "engine/model/scaling_state.h"
#include "engine/plan/device_memory.h"
#include "kernels/backend.h"

namespace mantissa::test {

/// BF16 values as bit patterns.
inline uint16_t bf16Bits(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
inline float bf16Value(uint16_t bits) {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof(value));
    return value;
}

class LinearBench {
  public:
    LinearBench(int64_t rows, int64_t in, int64_t out, const engine::PrecisionConfig& config)
        : rows_(rows),
          in_(in),
          out_(out),
          plan_(makePlan(in, out, config)),
          scaling_(plan_, config, 1),
          map_(plan_),
          backend_(kernels::createCpuBackend(executor_)),
          scalingMemory_(*backend_, scaling_.bytes()) {
        scaling_.bind(scalingMemory_.data());
        scaling_.initialise(*backend_);
        xCodes.resize(static_cast<size_t>(rows * in));
        wCodes.resize(static_cast<size_t>(out * in));
        dyCodes.resize(static_cast<size_t>(rows * out));
        workspace_ = engine::DeviceMemory(*backend_, size_t{16} << 20);
        backend_->bindWorkspace(workspace_.data(), workspace_.bytes());
    }

    /// Start of a step: the slots of activations are cleared.
    void begin() {
        for (int slot = 0; slot < scaling_.slotCount(); ++slot) scaling_.slots()[slot] = {};
        scaling_.beginPass(*backend_);
    }
    /// Casts a BF16 tensor as its producer and the second pass would.
    void cast(engine::TensorRole role, const uint16_t* values) {
        const int slot = plan_.slot(0, role);
        const int64_t rows = role == engine::TensorRole::Weight ? out_ : rows_;
        const int64_t cols = role == engine::TensorRole::GradOutput ? out_ : in_;
        kernels::Quantize op;
        op.rows = rows;
        op.cols = cols;
        op.in = values;
        op.target = scaling_.producerCast(slot, codes(role), flags_);
        backend_->run(op);
        scaling_.finishCast(*backend_, slot, values, rows, cols, codes(role), flags_);
    }
    void forward(const uint16_t* bias, void* y, kernels::DType type) {
        linear().forward(*backend_, rows_, operand(engine::TensorRole::Input), operand(engine::TensorRole::Weight),
                         bias, y, type);
    }
    void backward(void* dx, kernels::DType type, float* dw) {
        linear().inputGradient(*backend_, rows_, operand(engine::TensorRole::GradOutput),
                               operand(engine::TensorRole::Weight), dx, type);
        linear().weightGradient(*backend_, rows_, operand(engine::TensorRole::GradOutput),
                                operand(engine::TensorRole::Input), dw, false);
    }
    void update() {
        kernels::StepState applied;
        scaling_.updateDelayed(*backend_, &applied);
    }
    const kernels::ScaleEntry& entry(engine::TensorRole role) const { return scaling_.table()[plan_.slot(0, role)]; }
    const kernels::TensorSlot& slot(engine::TensorRole role) const { return scaling_.slots()[plan_.slot(0, role)]; }
    const float* window(engine::TensorRole role) const {
        return scaling_.history() + scaling_.descriptions()[static_cast<size_t>(plan_.slot(0, role))].historyOffset;
    }
    kernels::CastTarget target(engine::TensorRole role) {
        return scaling_.producerCast(plan_.slot(0, role), codes(role), flags_);
    }
    void finish(engine::TensorRole role, const uint16_t* values, int64_t rows, int64_t cols) {
        scaling_.finishCast(*backend_, plan_.slot(0, role), values, rows, cols, codes(role), flags_);
    }
    kernels::Backend& backend() { return *backend_; }
    std::vector<engine::EffectivePrecision> effective() const { return map_.rows(plan_); }

    std::vector<uint8_t> xCodes, wCodes, dyCodes;

  private:
    static engine::PrecisionPlan makePlan(int64_t in, int64_t out, const engine::PrecisionConfig& config) {
        engine::PrecisionPlan plan;
        plan.type = kernels::DType::BF16;
        if (config.format == engine::Fp8Format::E4m3) plan.gradFormat = kernels::DType::E4M3;
        engine::LinearPlan linear;
        linear.layerName = "h.0";
        linear.name = "mlp.fc1";
        linear.in = in;
        linear.out = out;
        for (engine::RecipeKind& recipe : linear.recipe) recipe = config.recipe;
        plan.linears.push_back(linear);
        return plan;
    }
    engine::CodePair codes(engine::TensorRole role) {
        return {(role == engine::TensorRole::Input    ? xCodes
                 : role == engine::TensorRole::Weight ? wCodes
                                                      : dyCodes)
                    .data(),
                nullptr};
    }
    engine::Operand operand(engine::TensorRole role) {
        return {nullptr, codes(role).rows, nullptr, scaling_.scaleInv(plan_.slot(0, role), flags_)};
    }
    engine::Linear linear() { return engine::Linear(plan_, 0, map_); }

    int64_t rows_, in_, out_;
    kernels::SerialExecutor executor_;
    engine::PrecisionPlan plan_;
    engine::ScalingState scaling_;
    engine::EffectiveMap map_;
    std::unique_ptr<kernels::Backend> backend_;
    engine::DeviceMemory scalingMemory_, workspace_;
    engine::PassFlags flags_;
};

}  // namespace mantissa::test
