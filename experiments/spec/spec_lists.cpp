#include "experiments/spec/spec_lists.h"

#include <algorithm>

#include "experiments/spec/spec_field_kinds.h"

namespace mantissa::experiments {

namespace {

using engine::FaultKind;
using engine::PlantedFault;
using engine::PrecisionRule;
using engine::RecipeKind;

constexpr Named<FaultKind> kFaults[] = {
    {"outlier_channel", FaultKind::OutlierChannel},  {"weight_nan", FaultKind::WeightNan},
    {"freeze_scale_inf", FaultKind::FreezeScaleInf}, {"never_update", FaultKind::NeverUpdate},
    {"stale_weight", FaultKind::StaleWeight},        {"activation_inf", FaultKind::ActivationInf},
    {"gradient_nan", FaultKind::GradientNan}};
constexpr Named<int> kGemms[] = {{"fprop", 1}, {"dgrad", 2}, {"wgrad", 4}, {"all", 7}};

const std::vector<std::string> kRuleFields = {"match", "gemm", "recipe"};

SpecErrors readRule(const std::string& path, const Json& json, PrecisionRule& rule) {
    if (!json.is_object()) return {{path, shown(json) + " is not an object", kRuleFields}};
    SpecErrors errors;
    for (const auto& [key, value] : json.items())
        if (std::count(kRuleFields.begin(), kRuleFields.end(), key) == 0)
            errors.push_back({path + "." + key,
                              fmt::format("unknown field; nearest is \"{}\"", nearestName(key, kRuleFields)),
                              kRuleFields});
    if (!json.contains("match") || !json["match"].is_string() || json["match"].get<std::string>().empty())
        errors.push_back(
            {path + ".match", "a pattern over names is needed", {"a glob such as h.*.mlp.*, h.0.*, lm_head"}});
    else
        rule.match = json["match"].get<std::string>();
    int gemms = 7;
    if (json.contains("gemm"))
        for (auto& error : readChoice(kGemms, path + ".gemm", json["gemm"], gemms)) errors.push_back(error);
    rule.gemms = static_cast<uint8_t>(gemms);
    if (!json.contains("recipe"))
        errors.push_back({path + ".recipe", "a recipe is needed", namesOf(kProductRecipes)});
    else
        for (auto& error : readChoice(kProductRecipes, path + ".recipe", json["recipe"], rule.recipe))
            errors.push_back(error);
    return errors;
}

const std::vector<std::string> kFaultFields = {"kind", "step", "target", "channel", "value"};

SpecErrors readFault(const std::string& path, const Json& json, PlantedFault& fault) {
    if (!json.is_object()) return {{path, shown(json) + " is not an object", kFaultFields}};
    SpecErrors errors;
    for (const auto& [key, value] : json.items())
        if (std::count(kFaultFields.begin(), kFaultFields.end(), key) == 0)
            errors.push_back({path + "." + key,
                              fmt::format("unknown field; nearest is \"{}\"", nearestName(key, kFaultFields)),
                              kFaultFields});
    const Json kind = json.contains("kind") ? json["kind"] : Json();
    for (auto& error : readChoice(kFaults, path + ".kind", kind, fault.kind)) errors.push_back(error);
    const auto whole = [&](const char* key, int64_t low, int64_t& out) {
        if (!json.contains(key)) return;
        const Json& value = json[key];
        if (value.is_number_integer() && value.get<int64_t>() >= low && value.get<int64_t>() <= 1'000'000'000)
            out = value.get<int64_t>();
        else
            errors.push_back({path + "." + key,
                              shown(value) + " is out of range",
                              {fmt::format("whole number {} … 1000000000", low)}});
    };
    whole("step", 1, fault.step);
    whole("channel", 0, fault.channel);
    if (!json.contains("target") || !json["target"].is_string())
        errors.push_back(
            {path + ".target", "the name of a tensor is needed", {"h.0.mlp.fc1/input, lm_head/weight, …"}});
    else
        fault.target = json["target"].get<std::string>();
    if (json.contains("value")) {
        if (json["value"].is_number() && std::isfinite(json["value"].get<double>()) && json["value"] > 0)
            fault.value = json["value"].get<double>();
        else
            errors.push_back({path + ".value", shown(json["value"]) + " is out of range", {"a number above 0"}});
    }
    return errors;
}

}  // namespace

SpecField precisionRulesField() {
    const std::vector<std::string> allowed = {
        "list of {match, gemm: fprop|dgrad|wgrad|all, recipe: bf16|delayed|current|fixed|block128|mxfp8|nvfp4}"};
    auto get = [](const RunSpec& s) {
        Json list = Json::array();
        for (const auto& rule : s.trainer.precision.rules)
            for (const int gemms : {7, 1, 2, 4}) {  // two of the three products stand as two rules
                if (gemms == 7 ? rule.gemms != 7 : rule.gemms == 7 || (rule.gemms & gemms) == 0) continue;
                list.push_back(Json{{"match", rule.match},
                                    {"gemm", nameOf(kGemms, gemms)},
                                    {"recipe", nameOf(kProductRecipes, rule.recipe)}});
            }
        return list;
    };
    auto set = [allowed](RunSpec& s, const Json& json) -> SpecErrors {
        if (!json.is_array()) return {{"precision.rules", shown(json) + " is not a list", allowed}};
        if (json.size() > 1000)
            return {{"precision.rules", fmt::format("{} rules are too many", json.size()), {"at most 1000 rules"}}};
        std::vector<PrecisionRule> list(json.size());
        SpecErrors errors;
        for (size_t i = 0; i < json.size(); ++i)
            for (auto& error : readRule(fmt::format("precision.rules[{}]", i), json[i], list[i]))
                errors.push_back(error);
        if (errors.empty()) s.trainer.precision.rules = list;
        return errors;
    };
    return {"precision.rules", allowed, get, set};
}

SpecField plantedFaultsField() {
    const std::vector<std::string> allowed = {"list of {kind, step, target, channel, value}; kind: " + [] {
        std::string words;
        for (const auto& name : namesOf(kFaults)) words += (words.empty() ? "" : ", ") + name;
        return words;
    }()};
    auto get = [](const RunSpec& s) {
        Json list = Json::array();
        for (const auto& fault : s.trainer.faults)
            list.push_back(Json{{"kind", nameOf(kFaults, fault.kind)},
                                {"step", fault.step},
                                {"target", fault.target},
                                {"channel", fault.channel},
                                {"value", fault.value}});
        return list;
    };
    auto set = [allowed](RunSpec& s, const Json& json) -> SpecErrors {
        if (!json.is_array()) return {{"faults", shown(json) + " is not a list", allowed}};
        if (json.size() > 100) return {{"faults", fmt::format("{} faults are too many", json.size()), {"at most 100"}}};
        std::vector<PlantedFault> list(json.size());
        SpecErrors errors;
        for (size_t i = 0; i < json.size(); ++i)
            for (auto& error : readFault(fmt::format("faults[{}]", i), json[i], list[i])) errors.push_back(error);
        if (errors.empty()) s.trainer.faults = list;
        return errors;
    };
    return {"faults", allowed, get, set};
}

SpecField shadowMatchField() {
    const std::vector<std::string> allowed = {"list of globs such as h.*.mlp.*, lm_head; empty: every linear"};
    auto get = [](const RunSpec& s) { return Json(s.trainer.probes.shadowMatch); };
    auto set = [allowed](RunSpec& s, const Json& json) -> SpecErrors {
        if (!json.is_array() || json.size() > 100)
            return {{"probes.shadow_match", shown(json) + " is not a list of globs", allowed}};
        std::vector<std::string> list;
        for (const Json& one : json) {
            if (!one.is_string() || one.get<std::string>().empty())
                return {{"probes.shadow_match", shown(one) + " is not a glob", allowed}};
            list.push_back(one.get<std::string>());
        }
        s.trainer.probes.shadowMatch = list;
        return {};
    };
    return {"probes.shadow_match", allowed, get, set};
}

SpecField autoLadderField() {
    const std::vector<std::string> allowed = {"list of current, block128, mxfp8, bf16; each once, bf16 last if at all"};
    auto get = [](const RunSpec& s) { return Json(s.autoPrecision.ladder); };
    auto set = [allowed](RunSpec& s, const Json& json) -> SpecErrors {
        const std::string path = "precision.auto.ladder";
        if (!json.is_array() || json.empty()) return {{path, shown(json) + " is not a list of recipes", allowed}};
        std::vector<std::string> words;
        for (const Json& one : json) {
            const std::string word = one.is_string() ? one.get<std::string>() : "";
            const bool known = word == "current" || word == "block128" || word == "mxfp8" || word == "bf16";
            if (!known || std::count(words.begin(), words.end(), word) > 0 ||
                (!words.empty() && words.back() == "bf16"))
                return {{path, shown(one) + " cannot stand there", allowed}};
            words.push_back(word);
        }
        s.autoPrecision.ladder = words;
        return {};
    };
    return {"precision.auto.ladder", allowed, get, set};
}

}  // namespace mantissa::experiments
