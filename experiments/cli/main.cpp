// mantissa-run: everything the desktop program can do with runs and stores, without a display.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "experiments/cli/command.h"
#include "experiments/cli/ladder_command.h"
#include "experiments/cli/tensor_command.h"
#include "experiments/report/device_choice.h"
#include "experiments/text/plain_text.h"
#include "kernels/error.h"

using namespace mantissa;
using namespace mantissa::experiments::cli;

namespace {

int fail(int code, std::string line) {
    std::replace(line.begin(), line.end(), '\n', ' ');
    std::fflush(stdout);
    std::fprintf(stderr, "error: %s\n", mantissa::experiments::plainText(line).c_str());
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

/// The first word that could be a command and is none; "" when there is no such word.
std::string strayWord(const CLI::App& where, const std::vector<std::string>& words) {
    for (size_t i = 0; i < words.size(); ++i) {
        const bool value = i > 0 && words[i - 1] == "--store";
        if (words[i].empty() || words[i][0] == '-' || value || words[i] == where.get_name()) continue;
        return words[i];
    }
    return "";
}

/// CLI11's own sentence, in our form.
int usageError(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words) {
    const CLI::App* where = &app;
    std::string path = "mantissa-run";
    while (!where->get_subcommands().empty()) {
        where = where->get_subcommands().front();
        path += " " + where->get_name();
    }
    const bool group = where->get_subcommands(nullptr).size() > 0;
    const std::string stray = group ? strayWord(*where, words) : "";
    const std::string why = stray.empty() ? error.what() : fmt::format("\"{}\" is not a command", stray);
    const std::string allowed = group ? "one of " + commandNames(*where) : "what " + path + " --help lists";
    return fail(kBadUsage,
                fmt::format("usage: {}: {}; allowed: {}", where == &app ? path : where->get_name(), why, allowed));
}

/// Whether the word that should be a command is none: there is no help for it.
bool wrongCommand(const CLI::App& app, const std::vector<std::string>& words) {
    const CLI::App* where = &app;
    while (!where->get_subcommands().empty()) where = where->get_subcommands().front();
    return !where->get_subcommands(nullptr).empty() && !strayWord(*where, words).empty();
}

/// Without this a file opened later could become standard output, and text for people would be written into it. What
/// was closed cannot be written to: that is noticed at the end.
void keepStandardStreams() {
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        if (::fcntl(stream, F_GETFD) == -1) ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int runCommand(int argc, char** argv) {
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
    addProbesCommand(app, context);
    addCompareCommand(app, context);
    addExportCommand(app, context);
    addSpecCommands(app, context);
    addDevicesCommand(app, context);
    addStoreCommands(app, context);
    addLadderCommand(app, context);
    addTensorCommand(app, context);
    try {
        app.parse(argc, argv);
    } catch (const CLI::CallForHelp& help) {
        if (wrongCommand(app, {argv + 1, argv + argc}))
            return usageError(app, CLI::RequiredError("command"), {argv + 1, argv + argc});
        return app.exit(help);
    } catch (const CLI::CallForAllHelp& help) {
        return app.exit(help);
    } catch (const CLI::CallForVersion& version) {
        return app.exit(version);
    } catch (const CLI::ParseError& error) {
        return usageError(app, error, {argv + 1, argv + argc});
    }
    try {
        mantissa::experiments::checkEnvironment();
        return context.run();
    } catch (const Failure& failure) {
        return fail(failure.code, failure.line);
    } catch (const Error& error) {
        return fail(exitCodeOf(error.code()), whatOf(error.code()) + std::string(error.what()));
    } catch (const std::exception& error) {
        return fail(kRunFailed, std::string("mantissa-run: ") + error.what());
    }
}

}  // namespace

int main(int argc, char** argv) {
    keepStandardStreams();
    std::signal(SIGXFSZ, SIG_IGN);  // a limit on the size of files (ulimit -f) is then a sentence, as a full disk is
    const int code = runCommand(argc, argv);
    errno = 0;
    const bool flushed = std::fflush(stdout) == 0;
    if ((flushed && std::ferror(stdout) == 0) || code != kDone) return code;
    return fail(kBadUsage, fmt::format("output: standard output could not be written whole{}{}; allowed: an open "
                                       "stream on a disk with room",
                                       errno != 0 ? ": " : "", errno != 0 ? std::strerror(errno) : ""));
}
