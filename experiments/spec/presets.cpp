// Presets: base documents of resources/presets, and the precision suffixes laid over them.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "engine/trainer.h"
#include "experiments/spec/resources.h"
#include "experiments/spec/run_spec.h"
#include "experiments/spec/spec_fields.h"
#include "kernels/error.h"

namespace mantissa::experiments {

namespace {

const char* const kBases[] = {"tiny", "nano", "minigpt", "gpt2-124m", "gpt2-350m", "gpt2-1558m", "x4"};

struct Preset {
    PresetInfo info;
    RunSpec spec;
};

void apply(const Json& values, const std::string& section, RunSpec& spec, const std::string& name) {
    for (const auto& [key, value] : values.items()) {
        const std::string path = section.empty() ? key : section + "." + key;
        if (value.is_object()) {
            apply(value, path, spec, name);
            continue;
        }
        const SpecField* field = findField(path);
        const auto errors = field == nullptr ? std::vector<SpecError>{unknownField(path)} : field->set(spec, value);
        if (!errors.empty())
            throw Error(ErrorCode::InvalidConfig, fmt::format("preset {}: {}: {}", name, path, errors[0].message));
    }
}

/// Unpadded parameters of the GPT model; the engine's own count needs no device and stays the reference (a test
/// compares them).
std::string sizeText(int64_t parameters) {
    const double millions = static_cast<double>(parameters) / 1e6;
    return millions < 10 ? fmt::format("{:.1f} M", millions) : fmt::format("{:.0f} M", millions);
}

std::vector<Preset> makePresets() {
    const Json precisions = Json::parse(resourceText("presets/precisions.json"));
    std::vector<Preset> list;
    auto add = [&](const std::string& name, RunSpec spec, bool isBase, const std::string& words) {
        spec.preset = name;
        spec.data.vocabulary = spec.trainer.model.vocabulary;
        const int64_t parameters = engine::Trainer::parameterCount(spec.trainer.model);
        list.push_back({{name, fmt::format("{} parameters, {}; {}", sizeText(parameters), spec.recipeName(), words),
                         parameters, isBase},
                        spec});
    };
    // recipeName() does not need the list of presets, so the list can be made in one go.
    for (const std::string base : kBases) {
        RunSpec spec;
        apply(Json::parse(resourceText("presets/" + base + ".json")), "", spec, base);
        const std::string words = precisions["summaries"][base];
        add(base, spec, true, words);
        for (const auto& [suffix, values] : precisions["suffixes"].items()) {
            RunSpec variant = spec;
            apply(values, "precision", variant, base + "-" + suffix);
            add(base + "-" + suffix, variant, false, words);
        }
        for (const auto& [name, values] : precisions["special"].items())
            if (values["of"] == base) {
                RunSpec variant = spec;
                apply(values["precision"], "precision", variant, name);
                add(name, variant, false, words);
            }
    }
    return list;
}

const std::vector<Preset>& all() {
    static const std::vector<Preset> list = makePresets();
    return list;
}

}  // namespace

std::vector<PresetInfo> presets() {
    std::vector<PresetInfo> infos;
    for (const auto& preset : all()) infos.push_back(preset.info);
    return infos;
}

RunSpec presetSpec(const std::string& name) {
    std::vector<std::string> names;
    for (const auto& preset : all()) {
        if (preset.info.name == name) return preset.spec;
        names.push_back(preset.info.name);
    }
    if (name.empty()) return presetSpec("nano");
    throw Error(ErrorCode::InvalidConfig, fmt::format("there is no preset \"{}\"; nearest is \"{}\"",
                                                      name.substr(0, 60), nearestName(name, names)));
}

}  // namespace mantissa::experiments
