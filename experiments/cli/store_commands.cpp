// store check|salvage|compact|info, export.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "experiments/cli/command.h"
#include "experiments/cli/interrupts.h"
#include "experiments/report/export.h"
#include "experiments/text/number_text.h"
#include "experiments/text/plain_text.h"

namespace mantissa::experiments::cli {

namespace {

int info(const Context& context) {
    const StoreInfo info = storeInfo(context.storePath());
    if (context.json)
        printJson({{"path", info.path},
                   {"schema", info.schema},
                   {"runs", info.runs},
                   {"bytes", info.bytes},
                   {"checkpoint_bytes", info.checkpointBytes}});
    else
        std::printf("%s: schema %d, %lld runs, %s, checkpoints %s\n", plainText(info.path).c_str(), info.schema,
                    static_cast<long long>(info.runs), bytesText(info.bytes).c_str(),
                    bytesText(info.checkpointBytes).c_str());
    return kDone;
}

int check(const Context& context) {
    const StoreCheck result = checkStore(context.storePath());
    if (context.json) printJson({{"ok", result.ok}, {"problems", result.problems}});
    if (result.ok) {
        if (!context.json) std::printf("%s is good\n", plainText(context.storePath()).c_str());
        return kDone;
    }
    for (size_t i = 1; i < result.problems.size() && !context.json; ++i)
        std::puts(plainText(result.problems[i]).c_str());
    throw Failure{
        kStoreUnusable,
        fmt::format("store: {}{}{}", result.problems[0],
                    result.problems.size() > 1 ? fmt::format(" (and {} more)", result.problems.size() - 1) : "",
                    result.problems[0].find("store salvage") == std::string::npos
                        ? "; mantissa-run store salvage copies what can be read into a new file"
                        : "")};
}

int salvage(const Context& context, const std::string& target) {
    const bool show = !context.quiet && ::isatty(STDERR_FILENO) != 0;
    const InterruptCounter interrupts;  // the working copy is removed also then
    const SalvageReport report = salvageStore(context.storePath(), target, [&](int64_t done, int64_t) {
        if (show) std::fprintf(stderr, "\r%lld rows", static_cast<long long>(done));
        return interrupts.count() == 0;
    });
    if (show) std::fputs("\r\x1b[K", stderr);
    if (context.json) {
        printJson({{"target", target},
                   {"runs", report.runs},
                   {"rows", report.rows},
                   {"lost_rows", report.lostRows},
                   {"problems", report.problems}});
    } else {
        const bool whole = report.problems.empty() && report.lostRows == 0;
        std::printf("%lld runs, %lld rows copied to %s; %s\n", static_cast<long long>(report.runs),
                    static_cast<long long>(report.rows), plainText(target).c_str(),
                    whole ? "nothing was left behind" : "not everything could be read:");
        if (report.lostRows > 0)
            std::printf("%lld damaged rows were left out\n", static_cast<long long>(report.lostRows));
        for (const auto& problem : report.problems) std::puts(plainText(problem).c_str());
    }
    return interrupts.count() > 0 ? kInterrupted : kDone;
}

int compact(const Context& context) {
    // A store is not made by compacting one that is not there.
    const uint64_t before = storeInfo(context.storePath()).bytes;
    compactStore(context.storePath());
    const uint64_t after = storeInfo(context.storePath()).bytes;
    if (context.json)
        printJson({{"path", context.storePath()}, {"bytes_before", before}, {"bytes", after}});
    else
        std::printf("%s: %s, was %s\n", plainText(context.storePath()).c_str(), bytesText(after).c_str(),
                    bytesText(before).c_str());
    return kDone;
}

/// Says on standard error what an export lacks; damage ends it with the code of a store that cannot be used.
int tellGaps(RunStore& store, const RunSummary& run, const std::vector<std::string>& names, const ExportGaps& gaps) {
    if (gaps.unreadable > 0) throw unreadableFailure(store, run, gaps.unreadable);
    if (!gaps.empty.empty())
        std::fprintf(stderr, "note: %zu of %zu series have no point and are left out, as %s\n", gaps.empty.size(),
                     names.size(), gaps.empty.front().c_str());
    return kDone;
}

int exportSeries(const Context& context, const std::string& name, const std::string& glob, const std::string& format,
                 const std::string& out) {
    RunStore store(context.storePath(), RunStore::Mode::ReadOnly);
    const RunSummary run = findRun(store, name);
    const auto names = matchingSeries(store, run.id, glob);
    if (names.empty())
        throw Failure{kBadUsage,
                      fmt::format("export: --metrics: \"{}\" matches no series of run {}; allowed: loss, grad_norm, "
                                  "lr, tokens_per_s, val_loss, numerics/LAYER/LINEAR/TENSOR/STATISTIC, with * and ?",
                                  glob, run.name)};
    if (context.json && out.empty() && format != "json" && !format.empty())
        throw Failure{kBadUsage, fmt::format("export: --format {}: standard output carries JSON with --json; allowed: "
                                             "--format json, or --out",
                                             format)};
    const std::string wanted = !format.empty() ? format : context.json && out.empty() ? "json" : "csv";
    const ExportFormat kind = wanted == "csv"    ? ExportFormat::Csv
                              : wanted == "json" ? ExportFormat::Json
                                                 : ExportFormat::Npy;
    if (!out.empty()) {
        const ExportGaps gaps = exportFile(store, run.id, names, kind, out);
        std::vector<std::string> written;
        for (const auto& one : names)
            if (std::find(gaps.empty.begin(), gaps.empty.end(), one) == gaps.empty.end()) written.push_back(one);
        if (context.json) printJson({{"run", run.id}, {"series", written}, {"out", out}});
        return tellGaps(store, run, names, gaps);
    }
    if (kind == ExportFormat::Npy && names.size() > 1)
        throw Failure{
            kBadUsage,
            fmt::format(
                "export: --format npy: {} series do not fit on standard output; allowed: one series, or --out FOLDER",
                names.size())};
    ExportGaps gaps;
    const std::string text = exportText(store, run.id, names, kind, &gaps);
    if (gaps.empty.size() == names.size() && gaps.unreadable == 0)
        throw Failure{
            kBadUsage,
            fmt::format("export: --metrics: \"{}\": {} series of run {} match{} and none has a point; allowed: "
                        "series that the run has recorded",
                        glob, names.size(), run.name, names.size() == 1 ? "es" : "")};
    std::fwrite(text.data(), 1, text.size(), stdout);
    return tellGaps(store, run, names, gaps);
}

}  // namespace

void addStoreCommands(CLI::App& app, Context& context) {
    auto* group = app.add_subcommand("store", "Looks after a workspace file");
    group->require_subcommand(1);
    group->footer("Example: mantissa-run store check");
    auto target = std::make_shared<std::string>();
    auto add = [&](const char* name, const char* text, const std::string& example, std::function<int()> body) {
        auto* command = group->add_subcommand(name, text);
        addCommonFlags(*command, context, example);
        command->callback([&context, body] { context.run = body; });
        return command;
    };
    add("info", "Path, schema, number of runs, size", "mantissa-run store info --json",
        [&context] { return info(context); });
    add("check", "Reads everything and lists what is wrong", "mantissa-run store check",
        [&context] { return check(context); });
    add("compact", "Packs ended runs and gives free space back", "mantissa-run store compact",
        [&context] { return compact(context); });
    add("salvage", "Copies everything readable into a new file",
        "mantissa-run store salvage --store broken.mantissa rescued.mantissa",
        [&context, target] { return salvage(context, *target); })
        ->add_option("NEW", *target, "File to make")
        ->required();
}

void addExportCommand(CLI::App& app, Context& context) {
    struct Options {
        std::string run, glob = "*", format, out;
    };
    auto options = std::make_shared<Options>();
    auto* command = app.add_subcommand("export", "Series of a run, exactly as stored");
    command->add_option("RUN", options->run, "Id or name")->required();
    command->add_option("--metrics", options->glob, "Names with * and ?, separated by commas (default: all)");
    command->add_option("--format", options->format, "csv (default; json with --json), json or npy")
        ->check(CLI::IsMember({"csv", "json", "npy"}));
    command->add_option("--out", options->out, "File, or folder for several npy series (default: standard output)");
    addCommonFlags(*command, context,
                   "mantissa-run export nano-fp8-delayed-s1 --metrics \"numerics/h.3/*/grad_output/underflow_share\"");
    command->callback([&context, options] {
        context.run = [&context, options] {
            return exportSeries(context, options->run, options->glob, options->format, options->out);
        };
    });
}

}  // namespace mantissa::experiments::cli
