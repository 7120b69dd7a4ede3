// ladder: runs one optimisation after the other, or a sweep over widths, and reports what each brought.
#include "experiments/cli/ladder_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <thread>

#include "experiments/cli/interrupts.h"
#include "experiments/ladder/ladder_job.h"
#include "experiments/ladder/ladder_picture.h"
#include "experiments/report/device_choice.h"
#include "experiments/text/number_text.h"
#include "experiments/text/output_file.h"
#include "kernels/error.h"

namespace mantissa::experiments::cli {

namespace {

struct Options {
    std::string source = "nano", device = "auto", out, show;
    std::string widths;  ///< "256,512"
    std::vector<std::string> sets, rungs;
    int warmup = 5, steps = 20, threads = 0;
    bool sweep = false, list = false;
};

/// The word without blanks at its ends: "64, 128" is two widths.
std::string trimmed(const std::string& word) {
    const size_t first = word.find_first_not_of(" \t");
    return first == std::string::npos ? "" : word.substr(first, word.find_last_not_of(" \t") - first + 1);
}

/// "refused" for a rung that the device or the memory plan kept from starting, else the name of its state.
std::string stateOf(const RungResult& rung) {
    return rung.refused ? "refused" : rungStateName(rung.state);
}

/// The state for people: "not run", and why where there is a reason.
std::string stateText(const RungResult& rung) {
    std::string state = stateOf(rung);
    std::replace(state.begin(), state.end(), '_', ' ');
    if (rung.text.empty() || rung.text.starts_with(state)) return rung.text.empty() ? state : rung.text;
    return state + ": " + rung.text;
}

Json phases(const RungResult& rung) {
    Json json = Json::object();
    for (int i = 0; i < kLadderPhases; ++i) json[fmt::format("{}_ms", kLadderPhaseNames[i])] = number(rung.phaseMs[i]);
    return json;
}

Json rungJson(const LadderResult& ladder, const RungResult& rung) {
    Json json = {{"rung", rung.key}, {"title", rung.title},     {"width", rung.width},
                 {"run", rung.run},  {"status", stateOf(rung)}, {"text", rung.text}};
    if (rung.state != RungState::Measured) return json;
    json["native"] = rung.native;
    json["timed_steps"] = rung.timedSteps;
    json["step_ms"] = number(rung.stepMs);
    json["step_ms_spread"] = rung.hasSpread() ? number(rung.spreadMs) : Json(nullptr);
    json["tokens_per_s"] = number(rung.tokensPerSecond);
    json["phases"] = phases(rung);
    json["plan_bytes"] = rung.planBytes;
    json["by"] = rung.planBy;
    if (rung.peakBytes) json["peak_bytes"] = rung.peakBytes;
    if (rung.millijoulesPerToken) json["mj_per_token"] = number(*rung.millijoulesPerToken);
    if (const RungResult* before = ladder.before(rung)) json["times_before"] = number(before->stepMs / rung.stepMs);
    json["told"] = told(ladder, rung);
    json["brought"] = whatItBrought(ladder, rung);
    return json;
}

Json ladderJson(const LadderResult& ladder) {
    Json rungs = Json::array();
    for (const RungResult& rung : ladder.rungs) rungs.push_back(rungJson(ladder, rung));
    Json json = {{"ladder", ladder.id},
                 {"preset", ladder.preset},
                 {"mode", ladder.mode == LadderMode::Rungs ? "rungs" : "widths"},
                 {"device", ladder.device},
                 {"device_name", ladder.deviceName},
                 {"isa", ladder.isa},
                 {"threads", ladder.threads},
                 {"warmup", ladder.warmup},
                 {"steps", ladder.steps},
                 {"tokens_per_step", ladder.tokensPerStep},
                 {"rungs", rungs}};
    if (ladder.mode == LadderMode::Rungs) return json;
    const Crossover cross = crossover(ladder);
    Json points = Json::array();
    for (const auto& point : cross.points)
        points.push_back({{"width", point.width},
                          {"bf16_ms", number(point.bf16Ms)},
                          {"fp8_ms", number(point.fp8Ms)},
                          {"ratio", number(point.ratio())}});
    json["crossover"] = {
        {"width", cross.width ? number(*cross.width) : Json(nullptr)}, {"text", cross.text}, {"points", points}};
    return json;
}

/// ", AMD EPYC (avx2, 2 threads)"; only what is known: where no rung ran, the device it was asked for.
std::string deviceText(const LadderResult& ladder) {
    const std::string name = ladder.deviceName.empty() ? ladder.device : ladder.deviceName;
    if (ladder.device != "cpu" || ladder.isa.empty()) return name.empty() ? "" : ", " + name;
    return fmt::format(", {} ({}, {} threads)", name, ladder.isa, ladder.threads);
}

/// The command that measures this ladder longer.
std::string longerCommand(const LadderResult& ladder) {
    std::string widths;
    for (const RungResult& rung : ladder.rungs) {
        const std::string width = std::to_string(rung.width);
        if (ladder.mode == LadderMode::Widths && rung.key == "bf16") widths += (widths.empty() ? "" : ",") + width;
    }
    return fmt::format("mantissa-run ladder {}{} --steps {}", ladder.preset,
                       widths.empty() ? "" : " --width-sweep " + widths, std::max(20, 4 * ladder.steps));
}

void printLadder(const LadderResult& ladder) {
    std::printf("%s, %d × %d tokens%s; %d warm-up and %d timed steps a rung, median ± half the quartiles' distance\n",
                ladder.preset.c_str(), ladder.batch, ladder.context, deviceText(ladder).c_str(), ladder.warmup,
                ladder.steps);
    std::vector<std::vector<std::string>> rows;
    bool energy = false, noisy = false;
    for (const RungResult& rung : ladder.rungs) energy = energy || rung.millijoulesPerToken;
    for (const RungResult& rung : ladder.rungs) {
        std::vector<std::string> row = {rung.title};
        if (rung.state != RungState::Measured) {
            row.insert(row.end(), 9, "–");
            row.push_back(stateText(rung));
            rows.push_back(row);
            continue;
        }
        row.push_back(
            fmt::format("{} ± {}", digits(rung.stepMs, 3), rung.hasSpread() ? digits(rung.spreadMs, 2) : "–"));
        noisy = noisy || !told(ladder, rung);
        for (const double phase : rung.phaseMs) row.push_back(digits(phase, 3));
        row.push_back(digits(rung.tokensPerSecond, 4));
        row.push_back(bytesText(rung.planBytes));
        row.push_back(rung.millijoulesPerToken ? digits(*rung.millijoulesPerToken, 3) : "–");
        const std::string brought = whatItBrought(ladder, rung);
        row.push_back(rung.native ? brought : brought.empty() ? "(emulated)" : brought + " (emulated)");
        rows.push_back(row);
    }
    std::vector<std::string> head = {"rung", "ms/step",  "matmul", "attention", "norm, cast", "optimizer",
                                     "gap",  "tokens/s", "memory", "mJ/token",  "brought"};
    std::vector<bool> right = {false, true, true, true, true, true, true, true, true, true, false};
    if (!energy) {  // not measured here: no column
        for (auto& row : rows) row.erase(row.begin() + 9);
        head.erase(head.begin() + 9), right.erase(right.begin() + 9);
    }
    printTable(head, rows, right);
    if (noisy)
        std::printf(
            "\nWhere no time is told, the steps scatter more than the difference is: %s measures longer, and nothing "
            "else should run meanwhile\n",
            longerCommand(ladder).c_str());
    if (ladder.mode == LadderMode::Widths)
        std::printf("\nFP8 over BF16 by width: %s\n", crossover(ladder).text.c_str());
}

Failure outFailure(const Error& error) {
    return {kBadUsage, fmt::format("ladder: --out: {}; allowed: a writable file", error.what())};
}

/// Ends the command when the file's ending names no format or it could not be written; called before anything is run.
void checkOut(const std::string& path) {
    if (path.empty()) return;
    if (!path.ends_with(".csv") && !path.ends_with(".png") && !path.ends_with(".svg"))
        throw Failure{kBadUsage,
                      fmt::format("ladder: --out {}: the ending names no format; allowed: .csv, .png, .svg", path)};
    try {
        checkOutput(path);
    } catch (const Error& error) {
        throw outFailure(error);
    }
}

void writeOut(const LadderResult& ladder, const std::string& path) {
    if (path.empty()) return;
    const std::string body = path.ends_with(".csv")   ? ladderCsv(ladder)
                             : path.ends_with(".svg") ? ladderSvg(ladder)
                                                      : ladderPng(ladder);
    try {
        writeFile(path, body);
    } catch (const Error& error) {
        throw outFailure(error);
    }
}

/// The first rung that failed decides the code, one that failed in its steps before those that were refused.
std::optional<Failure> failureOf(const LadderResult& ladder) {
    const RungResult* first = nullptr;
    for (const RungResult& rung : ladder.rungs)
        if (rung.state == RungState::Failed && (!first || (first->refused && !rung.refused))) first = &rung;
    if (!first) return std::nullopt;
    std::string line = fmt::format("ladder: {}: {}", first->title, stateText(*first));
    if (line.ends_with('.')) line.pop_back();
    if (first->refused && line.find("allowed:") == std::string::npos)
        line += "; allowed: a plan that fits, on a device that mantissa-run devices lists";
    return Failure{first->refused ? kRefused : kRunFailed, line};
}

/// Prints the ladder and writes `out`. Throws Failure where a rung failed or was refused.
int report(const Context& context, const LadderResult& ladder, const std::string& out) {
    writeOut(ladder, out);
    if (context.json)
        printJson(ladderJson(ladder));
    else
        printLadder(ladder);
    std::fflush(stdout);
    if (const auto failure = failureOf(ladder)) throw *failure;
    return kDone;
}

std::vector<int> widthsOf(const Options& options, const RunSpec& base) {
    std::vector<int> widths;
    std::stringstream words(options.widths);
    for (std::string word; std::getline(words, word, ',');) {
        word = trimmed(word);
        int width = 0;
        const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), width);
        if (error != std::errc() || end != word.data() + word.size() || width < 1 || width > 1 << 16)
            throw Failure{
                kBadUsage,
                fmt::format("ladder: --width-sweep: \"{}\" is no width; allowed: whole numbers 1 … 65536", word)};
        widths.push_back(width);
    }
    if (widths.empty()) widths = defaultWidths(base);
    std::sort(widths.begin(), widths.end());
    widths.erase(std::unique(widths.begin(), widths.end()), widths.end());
    return widths;
}

