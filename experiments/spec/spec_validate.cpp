// Rules between fields of a spec.
#include <fmt/format.h>

#include "engine/plan/precision_plan.h"
#include "experiments/spec/run_spec.h"
#include "kernels/error.h"

namespace mantissa::experiments {

namespace {

using engine::PrecisionMode;

void checkModel(const engine::ModelConfig& model, std::vector<SpecError>& errors) {
    if (model.width % model.heads != 0) {
        errors.push_back({"model.heads",
                          fmt::format("width {} is not a multiple of {} heads", model.width, model.heads),
                          {"a divisor of the width"}});
    } else if (const int head = model.width / model.heads; head != 32 && head != 64 && head != 128) {
        errors.push_back({"model.heads",
                          fmt::format("width {} ÷ {} heads is a head width of {}", model.width, model.heads, head),
                          {"heads that give a head width of 32, 64 or 128"}});
    }
    if (model.ffn % 16 != 0)
        errors.push_back({"model.ffn", fmt::format("{} is not a multiple of 16", model.ffn), {"a multiple of 16"}});
}

void checkData(const RunSpec& spec, std::vector<SpecError>& errors) {
    const int vocabulary = spec.trainer.model.vocabulary;
    const int needed = spec.data.tokenizer == "chars96" ? 96 : spec.data.tokenizer == "bytes" ? 256 : 0;
    if (vocabulary < needed)
        errors.push_back({"model.vocabulary",
                          fmt::format("{} is too small for the tokenizer {}", vocabulary, spec.data.tokenizer),
                          {fmt::format("{} or more", needed)}});
}

/// Names that rules match: h.0.attn.qkv … and lm_head.
bool matchesSomeLinear(const std::string& pattern, int layers) {
    if (engine::globMatches(pattern, "lm_head")) return true;
    for (int layer = 0; layer < layers; ++layer)
        for (const char* linear : {"attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2"})
            if (engine::globMatches(pattern, fmt::format("h.{}.{}", layer, linear))) return true;
    return false;
}

void checkPrecision(const RunSpec& spec, std::vector<SpecError>& errors) {
    const auto& precision = spec.trainer.precision;
    const int layers = spec.trainer.model.layers;
    for (size_t i = 0; i < precision.rules.size(); ++i)
        if (!matchesSomeLinear(precision.rules[i].match, layers))
            errors.push_back(
                {fmt::format("precision.rules[{}].match", i),
                 fmt::format("\"{}\" matches no linear; there are attn.qkv, attn.proj, mlp.fc1, mlp.fc2",
                             precision.rules[i].match),
                 {fmt::format("h.0 … h.{}, each with .attn.qkv, .attn.proj, .mlp.fc1, .mlp.fc2", layers - 1),
                  "lm_head"}});
    for (size_t i = 0; i < spec.trainer.probes.shadowMatch.size(); ++i)
        if (!matchesSomeLinear(spec.trainer.probes.shadowMatch[i], layers))
            errors.push_back(
                {fmt::format("probes.shadow_match[{}]", i),
                 fmt::format("\"{}\" matches no linear", spec.trainer.probes.shadowMatch[i]),
                 {fmt::format("h.0 … h.{}, each with .attn.qkv, .attn.proj, .mlp.fc1, .mlp.fc2", layers - 1),
                  "lm_head"}});
    if (precision.mode != PrecisionMode::Fp8) return;
    if (precision.firstLayersBf16 > layers)
        errors.push_back({"precision.first_layers_bf16",
                          fmt::format("the model has {} layers", layers),
                          {fmt::format("whole number 0 … {}", layers)}});
    if (precision.lastLayersBf16 > layers)
        errors.push_back({"precision.last_layers_bf16",
                          fmt::format("the model has {} layers", layers),
                          {fmt::format("whole number 0 … {}", layers)}});
    const int64_t rows = int64_t{spec.trainer.batch} * spec.trainer.model.context;
    if (rows % 16 != 0)
        errors.push_back({"train.batch",
                          fmt::format("{} × {} tokens are not a multiple of 16, which FP8 products need",
                                      spec.trainer.batch, spec.trainer.model.context),
                          {"batch × context a multiple of 16"}});
}

}  // namespace

std::vector<SpecError> validate(const RunSpec& spec) {
    std::vector<SpecError> errors;
    checkModel(spec.trainer.model, errors);
    checkData(spec, errors);
    checkPrecision(spec, errors);
    if (!errors.empty()) return errors;
    try {
        engine::makePrecisionPlan(spec.trainer.model, spec.trainer.precision);
    } catch (const Error& error) {
        errors.push_back(
            {"precision.rules", error.what(), {"one FP8 recipe for the products of one linear, the others bf16"}});
    }
    return errors;
}

}  // namespace mantissa::experiments
