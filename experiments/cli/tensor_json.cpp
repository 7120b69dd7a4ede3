// Results of the tensor bench as JSON: the keys of `mantissa-run tensor --json`.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "experiments/cli/tensor_command.h"
#include "experiments/format_info.h"

namespace mantissa::experiments {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kListLimit = 4096;

Json number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return value;
}

std::string bits(float value) {
    const uint32_t pattern = __builtin_bit_cast(uint32_t, value);
    return fmt::format("{:08X}", pattern);
}

/// KEY and KEY_bits.
void put(Json& object, const std::string& key, std::optional<float> value) {
    object[key] = value ? number(*value) : Json();
    object[key + "_bits"] = value ? Json(bits(*value)) : Json();
}

template <class T, class F>
Json list(const std::vector<T>& items, bool all, F&& item) {
    Json array = Json::array();
    for (size_t i = 0; i < items.size() && (all || i < kListLimit); ++i) array.push_back(item(items[i]));
    return array;
}

void putList(Json& object, const std::string& key, const std::vector<float>& values, bool all) {
    object[key] = list(values, all, [](float value) { return number(value); });
    object[key + "_bits"] = list(values, all, [](float value) { return bits(value); });
}

Json counters(const TensorCounters& c) {
    return {{"elements", c.elements},
            {"zeros", c.zeros},
            {"underflow", c.underflow},
            {"subnormal", c.subnormal},
            {"over_range", c.overRange},
            {"clipped", c.clipped},
            {"inf", c.inf},
            {"nan", c.nan}};
}

Json blockObject(const TensorBlock& block) {
    Json object = {{"row", block.row}, {"col", block.col}};
    put(object, "scale", block.scale);
    put(object, "scale_inv", block.scaleInv);
    put(object, "amax", block.amax);
    if (block.scaleCode) object["scale_code"] = fmt::format("{:02X}", *block.scaleCode);
    return object;
}

Json resultObject(const TensorResult& result, bool all) {
    const TensorRequest& request = result.request;
    const int digits = (formatFacts(*formatByKey(request.format)).bits + 3) / 4;
    Json object = {{"recipe", request.recipe},
                   {"format", request.format},
                   {"pow2", request.powerOfTwo},
                   {"dtype", request.dtype},
                   {"shape", {request.rows, request.cols}},
                   {"count", result.codes.size()}};
    put(object, "scale", result.scale);
    put(object, "scale_inv", result.scaleInv);
    put(object, "amax", result.amax);
    object["codes"] = list(result.codes, all, [&](uint32_t code) { return fmt::format("{:0{}X}", code, digits); });
    putList(object, "dequantized", result.dequantized, all);
    object["counters"] = counters(result.counters);
    object["mse"] = number(result.mse);
    object["sqnr_db"] = number(result.sqnrDb);
    object["dynamic_range"] = result.dynamicRange ? number(*result.dynamicRange) : Json();
    object["next"] = nullptr;
    if (result.next) {
        Json next = Json::object();
        putList(next, "history", result.next->history, all);
        put(next, "scale", result.next->scale);
        next["updated"] = result.next->updated;
        object["next"] = next;
    }
    object["blocks"] = list(result.blocks, all, blockObject);
    return object;
}

}  // namespace

void writeTensorJson(const TensorResult& result, bool all, std::ostream& out) {
    out << resultObject(result, all).dump() << '\n';
}

void writeTensorJson(const std::vector<TensorResult>& results, bool all, std::ostream& out) {
    out << list(results, true, [&](const TensorResult& result) { return resultObject(result, all); }).dump() << '\n';
}

void writeDecodedJson(const TensorResult& result, bool all, std::ostream& out) {
    const int digits = (formatFacts(*formatByKey(result.request.format)).bits + 3) / 4;
    Json object = {{"format", result.request.format}, {"count", result.codes.size()}};
    put(object, "scale", result.scale);
    put(object, "scale_inv", result.scaleInv);
    object["codes"] = list(result.codes, all, [&](uint32_t code) { return fmt::format("{:0{}X}", code, digits); });
    putList(object, "dequantized", result.dequantized, all);
    out << object.dump() << '\n';
}

void writeTraceJson(const std::vector<TraceRow>& rows, bool all, std::ostream& out) {
    const Json trace = list(rows, all, [&](const TraceRow& row) {
        Json object = {{"update", row.update}};
        put(object, "amax", row.amax);
        putList(object, "window", row.window, all);
        put(object, "scale_used", row.scaleUsed);
        put(object, "next_scale", row.nextScale);
        put(object, "ruling_entry", row.rulingEntry);
        object["age"] = row.age;
        object["frozen_for"] = row.frozenFor;
        object["updated"] = row.updated;
        return object;
    });
    out << trace.dump() << '\n';
}

}  // namespace mantissa::experiments