void tell(const LadderProgress& now, std::string& said) {
    const std::string line = fmt::format("{} of {}: {}{}", std::min(now.done + 1, now.rungs), now.rungs, now.rung,
                                         now.phase.empty() ? "" : ": " + now.phase);
    if (line == said || now.rung.empty()) return;
    said = line;
    std::fprintf(stderr, "%s\n", line.c_str());
}

int runLadder(const Context& context, const Options& options) {
    LadderOptions job;
    job.store = context.storePath();
    job.request.base = loadSpec(options.source, options.sets);
    job.request.mode = options.sweep ? LadderMode::Widths : LadderMode::Rungs;
    if (options.sweep) job.request.widths = widthsOf(options, job.request.base);
    job.request.warmup = options.warmup;
    job.request.steps = options.steps;
    for (const std::string& name : options.rungs) job.only.push_back(trimmed(name));
    job.device.device = options.device;
    job.device.threads = options.threads;
    for (const RungPlan& rung : ladderRungs(job.request))
        if (const auto errors = validate(rung.spec); !errors.empty()) throw specFailure("ladder", errors);
    // Opened before anything is stored, so that a bad corpus leaves no ladder behind.
    engine::TokenSource::open(job.request.base.data, job.request.base.trainer.model.context,
                              job.request.base.trainer.seed);
    InterruptCounter counter;
    LadderJob ladder(std::move(job));
    std::string said;
    bool asked = false;
    while (!ladder.ended()) {
        // A step of a large model on a CPU takes minutes and cannot be left in its middle; the store bears the end.
        if (counter.count() > 1) std::_Exit(kInterrupted);
        if (counter.count() == 1 && !asked) {
            ladder.stop(), asked = true;
            std::fprintf(stderr, "Stopping after the step that is going; Ctrl-C again ends the program at once.\n");
        }
        if (!context.quiet) tell(ladder.progress(), said);
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    ladder.join();
    const LadderProgress end = ladder.progress();
    if (!end.failed.empty()) throw Failure{kStoreUnusable, "store: " + end.failed};
    RunStore store(context.storePath(), RunStore::Mode::ReadOnly);
    const LadderResult result = readLadder(store, ladder.id());
    if (!end.stopped) return report(context, result, options.out);
    try {
        report(context, result, options.out);
    } catch (const Failure& failure) {
        std::fprintf(stderr, "error: %s\n", failure.line.c_str());
    }
    return kInterrupted;
}

int show(const Context& context, const Options& options) {
    RunStore store(context.storePath(), RunStore::Mode::ReadOnly);
    return report(context, readLadder(store, options.show), options.out);
}

int list(const Context& context) {
    RunStore store(context.storePath(), RunStore::Mode::ReadOnly);
    Json json = Json::array();
    std::vector<std::vector<std::string>> rows;
    for (const LadderEntry& entry : ladders(store)) {
        const char* mode = entry.mode == LadderMode::Rungs ? "rungs" : "widths";
        json.push_back({{"ladder", entry.id},
                        {"preset", entry.preset},
                        {"mode", mode},
                        {"device", entry.device},
                        {"created", entry.createdMs}});
        rows.push_back({entry.id, entry.preset, mode, entry.device});
    }
    if (context.json)
        printJson(json);
    else
        printTable({"ladder", "preset", "mode", "device"}, rows, {false, false, false, false});
    return kDone;
}

int ladder(const Context& context, const Options& options) {
    checkOut(options.out);
    if (options.list) return list(context);
    return options.show.empty() ? runLadder(context, options) : show(context, options);
}

}  // namespace

