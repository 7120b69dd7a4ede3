#include "experiments/cli/command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "experiments/text/number_text.h"
#include "experiments/text/plain_text.h"
#include "kernels/error.h"

namespace mantissa::experiments::cli {

void addCommonFlags(CLI::App& command, Context& context, const std::string& example) {
    command.add_option("--store", context.store,
                       "Workspace file (default: MANTISSA_STORE, else the one the desktop program opens)");
    command.add_flag("--json", context.json, "JSON on standard output and nothing else");
    command.add_flag("--quiet", context.quiet, "No progress on standard error; a run prints nothing unless it fails");
    command.footer("Example: " + example);
}

Failure specFailure(const std::string& what, const std::vector<SpecError>& errors) {
    const SpecError& error = errors.front();
    std::string allowed;
    for (const auto& word : error.allowed) allowed += (allowed.empty() ? "" : ", ") + word;
    std::string line = what + (error.path.empty() ? "" : ": " + error.path) + ": " + error.message;
    if (errors.size() > 1) line += fmt::format(" (and {} more)", errors.size() - 1);
    for (char& c : line)
        if (c == '\n') c = ' ';
    return {kBadUsage, line + "; allowed: " + allowed};
}

void checkLabel(const std::string& what, const std::string& text) {
    constexpr size_t kMostBytes = 1000;
    const bool blank = text.find_first_not_of(' ') == std::string::npos;
    if (!isUtf8(text))
        throw Failure{kBadUsage,
                      fmt::format("{}: \"{}\" has bytes that are no UTF-8 (shown as ?); allowed: one line of UTF-8, "
                                  "1 … {} bytes",
                                  what, plainText(text, 60), kMostBytes)};
    if (blank || hasControls(text) || text.size() > kMostBytes)
        throw Failure{kBadUsage,
                      fmt::format("{}: \"{}\" {}; allowed: one line of 1 … {} bytes", what, plainText(text, 60),
                                  blank                      ? "is empty"
                                  : text.size() > kMostBytes ? "is too long"
                                                             : "has a control character",
                                  kMostBytes)};
}

RunSummary findRun(RunStore& store, const std::string& idOrName) {
    const RunSummary taken = store.find(idOrName);
    if (taken.name != idOrName) return taken;
    const auto runs = store.runs();
    const auto count =
        std::count_if(runs.begin(), runs.end(), [&](const RunSummary& run) { return run.name == idOrName; });
    if (count > 1)
        std::fprintf(stderr, "note: %lld runs bear the name %s; this is the newest, %s\n",
                     static_cast<long long>(count), plainText(taken.name, 60).c_str(), taken.id.c_str());
    return taken;
}

Failure unreadableFailure(const RunStore& store, const RunSummary& run, size_t pieces) {
    return {kStoreUnusable, fmt::format("store: {}: {} record{} of run {} cannot be read and are left out; allowed: a "
                                        "store in which mantissa-run store check finds nothing",
                                        store.path(), pieces, pieces == 1 ? "" : "s", run.name)};
}

void applySets(RunSpec& spec, const std::vector<std::string>& sets) {
    for (const auto& set : sets) {
        const size_t equals = set.find('=');
        if (equals == std::string::npos || equals == 0)
            throw Failure{
                kBadUsage,
                fmt::format(
                    "--set: \"{}\": there is no \"=\"; allowed: PATH=VALUE, as in optimizer.learning_rate=0.003", set)};
        if (const auto errors = setPath(spec, set.substr(0, equals), set.substr(equals + 1)); !errors.empty())
            throw specFailure("--set", errors);
    }
    if (const auto errors = validate(spec); !errors.empty()) throw specFailure("spec", errors);
}

RunSpec loadSpec(const std::string& presetOrFile, const std::vector<std::string>& sets) {
    RunSpec spec;
    std::vector<std::string> names;
    bool isPreset = false;
    for (const auto& info : presets()) {
        isPreset = isPreset || info.name == presetOrFile;
        if (info.isBase) names.push_back(info.name);
    }
    if (isPreset) {
        spec = presetSpec(presetOrFile);
    } else if (std::filesystem::exists(presetOrFile)) {
        ParsedSpec parsed = readSpecFile(presetOrFile);
        if (!parsed.ok()) throw specFailure("spec: " + presetOrFile, parsed.errors);
        spec = parsed.spec;
    } else {
        std::string text;
        for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
        throw Failure{kBadUsage, fmt::format("spec: {}: neither a preset nor a file; allowed: {}, each with -fp32, "
                                             "-bf16, -fp8-delayed, -fp8-current, or a JSON file",
                                             presetOrFile, text)};
    }
    applySets(spec, sets);
    return spec;
}

Json number(double value) {
    return std::isfinite(value) ? Json(value) : Json(numberText(value));
}

void printJson(const Json& json) {
    const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
}

std::string digits(double value, int significant) {
    if (!std::isfinite(value)) return numberText(value);
    if (value == 0) return "0";
    const int before = static_cast<int>(std::floor(std::log10(std::abs(value)))) + 1;
    if (before > 15 || before < -4) return fmt::format("{:.{}e}", value, significant - 1);
    return fmt::format("{:.{}f}", value, std::max(0, significant - before));
}

bool outputIsTerminal() {
    return ::isatty(STDOUT_FILENO) != 0;
}

namespace {
/// Characters, not bytes, of UTF-8.
size_t width(const std::string& text) {
    size_t count = 0;
    for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    return count;
}
}  // namespace

void printTable(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows,
                const std::vector<bool>& right) {
    std::vector<size_t> widths;
    for (const auto& name : head) widths.push_back(width(name));
    std::vector<std::vector<std::string>> plain = rows;  // names in it may come from a foreign file
    for (auto& row : plain)
        for (size_t i = 0; i < row.size(); ++i) {
            row[i] = plainText(row[i]);
            widths[i] = std::max(widths[i], width(row[i]));
        }
    auto print = [&](const std::vector<std::string>& row, bool bold) {
        std::string line;
        for (size_t i = 0; i < row.size(); ++i) {
            const std::string pad(widths[i] - width(row[i]), ' ');
            line += (i == 0 ? "" : "  ") + (right[i] ? pad + row[i] : row[i] + pad);
        }
        while (!line.empty() && line.back() == ' ') line.pop_back();
        if (bold && outputIsTerminal()) line = "\x1b[1m" + line + "\x1b[0m";
        std::puts(line.c_str());
    };
    print(head, true);
    for (const auto& row : plain) print(row, false);
}

}  // namespace mantissa::experiments::cli
