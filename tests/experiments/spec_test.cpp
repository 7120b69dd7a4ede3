// Run specs: presets, paths, and what a bad field says (proof P12).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "engine/trainer.h"
#include "experiments/spec/run_spec.h"
#include "tests/experiments/support.h"

namespace mantissa::experiments {
namespace {

using testing::Contains;
using testing::HasSubstr;

SpecError firstError(const std::string& json) {
    const ParsedSpec parsed = parseSpec(json);
    EXPECT_FALSE(parsed.ok()) << json;
    return parsed.ok() ? SpecError{} : parsed.errors[0];
}

TEST(Presets, HaveTheNamesOfTheCommandLine) {
    std::set<std::string> names;
    for (const auto& info : presets()) names.insert(info.name);
    for (const std::string base : {"tiny", "nano", "minigpt", "gpt2-124m", "gpt2-350m", "gpt2-1558m", "x4"}) {
        EXPECT_TRUE(names.count(base)) << base;
        for (const std::string suffix : {"-fp32", "-bf16", "-fp8-delayed", "-fp8-current"})
            EXPECT_TRUE(names.count(base + suffix)) << base + suffix;
    }
    EXPECT_TRUE(names.count("nano-fp8-unscaled"));
    EXPECT_EQ(names.size(), 36u);
}

TEST(Presets, AreValidAndCountTheirParameters) {
    for (const auto& info : presets()) {
        const RunSpec spec = presetSpec(info.name);
        EXPECT_TRUE(validate(spec).empty()) << info.name;
        EXPECT_EQ(info.parameters, engine::Trainer::parameterCount(spec.trainer.model)) << info.name;
        EXPECT_TRUE(parseSpec(spec.toJson()).ok()) << info.name;
        EXPECT_EQ(parseSpec(spec.toJson()).spec.toJson(), spec.toJson()) << info.name;
    }
    EXPECT_EQ(engine::Trainer::parameterCount(presetSpec("gpt2-124m").trainer.model), 124439808);
}

TEST(Presets, NanoIsTheOneOfTheDesign) {
    const RunSpec spec = presetSpec("nano");
    const auto& t = spec.trainer;
    EXPECT_EQ(t.model.vocabulary, 96);
    EXPECT_EQ(t.model.width, 128);
    EXPECT_EQ(t.model.heads, 4);
    EXPECT_EQ(t.model.layers, 4);
    EXPECT_EQ(t.model.ffn, 512);
    EXPECT_EQ(t.model.context, 128);
    EXPECT_EQ(t.batch, 16);
    EXPECT_EQ(t.steps, 600);
    EXPECT_FLOAT_EQ(t.optimizer.learningRate, 5e-3f);
    EXPECT_FLOAT_EQ(t.optimizer.clip, 1);
    EXPECT_EQ(t.schedule.warmup, 40);
    EXPECT_EQ(t.schedule.kind, engine::ScheduleKind::Cosine);
    EXPECT_FLOAT_EQ(t.schedule.finalFraction, 0.1f);
    EXPECT_EQ(t.precision.historyLength, 16);
    EXPECT_EQ(t.probes.every, 10);
    EXPECT_EQ(spec.data.path, "text:kjv");
    EXPECT_EQ(spec.recipeName(), "fp8 delayed");
    EXPECT_EQ(presetSpec("gpt2-124m").trainer.precision.historyLength, 1024);
}

/// Proof P07: the unscaled run differs from its healthy twin in recipe and scale only.
TEST(Presets, UnscaledDiffersFromItsTwinInRecipeAndScaleOnly) {
    for (const auto& row : differences(presetSpec("nano-fp8-delayed"), presetSpec("nano-fp8-unscaled")))
        EXPECT_THAT((std::vector<std::string>{"preset", "precision.recipe", "precision.scale"}), Contains(row.path));
    EXPECT_EQ(presetSpec("nano-fp8-unscaled").trainer.precision.scale, 1);
    EXPECT_EQ(presetSpec("nano-fp8-unscaled").trainer.precision.recipe, engine::RecipeKind::Fixed);
}

TEST(Spec, EveryPathReadsBackWhatItPrints) {
    const RunSpec spec = presetSpec("minigpt-bf16");
    for (const auto& path : specPaths()) {
        RunSpec copy = presetSpec("nano");
        EXPECT_TRUE(setPath(copy, path, getPath(spec, path)).empty()) << path;
        EXPECT_EQ(getPath(copy, path), getPath(spec, path)) << path;
        EXPECT_FALSE(allowedValues(path).empty()) << path;
    }
}

TEST(Spec, FloatsKeepTheirShortestDigits) {
    RunSpec spec = presetSpec("nano");
    EXPECT_EQ(getPath(spec, "optimizer.learning_rate"), "0.005");
    EXPECT_TRUE(setPath(spec, "optimizer.learning_rate", "3e-4").empty());
    EXPECT_EQ(spec.trainer.optimizer.learningRate, 3e-4f);
    EXPECT_EQ(getPath(spec, "optimizer.learning_rate"), "0.0003");
}

TEST(Spec, SeedTakesAll64Bits) {
    RunSpec spec = presetSpec("nano");
    EXPECT_TRUE(setPath(spec, "seed", "18446744073709551615").empty());
    EXPECT_EQ(spec.trainer.seed, 18446744073709551615ull);
    EXPECT_EQ(parseSpec(spec.toJson()).spec.trainer.seed, 18446744073709551615ull);
    EXPECT_FALSE(setPath(spec, "seed", "-1").empty());
}

struct BadField {
    const char *path, *value, *message, *allowed;
};

class BadFields : public testing::TestWithParam<BadField> {};

TEST_P(BadFields, NameThemselvesAndWhatIsAllowed) {
    RunSpec spec = presetSpec("nano");
    const std::string before = spec.toJson();
    const auto errors = setPath(spec, GetParam().path, GetParam().value);
    ASSERT_FALSE(errors.empty());
    EXPECT_THAT(errors[0].message, HasSubstr(GetParam().message));
    std::string allowed;
    for (const auto& word : errors[0].allowed) allowed += word + " ";
    EXPECT_THAT(allowed, HasSubstr(GetParam().allowed));
    EXPECT_EQ(spec.toJson(), before) << "a refused value changes nothing";
}

INSTANTIATE_TEST_SUITE_P(
    Spec, BadFields,
    testing::Values(BadField{"optimizer.learning_rate", "-1", "-1 is out of range", "above 0"},
                    BadField{"optimizer.learning_rate", "fast", "\"fast\" is not a number", "above 0"},
                    BadField{"optimizer.learning_rat", "1", "nearest is \"learning_rate\"", "learning_rate"},
                    BadField{"learning_rate", "1", "nearest is \"optimizer.learning_rate\"", "optimizer.learning_rate"},
                    BadField{"model.heads", "0", "0 is out of range", "1 … 2048"},
                    BadField{"model.heads", "2.5", "is not a whole number", "whole number"},
                    BadField{"train.steps", "1e400", "is not", "whole number"},
                    BadField{"precision.mode", "fp9", "\"fp9\"", "fp32"},
                    BadField{"precision.recipe", "mxfp9", "not one of the allowed words", "mxfp8"},
                    BadField{"precision.accumulation", "slow", "not one of the allowed words", "promoted"},
                    BadField{"precision.auto.patienc", "1", "nearest is \"patience\"", "patience"},
                    BadField{"precision.auto.ladder", "[\"bf16\", \"current\"]", "cannot stand there", "bf16 last"},
                    BadField{"precision.auto.underflow", "2", "out of range", "share of elements"},
                    BadField{"probes.shadow_match", "[3]", "is not a glob", "lm_head"},
                    BadField{"alarms.staleness", "0.5", "out of range", "above 1"},
                    BadField{"faults", "[{\"kind\": \"weight_nam\", \"target\": \"h.0.mlp.fc1/weight\"}]",
                             "not one of the allowed words", "weight_nan"},
                    BadField{"faults", "[{\"kind\": \"weight_nan\", \"stpe\": 3, \"target\": \"x\"}]",
                             "nearest is \"step\"", "target"},
                    BadField{"faults", "[{\"kind\": \"weight_nan\"}]", "name of a tensor is needed", "h.0.mlp.fc1"},
                    BadField{"faults", "{}", "is not a list", "outlier_channel"},
                    BadField{"train.nonfinite", "ignore", "\"ignore\"", "skip"},
                    BadField{"model.tied_head", "maybe", "neither true nor false", "true"},
                    BadField{"precision.rules", "[{\"match\":\"h.0.*\",\"gem\":\"all\",\"recipe\":\"bf16\"}]",
                             "nearest is \"gemm\"", "match"},
                    BadField{"precision.rules", "[{\"match\":\"h.0.*\"}]", "a recipe is needed", "bf16"},
                    BadField{"version", "2", "not a version", "1"}));

TEST(Spec, RulesBetweenFieldsAreChecked) {
    RunSpec spec = presetSpec("nano");
    ASSERT_TRUE(setPath(spec, "model.heads", "3").empty());
    auto errors = validate(spec);
    ASSERT_FALSE(errors.empty());
    EXPECT_EQ(errors[0].path, "model.heads");
    EXPECT_THAT(errors[0].message, HasSubstr("128 is not a multiple of 3"));

    spec = presetSpec("nano");
    ASSERT_TRUE(setPath(spec, "precision.rules", "[{\"match\":\"*.attn.prj\",\"recipe\":\"bf16\"}]").empty());
    errors = validate(spec);
    ASSERT_FALSE(errors.empty());
    EXPECT_EQ(errors[0].path, "precision.rules[0].match");
    EXPECT_THAT(errors[0].message, HasSubstr("matches no linear; there are attn.qkv, attn.proj, mlp.fc1, mlp.fc2"));
}

TEST(Spec, ShadowGlobsAndFaultsAreCheckedAndReadBack) {
    RunSpec spec = presetSpec("nano");
    ASSERT_TRUE(setPath(spec, "probes.shadow_match", "[\"h.*.mlp.*\", \"h.7.*\"]").empty());
    const auto errors = validate(spec);
    ASSERT_EQ(errors.size(), 1u);
    EXPECT_EQ(errors[0].path, "probes.shadow_match[1]");
    EXPECT_THAT(errors[0].message, HasSubstr("\"h.7.*\" matches no linear"));
    ASSERT_TRUE(setPath(spec, "probes.shadow_match", "[]").empty());
    ASSERT_TRUE(setPath(spec, "faults",
                        "[{\"kind\": \"outlier_channel\", \"step\": 30, \"target\": "
                        "\"h.2.mlp.fc1/input\", \"channel\": 5, \"value\": 1000}]")
                    .empty());
    ASSERT_TRUE(setPath(spec, "precision.auto.enabled", "true").empty());
    const ParsedSpec again = parseSpec(spec.toJson());
    ASSERT_TRUE(again.ok());
    ASSERT_EQ(again.spec.trainer.faults.size(), 1u);
    EXPECT_EQ(again.spec.trainer.faults[0].step, 30);
    EXPECT_EQ(again.spec.trainer.faults[0].channel, 5);
    EXPECT_TRUE(again.spec.autoPrecision.enabled);
    EXPECT_EQ(again.spec.toJson(), spec.toJson());
}

TEST(Spec, DocumentsThatAreNoSpecsSaySo) {
    EXPECT_THAT(firstError("").message, HasSubstr("not valid JSON"));
    EXPECT_THAT(firstError("[1]").message, HasSubstr("not a JSON object"));
    EXPECT_THAT(firstError("{\"seed\": 1, \"seed\": 2}").message, HasSubstr("twice"));
    EXPECT_THAT(firstError("{\"preset\": \"nanno\"}").message, HasSubstr("nearest is \"nano\""));
    EXPECT_THAT(firstError("{\"optimiser\": {\"learning_rate\": 1}}").message, HasSubstr("nearest is \"optimizer\""));
    EXPECT_EQ(firstError("{\"model\": 3}").path, "model");
    EXPECT_THAT(firstError("{\"optimizer\": {\"clip\": null}}").message, HasSubstr("not a number"));
    EXPECT_THAT(firstError(std::string(100000, '[')).message,
                testing::AnyOf(HasSubstr("nested"), HasSubstr("not valid JSON")));
}

TEST(Spec, MissingFieldsComeFromThePreset) {
    const ParsedSpec parsed = parseSpec("{\"preset\": \"minigpt\", \"train\": {\"batch\": 4}}");
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(parsed.spec.trainer.batch, 4);
    EXPECT_EQ(parsed.spec.trainer.model.width, 768);
}

/// Random changes of a good document: parsed or refused with a reason, never a crash; what is accepted is written back
/// the same.
TEST(Spec, SurvivesRandomChanges) {
    std::mt19937 random(1);
    const std::string good = presetSpec("nano").toJson(-1);
    const std::string alphabet = "{}[]:,\"0123456789eE+-.truefalsn\\\xff\x00 ";
    for (int round = 0; round < 3000; ++round) {
        std::string text = good;
        for (int changes = 1 + static_cast<int>(random() % 4); changes > 0; --changes) {
            const size_t at = random() % text.size();
            switch (random() % 3) {
                case 0:
                    text[at] = alphabet[random() % alphabet.size()];
                    break;
                case 1:
                    text.erase(at, 1 + random() % 20);
                    break;
                default:
                    text.insert(at, text.substr(random() % text.size(), random() % 30));
            }
            if (text.empty()) text = "{";
        }
        const ParsedSpec parsed = parseSpec(text);
        if (parsed.ok()) {
            EXPECT_EQ(parseSpec(parsed.spec.toJson()).spec.toJson(), parsed.spec.toJson());
        }
        for (const auto& error : parsed.errors) EXPECT_FALSE(error.message.empty());
    }
}

}  // namespace
}  // namespace mantissa::experiments
