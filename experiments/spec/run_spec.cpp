#include "experiments/spec/run_spec.h"

#include <fmt/format.h>

#include <algorithm>

#include <fstream>
#include <iterator>

#include "experiments/spec/spec_fields.h"
#include "kernels/error.h"

namespace mantissa::experiments {

namespace {

/// Deep nesting would exhaust the stack of a recursive reader of the value; a spec has three levels.
constexpr int kMaxDepth = 16;
constexpr size_t kMaxSpecBytes = 4 << 20;

Json documentOf(const RunSpec& spec) {
    Json document = Json::object();
    for (const auto& field : specFields()) {
        Json* at = &document;
        size_t from = 0;
        for (size_t dot; (dot = field.path.find('.', from)) != std::string::npos; from = dot + 1)
            at = &(*at)[field.path.substr(from, dot - from)];
        (*at)[field.path.substr(from)] = field.get(spec);
    }
    return document;
}

bool isSection(const std::string& name) {
    for (const auto& field : specFields())
        if (field.path.rfind(name + ".", 0) == 0) return true;
    return false;
}

void readSection(const Json& section, const std::string& name, RunSpec& spec, std::vector<SpecError>& errors) {
    for (const auto& [key, value] : section.items()) {
        const std::string path = name.empty() ? key : name + "." + key;
        if (isSection(path)) {
            if (value.is_object())
                readSection(value, path, spec, errors);
            else
                errors.push_back({path, shown(value) + " is not an object", {"an object of " + path + ".*"}});
            continue;
        }
        const SpecField* field = findField(path);
        if (field == nullptr) {
            errors.push_back(unknownField(path));
            continue;
        }
        for (auto& error : field->set(spec, value)) errors.push_back(std::move(error));
    }
}

/// " at line 26": where the text in quotes of a sentence of the JSON library ("number overflow parsing '1e400'") first
/// stands in the document; "" when it does not.
std::string placeOfQuoted(const std::string& what, const std::string& text) {
    const size_t first = what.find('\''), last = what.rfind('\'');
    if (first == std::string::npos || last <= first) return "";
    const size_t at = text.find(what.substr(first + 1, last - first - 1));
    if (at == std::string::npos) return "";
    return fmt::format(" at line {}", 1 + std::count(text.begin(), text.begin() + static_cast<int64_t>(at), '\n'));
}

/// The text parsed; a key that stands twice in one object is an error, since one of the two would be lost silently.
Json parseDocument(const std::string& text, std::vector<SpecError>& errors) {
    std::vector<std::vector<std::string>> keys;
    bool tooDeep = false;
    auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
        if (depth > kMaxDepth) tooDeep = true;
        if (event == Json::parse_event_t::object_start) keys.emplace_back();
        if (event == Json::parse_event_t::object_end && !keys.empty()) keys.pop_back();
        if (event == Json::parse_event_t::key && !keys.empty()) {
            const std::string key = parsed.get<std::string>();
            for (const auto& seen : keys.back())
                if (seen == key) errors.push_back({key, "the field stands twice in one object", {"each field once"}});
            keys.back().push_back(key);
        }
        return !tooDeep;
    };
    const std::vector<std::string> wanted = {"one JSON object; mantissa-run presets nano prints one"};
    if (text.size() > kMaxSpecBytes) {
        errors.push_back(
            {"", fmt::format("the document has {} bytes, too many for a spec", text.size()), {"at most 4 MiB"}});
        return Json();
    }
    try {
        Json document = Json::parse(text, watch);
        if (tooDeep)
            errors.push_back({"", "the document is nested too deeply", wanted});
        else if (!document.is_object())
            errors.push_back({"", "the document is not a JSON object", wanted});
        return document;
    } catch (const Json::exception& error) {
        std::string what = error.what();
        if (const size_t at = what.find("parse error"); at != std::string::npos)
            what = what.substr(at);
        else if (const size_t end = what.find("] "); what.rfind("[json", 0) == 0 && end != std::string::npos)
            what = what.substr(end + 2) + placeOfQuoted(what, text);
        errors.push_back({"", "not valid JSON: " + what.substr(0, 160), wanted});
        return Json();
    }
}

}  // namespace