void addLadderCommand(CLI::App& app, Context& context) {
    auto options = std::make_shared<Options>();
    auto* command = app.add_subcommand("ladder", "Measures one optimisation after the other, or BF16 and FP8 by width");
    command->add_option("PRESET|SPEC.json", options->source, "Preset or spec file (default: nano)");
    auto* sweep = command->add_option("--width-sweep", options->widths,
                                      "BF16 against FP8 by width: widths, separated by commas (none: half to four "
                                      "times the model's)");
    sweep->expected(0, 1);
    command->add_option("--warmup", options->warmup, "Steps before the timed ones (default 5)")
        ->check(CLI::Range(0, 100000));
    command->add_option("--steps", options->steps, "Timed steps (default 20)")->check(CLI::Range(1, 100000));
    command->add_option("--rungs", options->rungs, "Only these, separated by commas")->delimiter(',');
    command->add_option("--set", options->sets, "PATH=VALUE, repeatable")->allow_extra_args(false);
    command->add_option("--device", options->device, "auto, cpu, cuda or cuda:N (MANTISSA_DEVICE for auto)");
    command->add_option("--threads", options->threads, "CPU threads (0: all)")->check(CLI::Range(0, 4096));
    command->add_option("--out", options->out, "Also write FILE.png, FILE.svg or FILE.csv");
    command->add_option("--show", options->show, "Report a stored ladder (its id, or the start of it) again");
    command->add_flag("--list", options->list, "List the stored ladders");
    addCommonFlags(*command, context, "mantissa-run ladder nano --warmup 5 --steps 20 --out ladder.png");
    command->callback([&context, options, sweep] {
        options->sweep = sweep->count() > 0;
        context.run = [&context, options] { return ladder(context, *options); };
    });
}

}  // namespace mantissa::experiments::cli
