#include "experiments/spec/spec_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "experiments/spec/spec_field_kinds.h"
#include "experiments/spec/spec_lists.h"

namespace mantissa::experiments {

namespace {

using engine::Accumulation;
using engine::Algorithm;
using engine::Fp8Format;
using engine::NonfinitePolicy;
using engine::PrecisionMode;
using engine::RecipeKind;
using engine::ScheduleKind;

constexpr Named<PrecisionMode> kModes[] = {{"fp32", PrecisionMode::Fp32},
                                           {"tf32", PrecisionMode::Tf32},
                                           {"fp16", PrecisionMode::Fp16},
                                           {"bf16", PrecisionMode::Bf16},
                                           {"fp8", PrecisionMode::Fp8}};
constexpr Named<Fp8Format> kFormats[] = {{"hybrid", Fp8Format::Hybrid}, {"e4m3", Fp8Format::E4m3}};
constexpr Named<RecipeKind> kRecipes[] = {{"delayed", RecipeKind::Delayed}, {"current", RecipeKind::Current},
                                          {"fixed", RecipeKind::Fixed},     {"block128", RecipeKind::Block128},
                                          {"mxfp8", RecipeKind::Mxfp8},     {"nvfp4", RecipeKind::Nvfp4}};
constexpr Named<Accumulation> kAccumulations[] = {{"mixed", Accumulation::Mixed},
                                                  {"promoted", Accumulation::Promoted},
                                                  {"fast", Accumulation::Fast},
                                                  {"limited14", Accumulation::Limited14}};
constexpr Named<Algorithm> kAlgorithms[] = {{"max", Algorithm::Max}, {"most_recent", Algorithm::MostRecent}};
constexpr Named<ScheduleKind> kSchedules[] = {
    {"constant", ScheduleKind::Constant}, {"cosine", ScheduleKind::Cosine}, {"linear", ScheduleKind::Linear}};
constexpr Named<NonfinitePolicy> kPolicies[] = {{"skip", NonfinitePolicy::Skip},
                                                {"continue", NonfinitePolicy::Continue},
                                                {"stop", NonfinitePolicy::Stop},
                                                {"pause", NonfinitePolicy::Pause}};
constexpr Named<bool> kHead[] = {{"bf16", false}, {"fp8", true}};

SpecField head() {
    SpecField field = choice(
        "precision.head", kHead, +[](RunSpec& s) -> bool& { return s.trainer.precision.headFp8; });
    auto words = field.set;
    field.set = [words](RunSpec& s, const Json& json) -> SpecErrors {
        if (!json.is_boolean()) return words(s, json);
        s.trainer.precision.headFp8 = json.get<bool>();
        return {};
    };
    return field;
}

SpecField version() {
    return {"version",
            {"1"},
            [](const RunSpec&) { return Json(RunSpec::kVersion); },
            [](RunSpec&, const Json& json) -> SpecErrors {
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
        precisionRulesField(),
        integer("precision.first_layers_bf16", 0, 1024, AT(int, trainer.precision.firstLayersBf16)),
        integer("precision.last_layers_bf16", 0, 1024, AT(int, trainer.precision.lastLayersBf16)),
        head(),
        boolean("precision.auto.enabled", AT(bool, autoPrecision.enabled)),
        autoLadderField(),
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
        shadowMatchField(),
        boolean("probes.op_checks", AT(bool, trainer.probes.opChecks)),
        integer("probes.flight_steps", 0, 10'000, AT(int, trainer.probes.flightSteps), "; 0: none"),
        real("probes.audit_share", 0, Low::Closed, 1, AT(double, auditShare), ", share of the run's time; 0: never"),
        plantedFaultsField(),
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
    return nameOf(kProductRecipes, recipe);
}

}  // namespace mantissa::experiments
