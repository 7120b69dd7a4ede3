// One linear under a recipe, with memory of its own: what the engine does with it in a step, for tests with recorded
// values.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "engine/model/linear.h"
#include "engine/model/scaling_state.h"
#include "engine/plan/block_products.h"
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

/// All arguments are host memory; it is copied to the device and back around every call.
class LinearBench {
  public:
    /// backend: nullptr makes a CPU backend.
    LinearBench(int64_t rows, int64_t in, int64_t out, const engine::PrecisionConfig& config,
                kernels::Backend* backend = nullptr)
        : rows_(rows),
          in_(in),
          out_(out),
          own_(backend ? nullptr : kernels::createCpuBackend(executor_)),
          backend_(backend ? backend : own_.get()),
          plan_(makePlan(rows, in, out, config, *backend_)),
          scaling_(plan_, config, 1),
          map_(plan_),
          scalingMemory_(*backend_, scaling_.bytes()) {
        scaling_.bind(scalingMemory_.data());
        scaling_.initialise(*backend_);
        for (engine::TensorRole role :
             {engine::TensorRole::Input, engine::TensorRole::Weight, engine::TensorRole::GradOutput}) {
            const engine::LinearPlan& linear = plan_.linears[0];
            codes(role).resize(linear.rowCopyBytes(role, rows));
            const auto place = static_cast<size_t>(role);
            deviceCodes_[place] = engine::DeviceMemory(*backend_, codes(role).size());
            deviceColumns_[place] = engine::DeviceMemory(*backend_, linear.columnCopyBytes(role, rows));
        }
        workspace_ = engine::DeviceMemory(*backend_, size_t{64} << 20);
        bindWorkspace();
    }
    /// Again after an op of the test's own that brought another one.
    void bindWorkspace() { backend_->bindWorkspace(workspace_.data(), workspace_.bytes()); }

    /// Start of a step: the slots of activations are cleared.
    void begin() {
        const std::vector<kernels::TensorSlot> clear(static_cast<size_t>(scaling_.slotCount()));
        backend_->upload(scaling_.slots(), clear.data(), clear.size() * sizeof(kernels::TensorSlot));
        scaling_.beginPass(*backend_);
    }
    /// Casts a BF16 tensor as its producer and the second pass would.
    void cast(engine::TensorRole role, const uint16_t* values) {
        const int slot = plan_.slot(0, role);
        const int64_t rows = role == engine::TensorRole::Weight ? out_ : rows_;
        const int64_t cols = role == engine::TensorRole::GradOutput ? out_ : in_;
        const size_t bytes = static_cast<size_t>(rows * cols) * sizeof(uint16_t);
        engine::DeviceMemory in(*backend_, bytes);
        backend_->upload(in.data(), values, bytes);
        if (plan_.anyBlock) {
            if (role == engine::TensorRole::Weight)
                scaling_.castCurrentWeight(*backend_, 0, in.data(), kernels::DType::BF16, deviceCodes(role), flags_);
            else
                scaling_.finishCast(*backend_, slot, in.data(), rows, cols, deviceCodes(role), flags_);
            backend_->download(codes(role).data(), deviceCodes(role).rows, codes(role).size());
            return;
        }
        kernels::Quantize op;
        op.rows = rows;
        op.cols = cols;
        op.in = in.data();
        op.target = scaling_.producerCast(slot, deviceCodes(role), flags_);
        backend_->run(op);
        scaling_.finishCast(*backend_, slot, in.data(), rows, cols, deviceCodes(role), flags_);
        backend_->download(codes(role).data(), deviceCodes(role).rows, codes(role).size());
    }
    void forward(const uint16_t* bias, void* y, kernels::DType type) {
        const size_t biasBytes = static_cast<size_t>(out_) * sizeof(uint16_t);
        const size_t bytes = static_cast<size_t>(rows_ * out_) * kernels::dtypeSize(type);
        engine::DeviceMemory biasMemory(*backend_, biasBytes), out(*backend_, bytes);
        if (bias) backend_->upload(biasMemory.data(), bias, biasBytes);
        linear().forward(*backend_, rows_, operand(engine::TensorRole::Input), operand(engine::TensorRole::Weight),
                         bias ? biasMemory.data() : nullptr, out.data(), type);
        backend_->download(y, out.data(), bytes);
    }
    void backward(void* dx, kernels::DType type, float* dw) {
        const size_t bytes = static_cast<size_t>(rows_ * in_) * kernels::dtypeSize(type);
        const size_t weightBytes = static_cast<size_t>(out_ * in_) * sizeof(float);
        engine::DeviceMemory out(*backend_, bytes), weight(*backend_, weightBytes);
        linear().inputGradient(*backend_, rows_, operand(engine::TensorRole::GradOutput),
                               operand(engine::TensorRole::Weight), out.data(), type);
        linear().weightGradient(*backend_, rows_, operand(engine::TensorRole::GradOutput),
                                operand(engine::TensorRole::Input), static_cast<float*>(weight.data()), false);
        backend_->download(dx, out.data(), bytes);
        backend_->download(dw, weight.data(), weightBytes);
    }
    void update() {
        const kernels::StepState applied;
        engine::DeviceMemory state(*backend_, sizeof(applied));
        backend_->upload(state.data(), &applied, sizeof(applied));
        scaling_.updateDelayed(*backend_, static_cast<const kernels::StepState*>(state.data()));
    }
    kernels::ScaleEntry entry(engine::TensorRole role) const {
        kernels::ScaleEntry entry;
        backend_->download(&entry, scaling_.table() + plan_.slot(0, role), sizeof(entry));
        return entry;
    }
    std::vector<float> window(engine::TensorRole role) const {
        const kernels::ScalingTensor& tensor = scaling_.descriptions()[static_cast<size_t>(plan_.slot(0, role))];
        std::vector<float> window(static_cast<size_t>(tensor.historyLength));
        backend_->download(window.data(), scaling_.history() + tensor.historyOffset, window.size() * sizeof(float));
        return window;
    }
    /// For ops that the test runs itself: codes go to the device's copy, not to xCodes. `values` is device memory.
    kernels::CastTarget target(engine::TensorRole role) {
        return scaling_.producerCast(plan_.slot(0, role), deviceCodes(role), flags_);
    }
    void finish(engine::TensorRole role, const uint16_t* values, int64_t rows, int64_t cols) {
        scaling_.finishCast(*backend_, plan_.slot(0, role), values, rows, cols, deviceCodes(role), flags_);
        backend_->download(codes(role).data(), deviceCodes(role).rows, codes(role).size());
    }
    /// Codes that an op of the test's own wrote.
    void readCodes(engine::TensorRole role) {
        backend_->download(codes(role).data(), deviceCodes(role).rows, codes(role).size());
    }
    kernels::Backend& backend() { return *backend_; }
    std::vector<engine::EffectivePrecision> effective() const { return map_.rows(plan_); }

