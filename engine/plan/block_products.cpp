#include "engine/plan/block_products.h"

#include <fmt/format.h>

#include "engine/model/linear.h"

namespace mantissa::engine {

using kernels::Gemm;

namespace {

/// Why the device does not run the product on codes; the linear's blockCodes of it are set.
std::string refusal(const PrecisionPlan& plan, int index, Gemm gemm, int64_t rows, const kernels::Backend& backend) {
    EffectiveMap map(plan);
    const Linear linear(plan, index, map);
    auto* const anywhere = reinterpret_cast<uint8_t*>(uintptr_t{1} << 20);  // aligned; no pointer is followed
    const Operand operand{anywhere, anywhere, anywhere, nullptr, nullptr};
    const void* const bias = index == plan.headIndex() ? nullptr : anywhere;
    if (gemm == Gemm::Fprop)
        return backend.whyNoBlockCodes(linear.forwardOp(rows, operand, operand, bias, anywhere, plan.type));
    if (gemm == Gemm::Dgrad)
        return backend.whyNoBlockCodes(linear.inputGradientOp(rows, operand, operand, anywhere, plan.type));
    auto* const dw = reinterpret_cast<float*>(anywhere);
    const std::string first = backend.whyNoBlockCodes(linear.weightGradientOp(rows, operand, operand, dw, false));
    return first.empty() ? backend.whyNoBlockCodes(linear.weightGradientOp(rows, operand, operand, dw, true)) : first;
}

}  // namespace

void chooseBlockCodes(PrecisionPlan& plan, int64_t rows, const kernels::Backend& backend) {
    for (int index = 0; index < plan.linearCount(); ++index) {
        LinearPlan& linear = plan.linears[static_cast<size_t>(index)];
        for (int gemm = 0; gemm < kGemms; ++gemm) {
            const RecipeKind recipe = linear.recipe[gemm];
            if (!isBlockRecipe(recipe)) continue;
            std::string& why = linear.emulatedBecause[gemm];
            if (recipe != RecipeKind::Block128) {
                why = fmt::format("{} codes are multiplied as values in BF16", recipeName(recipe));
                continue;
            }
            linear.blockCodes[gemm] = true;
            why = refusal(plan, index, static_cast<Gemm>(gemm), rows, backend);
            linear.blockCodes[gemm] = why.empty();
            plan.secondWeightCopies = plan.secondWeightCopies || (why.empty() && gemm != static_cast<int>(Gemm::Wgrad));
        }
    }
}

}  // namespace mantissa::engine
