#include "experiments/tensor_input.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numbers>
#include <random>
#include <string_view>

#include "experiments/format_info.h"
#include "experiments/report/weight_file.h"
#include "kernels/error.h"

namespace mantissa::experiments {
namespace {

constexpr uint64_t kMaxTextBytes = uint64_t{1} << 30;
constexpr int64_t kMaxElements = int64_t{1} << 28;
constexpr size_t kNamesShown = 8;

/// `text` as it may stand in one line of an error.
std::string shown(std::string_view text) {
    std::string line;
    for (char c : text.substr(0, 40)) line += static_cast<unsigned char>(c) < 32 || c == 127 ? '?' : c;
    return text.size() > 40 ? line + "..." : line;
}

std::string_view trimmed(std::string_view text) {
    const size_t first = text.find_first_not_of(" \t\r"), last = text.find_last_not_of(" \t\r");
    return first == std::string_view::npos ? std::string_view() : text.substr(first, last - first + 1);
}

/// One line's numbers; returns how many. A comma at the end of a line closes it.
int64_t parseLine(std::string_view line, const std::string& where, std::vector<float>& values) {
    int64_t count = 0;
    for (size_t at = 0; at <= line.size();) {
        const size_t comma = std::min(line.find(',', at), line.size());
        const std::string_view item = trimmed(line.substr(at, comma - at));
        at = comma + 1;
        if (item.empty() && at > line.size() && count > 0) break;
        const auto number = parseNumber(std::string(item));
        if (!number)
            throw Error(ErrorCode::InvalidConfig,
                        fmt::format("{}: value {} \"{}\" is not a number; allowed: decimal numbers, nan, inf, -inf",
                                    where, values.size() + 1, shown(item)));
        values.push_back(static_cast<float>(*number));
        ++count;
    }
    return count;
}

TensorValues readSafetensors(const std::string& path, const std::string& name) {
    const WeightFile file(path);
    const auto& entries = file.entries();
    const bool only = name.empty() && entries.size() == 1;
    size_t at = 0;
    while (at < entries.size() && !only && entries[at].name != name) ++at;
    if (at == entries.size()) {
        std::string names;
        for (size_t i = 0; i < entries.size() && i < kNamesShown; ++i) names += (i ? ", " : "") + entries[i].name;
        if (entries.size() > kNamesShown) names += fmt::format(", ... ({} in all)", entries.size());
        throw Error(ErrorCode::InvalidConfig,
                    fmt::format("tensor: {}: {}; allowed: {}", path,
                                name.empty() ? std::string("which tensor? FILE.safetensors:NAME")
                                             : "no tensor \"" + shown(name) + "\"",
                                names));
    }
    TensorValues result;
    const engine::SafetensorsEntry& entry = entries[at];
    const auto refuse = [&](const std::string& why) {
        throw Error(ErrorCode::InvalidConfig, fmt::format("tensor: {}: tensor {} {}", path, shown(entry.name), why));
    };
    if (entry.count() == 0) refuse("holds no values");
    if (entry.count() > kMaxElements)
        refuse(fmt::format("has {} elements; allowed: up to {}, and mantissa-run inspect for any number", entry.count(),
                           kMaxElements));
    result.values = file.sample(at, kMaxElements).values;
    result.cols = entry.shape.empty() ? 1 : entry.shape.back();
    result.rows = static_cast<int64_t>(result.values.size()) / result.cols;
    return result;
}

}  // namespace

TensorValues parseTensorValues(const std::string& text, const std::string& where) {
    TensorValues result;
    int64_t lines = 0, width = 0;
    bool equal = true;
    std::string_view rest = text;
    if (rest.starts_with("\xEF\xBB\xBF")) rest.remove_prefix(3);  // spreadsheets write a byte order mark
    while (!rest.empty()) {
        const size_t end = std::min(rest.find('\n'), rest.size());
        const std::string_view line = rest.substr(0, end);
        rest.remove_prefix(std::min(end + 1, rest.size()));
        if (trimmed(line).empty()) continue;
        const int64_t count = parseLine(line, where, result.values);
        equal = equal && (lines == 0 || count == width);
        width = count;
        ++lines;
    }
    if (result.values.empty()) throw Error(ErrorCode::InvalidConfig, where + ": holds no values");
    const bool matrix = equal && width > 1;
    result.rows = matrix ? lines : 1;
    result.cols = matrix ? width : static_cast<int64_t>(result.values.size());
    return result;
}

std::vector<uint32_t> parseTensorCodes(const std::string& text, const std::string& format) {
    const auto known = formatByKey(format);
    if (!known)
        throw Error(ErrorCode::InvalidConfig,
                    fmt::format("tensor: format: \"{}\" is unknown; allowed: e4m3, e5m2, e2m1, e8m0, bf16, fp16",
                                shown(format)));
    std::vector<uint32_t> codes;
    size_t at = 0;
    while ((at = text.find_first_not_of(", \t\r\n", at)) != std::string::npos) {
        const size_t end = std::min(text.find_first_of(", \t\r\n", at), text.size());
        const std::string item = text.substr(at, end - at);
        const auto code = parseCode(*known, item);
        if (!code)
            throw Error(ErrorCode::InvalidConfig,
                        fmt::format("tensor: codes: code {} \"{}\" is no {} code; allowed: 0 ... {:X} in hexadecimal",
                                    codes.size() + 1, shown(item), format, (1u << formatFacts(*known).bits) - 1));
        codes.push_back(*code);
        at = end;
    }
    if (codes.empty()) throw Error(ErrorCode::InvalidConfig, "tensor: codes: holds no codes");
    return codes;
}

TensorValues readTensorFile(const std::string& path) {
    constexpr std::string_view kEnding = ".safetensors";
    const size_t colon = path.find(std::string(kEnding) + ":");
    if (colon != std::string::npos)
        return readSafetensors(path.substr(0, colon + kEnding.size()), path.substr(colon + kEnding.size() + 1));
    if (path.ends_with(kEnding)) return readSafetensors(path, "");
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error))
        throw Error(ErrorCode::InvalidFile,
                    "tensor: " + path + (std::filesystem::exists(path, error) ? ": is not a file" : ": no such file"));
    if (std::filesystem::file_size(path, error) > kMaxTextBytes)
        throw Error(ErrorCode::InvalidFile,
                    "tensor: " + path + ": is larger than 1 GiB of text; allowed: .safetensors for larger tensors");
    std::ifstream file(path, std::ios::binary);
    if (!file) throw Error(ErrorCode::InvalidFile, "tensor: " + path + ": cannot be opened");
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    return parseTensorValues(text, "tensor: " + path);
}

TensorValues normalValues(int64_t count, uint64_t seed) {
    TensorValues result;
    result.cols = count;
    result.values.reserve(static_cast<size_t>(count));
    std::mt19937_64 bits(seed);
    const auto uniform = [&bits] { return (static_cast<double>(bits() >> 11) + 0.5) * 0x1p-53; };  // in (0, 1)
    while (static_cast<int64_t>(result.values.size()) < count) {
        const double radius = std::sqrt(-2 * std::log(uniform())), angle = 2 * std::numbers::pi * uniform();
        result.values.push_back(static_cast<float>(radius * std::cos(angle)));
        if (static_cast<int64_t>(result.values.size()) < count)
            result.values.push_back(static_cast<float>(radius * std::sin(angle)));
    }
    return result;
}

}  // namespace mantissa::experiments
