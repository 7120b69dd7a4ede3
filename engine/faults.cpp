#include "engine/faults.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "engine/plan/precision_plan.h"
#include "kernels/error.h"

namespace mantissa::engine {

using namespace kernels;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

[[noreturn]] void invalid(const PlantedFault& fault, const std::string& sentence) {
    throw Error(ErrorCode::InvalidConfig,
                fmt::format("faults: {} at \"{}\": {}", faultKindName(fault.kind), fault.target, sentence));
}

const char* wantedTensor(FaultKind kind) {
    switch (kind) {
        case FaultKind::OutlierChannel:
            return "input";
        case FaultKind::WeightNan:
        case FaultKind::StaleWeight:
            return "weight";
        case FaultKind::ActivationInf:
            return "output";
        case FaultKind::GradientNan:
            return "grad_input";
        default:
            return "";
    }
}

/// The slot that "h.2.mlp.fc1/input" means for faults of scales.
int slotOf(const PlantedFault& fault, const PrecisionPlan& plan, int linear) {
    const std::string tensor = fault.target.substr(fault.target.find('/') + 1);
    for (TensorRole role : {TensorRole::Input, TensorRole::Weight, TensorRole::GradOutput})
        if (tensor == roleName(role)) return plan.slot(linear, role);
    invalid(fault, "no such tensor; allowed: input, weight, grad_output");
}

void check(const PlantedFault& fault, const PrecisionPlan& plan, const ModelConfig& model, int linear) {
    const LinearPlan& one = plan.linears[static_cast<size_t>(linear)];
    if (fault.step < 1) invalid(fault, fmt::format("step {}; allowed: 1 and more", fault.step));
    const std::string wanted = wantedTensor(fault.kind), tensor = fault.target.substr(fault.target.find('/') + 1);
    if (!wanted.empty() && tensor != wanted)
        invalid(fault, fmt::format("this fault is one of a linear's {}, not of its {}", wanted, tensor));
    const auto within = [&](int64_t count) {
        if (fault.channel < 0 || fault.channel >= count)
            invalid(fault, fmt::format("channel {}; allowed: 0 ... {}", fault.channel, count - 1));
    };
    switch (fault.kind) {
        case FaultKind::OutlierChannel:
            if (one.kind != LinearKind::Qkv && one.kind != LinearKind::Fc1 &&
                (one.kind != LinearKind::Head || model.tiedHead))
                invalid(fault, "allowed: the input of attn.qkv, mlp.fc1, or of an untied lm_head");
            if (!(std::isfinite(fault.value) && fault.value != 0)) invalid(fault, "value: a finite factor, not 0");
            return within(one.in);
        case FaultKind::WeightNan:
            return within(one.in * one.out);
        case FaultKind::FreezeScaleInf:
        case FaultKind::NeverUpdate:
            if (plan.tensorRecipe(slotOf(fault, plan, linear)) != RecipeKind::Delayed)
                invalid(fault, "its scale is not delayed");
            return;
        case FaultKind::StaleWeight: {
            const RecipeKind recipe = plan.tensorRecipe(plan.slot(linear, TensorRole::Weight));
            if (recipe != RecipeKind::Delayed && recipe != RecipeKind::Fixed)
                invalid(fault, "its codes are not written by the optimizer; allowed: recipe delayed or fixed");
            return;
        }
        case FaultKind::ActivationInf:
            return within(one.out);
        case FaultKind::GradientNan:
            return within(one.in);
    }
}

/// The linear that a fault's target names; checked to be able to have it.
int linearOf(const PlantedFault& planted, const PrecisionPlan& plan, const ModelConfig& model) {
    const size_t slash = planted.target.find('/');
    const std::string name = planted.target.substr(0, slash);
    for (int linear = 0; linear < plan.linearCount() && slash != std::string::npos; ++linear) {
        if (plan.linears[static_cast<size_t>(linear)].fullName() != name) continue;
        check(planted, plan, model, linear);
        return linear;
    }
    invalid(
        planted,
        fmt::format("no such tensor; allowed: h.0 ... h.{0}, each with .attn.qkv, .attn.proj, .mlp.fc1, .mlp.fc2, or "
                    "lm_head, then a slash and the tensor, as in h.{0}.mlp.fc1/input",
                    model.layers - 1));
}

void changeTensor(StepProgram& program, Backend& backend, const ParameterInfo& tensor,
                  const std::function<void(std::vector<float>&)>& change) {
    std::vector<float> values(static_cast<size_t>(tensor.count()));
    float* const device = program.parameters().masters + tensor.offset;
    backend.download(values.data(), device, values.size() * sizeof(float));
    change(values);
    backend.upload(device, values.data(), values.size() * sizeof(float));
}

const ParameterInfo& weightOf(const StepProgram& program, int linear) {
    const PrecisionPlan& plan = program.precision();
    const ParameterLayout& layout = program.layout();
    if (linear == plan.headIndex()) return layout.tensors[static_cast<size_t>(layout.head)];
    const LayerParameters& layer = layout.layers[static_cast<size_t>(linear / kLinearsPerLayer)];
    return layout.tensors[static_cast<size_t>(layer.weight[linear % kLinearsPerLayer])];
}

}  // namespace

