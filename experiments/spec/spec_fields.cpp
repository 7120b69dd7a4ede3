#include "experiments/spec/spec_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

namespace mantissa::experiments {

namespace {

using engine::Accumulation;
using engine::Algorithm;
using engine::FaultKind;
using engine::Fp8Format;
using engine::NonfinitePolicy;
using engine::PlantedFault;
using engine::PrecisionMode;
using engine::PrecisionRule;
using engine::RecipeKind;
using engine::ScheduleKind;
using Errors = std::vector<SpecError>;

template <typename Enum>
struct Named {
    const char* name;
    Enum value;
};

constexpr Named<PrecisionMode> kModes[] = {{"fp32", PrecisionMode::Fp32},
                                           {"tf32", PrecisionMode::Tf32},
                                           {"fp16", PrecisionMode::Fp16},
                                           {"bf16", PrecisionMode::Bf16},
                                           {"fp8", PrecisionMode::Fp8}};
constexpr Named<Fp8Format> kFormats[] = {{"hybrid", Fp8Format::Hybrid}, {"e4m3", Fp8Format::E4m3}};
constexpr Named<RecipeKind> kRecipes[] = {{"delayed", RecipeKind::Delayed}, {"current", RecipeKind::Current},
                                          {"fixed", RecipeKind::Fixed},     {"block128", RecipeKind::Block128},
                                          {"mxfp8", RecipeKind::Mxfp8},     {"nvfp4", RecipeKind::Nvfp4}};
constexpr Named<RecipeKind> kRuleRecipes[] = {{"bf16", RecipeKind::Bf16},         {"delayed", RecipeKind::Delayed},
                                              {"current", RecipeKind::Current},   {"fixed", RecipeKind::Fixed},
                                              {"block128", RecipeKind::Block128}, {"mxfp8", RecipeKind::Mxfp8},
                                              {"nvfp4", RecipeKind::Nvfp4}};
constexpr Named<Accumulation> kAccumulations[] = {{"mixed", Accumulation::Mixed},
                                                  {"promoted", Accumulation::Promoted},
                                                  {"fast", Accumulation::Fast},
                                                  {"limited14", Accumulation::Limited14}};
constexpr Named<FaultKind> kFaults[] = {
    {"outlier_channel", FaultKind::OutlierChannel},  {"weight_nan", FaultKind::WeightNan},
    {"freeze_scale_inf", FaultKind::FreezeScaleInf}, {"never_update", FaultKind::NeverUpdate},
    {"stale_weight", FaultKind::StaleWeight},        {"activation_inf", FaultKind::ActivationInf},
    {"gradient_nan", FaultKind::GradientNan}};
constexpr Named<Algorithm> kAlgorithms[] = {{"max", Algorithm::Max}, {"most_recent", Algorithm::MostRecent}};
constexpr Named<ScheduleKind> kSchedules[] = {
    {"constant", ScheduleKind::Constant}, {"cosine", ScheduleKind::Cosine}, {"linear", ScheduleKind::Linear}};
constexpr Named<NonfinitePolicy> kPolicies[] = {{"skip", NonfinitePolicy::Skip},
                                                {"continue", NonfinitePolicy::Continue},
                                                {"stop", NonfinitePolicy::Stop},
                                                {"pause", NonfinitePolicy::Pause}};
constexpr Named<bool> kHead[] = {{"bf16", false}, {"fp8", true}};
constexpr Named<int> kGemms[] = {{"fprop", 1}, {"dgrad", 2}, {"wgrad", 4}, {"all", 7}};

template <typename Enum, size_t N>
std::vector<std::string> namesOf(const Named<Enum> (&table)[N]) {
    std::vector<std::string> names;
    for (const auto& entry : table) names.push_back(entry.name);
    return names;
}

template <typename Enum, size_t N>
const char* nameOf(const Named<Enum> (&table)[N], Enum value) {
    for (const auto& entry : table)
        if (entry.value == value) return entry.name;
    return "?";
}

template <typename Enum, size_t N>
Errors readChoice(const Named<Enum> (&table)[N], const std::string& path, const Json& json, Enum& out) {
    if (json.is_string()) {
        for (const auto& entry : table)
            if (json.get<std::string>() == entry.name) {
                out = entry.value;
                return {};
            }
    }
    return {{path, shown(json) + " is not one of the allowed words", namesOf(table)}};
}

template <typename Enum, size_t N>
SpecField choice(std::string path, const Named<Enum> (&table)[N], Enum& (*at)(RunSpec&)) {
    return {path, namesOf(table),
            [&table, at](const RunSpec& s) { return Json(nameOf(table, at(const_cast<RunSpec&>(s)))); },
            [path, &table, at](RunSpec& s, const Json& json) { return readChoice(table, path, json, at(s)); }};
}

template <typename Int>
SpecField integer(std::string path, int64_t low, uint64_t high, Int& (*at)(RunSpec&), const std::string& note = "") {
    const std::string range = fmt::format("whole number {} … {}{}", low, high, note);
    auto set = [path, low, high, range, at](RunSpec& s, const Json& json) -> Errors {
        bool good = json.is_number_integer() || json.is_number_unsigned();
        if (json.is_number_float()) {  // 1e4 is a whole number for a person
            const double value = json.get<double>();
            if (value == std::floor(value) && std::abs(value) < 9e15) {
                if (value < static_cast<double>(low) || value > static_cast<double>(high))
                    return {{path, shown(json) + " is out of range", {range}}};
                at(s) = static_cast<Int>(value);
                return {};
            }
        }
        if (!good) return {{path, shown(json) + " is not a whole number", {range}}};
        const bool negative = !json.is_number_unsigned() && json.get<int64_t>() < 0;
        const bool tooLow =
            negative ? json.get<int64_t>() < low : low > 0 && json.get<uint64_t>() < static_cast<uint64_t>(low);
        if (tooLow || (!negative && json.get<uint64_t>() > high))
            return {{path, shown(json) + " is out of range", {range}}};
        at(s) = negative ? static_cast<Int>(json.get<int64_t>()) : static_cast<Int>(json.get<uint64_t>());
        return {};
    };
    return {path, {range}, [at](const RunSpec& s) { return Json(at(const_cast<RunSpec&>(s))); }, set};
}

enum class Low { Open, Closed };

template <typename Real>
SpecField real(std::string path, double low, Low kind, double high, Real& (*at)(RunSpec&),
               const std::string& note = "") {
    const std::string range = kind == Low::Open ? fmt::format("number above {} to {}{}", low, high, note)
                                                : fmt::format("number {} … {}{}", low, high, note);
    auto set = [path, low, kind, high, range, at](RunSpec& s, const Json& json) -> Errors {
        if (!json.is_number()) return {{path, shown(json) + " is not a number", {range}}};
        const Real value = static_cast<Real>(json.get<double>());
        const bool inside = value <= static_cast<Real>(high) &&
                            (kind == Low::Open ? value > static_cast<Real>(low) : value >= static_cast<Real>(low));
        if (!inside) return {{path, shown(json) + " is out of range", {range}}};
        at(s) = value;
        return {};
    };
    auto get = [at](const RunSpec& s) {
        if constexpr (std::is_same_v<Real, float>)
            return floatJson(at(const_cast<RunSpec&>(s)));
        else
            return Json(at(const_cast<RunSpec&>(s)));
    };
    return {path, {range}, get, set};
}

SpecField boolean(std::string path, bool& (*at)(RunSpec&)) {
    return {path,
            {"true", "false"},
            [at](const RunSpec& s) { return Json(at(const_cast<RunSpec&>(s))); },
            [path, at](RunSpec& s, const Json& json) -> Errors {
                if (!json.is_boolean()) return {{path, shown(json) + " is neither true nor false", {"true", "false"}}};
                at(s) = json.get<bool>();
                return {};
            }};
}

SpecField text(std::string path, std::vector<std::string> allowed, bool closed, std::string& (*at)(RunSpec&)) {
    return {path, allowed, [at](const RunSpec& s) { return Json(at(const_cast<RunSpec&>(s))); },
            [path, allowed, closed, at](RunSpec& s, const Json& json) -> Errors {
                if (!json.is_string() || (!closed && json.get<std::string>().empty()))
                    return {{path, shown(json) + " is not a text", allowed}};
                const std::string word = json.get<std::string>();
                if (word.find('\0') != std::string::npos) return {{path, "the text holds a zero byte", allowed}};
                if (closed && std::count(allowed.begin(), allowed.end(), word) == 0)
                    return {{path, shown(json) + " is not one of the allowed words", allowed}};
                at(s) = word;
                return {};
            }};
}

const std::vector<std::string> kRuleFields = {"match", "gemm", "recipe"};

Errors readRule(const std::string& path, const Json& json, PrecisionRule& rule) {
    if (!json.is_object()) return {{path, shown(json) + " is not an object", kRuleFields}};
    Errors errors;
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
        errors.push_back({path + ".recipe", "a recipe is needed", namesOf(kRuleRecipes)});
    else
        for (auto& error : readChoice(kRuleRecipes, path + ".recipe", json["recipe"], rule.recipe))
            errors.push_back(error);
    return errors;
}

SpecField rules() {
    const std::vector<std::string> allowed = {
        "list of {match, gemm: fprop|dgrad|wgrad|all, recipe: bf16|delayed|current|fixed|block128|mxfp8|nvfp4}"};
    auto get = [](const RunSpec& s) {
        Json list = Json::array();
        for (const auto& rule : s.trainer.precision.rules)
            for (const int gemms : {7, 1, 2, 4}) {  // two of the three products stand as two rules
                if (gemms == 7 ? rule.gemms != 7 : rule.gemms == 7 || (rule.gemms & gemms) == 0) continue;
                list.push_back(Json{{"match", rule.match},
                                    {"gemm", nameOf(kGemms, gemms)},
                                    {"recipe", nameOf(kRuleRecipes, rule.recipe)}});
            }
        return list;
    };
    auto set = [allowed](RunSpec& s, const Json& json) -> Errors {
        if (!json.is_array()) return {{"precision.rules", shown(json) + " is not a list", allowed}};
        if (json.size() > 1000)
            return {{"precision.rules", fmt::format("{} rules are too many", json.size()), {"at most 1000 rules"}}};
        std::vector<PrecisionRule> list(json.size());
        Errors errors;
        for (size_t i = 0; i < json.size(); ++i)
            for (auto& error : readRule(fmt::format("precision.rules[{}]", i), json[i], list[i]))
                errors.push_back(error);
        if (errors.empty()) s.trainer.precision.rules = list;
        return errors;
    };
    return {"precision.rules", allowed, get, set};
}

SpecField head() {
    SpecField field = choice(
        "precision.head", kHead, +[](RunSpec& s) -> bool& { return s.trainer.precision.headFp8; });
    auto words = field.set;
    field.set = [words](RunSpec& s, const Json& json) -> Errors {
        if (!json.is_boolean()) return words(s, json);
        s.trainer.precision.headFp8 = json.get<bool>();
        return {};
    };
    return field;
}

const std::vector<std::string> kFaultFields = {"kind", "step", "target", "channel", "value"};

Errors readFault(const std::string& path, const Json& json, PlantedFault& fault) {
    if (!json.is_object()) return {{path, shown(json) + " is not an object", kFaultFields}};
    Errors errors;
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

SpecField faults() {
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
    auto set = [allowed](RunSpec& s, const Json& json) -> Errors {
        if (!json.is_array()) return {{"faults", shown(json) + " is not a list", allowed}};
        if (json.size() > 100) return {{"faults", fmt::format("{} faults are too many", json.size()), {"at most 100"}}};
        std::vector<PlantedFault> list(json.size());
        Errors errors;
        for (size_t i = 0; i < json.size(); ++i)
            for (auto& error : readFault(fmt::format("faults[{}]", i), json[i], list[i])) errors.push_back(error);
        if (errors.empty()) s.trainer.faults = list;
        return errors;
    };
    return {"faults", allowed, get, set};
}

/// Globs over linears whose products are done again in higher precision.
SpecField shadowMatch() {
    const std::vector<std::string> allowed = {"list of globs such as h.*.mlp.*, lm_head; empty: every linear"};
    auto get = [](const RunSpec& s) { return Json(s.trainer.probes.shadowMatch); };
    auto set = [allowed](RunSpec& s, const Json& json) -> Errors {
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

/// Recipes that automatic precision tries after a product's own, safest last.
SpecField ladder() {
    const std::vector<std::string> allowed = {"list of current, block128, mxfp8, bf16; each once, bf16 last if at all"};
    auto get = [](const RunSpec& s) { return Json(s.autoPrecision.ladder); };
    auto set = [allowed](RunSpec& s, const Json& json) -> Errors {
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

SpecField version() {
    return {"version",
            {"1"},
            [](const RunSpec&) { return Json(RunSpec::kVersion); },
            [](RunSpec&, const Json& json) -> Errors {
                if (json == RunSpec::kVersion) return {};
                return {{"version", shown(json) + " is not a version that this program knows", {"1"}}};
            }};
}

#define AT(Type, member) +[](RunSpec& s) -> Type& { return s.member; }

std::vector<SpecField> makeFields() {
    constexpr uint64_t kInt = std::numeric_limits<int>::max();
    constexpr int64_t kSteps = 1'000'000'000;
    std::vector<SpecField> fields = {
        version(),
        text("preset", {"name of a preset, or empty"}, false, AT(std::string, preset)),
        integer("seed", 0, std::numeric_limits<uint64_t>::max(), AT(uint64_t, trainer.seed)),
        integer("model.vocabulary", 2, 1 << 20, AT(int, trainer.model.vocabulary)),
        integer("model.width", 32, 1 << 16, AT(int, trainer.model.width)),
        integer("model.heads", 1, 2048, AT(int, trainer.model.heads)),
        integer("model.layers", 1, 1024, AT(int, trainer.model.layers)),
        integer("model.ffn", 16, 1 << 18, AT(int, trainer.model.ffn)),
        integer("model.context", 8, 1 << 16, AT(int, trainer.model.context)),
        boolean("model.tied_head", AT(bool, trainer.model.tiedHead)),
        boolean("model.fused_norm", AT(bool, trainer.switches.fusedNorm)),
        text("data.path", {"text:kjv", "text:generated", "a text file", "a folder", "a .bin or .u16 token file"}, false,
             AT(std::string, data.path)),
        text("data.tokenizer", {"auto", "chars96", "bytes", "tokens"}, true, AT(std::string, data.tokenizer)),
        real("data.validation_fraction", 0, Low::Open, 0.5, AT(double, data.validationFraction)),
        integer("train.steps", 1, kSteps, AT(int64_t, trainer.steps)),
        integer("train.batch", 1, 1 << 16, AT(int, trainer.batch)),
        integer("train.accumulation", 1, 1 << 16, AT(int, trainer.accumulation)),
        choice("train.nonfinite", kPolicies, AT(NonfinitePolicy, trainer.nonfinite)),
        real("optimizer.learning_rate", 0, Low::Open, 10, AT(float, trainer.optimizer.learningRate)),
        real("optimizer.beta1", 0, Low::Closed, 0.99999, AT(float, trainer.optimizer.beta1)),
        real("optimizer.beta2", 0, Low::Closed, 0.999999, AT(float, trainer.optimizer.beta2)),
        real("optimizer.epsilon", 0, Low::Open, 1, AT(float, trainer.optimizer.epsilon)),
        real("optimizer.weight_decay", 0, Low::Closed, 10, AT(float, trainer.optimizer.weightDecay)),
        real("optimizer.clip", 0, Low::Closed, 1e9, AT(float, trainer.optimizer.clip), "; 0: no clipping"),
        boolean("optimizer.fused", AT(bool, trainer.switches.fusedOptimizer)),
        choice("schedule.kind", kSchedules, AT(ScheduleKind, trainer.schedule.kind)),
        integer("schedule.warmup", 0, kInt, AT(int, trainer.schedule.warmup)),
        real("schedule.final_fraction", 0, Low::Closed, 1, AT(float, trainer.schedule.finalFraction)),
        choice("precision.mode", kModes, AT(PrecisionMode, trainer.precision.mode)),
        choice("precision.format", kFormats, AT(Fp8Format, trainer.precision.format)),
        choice("precision.recipe", kRecipes, AT(RecipeKind, trainer.precision.recipe)),
        real("precision.scale", 0, Low::Open, 1e30, AT(float, trainer.precision.scale)),
        integer("precision.history_length", 1, 1 << 16, AT(int, trainer.precision.historyLength)),
        choice("precision.algorithm", kAlgorithms, AT(Algorithm, trainer.precision.algorithm)),
        integer("precision.margin", 0, 64, AT(int, trainer.precision.margin)),
        boolean("precision.power_of_two", AT(bool, trainer.precision.powerOfTwo)),
        real("precision.amax_epsilon", 0, Low::Closed, 1e30, AT(float, trainer.precision.amaxEpsilon)),
        boolean("precision.stochastic_rounding", AT(bool, trainer.precision.stochasticRounding)),
        boolean("precision.hadamard", AT(bool, trainer.precision.hadamard)),
        choice("precision.accumulation", kAccumulations, AT(Accumulation, trainer.precision.accumulation)),
        rules(),
        integer("precision.first_layers_bf16", 0, 1024, AT(int, trainer.precision.firstLayersBf16)),
        integer("precision.last_layers_bf16", 0, 1024, AT(int, trainer.precision.lastLayersBf16)),
        head(),
        boolean("precision.auto.enabled", AT(bool, autoPrecision.enabled)),
        ladder(),
        real("precision.auto.underflow", 0, Low::Open, 1, AT(double, autoPrecision.underflow), ", share of elements"),
        real("precision.auto.clipped", 0, Low::Closed, 1, AT(double, autoPrecision.clipped), ", share of elements"),
        real("precision.auto.staleness", 1, Low::Open, 1e30, AT(double, autoPrecision.staleness)),
        real("precision.auto.shadow_db", 0, Low::Closed, 200, AT(double, autoPrecision.shadowDb), "; 0: not looked at"),
        integer("precision.auto.patience", 1, 1'000'000, AT(int, autoPrecision.patience)),
        integer("precision.auto.hold", 1, 1'000'000, AT(int, autoPrecision.hold)),
        integer("probes.every", 0, kInt, AT(int, trainer.probes.every), "; 0: never"),
        integer("probes.histograms", 0, kInt, AT(int, trainer.probes.histograms), "; 0: never"),
        boolean("probes.counters", AT(bool, trainer.probes.counters)),
        integer("probes.shadow_every", 0, kInt, AT(int, trainer.probes.shadowEvery), "; 0: never"),
        shadowMatch(),
        boolean("probes.op_checks", AT(bool, trainer.probes.opChecks)),
        integer("probes.flight_steps", 0, 10'000, AT(int, trainer.probes.flightSteps), "; 0: none"),
        faults(),
        real("alarms.underflow", 0, Low::Open, 1, AT(double, alarms.underflow), ", share of elements"),
        integer("alarms.underflow_steps", 1, 1'000'000, AT(int, alarms.underflowSteps)),
        real("alarms.clipped", 0, Low::Closed, 1, AT(double, alarms.clipped), ", share of elements"),
        integer("alarms.clipped_steps", 1, 1'000'000, AT(int, alarms.clippedSteps)),
        real("alarms.staleness", 1, Low::Open, 1e30, AT(double, alarms.staleness)),
        real("alarms.loss_jump", 0, Low::Closed, 1e6, AT(double, alarms.lossJump), "; 0: never"),
        integer("checkpoint.every", 0, kSteps, AT(int64_t, checkpoint.every), "; 0: only at the end"),
        integer("checkpoint.keep", 0, 1'000'000, AT(int, checkpoint.keep), "; 0: all"),
        integer("eval.every", 0, kSteps, AT(int64_t, evalEvery), "; 0: only at the end"),
        integer("eval.batches", 1, 1 << 20, AT(int, trainer.evalBatches)),
    };
    return fields;
}

#undef AT

size_t editDistance(const std::string& a, const std::string& b) {
    std::vector<size_t> row(b.size() + 1);
    for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= a.size(); ++i) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.size(); ++j) {
            const size_t above = row[j];
            row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
            diagonal = above;
        }
    }
    return row[b.size()];
}

}  // namespace

const std::vector<SpecField>& specFields() {
    static const std::vector<SpecField> fields = makeFields();
    return fields;
}

const SpecField* findField(const std::string& path) {
    for (const auto& field : specFields())
        if (field.path == path) return &field;
    return nullptr;
}

std::string nearestName(const std::string& word, const std::vector<std::string>& names) {
    std::string best;
    size_t distance = std::numeric_limits<size_t>::max();
    const std::string cut = word.substr(0, 200);
    for (const auto& name : names)
        if (const size_t d = editDistance(cut, name); d < distance) distance = d, best = name;
    return best;
}

SpecError unknownField(const std::string& path) {
    const size_t dot = path.rfind('.');
    const std::string section = dot == std::string::npos ? "" : path.substr(0, dot + 1);
    std::vector<std::string> siblings, all;
    std::set<std::string> sections;
    for (const auto& field : specFields()) {
        all.push_back(field.path);
        if (!section.empty() && field.path.rfind(section, 0) == 0)
            siblings.push_back(field.path.substr(section.size()));
    }
    if (siblings.empty()) {  // a wrong section, or a bare field name: look for the whole path or its last part
        for (const auto& name : all)
            if (name.substr(name.find('.') + 1) == path.substr(dot == std::string::npos ? 0 : dot + 1))
                return {path, fmt::format("unknown field; nearest is \"{}\"", name), {name}};
        for (const auto& name : all)
            if (const std::string top = name.substr(0, name.find('.'));
                all.end() == std::find(all.begin(), all.end(), top))
                sections.insert(top);
        all.insert(all.end(), sections.begin(), sections.end());
        return {path,
                fmt::format("unknown field; nearest is \"{}\"", nearestName(path, all)),
                {"seed", "faults", "model.*", "data.*", "train.*", "optimizer.*", "schedule.*", "precision.*",
                 "probes.*", "alarms.*", "checkpoint.*", "eval.*"}};
    }
    return {path, fmt::format("unknown field; nearest is \"{}\"", nearestName(path.substr(section.size()), siblings)),
            siblings};
}

std::string shown(const Json& value) {
    std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (text.size() <= 60) return text;
    size_t cut = 57;
    while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;  // not within a UTF-8 character
    return text.substr(0, cut) + "…";
}

Json floatJson(float value) {
    char buffer[64];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
    double wide = 0;
    std::from_chars(buffer, end, wide);
    if (wide == std::floor(wide) && std::abs(wide) < 1e15) return Json(static_cast<int64_t>(wide));
    return Json(wide);
}

const char* precisionModeName(PrecisionMode mode) {
    return nameOf(kModes, mode);
}
const char* recipeKindName(RecipeKind recipe) {
    return nameOf(kRuleRecipes, recipe);
}

}  // namespace mantissa::experiments