std::string RunSpec::toJson(int indent) const {
    return documentOf(*this).dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string RunSpec::modelName() const {
    for (const auto& info : presets())
        if (info.isBase) {
            const RunSpec base = presetSpec(info.name);
            const auto &a = base.trainer.model, &b = trainer.model;
            if (a.vocabulary == b.vocabulary && a.width == b.width && a.heads == b.heads && a.layers == b.layers &&
                a.ffn == b.ffn && a.context == b.context && a.tiedHead == b.tiedHead)
                return info.name;
        }
    return fmt::format("d{} L{}", trainer.model.width, trainer.model.layers);
}

std::string RunSpec::recipeName() const {
    const auto& precision = trainer.precision;
    if (precision.mode != engine::PrecisionMode::Fp8) return precisionModeName(precision.mode);
    std::string name = std::string("fp8 ") + recipeKindName(precision.recipe);
    if (precision.recipe == engine::RecipeKind::Fixed) name += " " + floatJson(precision.scale).dump();
    if (precision.format == engine::Fp8Format::E4m3) name += " e4m3";
    return name;
}

std::string RunSpec::defaultName() const {
    std::string recipe = recipeName();
    for (char& c : recipe)
        if (c == ' ') c = '-';
    std::string model = modelName();
    for (char& c : model)
        if (c == ' ') c = '-';
    const bool unscaled = trainer.precision.mode == engine::PrecisionMode::Fp8 &&
                          trainer.precision.recipe == engine::RecipeKind::Fixed && trainer.precision.scale == 1 &&
                          trainer.precision.format == engine::Fp8Format::Hybrid;
    if (unscaled) recipe = "fp8-unscaled";
    return fmt::format("{}-{}-s{}", model, recipe, trainer.seed);
}

ParsedSpec parseSpec(const std::string& json) {
    ParsedSpec parsed;
    const Json document = parseDocument(json, parsed.errors);
    if (!parsed.errors.empty()) return parsed;
    std::string base = "nano";
    if (document.contains("preset") && document["preset"].is_string()) base = document["preset"].get<std::string>();
    try {
        parsed.spec = presetSpec(base);
    } catch (const Error& error) {
        std::vector<std::string> names;
        for (const auto& info : presets())
            if (info.isBase) names.push_back(info.name);
        parsed.errors.push_back({"preset", error.what(), names});
        return parsed;
    }
    readSection(document, "", parsed.spec, parsed.errors);
    parsed.spec.data.vocabulary = parsed.spec.trainer.model.vocabulary;
    if (parsed.errors.empty()) parsed.errors = validate(parsed.spec);
    return parsed;
}

ParsedSpec readSpecFile(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::string text;
    if (file) {
        text.resize(kMaxSpecBytes + 1);
        file.read(text.data(), static_cast<std::streamsize>(text.size()));
        text.resize(static_cast<size_t>(file.gcount()));
    }
    if (!file && !file.eof()) {
        ParsedSpec parsed;
        parsed.errors.push_back(
            {"", path + " cannot be read", {"a file with one JSON object; mantissa-run presets nano prints one"}});
        return parsed;
    }
    return parseSpec(text);
}

std::vector<SpecError> setPath(RunSpec& spec, const std::string& path, const std::string& value) {
    const SpecField* field = findField(path);
    if (field == nullptr) return {unknownField(path)};
    Json json = Json::parse(value, nullptr, false);
    if (json.is_discarded()) json = value;
    std::vector<SpecError> errors = field->set(spec, json);
    if (!errors.empty() && !json.is_string()) {  // "1" for a text field is the text 1
        const auto asText = field->set(spec, Json(value));
        if (asText.empty()) errors.clear();
    }
    spec.data.vocabulary = spec.trainer.model.vocabulary;
    return errors;
}

std::string getPath(const RunSpec& spec, const std::string& path) {
    const SpecField* field = findField(path);
    return field == nullptr ? "" : field->get(spec).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<std::string> specPaths() {
    std::vector<std::string> paths;
    for (const auto& field : specFields()) paths.push_back(field.path);
    return paths;
}

std::vector<std::string> allowedValues(const std::string& path) {
    const SpecField* field = findField(path);
    return field == nullptr ? std::vector<std::string>{} : field->allowed;
}

std::vector<SpecDifference> differences(const RunSpec& left, const RunSpec& right) {
    std::vector<SpecDifference> rows;
    for (const auto& field : specFields()) {
        const Json a = field.get(left), b = field.get(right);
        if (a != b) rows.push_back({field.path, getPath(left, field.path), getPath(right, field.path)});
    }
    return rows;
}

}  // namespace mantissa::experiments