std::string faultRefusal(const PlantedFault& fault, const TrainerConfig& config) {
    try {
        if (fault.step > config.steps)
            invalid(fault,
                    fmt::format("step {} comes after the run's last; allowed: 1 ... {}", fault.step, config.steps));
        linearOf(fault, makePrecisionPlan(config.model, config.precision), config.model);
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

FaultPlanter::FaultPlanter(const TrainerConfig& config, const PrecisionPlan& plan, const ParameterLayout&) {
    for (const PlantedFault& planted : config.faults) {
        Fault fault;
        fault.planted = planted;
        fault.linear = linearOf(planted, plan, config.model);
        faults_.push_back(fault);
    }
}

void FaultPlanter::scaleChannel(const Fault& fault, StepProgram& program, Backend& backend) const {
    const ParameterLayout& layout = program.layout();
    const int64_t channel = fault.planted.channel;
    const float factor = static_cast<float>(fault.planted.value);
    int gain = layout.finalGain;
    if (fault.linear != program.precision().headIndex()) {
        const LayerParameters& layer = layout.layers[static_cast<size_t>(fault.linear / kLinearsPerLayer)];
        gain = fault.linear % kLinearsPerLayer == 0 ? layer.norm1Gain : layer.norm2Gain;
    }
    for (int tensor : {gain, gain + 1})
        changeTensor(program, backend, layout.tensors[static_cast<size_t>(tensor)],
                     [&](std::vector<float>& values) { values[static_cast<size_t>(channel)] *= factor; });
    const ParameterInfo& weight = weightOf(program, fault.linear);
    changeTensor(program, backend, weight, [&](std::vector<float>& values) {
        for (int64_t row = 0; row < weight.rows; ++row)
            values[static_cast<size_t>(row * weight.cols + channel)] /= factor;
    });
}

bool FaultPlanter::before(int64_t step, StepProgram& program, Backend& backend) {
    bool changed = false;
    std::vector<PlantedValue> values;
    for (Fault& fault : faults_) {
        const PlantedFault& planted = fault.planted;
        const bool now = step == planted.step, since = step >= planted.step && !fault.ended;
        ScalingState& scaling = program.scaling();
        const auto element = planted.channel;
        switch (planted.kind) {
            case FaultKind::OutlierChannel:
                if (now) scaleChannel(fault, program, backend);
                changed = changed || now;
                break;
            case FaultKind::WeightNan:
                if (now)
                    backend.upload(program.parameters().masters + weightOf(program, fault.linear).offset + element,
                                   &kNan, sizeof(kNan));
                changed = changed || now;
                break;
            case FaultKind::FreezeScaleInf:
                if (now) scaling.putInWindow(backend, slotOf(planted, program.precision(), fault.linear), kInf);
                break;
            case FaultKind::NeverUpdate:
                if (since) scaling.stopUpdates(backend, slotOf(planted, program.precision(), fault.linear));
                break;
            case FaultKind::StaleWeight: {
                if (!since || !fault.codes.empty()) break;
                const CodePair codes = program.model().weightCodes(fault.linear);
                const size_t bytes = static_cast<size_t>(weightOf(program, fault.linear).count());
                if (!codes.rows) break;
                fault.codes.resize(bytes);
                backend.download(fault.codes.data(), codes.rows, bytes);
                if (!codes.transposed) break;
                fault.transposed.resize(bytes);
                backend.download(fault.transposed.data(), codes.transposed, bytes);
                break;
            }
            case FaultKind::ActivationInf:
                if (now) values.push_back({fault.linear, Gemm::Fprop, element, kInf});
                break;
            case FaultKind::GradientNan:
                if (now) values.push_back({fault.linear, Gemm::Dgrad, element, kNan});
                break;
        }
    }
    program.setPlanted(std::move(values));
    return changed;
}

void FaultPlanter::after(int64_t step, StepProgram& program, Backend& backend) {
    for (const Fault& fault : faults_) {
        if (fault.planted.kind != FaultKind::StaleWeight || step < fault.planted.step || fault.ended) continue;
        const CodePair codes = program.model().weightCodes(fault.linear);
        if (codes.rows && !fault.codes.empty()) backend.upload(codes.rows, fault.codes.data(), fault.codes.size());
        if (codes.transposed && !fault.transposed.empty())
            backend.upload(codes.transposed, fault.transposed.data(), fault.transposed.size());
    }
}

bool FaultPlanter::plantsValues(int64_t step) const {
    for (const Fault& fault : faults_)
        if (step == fault.planted.step &&
            (fault.planted.kind == FaultKind::ActivationInf || fault.planted.kind == FaultKind::GradientNan))
            return true;
    return false;
}

void FaultPlanter::rebuilt(int64_t step) {
    for (Fault& fault : faults_) fault.ended = fault.ended || step >= fault.planted.step;
}

}  // namespace mantissa::engine
