// Which product of which linear runs in which format: one value object, made from the recipe and the rules, read by
// everything else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config.h"
#include "engine/numerics.h"
#include "kernels/dtype.h"
#include "kernels/matmul/matmul.h"

namespace mantissa::engine {

enum class LinearKind : uint8_t { Qkv, Proj, Fc1, Fc2, Head };
inline constexpr int kLinearsPerLayer = 4;
inline constexpr int kGemms = 3;  ///< fprop, dgrad, wgrad, in the order of kernels::Gemm

/// Recipes with a scale for each block, quantized apart for each direction. Products multiply BF16 values of the codes,
/// or, where the device can (block_products.h), the codes with their scales.
constexpr bool isBlockRecipe(RecipeKind recipe) {
    return recipe >= RecipeKind::Block128;
}
/// The product that contracts over a tensor's columns and reads its row copy / over its rows, and reads its column
/// copy.
kernels::Gemm rowReader(TensorRole role);
kernels::Gemm columnReader(TensorRole role);

/// One linear: sizes and the recipe of each of its three products.
struct LinearPlan {
    int layer = 0;  ///< -1: the LM head
    LinearKind kind = LinearKind::Qkv;
    std::string layerName, name;  ///< "h.3", "mlp.fc1"; head: "lm_head", ""
    int64_t in = 0, out = 0;      ///< weights are (out, in); the head's out is the padded vocabulary
    RecipeKind recipe[kGemms] = {RecipeKind::Bf16, RecipeKind::Bf16, RecipeKind::Bf16};
    bool blockCodes[kGemms] = {};         ///< block recipes: the product reads codes and scales, not values
    std::string emulatedBecause[kGemms];  ///< block recipes: why it reads values, where it does

    bool fp8(kernels::Gemm gemm) const { return recipe[static_cast<int>(gemm)] != RecipeKind::Bf16; }
    /// Whether some product reads this tensor as FP8 codes / as a plain value of the compute type.
    bool readsCodes(TensorRole role) const;
    bool readsPlain(TensorRole role) const;
    /// The one FP8 recipe of the linear; Bf16 when no product uses FP8.
    RecipeKind fp8Recipe() const;
    bool block() const { return isBlockRecipe(fp8Recipe()); }
    /// block128 and nvfp4 quantize weights in square blocks: row and column copy are the same.
    bool squareWeight() const { return fp8Recipe() == RecipeKind::Block128 || fp8Recipe() == RecipeKind::Nvfp4; }
    std::string fullName() const { return name.empty() ? layerName : layerName + "." + name; }
    bool codesIn(kernels::Gemm gemm) const { return blockCodes[static_cast<int>(gemm)]; }
    /// One copy of the weight serves both products that read it.
    bool sharesWeightCopy() const {
        return block() && squareWeight() && !codesIn(kernels::Gemm::Fprop) && !codesIn(kernels::Gemm::Dgrad);
    }
    /// Bytes of a tensor's row and column copy over `tokens` rows (not used for a weight): codes; under the block
    /// recipes their BF16 values, or codes with the scales behind them.
    size_t rowCopyBytes(TensorRole role, int64_t tokens) const;
    size_t columnCopyBytes(TensorRole role, int64_t tokens) const;
};

/// Quantized tensors have two numbers: the slot (weights of all linears, then inputs, then grad_outputs: the device's
/// order, so that activations can be cleared apart from weights) and the place in the catalogue (order of execution).
struct PrecisionPlan {
    kernels::DType type = kernels::DType::F32;  ///< residual stream, activations, compute copy of the parameters
    bool tf32 = false;
    kernels::DType inputFormat = kernels::DType::E4M3, weightFormat = kernels::DType::E4M3,
                   gradFormat = kernels::DType::E5M2;
    std::vector<LinearPlan> linears;  ///< order of execution; the head is last
    bool anyFp8 = false;
    bool anyBlock = false;
    bool secondWeightCopies = false;  ///< some weight has a column copy of its own (mxfp8, codes with block scales)
    Accumulation accumulation = Accumulation::Mixed;

    int linearCount() const { return static_cast<int>(linears.size()); }
    int tensorCount() const { return 3 * linearCount(); }
    int slot(int linear, TensorRole role) const;
    int linearOfSlot(int slot) const { return slot % linearCount(); }
    TensorRole roleOfSlot(int slot) const;
    /// Of the codes: the configured formats; block128 and mxfp8 are E4M3 throughout (as Transformer Engine), nvfp4
    /// E2M1.
    kernels::DType format(int linear, TensorRole role) const;
    kernels::DType formatOfSlot(int slot) const { return format(linearOfSlot(slot), roleOfSlot(slot)); }
    /// Recipe of the tensor's cast; Bf16 when nothing reads its codes.
    RecipeKind tensorRecipe(int slot) const;
    int headIndex() const { return linearCount() - 1; }
    int linear(int layer, LinearKind kind) const { return layer * kLinearsPerLayer + static_cast<int>(kind); }
    std::vector<CatalogueEntry> catalogue(int64_t rows) const;
    std::vector<int> catalogueSlots() const;  ///< slot of each catalogue entry
};

int64_t paddedVocabulary(const ModelConfig& model);  ///< next multiple of 64
const char* recipeName(RecipeKind recipe);           ///< as in the spec: "bf16", "delayed", "mxfp8", ...
const char* modeName(PrecisionMode mode);            ///< "fp32", "tf32", "fp16", "bf16", "fp8"
bool globMatches(const std::string& pattern, const std::string& text);  ///< * and ?

/// Throws InvalidConfig when the model's sizes do not fit together, or when rules give the FP8 products of one linear
/// different recipes. Rules count in FP8 mode only; first/last layers, then the head's switch, then rules in order, the
/// last match wins.
PrecisionPlan makePrecisionPlan(const ModelConfig& model, const PrecisionConfig& precision);

}  // namespace mantissa::engine
