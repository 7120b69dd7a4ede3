#include "engine/plan/precision_plan.h"

#include <fmt/format.h>

#include "kernels/error.h"
#include "kernels/formats/block_layout.h"

namespace mantissa::engine {

using kernels::DType;
using kernels::Gemm;

namespace {

constexpr Gemm kReaders[3][2] = {{Gemm::Fprop, Gemm::Wgrad}, {Gemm::Fprop, Gemm::Dgrad}, {Gemm::Dgrad, Gemm::Wgrad}};
const char* const kLinearNames[] = {"attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2", ""};

[[noreturn]] void invalid(const std::string& sentence) {
    throw Error(ErrorCode::InvalidConfig, sentence);
}

void checkModel(const ModelConfig& model) {
    const auto positive = [](const char* name, int value) {
        if (value < 1) invalid(fmt::format("model.{}: {} is not a size; allowed: 1 and more", name, value));
    };
    positive("vocabulary", model.vocabulary);
    positive("layers", model.layers);
    positive("heads", model.heads);
    positive("width", model.width);
    positive("ffn", model.ffn);
    positive("context", model.context);
    if (model.width % model.heads != 0)
        invalid(fmt::format("model.heads: {} heads do not divide width {}", model.heads, model.width));
    const int headWidth = model.width / model.heads;
    if (headWidth != 16 && headWidth != 32 && headWidth != 64 && headWidth != 128)
        invalid(fmt::format("model.heads: head width {} (width {} / heads {}); allowed: 16, 32, 64, 128", headWidth,
                            model.width, model.heads));
    if (model.ffn % 16 != 0) invalid(fmt::format("model.ffn: {}; allowed: multiples of 16", model.ffn));
}

LinearPlan makeLinear(const ModelConfig& model, int layer, LinearKind kind) {
    LinearPlan linear;
    linear.layer = layer;
    linear.kind = kind;
    linear.layerName = layer < 0 ? "lm_head" : "h." + std::to_string(layer);
    linear.name = kLinearNames[static_cast<int>(kind)];
    const int64_t width = model.width, ffn = model.ffn;
    switch (kind) {
        case LinearKind::Qkv:
            linear.in = width, linear.out = 3 * width;
            break;
        case LinearKind::Proj:
            linear.in = width, linear.out = width;
            break;
        case LinearKind::Fc1:
            linear.in = width, linear.out = ffn;
            break;
        case LinearKind::Fc2:
            linear.in = ffn, linear.out = width;
            break;
        case LinearKind::Head:
            linear.in = width, linear.out = paddedVocabulary(model);
            break;
    }
    return linear;
}

void applyRules(LinearPlan& linear, const ModelConfig& model, const PrecisionConfig& precision) {
    const bool head = linear.kind == LinearKind::Head;
    const bool edge =
        linear.layer < precision.firstLayersBf16 || linear.layer >= model.layers - precision.lastLayersBf16;
    RecipeKind base = precision.recipe;
    if (head ? !precision.headFp8 : edge) base = RecipeKind::Bf16;
    for (RecipeKind& recipe : linear.recipe) recipe = base;
    const std::string full = linear.fullName();
    for (const PrecisionRule& rule : precision.rules) {
        if (!globMatches(rule.match, full)) continue;
        for (int gemm = 0; gemm < kGemms; ++gemm)
            if (rule.gemms >> gemm & 1) linear.recipe[gemm] = rule.recipe;
    }
    for (RecipeKind recipe : linear.recipe)
        if (recipe != RecipeKind::Bf16 && recipe != linear.fp8Recipe())
            invalid(fmt::format("precision.rules: {} gets {} and {}; allowed: one FP8 recipe a linear, beside bf16",
                                full, recipeName(linear.fp8Recipe()), recipeName(recipe)));
}

void checkRule(const PrecisionRule& rule, const std::vector<LinearPlan>& linears) {
    for (const LinearPlan& linear : linears)
        if (globMatches(rule.match, linear.fullName())) return;
    invalid(
        fmt::format("precision.rules: \"{}\" matches no linear; they are named h.0.attn.qkv ... {}.mlp.fc2, lm_head",
                    rule.match, linears[linears.size() - 2].layerName));
}

}  // namespace

Gemm rowReader(TensorRole role) {
    return role == TensorRole::GradOutput ? Gemm::Dgrad : Gemm::Fprop;
}

Gemm columnReader(TensorRole role) {
    return role == TensorRole::Weight ? Gemm::Dgrad : Gemm::Wgrad;
}

bool LinearPlan::readsCodes(TensorRole role) const {
    const Gemm* readers = kReaders[static_cast<int>(role)];
    return fp8(readers[0]) || fp8(readers[1]);
}

bool LinearPlan::readsPlain(TensorRole role) const {
    const Gemm* readers = kReaders[static_cast<int>(role)];
    return !fp8(readers[0]) || !fp8(readers[1]);
}

RecipeKind LinearPlan::fp8Recipe() const {
    for (RecipeKind one : recipe)
        if (one != RecipeKind::Bf16) return one;
    return RecipeKind::Bf16;
}

namespace {

/// A copy as it is stored; reader: the one product that reads it.
size_t copyBytes(const LinearPlan& linear, TensorRole role, Gemm reader, int64_t rows, int64_t cols) {
    const bool square = role == TensorRole::Weight && linear.squareWeight();
    if (linear.codesIn(reader)) return kernels::blockCodeBytes(rows, cols, square);
    return static_cast<size_t>(rows * cols) * (linear.block() ? 2 : 1);
}

}  // namespace

size_t LinearPlan::rowCopyBytes(TensorRole role, int64_t tokens) const {
    const int64_t rows = role == TensorRole::Weight ? out : tokens, cols = role == TensorRole::GradOutput ? out : in;
    return copyBytes(*this, role, rowReader(role), rows, cols);
}

size_t LinearPlan::columnCopyBytes(TensorRole role, int64_t tokens) const {
    const int64_t rows = role == TensorRole::Weight ? out : tokens, cols = role == TensorRole::GradOutput ? out : in;
    return copyBytes(*this, role, columnReader(role), cols, rows);
}

int PrecisionPlan::slot(int linear, TensorRole role) const {
    const int group = role == TensorRole::Weight ? 0 : role == TensorRole::Input ? 1 : 2;
    return group * linearCount() + linear;
}

TensorRole PrecisionPlan::roleOfSlot(int slot) const {
    const TensorRole roles[] = {TensorRole::Weight, TensorRole::Input, TensorRole::GradOutput};
    return roles[slot / linearCount()];
}

DType PrecisionPlan::format(int linear, TensorRole role) const {
    const RecipeKind recipe = linears[static_cast<size_t>(linear)].fp8Recipe();
    if (recipe == RecipeKind::Nvfp4) return DType::E2M1;
    if (isBlockRecipe(recipe)) return DType::E4M3;
    if (role == TensorRole::GradOutput) return gradFormat;
    return role == TensorRole::Input ? inputFormat : weightFormat;
}

RecipeKind PrecisionPlan::tensorRecipe(int slot) const {
    const LinearPlan& linear = linears[linearOfSlot(slot)];
    return linear.readsCodes(roleOfSlot(slot)) ? linear.fp8Recipe() : RecipeKind::Bf16;
}

std::vector<int> PrecisionPlan::catalogueSlots() const {
    std::vector<int> slots;
    for (int linear = 0; linear < linearCount(); ++linear) {
        slots.push_back(slot(linear, TensorRole::Input));
        slots.push_back(slot(linear, TensorRole::Weight));
    }
    for (int linear = 0; linear < linearCount(); ++linear) slots.push_back(slot(linear, TensorRole::GradOutput));
    return slots;
}

std::vector<CatalogueEntry> PrecisionPlan::catalogue(int64_t rows) const {
    std::vector<CatalogueEntry> entries;
    for (int slot : catalogueSlots()) {
        const LinearPlan& linear = linears[linearOfSlot(slot)];
        const TensorRole role = roleOfSlot(slot);
        const RecipeKind recipe = tensorRecipe(slot);
        const bool cast = recipe != RecipeKind::Bf16;
        CatalogueEntry entry{linear.layerName, linear.name, role, "", recipeName(recipe), rows, linear.in};
        const DType plain = type == DType::BF16 || type == DType::F16 ? type : DType::F32;
        entry.format = cast ? dtypeName(formatOfSlot(slot)) : plain == DType::F32 ? "fp32" : dtypeName(plain);
        if (role == TensorRole::Weight) entry.rows = linear.out;
        if (role == TensorRole::GradOutput) entry.cols = linear.out;
        if (!cast) entry.recipe = tf32 ? "tf32" : entry.format;
        entries.push_back(entry);
    }
    return entries;
}

int64_t paddedVocabulary(const ModelConfig& model) {
    return (static_cast<int64_t>(model.vocabulary) + 63) / 64 * 64;
}

const char* recipeName(RecipeKind recipe) {
    switch (recipe) {
        case RecipeKind::Bf16:
            return "bf16";
        case RecipeKind::Delayed:
            return "delayed";
        case RecipeKind::Current:
            return "current";
        case RecipeKind::Fixed:
            return "fixed";
        case RecipeKind::Block128:
            return "block128";
        case RecipeKind::Mxfp8:
            return "mxfp8";
        case RecipeKind::Nvfp4:
            return "nvfp4";
    }
    return "?";
}

const char* modeName(PrecisionMode mode) {
    switch (mode) {
        case PrecisionMode::Fp32:
            return "fp32";
        case PrecisionMode::Tf32:
            return "tf32";
        case PrecisionMode::Fp16:
            return "fp16";
        case PrecisionMode::Bf16:
            return "bf16";
        case PrecisionMode::Fp8:
            return "fp8";
    }
    return "?";
}

bool globMatches(const std::string& pattern, const std::string& text) {
    size_t p = 0, t = 0, star = std::string::npos, mark = 0;
    while (t < text.size()) {
        if (p < pattern.size() && pattern[p] == '*') {
            star = p++;
            mark = t;
        } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
            ++p, ++t;
        } else if (star != std::string::npos) {
            p = star + 1;
            t = ++mark;
        } else {
            return false;
        }
    }
    while (p < pattern.size() && pattern[p] == '*') ++p;
    return p == pattern.size();
}

