// What a spec field can be (word from a table, whole number, number, switch, text): reading, writing and the sentence
// for a wrong value.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "experiments/spec/spec_fields.h"

namespace mantissa::experiments {

/// A word of the document and the value that it stands for.
template <typename Enum>
struct Named {
    const char* name;
    Enum value;
};

using SpecErrors = std::vector<SpecError>;

/// The words of a table, in its order.
template <typename Enum, size_t N>
std::vector<std::string> namesOf(const Named<Enum> (&table)[N]) {
    std::vector<std::string> names;
    for (const auto& entry : table) names.push_back(entry.name);
    return names;
}

/// The word for a value; "?" when the table does not know it.
template <typename Enum, size_t N>
const char* nameOf(const Named<Enum> (&table)[N], Enum value) {
    for (const auto& entry : table)
        if (entry.value == value) return entry.name;
    return "?";
}

/// Stores the value that a JSON word stands for in `out`, or returns the error and leaves it.
template <typename Enum, size_t N>
SpecErrors readChoice(const Named<Enum> (&table)[N], const std::string& path, const Json& json, Enum& out) {
    if (json.is_string()) {
        for (const auto& entry : table)
            if (json.get<std::string>() == entry.name) {
                out = entry.value;
                return {};
            }
    }
    return {{path, shown(json) + " is not one of the allowed words", namesOf(table)}};
}

/// A field whose value is one word of `table`, which must outlive it.
template <typename Enum, size_t N>
SpecField choice(std::string path, const Named<Enum> (&table)[N], Enum& (*at)(RunSpec&)) {
    return {path, namesOf(table),
            [&table, at](const RunSpec& s) { return Json(nameOf(table, at(const_cast<RunSpec&>(s)))); },
            [path, &table, at](RunSpec& s, const Json& json) { return readChoice(table, path, json, at(s)); }};
}

/// A whole number from low to high, both allowed; 1e4 counts as one. `note` ends the phrase of the range.
template <typename Int>
SpecField integer(std::string path, int64_t low, uint64_t high, Int& (*at)(RunSpec&), const std::string& note = "") {
    const std::string range = fmt::format("whole number {} … {}{}", low, high, note);
    auto set = [path, low, high, range, at](RunSpec& s, const Json& json) -> SpecErrors {
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

/// Whether the lowest value is itself allowed.
enum class Low { Open, Closed };

/// A finite number from low (see Low) to high.
template <typename Real>
SpecField real(std::string path, double low, Low kind, double high, Real& (*at)(RunSpec&),
               const std::string& note = "") {
    const std::string range = kind == Low::Open ? fmt::format("number above {} to {}{}", low, high, note)
                                                : fmt::format("number {} … {}{}", low, high, note);
    auto set = [path, low, kind, high, range, at](RunSpec& s, const Json& json) -> SpecErrors {
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

/// true or false.
inline SpecField boolean(std::string path, bool& (*at)(RunSpec&)) {
    return {path,
            {"true", "false"},
            [at](const RunSpec& s) { return Json(at(const_cast<RunSpec&>(s))); },
            [path, at](RunSpec& s, const Json& json) -> SpecErrors {
                if (!json.is_boolean()) return {{path, shown(json) + " is neither true nor false", {"true", "false"}}};
                at(s) = json.get<bool>();
                return {};
            }};
}

/// A text; with `closed` one of the allowed words, else any that is not empty.
inline SpecField text(std::string path, std::vector<std::string> allowed, bool closed, std::string& (*at)(RunSpec&)) {
    return {path, allowed, [at](const RunSpec& s) { return Json(at(const_cast<RunSpec&>(s))); },
            [path, allowed, closed, at](RunSpec& s, const Json& json) -> SpecErrors {
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

/// Recipes of a single product, as rules name them.
inline constexpr Named<engine::RecipeKind> kProductRecipes[] = {
    {"bf16", engine::RecipeKind::Bf16},         {"delayed", engine::RecipeKind::Delayed},
    {"current", engine::RecipeKind::Current},   {"fixed", engine::RecipeKind::Fixed},
    {"block128", engine::RecipeKind::Block128}, {"mxfp8", engine::RecipeKind::Mxfp8},
    {"nvfp4", engine::RecipeKind::Nvfp4}};

}  // namespace mantissa::experiments
