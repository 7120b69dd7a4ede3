// mantissa-run: everything the desktop program can do with runs and stores, without a display.
#include <fmt/format.h>

#include <cstdio>

#include "experiments/cli/command.h"
#include "experiments/cli/tensor_command.h"
#include "kernels/error.h"

using namespace mantissa;
using namespace mantissa::experiments::cli;

namespace {

int fail(int code, std::string line) {
    for (char& c : line)
        if (c == '\n') c = ' ';
    std::fflush(stdout);
    std::fprintf(stderr, "error: %s\n", line.c_str());
    return code;
}

int exitCodeOf(ErrorCode code) {
    switch (code) {
        case ErrorCode::Database:
            return kStoreUnusable;
        case ErrorCode::DeviceUnavailable:
        case ErrorCode::OutOfMemory:
            return kRefused;
        case ErrorCode::InvalidConfig:
        case ErrorCode::InvalidFile:
        case ErrorCode::Io:
            return kBadUsage;
        default:
            return kRunFailed;
    }
}

const char* whatOf(ErrorCode code) {
    switch (code) {
        case ErrorCode::Database:
            return "store: ";
        case ErrorCode::DeviceUnavailable:
            return "device: ";
        case ErrorCode::OutOfMemory:
            return "memory: ";
        case ErrorCode::InvalidFile:
            return "file: ";
        case ErrorCode::Io:
            return "file: ";
        default:
            return "";
    }
}

std::string commandNames(const CLI::App& app) {
    std::string names;
    for (const auto* command : app.get_subcommands(nullptr)) names += (names.empty() ? "" : ", ") + command->get_name();
    return names;
}

/// CLI11's own sentence, in our form.
int usageError(const CLI::App& app, const CLI::ParseError& error) {
    const CLI::App* where = &app;
    while (!where->get_subcommands().empty()) where = where->get_subcommands().front();
    const bool top = where == &app;
    const std::string allowed =
        top ? "one of " + commandNames(app) : "what mantissa-run " + where->get_name() + " --help lists";
    return fail(kBadUsage, fmt::format("usage: {}: {}; allowed: {}", top ? "mantissa-run" : where->get_name(),
                                       error.what(), allowed));
}

}  // namespace

int main(int argc, char** argv) {
    Context context;
    CLI::App app("Trains transformers in FP8 and BF16, and reads the runs it stored.", "mantissa-run");
    app.set_version_flag("--version", std::string("mantissa-run ") + MANTISSA_VERSION);
    app.require_subcommand(1);
    app.footer("Example: mantissa-run run nano --set train.steps=100");
    // The common flags may also stand before the command.
    app.add_option("--store", context.store,
                   "Workspace file (default: MANTISSA_STORE, else the one the desktop program opens)");
    app.add_flag("--json", context.json, "JSON on standard output and nothing else");
    app.add_flag("--quiet", context.quiet, "No progress on standard error; a run prints nothing unless it fails");
    addRunCommands(app, context);
    addLiveCommands(app, context);
    addListCommands(app, context);
    addNumericsCommands(app, context);
    addInspectCommand(app, context);
    addCompareCommand(app, context);
    addExportCommand(app, context);
    addSpecCommands(app, context);
    addDevicesCommand(app, context);
    addStoreCommands(app, context);
    addTensorCommand(app, context);
    try {
        app.parse(argc, argv);
    } catch (const CLI::CallForHelp& help) {
        return app.exit(help);
    } catch (const CLI::CallForAllHelp& help) {
        return app.exit(help);
    } catch (const CLI::CallForVersion& version) {
        return app.exit(version);
    } catch (const CLI::ParseError& error) {
        return usageError(app, error);
    }
    try {
        return context.run();
    } catch (const Failure& failure) {
        return fail(failure.code, failure.line);
    } catch (const Error& error) {
        return fail(exitCodeOf(error.code()), whatOf(error.code()) + std::string(error.what()));
    } catch (const std::exception& error) {
        return fail(kRunFailed, std::string("mantissa-run: ") + error.what());
    }
}
