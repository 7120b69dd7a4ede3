#include "experiments/cli/tensor_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>
#include <sstream>

#include "experiments/format_info.h"
#include "experiments/tensor_input.h"
#include "kernels/error.h"

namespace mantissa::experiments {
namespace {

struct TensorOptions {
    TensorRequest request;
    std::string values, codes, file, shape, history, trace, scale, round = "up", recipe, device = "auto";
    bool whatIf = false, all = false;
    int64_t normal = 0;
    bool historyGiven = false, lengthGiven = false;
};

constexpr size_t kRowsShown = 64;

[[noreturn]] void refuse(const std::string& why) {
    throw Error(ErrorCode::InvalidConfig, "tensor: " + why);
}

std::string percent(uint64_t part, uint64_t whole) {
    return whole ? fmt::format("{:.4g} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole)) : "-";
}

std::string shortNumber(double value) {
    return fmt::format("{:.9g}", value);
}

void printCounters(const TensorCounters& c, std::ostream& out) {
    const std::pair<const char*, uint64_t> rows[] = {{"zeros", c.zeros},
                                                     {"underflow", c.underflow},
                                                     {"subnormal", c.subnormal},
                                                     {"over_range", c.overRange},
                                                     {"clipped", c.clipped},
                                                     {"inf", c.inf},
                                                     {"nan", c.nan}};
    out << fmt::format("{:<14}{:>12}\n", "elements", c.elements);
    for (const auto& [name, count] : rows)
        out << fmt::format("{:<14}{:>12}  {}\n", name, count, percent(count, c.elements));
}

/// "exact" without error; "none" where nothing finite was cast.
std::string decibelText(double sqnr, int digits, const char* unit) {
    return std::isinf(sqnr) && sqnr > 0 ? "exact"
           : std::isnan(sqnr)           ? "none"
                                        : fmt::format("{:.{}g}{}", sqnr, digits, unit);
}

void printResult(const TensorResult& result, bool all, std::ostream& out) {
    const TensorRequest& request = result.request;
    out << fmt::format("{:<14}{} {}{}, values {}\n", "cast", request.recipe, request.format,
                       request.powerOfTwo ? ", power of two" : "", request.dtype);
    if (result.scale)
        out << fmt::format("{:<14}{}  (scale_inv {})\n", "scale", shortNumber(*result.scale),
                           shortNumber(*result.scaleInv));
    out << fmt::format("{:<14}{}\n", "amax", shortNumber(result.amax));
    printCounters(result.counters, out);
    out << fmt::format("{:<14}{:.6g}\n{:<14}{}\n", "mse", result.mse, "sqnr", decibelText(result.sqnrDb, 6, " dB"));
    out << fmt::format("{:<14}{}\n", "dynamic range",
                       result.dynamicRange ? fmt::format("{:.6g} binades", *result.dynamicRange) : "none");
    if (result.next)
        out << fmt::format("{:<14}{}{}\n", "next scale", shortNumber(result.next->scale),
                           result.next->updated ? "" : "  (not updated: amax 0)");
    const size_t blocks = all ? result.blocks.size() : std::min(result.blocks.size(), kRowsShown);
    for (size_t i = 0; i < blocks; ++i) {
        const TensorBlock& block = result.blocks[i];
        out << fmt::format("block {:<8}scale {:<16} amax {}{}\n", fmt::format("{},{}", block.row, block.col),
                           shortNumber(block.scale), shortNumber(block.amax),
                           block.scaleCode ? fmt::format("  E8M0 {:02X}", *block.scaleCode) : "");
    }
    const int digits = (formatFacts(*formatByKey(request.format)).bits + 3) / 4;
    const size_t shown = all ? result.codes.size() : std::min(result.codes.size(), kRowsShown);
    out << fmt::format("\n{:>8}  {:>16}  {:>5}  {:>16}  {:>12}\n", "", "value", "code", "dequantized", "error");
    for (size_t i = 0; i < shown; ++i)
        out << fmt::format("{:>8}  {:>16}  {:>5}  {:>16}  {:>12.4g}\n", i, shortNumber(result.inputs[i]),
                           fmt::format("{:0{}X}", result.codes[i], digits), shortNumber(result.dequantized[i]),
                           static_cast<double>(result.dequantized[i]) - result.inputs[i]);
    if (shown < result.codes.size())
        out << fmt::format("{:>8}  {} more; --all shows them\n", "...", result.codes.size() - shown);
}

void printWhatIf(const std::vector<TensorResult>& results, std::ostream& out) {
    out << fmt::format("{:<14}{:<8}{:<6}{:>14}{:>22}{:>12}{:>12}{:>14}{:>10}\n", "recipe", "format", "pow2", "scale",
                       "underflow", "clipped", "over_range", "mse", "sqnr dB");
    for (const TensorResult& r : results)
        out << fmt::format(
            "{:<14}{:<8}{:<6}{:>14}{:>22}{:>12}{:>12}{:>14.5g}{:>10}\n", r.request.recipe, r.request.format,
            r.request.powerOfTwo ? "yes" : "no",
            r.scale ? fmt::format("{:.6g}", *r.scale) : fmt::format("{} blocks", r.blocks.size()),
            fmt::format("{} ({})", r.counters.underflow, percent(r.counters.underflow, r.counters.elements)),
            r.counters.clipped, r.counters.overRange, r.mse, decibelText(r.sqnrDb, 4, ""));
}

void printTrace(const std::vector<TraceRow>& rows, std::ostream& out) {
    out << fmt::format("{:>7}{:>14}{:>14}{:>14}{:>14}{:>5}{:>8}  window\n", "update", "amax", "scale used",
                       "next scale", "ruled by", "age", "frozen");
    for (const TraceRow& row : rows) {
        std::string window;
        for (size_t i = 0; i < row.window.size() && i < 16; ++i)
            window += (i ? " " : "") + fmt::format("{:.6g}", row.window[i]);
        out << fmt::format("{:>7}{:>14.6g}{:>14.6g}{:>14.6g}{:>14}{:>5}{:>8}  [{}{}]{}\n", row.update, row.amax,
                           row.scaleUsed, row.nextScale,
                           row.rulingEntry ? fmt::format("{:.6g}", *row.rulingEntry) : "-", row.age, row.frozenFor,
                           window, row.window.size() > 16 ? " ..." : "", row.updated ? "" : "  not updated");
    }
}

void printDecoded(const std::vector<DecodedCode>& decoded, const TensorOptions& options, bool json, std::ostream& out) {
    if (json) {
        TensorResult result;
        result.request = options.request;
        result.request.recipe = "fixed";
        result.request.cols = static_cast<int64_t>(decoded.size());
        result.scale = options.request.scale.value_or(1.0f);
        result.scaleInv = 1.0f / *result.scale;
        for (const DecodedCode& one : decoded) {
            result.codes.push_back(one.code);
            result.dequantized.push_back(one.value);
        }
        writeDecodedJson(result, options.all, out);
        return;
    }
    const NumberFormat format = *formatByKey(options.request.format);
    for (const DecodedCode& one : decoded) {
        const FormatCode code = describeCode(format, one.code);
        out << fmt::format("{:<8}{:<2}{:<10}{:<12}{:>20}\n", code.hex, code.sign, code.exponent, code.fraction,
                           shortNumber(one.value));
    }
}

void readShape(const std::string& text, TensorRequest& request) {
    std::istringstream in(text);
    char comma = 0;
    if (!(in >> request.rows >> comma >> request.cols) || comma != ',' || !(in >> std::ws).eof() || request.rows < 1 ||
        request.cols < 1)
        refuse(fmt::format("shape: \"{}\" is no shape; allowed: rows,columns", text));
}

void readValues(TensorOptions& options) {
    const TensorValues input = options.normal > 0     ? normalValues(options.normal, 1)
                               : options.file.empty() ? parseTensorValues(options.values, "tensor: values")
                                                      : readTensorFile(options.file);
    options.request.values = input.values;
    options.request.rows = input.rows;
    options.request.cols = input.cols;
    if (!options.shape.empty()) readShape(options.shape, options.request);
}

void readState(TensorOptions& options) {
    TensorRequest& request = options.request;
    if (!options.history.empty()) request.history = parseTensorValues(options.history, "tensor: history").values;
    if (!options.scale.empty()) request.scale = parseTensorValues(options.scale, "tensor: scale").values.front();
    if (options.round != "up" && options.round != "down")
        refuse(fmt::format("round: \"{}\" is unknown; allowed: down, up", options.round));
    request.roundUp = options.round == "up";
    request.recipe = !options.recipe.empty() ? options.recipe : request.history.empty() ? "fixed" : "delayed";
    if (options.device == "auto" || options.device == "cpu") return;  // auto: a GPU brings nothing for a few values
    const bool cuda = options.device == "cuda" || options.device.starts_with("cuda:");
    if (!cuda) refuse(fmt::format("device: \"{}\" is unknown; allowed: auto, cpu, cuda, cuda:N", options.device));
    request.device = options.device;
}

/// Options that would be passed over in silence are refused.
void checkCombination(const TensorOptions& options) {
    const int sources = !options.values.empty() + !options.codes.empty() + !options.file.empty() +
                        !options.trace.empty() + (options.normal > 0);
    if (sources == 0) refuse("what is to be cast? allowed: one of --values, --codes, --file, --normal, --trace");
    if (sources > 1) refuse("two inputs at once; allowed: one of --values, --codes, --file, --normal, --trace");
    if (options.whatIf && options.values.empty() && options.file.empty() && options.normal == 0)
        refuse("--what-if casts values; allowed: --values, --file or --normal");
    if (!options.trace.empty() && !options.recipe.empty() && options.recipe != "delayed")
        refuse(fmt::format("--trace feeds the delayed rule, not {}; allowed: --recipe delayed", options.recipe));
    if (options.historyGiven && options.history.empty()) refuse("history: is empty; allowed: amax values, 0 and more");
    if (options.lengthGiven && options.request.historyLength < 1)
        refuse(fmt::format("history-length: {} is outside its range; allowed: 1 ... 1000000",
                           options.request.historyLength));
}

/// Amax values for the delayed rule. NaN and Inf are what a broken tensor gives, so they are allowed.
std::vector<float> readTrace(const std::string& text) {
    const std::vector<float> trace = parseTensorValues(text, "tensor: trace").values;
    for (size_t i = 0; i < trace.size(); ++i)
        if (trace[i] < 0)
            refuse(fmt::format("trace: entry {} is {}; allowed: amax values, 0 and more", i + 1, trace[i]));
    return trace;
}

int runTensor(TensorOptions options, bool json) {
    checkCombination(options);
    readState(options);
    std::ostream& out = std::cout;
    if (!options.codes.empty()) {
        const auto codes = parseTensorCodes(options.codes, options.request.format);
        printDecoded(decodeTensorCodes(codes, options.request.format, options.request.scale.value_or(1.0f)), options,
                     json, out);
    } else if (!options.trace.empty()) {
        const auto rows = traceDelayed(options.request, readTrace(options.trace));
        json ? writeTraceJson(rows, options.all, out) : printTrace(rows, out);
    } else if (options.whatIf) {
        readValues(options);
        const auto results = tensorWhatIf(options.request);
        json ? writeTensorJson(results, options.all, out) : printWhatIf(results, out);
    } else {
        readValues(options);
        const TensorResult result = runTensorBench(options.request);
        json ? writeTensorJson(result, options.all, out) : printResult(result, options.all, out);
    }
    return 0;
}

}  // namespace

void addTensorCommand(CLI::App& app, GlobalOptions& globals) {
    CLI::App* command = app.add_subcommand(
        "tensor", "Cast values to a format under a recipe and show codes, scale, counters and next state");
    const auto options = std::make_shared<TensorOptions>();
    TensorRequest& request = options->request;
    command->add_option("--values", options->values,
                        "numbers separated by commas or line ends; nan, inf, -inf allowed");
    command->add_option("--codes", options->codes, "codes in hexadecimal, only decoded");
    command->add_option("--file", options->file, "FILE.csv or FILE.safetensors[:NAME]");
    command->add_option("--normal", options->normal, "this many values of N(0, 1), always the same ones")
        ->check(CLI::Range(int64_t{1}, int64_t{100000000}));
    command->add_option("--trace", options->trace, "one amax per update, fed through the delayed rule");
    command->add_flag("--what-if", options->whatIf, "every recipe side by side");
    command->add_option("--shape", options->shape, "rows,columns");
    command->add_option("--format", request.format, "e4m3 (default), e5m2, e2m1, e8m0, bf16, fp16");
    command->add_option(
        "--recipe", options->recipe,
        "fixed (default), delayed (default with --history), current, block1x128, block128x128, mxfp8, nvfp4");
    command->add_option("--scale", options->scale, "scale in force: stored = value * scale");
    auto* history = command->add_option("--history", options->history,
                                        "amax window: slot 0 (open), then the closed ones, oldest first");
    auto* length = command->add_option("--history-length", request.historyLength,
                                       "length of the window (default: that of --history, else 1024)");
    command->add_option("--algorithm", request.algorithm, "max (default), most_recent");
    command->add_option("--margin", request.margin, "the delayed scale is divided by 2^margin");
    command->add_flag("--pow2", request.powerOfTwo, "scales are powers of two (current and block recipes)");
    command->add_option("--epsilon", request.epsilon, "smallest amax of current scaling");
    command->add_option("--dtype", request.dtype, "f32 (default), bf16: values are rounded to it first");
    command->add_option("--round", options->round, "up (default), down: for e8m0");
    command->add_option("--device", options->device,
                        "auto (default) and cpu: the CPU; cuda, cuda:N: that GPU's own casts");
    command->add_flag("--all", options->all, "do not cut lists");
    command->add_option("--store", globals.store, "not used by this command");
    command->add_flag("--quiet", globals.quiet, "not used by this command");
    command->add_flag("--json", globals.json, "JSON on standard output");
    command->footer(
        "Example: mantissa-run tensor --values \"3, -1.5, 0.75, inf\" --format e4m3 --recipe current --json");
    command->callback([options, &globals, history, length] {
        options->historyGiven = history->count() > 0;
        options->lengthGiven = length->count() > 0;
        globals.run = [options, &globals] { return runTensor(*options, globals.json); };
    });
}

}  // namespace mantissa::experiments
