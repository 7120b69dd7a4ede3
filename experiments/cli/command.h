// What all commands of mantissa-run share.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/cli/global_options.h"
#include "experiments/spec/run_spec.h"
#include "experiments/store/run_store.h"

namespace mantissa::experiments::cli {

using Json = nlohmann::ordered_json;

enum ExitCode { kDone = 0, kRunFailed = 1, kBadUsage = 2, kStoreUnusable = 3, kRefused = 4, kInterrupted = 130 };

struct Context : GlobalOptions {
    std::string storePath() const { return defaultStorePath(store); }
};

/// Ends a command: one line on standard error and an exit code.
struct Failure {
    int code = kBadUsage;
    std::string line;  ///< without "error: "
};

/// Adds --store, --json, --quiet and an example to a command.
void addCommonFlags(CLI::App& command, Context& context, const std::string& example);

/// "spec: optimizer.learning_rate: -1 is out of range; allowed: number above 0 to 10".
Failure specFailure(const std::string& what, const std::vector<SpecError>& errors);
/// A preset by name, or a file; with --set values laid over it and everything validated. Throws Failure.
RunSpec loadSpec(const std::string& presetOrFile, const std::vector<std::string>& sets);
/// A name or tag is a line of text with something in it. what: "tag", "--name". Throws Failure.
void checkLabel(const std::string& what, const std::string& text);
/// RunStore::find; where several runs bear the name, standard error says how many and which one was taken.
RunSummary findRun(RunStore& store, const std::string& idOrName);
/// Exit code 3 for a run of which `pieces` (step records, packed blocks) cannot be read: what was printed lacks them.
Failure unreadableFailure(const RunStore& store, const RunSummary& run, size_t pieces);
/// Lays PATH=VALUE over a spec and validates it. Throws Failure.
void applySets(RunSpec& spec, const std::vector<std::string>& sets);

/// A number as JSON: non-finite ones become the strings "NaN", "Infinity", "-Infinity".
Json number(double value);
void printJson(const Json& json);  ///< one line, flushed
/// Text for a sentence or a table: significant digits, never 0.0000 for a value that is not zero.
std::string digits(double value, int significant);

/// Aligned columns on standard output. right: columns of numbers.
void printTable(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows,
                const std::vector<bool>& right);
bool outputIsTerminal();

// One function a command or group of commands; each adds its subcommand(s).
void addRunCommands(CLI::App& app, Context& context);       ///< run, resume, fork
void addListCommands(CLI::App& app, Context& context);      ///< list, show, delete, tag, note
void addCompareCommand(CLI::App& app, Context& context);    ///< compare
void addExportCommand(CLI::App& app, Context& context);     ///< export
void addSpecCommands(CLI::App& app, Context& context);      ///< presets, check, plan
void addDevicesCommand(CLI::App& app, Context& context);    ///< devices
void addStoreCommands(CLI::App& app, Context& context);     ///< store check|salvage|compact|info
void addLiveCommands(CLI::App& app, Context& context);      ///< set, pause, stop, checkpoint, capture
void addNumericsCommands(CLI::App& app, Context& context);  ///< what-if, shadow, diagnose, plan-of
void addInspectCommand(CLI::App& app, Context& context);    ///< inspect
void addProbesCommand(CLI::App& app, Context& context);     ///< probes

}  // namespace mantissa::experiments::cli