PrecisionPlan makePrecisionPlan(const ModelConfig& model, const PrecisionConfig& precision) {
    checkModel(model);
    if (precision.mode == PrecisionMode::Fp8 && precision.historyLength < 1)
        invalid(fmt::format("precision.history_length: {}; allowed: 1 and more", precision.historyLength));
    PrecisionPlan plan;
    switch (precision.mode) {
        case PrecisionMode::Fp32:
            break;
        case PrecisionMode::Tf32:
            plan.tf32 = true;
            break;
        case PrecisionMode::Fp16:
            plan.type = DType::F16;
            break;
        case PrecisionMode::Bf16:
        case PrecisionMode::Fp8:
            plan.type = DType::BF16;
            break;
    }
    plan.accumulation = precision.accumulation;
    if (precision.format == Fp8Format::E4m3) plan.gradFormat = DType::E4M3;
    for (int layer = 0; layer < model.layers; ++layer)
        for (int kind = 0; kind < kLinearsPerLayer; ++kind)
            plan.linears.push_back(makeLinear(model, layer, static_cast<LinearKind>(kind)));
    plan.linears.push_back(makeLinear(model, -1, LinearKind::Head));
    if (precision.mode == PrecisionMode::Fp8)
        for (const PrecisionRule& rule : precision.rules) checkRule(rule, plan.linears);
    if (precision.mode == PrecisionMode::Fp8)
        for (LinearPlan& linear : plan.linears) {
            applyRules(linear, model, precision);
            plan.anyFp8 = plan.anyFp8 || linear.fp8Recipe() != RecipeKind::Bf16;
            plan.anyBlock = plan.anyBlock || linear.block();
            plan.secondWeightCopies = plan.secondWeightCopies || linear.fp8Recipe() == RecipeKind::Mxfp8;
        }
    return plan;
}

}  // namespace mantissa::engine
