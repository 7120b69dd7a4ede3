// The table of all spec fields: path, allowed values, how to read and write each. One entry here is a field everywhere:
// JSON, --set, forms.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/spec/run_spec.h"

namespace mantissa::experiments {

using Json = nlohmann::ordered_json;

struct SpecField {
    std::string path;
    std::vector<std::string> allowed;  ///< values, or one phrase for a range
    std::function<Json(const RunSpec&)> get;
    /// Stores the value, or returns the errors (path complete) and leaves the spec as it is.
    std::function<std::vector<SpecError>(RunSpec&, const Json&)> set;
};

/// In the order of the document.
const std::vector<SpecField>& specFields();
const SpecField* findField(const std::string& path);
/// "unknown field; nearest is learning_rate" with the fields of the same section as allowed values.
SpecError unknownField(const std::string& path);
/// The entry of `names` with the smallest edit distance to `word`; "" when names is empty.
std::string nearestName(const std::string& word, const std::vector<std::string>& names);
/// A JSON value as text for a sentence, cut after 60 characters.
std::string shown(const Json& value);
/// The shortest decimal that reads back as the same float32, as a JSON number.
Json floatJson(float value);

const char* precisionModeName(engine::PrecisionMode mode);
const char* recipeKindName(engine::RecipeKind recipe);

}  // namespace mantissa::experiments