    std::vector<uint8_t> xCodes, wCodes, dyCodes;

  private:
    static engine::PrecisionPlan makePlan(int64_t rows, int64_t in, int64_t out, const engine::PrecisionConfig& config,
                                          const kernels::Backend& backend) {
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
        plan.anyBlock = linear.block();
        engine::chooseBlockCodes(plan, rows, backend);
        return plan;
    }
    std::vector<uint8_t>& codes(engine::TensorRole role) {
        return role == engine::TensorRole::Input ? xCodes : role == engine::TensorRole::Weight ? wCodes : dyCodes;
    }
    engine::CodePair deviceCodes(engine::TensorRole role) {
        auto* const rows = static_cast<uint8_t*>(deviceCodes_[static_cast<size_t>(role)].data());
        if (!plan_.anyBlock) return {rows, nullptr};
        if (role == engine::TensorRole::Weight && plan_.linears[0].sharesWeightCopy()) return {rows, rows};
        return {rows, static_cast<uint8_t*>(deviceColumns_[static_cast<size_t>(role)].data())};
    }
    /// The codes as the test may have changed them.
    engine::Operand operand(engine::TensorRole role) {
        backend_->upload(deviceCodes(role).rows, codes(role).data(), codes(role).size());
        const int slot = plan_.slot(0, role);
        return {nullptr, deviceCodes(role).rows, deviceCodes(role).transposed, scaling_.scaleInv(slot, flags_),
                scaling_.scaleInvColumn(slot)};
    }
    engine::Linear linear() { return engine::Linear(plan_, 0, map_); }

    int64_t rows_, in_, out_;
    kernels::SerialExecutor executor_;
    std::unique_ptr<kernels::Backend> own_;
    kernels::Backend* backend_;
    engine::PrecisionPlan plan_;
    engine::ScalingState scaling_;
    engine::EffectiveMap map_;
    engine::DeviceMemory scalingMemory_, workspace_, deviceCodes_[3], deviceColumns_[3];  ///< columns: block recipes
    engine::PassFlags flags_;
};

}  // namespace mantissa::test
