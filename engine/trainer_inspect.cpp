// Looks into a step without moving training: its passes run ahead, and every bit of state is put back.
#include <fmt/format.h>

#include <cmath>

#include "engine/trainer_core.h"
#include "kernels/error.h"
#include "kernels/formats/fp8.h"
#include "kernels/formats/half.h"
#include "kernels/scaling/scaling.h"

namespace mantissa::engine {

using namespace kernels;

namespace {

/// Bytes of `type` as numbers.
std::vector<float> decoded(const std::vector<char>& bytes, DType type) {
    std::vector<float> values(bytes.size() / dtypeSize(type));
    for (size_t i = 0; i < values.size(); ++i) {
        if (type == DType::F32)
            values[i] = reinterpret_cast<const float*>(bytes.data())[i];
        else if (type == DType::BF16)
            values[i] = decodeBf16(reinterpret_cast<const uint16_t*>(bytes.data())[i]);
        else
            values[i] = decodeFp16(reinterpret_cast<const uint16_t*>(bytes.data())[i]);
    }
    return values;
}

float roundedTo(float value, DType type) {
    if (type == DType::BF16) return roundToBf16(value);
    return type == DType::F16 ? decodeFp16(encodeFp16(value)) : value;
}

}  // namespace

int TrainerCore::catalogueSlot(int catalogueIndex) const {
    if (catalogueIndex < 0 || catalogueIndex >= static_cast<int>(catalogueSlots_.size()))
        throw Error(ErrorCode::InvalidConfig, fmt::format("tensor {} is not in the catalogue; allowed: 0 ... {}",
                                                          catalogueIndex, catalogueSlots_.size() - 1));
    return catalogueSlots_[static_cast<size_t>(catalogueIndex)];
}

std::vector<float> TrainerCore::captureTensor(int catalogueIndex) {
    requireNoneAhead();
    const PrecisionPlan& plan = program().precision();
    TensorTap tap;
    tap.slot = catalogueSlot(catalogueIndex);
    if (plan.roleOfSlot(tap.slot) == TensorRole::Weight) {
        for (const ParameterInfo& tensor : program().layout().tensors) {
            if (tensor.linear != plan.linearOfSlot(tap.slot)) continue;
            std::vector<float> values(static_cast<size_t>(tensor.count()));
            backend_.download(values.data(), program().parameters().masters + tensor.offset,
                              values.size() * sizeof(float));
            for (float& value : values) value = roundedTo(value, plan.type);
            return values;
        }
    }
    const std::vector<char> control = program_->controlBytesNow(backend_);
    program_->setParameters(backend_, stepParameters(progress_.step + 1));
    prepareTraining(progress_.windows);
    PassFlags flags;
    flags.step = static_cast<uint64_t>(progress_.step + 1);
    flags.count = false;
    program_->inspectPass(backend_, flags, tokens_.data(), targets_.data(), &tap);
    program_->restoreControl(backend_, control);
    backend_.takePhaseTimes();
    return decoded(tap.bytes, plan.type);
}

BlockScales TrainerCore::blockScales(int catalogueIndex) {
    requireNoneAhead();
    const int slot = catalogueSlot(catalogueIndex);
    const PrecisionPlan& plan = program().precision();
    const RecipeKind recipe = plan.tensorRecipe(slot);
    const CatalogueEntry& entry = catalogue_[static_cast<size_t>(catalogueIndex)];
    const std::vector<float> values = captureTensor(catalogueIndex);
    float amax = 0;
    for (float value : values)
        if (std::fabs(value) > amax) amax = std::fabs(value);
    float scale = window(catalogueIndex).scale;
    if (recipe == RecipeKind::Current)
        scale = currentScale(amax, maxFinite(plan.format(plan.roleOfSlot(slot))), config_.precision.powerOfTwo,
                             config_.precision.amaxEpsilon);
    if (recipe == RecipeKind::Bf16) scale = 1;
    return {1, 1, static_cast<int>(entry.rows), static_cast<int>(entry.cols), {scale}, {amax}};
}

}  // namespace mantissa::engine
