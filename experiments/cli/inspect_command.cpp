// inspect: what is in a safetensors file, of any size.
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>

#include "experiments/cli/command.h"
#include "experiments/report/weight_file.h"
#include "experiments/spec/spec_fields.h"
#include "experiments/text/number_text.h"
#include "experiments/text/plain_text.h"

namespace mantissa::experiments::cli {

namespace {

std::string shapeText(const engine::SafetensorsEntry& entry) {
    std::string text;
    for (const int64_t extent : entry.shape) text += (text.empty() ? "" : " × ") + std::to_string(extent);
    return text.empty() ? "scalar" : text;
}

size_t findEntry(const WeightFile& file, const std::string& name) {
    std::vector<std::string> names;
    for (size_t i = 0; i < file.entries().size(); ++i) {
        if (file.entries()[i].name == name) return i;
        names.push_back(file.entries()[i].name);
    }
    throw Failure{kBadUsage,
                  names.empty() ? fmt::format("inspect: {}: the file holds no tensor", file.path())
                                : fmt::format("inspect: {}: there is no tensor \"{}\"; nearest is \"{}\"; "
                                              "allowed: {} names that inspect lists",
                                              file.path(), name.substr(0, 80), nearestName(name, names), names.size())};
}

Json entryJson(const engine::SafetensorsEntry& entry) {
    return {{"name", entry.name},        {"dtype", entry.dtype},   {"shape", entry.shape},
            {"elements", entry.count()}, {"offset", entry.offset}, {"bytes", entry.bytes}};
}

int list(const Context& context, const WeightFile& file) {
    if (context.json) {
        Json tensors = Json::array();
        for (const auto& entry : file.entries()) tensors.push_back(entryJson(entry));
        printJson(
            {{"path", file.path()}, {"bytes", file.bytes()}, {"metadata", file.metadata()}, {"tensors", tensors}});
        return kDone;
    }
    std::printf("%s, %s, %zu tensors\n", plainText(file.path()).c_str(), bytesText(file.bytes()).c_str(),
                file.entries().size());
    for (const auto& [key, value] : file.metadata())
        std::printf("%s: %s\n", plainText(key, 80).c_str(), plainText(value, 200).c_str());
    std::puts("");
    std::vector<std::vector<std::string>> rows;
    for (const auto& entry : file.entries())
        rows.push_back(
            {entry.name, entry.dtype, shapeText(entry), std::to_string(entry.count()), bytesText(entry.bytes)});
    printTable({"tensor", "type", "shape", "elements", "size"}, rows, {false, false, true, true, true});
    return kDone;
}

Json statisticsJson(const WeightStatistics& s) {
    Json bins = Json::array();
    for (size_t i = 0; i < s.exponents.counts.size(); ++i)
        if (s.exponents.counts[i] > 0)
            bins.push_back({s.exponents.firstExponent + static_cast<int>(i), s.exponents.counts[i]});
    return {{"elements", s.elements},
            {"zeros", s.zeros},
            {"inf", s.inf},
            {"nan", s.nan},
            {"min", number(s.least)},
            {"max", number(s.greatest)},
            {"amax", number(s.amax)},
            {"min_nonzero", number(s.minNonZero)},
            {"mean", number(s.mean)},
            {"deviation", number(s.deviation)},
            {"kurtosis", number(s.kurtosis)},
            {"exponents", bins}};
}

/// A figure over the finite values, in words where there is none.
std::string finiteText(const WeightStatistics& s, double value) {
    if (s.elements == s.inf + s.nan) return s.elements == 0 ? "no element" : "no finite value";
    return std::isnan(value) ? "none: all are 0" : digits(value, 6);
}

void printStatistics(const WeightStatistics& s) {
    const bool some = s.elements > s.inf + s.nan;
    const std::pair<const char*, std::string> rows[] = {
        {"elements", std::to_string(s.elements)},
        {"zeros", std::to_string(s.zeros)},
        {"Inf, NaN", fmt::format("{}, {}", s.inf, s.nan)},
        {"range", some ? fmt::format("{} … {}", digits(s.least, 6), digits(s.greatest, 6)) : finiteText(s, 0)},
        {"amax", finiteText(s, s.amax)},
        {"smallest non-zero", s.minNonZero > 0 ? digits(s.minNonZero, 6) : "none"},
        {"mean", finiteText(s, s.mean)},
        {"deviation", finiteText(s, s.deviation)},
        {"kurtosis", finiteText(s, s.kurtosis)}};
    for (const auto& [name, value] : rows) std::printf("%-18s %s\n", name, value.c_str());
    uint32_t most = 1;
    for (const uint32_t count : s.exponents.counts) most = std::max(most, count);
    std::puts("\nmagnitudes by power of two");
    for (size_t i = 0; i < s.exponents.counts.size(); ++i) {
        const uint32_t count = s.exponents.counts[i];
        if (count == 0) continue;
        const int bar = static_cast<int>(std::ceil(40.0 * count / most));
        std::printf("2^%-5d %12u  %s\n", s.exponents.firstExponent + static_cast<int>(i), count,
                    std::string(static_cast<size_t>(bar), '#').c_str());
    }
}

std::string decibelText(double sqnr) {
    return std::isinf(sqnr) && sqnr > 0 ? "exact" : std::isnan(sqnr) ? "no finite value" : digits(sqnr, 4);
}

int inspect(const Context& context, const std::string& given, const std::string& name) {
    namespace fs = std::filesystem;
    const std::string path = fs::is_directory(given) ? (fs::path(given) / "weights.safetensors").string() : given;
    const WeightFile file(path);
    if (name.empty()) return list(context, file);
    const size_t entry = findEntry(file, name);
    const bool progress = !context.quiet && !context.json && ::isatty(STDERR_FILENO) != 0;
    const WeightStatistics statistics = file.statistics(entry, [&](double done) {
        if (progress) std::fprintf(stderr, "\r%3.0f %%", done * 100);
        return true;
    });
    if (progress) std::fputs("\r      \r", stderr);
    const WeightSample sample = file.sample(entry);
    const auto whatIf = weightWhatIf(sample);
    if (context.json) {
        Json rows = Json::array();
        for (const auto& row : whatIf)
            rows.push_back({{"setting", row.setting},
                            {"underflow_share", number(row.underflow)},
                            {"clipped_share", number(row.clipped)},
                            {"sqnr_db", number(row.sqnrDb)}});
        printJson({{"path", file.path()},
                   {"tensor", entryJson(file.entries()[entry])},
                   {"statistics", statisticsJson(statistics)},
                   {"what_if", {{"elements", sample.values.size()}, {"whole", sample.whole}, {"settings", rows}}}});
        return kDone;
    }
    const auto& tensor = file.entries()[entry];
    std::printf("%s, %s, %s\n\n", plainText(tensor.name).c_str(), tensor.dtype.c_str(), shapeText(tensor).c_str());
    printStatistics(statistics);
    std::printf("\nwhat if%s\n", sample.whole ? "" : fmt::format(", of {} elements", sample.values.size()).c_str());
    std::vector<std::vector<std::string>> rows;
    for (const auto& row : whatIf)
        rows.push_back({row.setting, fmt::format("{:.4g} %", row.underflow * 100),
                        fmt::format("{:.4g} %", row.clipped * 100), decibelText(row.sqnrDb)});
    printTable({"scaling", "underflow", "clipped", "SQNR dB"}, rows, {false, true, true, true});
    return kDone;
}

}  // namespace

void addInspectCommand(CLI::App& app, Context& context) {
    auto path = std::make_shared<std::string>();
    auto name = std::make_shared<std::string>();
    CLI::App* command = app.add_subcommand(
        "inspect", "Tensors of a safetensors file or checkpoint folder; with NAME statistics of one");
    command->add_option("FILE", *path, "safetensors file, or the folder of a checkpoint")->required();
    command->add_option("NAME", *name, "Tensor: statistics, magnitudes, what-if");
    addCommonFlags(*command, context, "mantissa-run inspect model.safetensors h.0.attn.qkv.weight");
    command->callback(
        [&context, path, name] { context.run = [&context, path, name] { return inspect(context, *path, *name); }; });
}

}  // namespace mantissa::experiments::cli
