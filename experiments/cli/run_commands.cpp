// run, resume, fork: trains in this process and reports.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <limits>

#include "experiments/cli/command.h"
#include "experiments/cli/live.h"
#include "experiments/cli/run_printer.h"
#include "experiments/job/training_job.h"
#include "experiments/report/device_choice.h"
#include "experiments/text/plain_text.h"

namespace mantissa::experiments::cli {

namespace {

std::atomic<int> interrupts{0};
std::atomic<bool> hungUp{false}, readerGone{false};

void onSignal(int signal) {
    if (signal == SIGHUP)
        hungUp = true;
    else if (signal == SIGPIPE)
        readerGone = true;
    else
        interrupts.fetch_add(1);
}

/// Ctrl-C and a polite kill are counted, not obeyed at once. A terminal that closes and a pipe whose reader has gone
/// stop a run with a checkpoint, however often they are told; what the parent ignores (nohup) stays ignored. Restored
/// at the end.
class InterruptCounter {
  public:
    InterruptCounter() {
        interrupts = 0;
        for (size_t i = 0; i < kSignals.size(); ++i) {
            sigaction(kSignals[i], nullptr, &old_[i]);
            struct sigaction action {};
            action.sa_handler = onSignal;
            action.sa_flags = SA_RESTART;
            if (old_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
        }
    }
    ~InterruptCounter() {
        for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &old_[i], nullptr);
    }

  private:
    static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    std::array<struct sigaction, kSignals.size()> old_{};
};

constexpr int64_t kMostSteps = 1'000'000'000;  ///< as train.steps

struct Options {
    std::string source = "nano", run, device = "auto";
    std::vector<std::string> sets, tags;
    std::string name, seeds;
    bool named = false, seeded = false;
    int threads = 0;
    int64_t step = -1;
    bool otherClass = false, beside = false, now = false;
};

int exitCode(const JobEnded& ended, bool interrupted) {
    if (interrupted && ended.status == RunStatus::Stopped) return kInterrupted;
    switch (ended.status) {
        case RunStatus::Finished:
        case RunStatus::Stopped:
            return kDone;
        case RunStatus::Refused:
            return kRefused;
        default:
            return kRunFailed;
    }
}

/// Runs one job to its end on this terminal.
int follow(const Context& context, const RunSpec& spec, JobOptions options) {
    std::mutex mutex;
    std::condition_variable arrived;
    bool fresh = false;
    options.wake = [&] {
        const std::lock_guard lock(mutex);
        fresh = true;
        arrived.notify_one();
    };
    options.headless = true;
    TrainingJob job(spec, std::move(options));
    RunPrinter printer(context.json, context.quiet, spec.trainer.steps, job.runId());
    int told = 0;
    while (true) {
        const bool over = job.ended();
        for (const JobMessage& message : job.drain()) printer.print(message);
        if (over) break;
        const int now = interrupts;  // also what came while the job was made
        if (told == 0 && (hungUp || readerGone))
            job.stop(), told = 1,
                        printer.note(hungUp ? "The terminal was closed: stopping with a checkpoint."
                                            : "The reader of standard output has gone: stopping with a checkpoint.");
        if (now >= 1 && told == 0)
            job.stop(), told = 1, printer.note("Stopping with a checkpoint; Ctrl-C again stops without one.");
        if (now >= 2 && told == 1)
            job.stopNow(),
                told = 2,
                printer.note(
                    "Stopping without a checkpoint as soon as this step ends; Ctrl-C again ends the program at once.");
        if (now >= 3) std::_Exit(kInterrupted);
        std::unique_lock lock(mutex);
        arrived.wait_for(lock, std::chrono::milliseconds(50), [&] { return fresh; });
        fresh = false;
    }
    job.join();
    const JobEnded& ended = printer.ended();
    if (!ended.notStored.empty())
        throw Failure{
            kStoreUnusable,
            fmt::format(
                "store: {}; allowed: room on the disk and under the limits of ulimit -f and -n, and a file that "
                "stays in its place",
                ended.notStored)};
    const int code = exitCode(ended, told > 0);
    if (code == kRefused || code == kRunFailed) {
        std::fflush(stdout);
        std::string reason = ended.reason;
        if (!reason.empty() && reason.back() == '.') reason.pop_back();
        if (code == kRefused && reason.find("allowed:") == std::string::npos)
            reason += "; allowed: a plan that fits, on a device that mantissa-run devices lists";
        std::fprintf(stderr, "error: run %s: %s: %s\n", plainText(job.name(), 60).c_str(), statusName(ended.status),
                     plainText(reason).c_str());
    }
    return code;
}

/// "1,2,3": whole numbers, each once. Throws Failure.
std::vector<uint64_t> seedsOf(const std::string& text) {
    std::vector<uint64_t> seeds;
    for (size_t at = 0; at <= text.size();) {
        const size_t comma = std::min(text.find(',', at), text.size());
        uint64_t seed = 0;
        const auto [end, problem] = std::from_chars(text.data() + at, text.data() + comma, seed);
        const bool twice = std::find(seeds.begin(), seeds.end(), seed) != seeds.end();
        if (problem != std::errc() || end != text.data() + comma || at == comma || twice)
            throw Failure{kBadUsage, fmt::format("run: --seeds: \"{}\" {}; allowed: whole numbers 0 … {}, separated by "
                                                 "commas, each once",
                                                 text.substr(at, comma - at), twice ? "stands twice" : "is no seed",
                                                 std::numeric_limits<uint64_t>::max())};
        seeds.push_back(seed);
        at = comma + 1;
    }
    return seeds;
}

JobOptions jobOptions(const Context& context, const Options& options) {
    if (options.named) checkLabel("--name", options.name);
    for (const auto& tag : options.tags) checkLabel("--tag", tag);
    JobOptions job;
    job.store = context.storePath();
    job.name = options.name;
    job.tags = options.tags;
    job.device.device = options.device;
    job.device.threads = options.threads;
    job.device = resolveDevice(job.device);
    job.otherClass = options.otherClass;
    job.beside = options.beside;
    return job;
}

/// The data is opened before anything is stored, so that a bad corpus leaves no run behind.
void openData(const RunSpec& spec) {
    engine::TokenSource::open(spec.data, spec.trainer.model.context, spec.trainer.seed);
}

int run(const Context& context, const Options& options) {
    RunSpec spec = loadSpec(options.source, options.sets);
    const std::vector<uint64_t> seeds = options.seeded ? seedsOf(options.seeds) : std::vector<uint64_t>{};
    const JobOptions job = jobOptions(context, options);
    openData(spec);
    InterruptCounter counter;
    if (seeds.empty()) return follow(context, spec, job);
    int worst = kDone;
    for (const uint64_t seed : seeds) {
        spec.trainer.seed = seed;
        JobOptions one = job;
        if (!options.name.empty()) one.name = fmt::format("{}-s{}", options.name, seed);
        const int code = follow(context, spec, one);
        worst = std::max(worst, code);
        if (code == kInterrupted) break;
    }
    return worst;
}

/// The spec of a stored run, with --set laid over it.
RunSpec storedSpec(RunStore& store, const RunSummary& run, const std::vector<std::string>& sets) {
    const ParsedSpec parsed = parseSpec(store.document(run.id).specJson);
    if (!parsed.ok()) throw specFailure("spec of run " + run.name, parsed.errors);
    RunSpec spec = parsed.spec;
    applySets(spec, sets);
    return spec;
}

/// A run that another process holds goes on there, or answers that it does.
int resumePaused(const Context& context, const RunSummary& run) {
    RunStore store(context.storePath(), RunStore::Mode::ReadWrite);
    for (const auto& event : sendAndWait(store, run, "resume", "", 60)) {
        if (context.json)
            printJson({{"run", run.id}, {"step", event.step}, {"kind", event.kind}, {"text", event.text}});
        else
            std::printf("step %6lld  %s: %s\n", static_cast<long long>(event.step), event.kind.c_str(),
                        plainText(event.text).c_str());
    }
    return kDone;
}

/// A checkpoint of this moment: a run that is going writes one, of another the newest serves.
int64_t checkpointNow(const Context& context, const std::string& name) {
    RunStore store(context.storePath(), RunStore::Mode::ReadWrite);
    const RunSummary run = findRun(store, name);
    if (isActive(run.status)) sendAndWait(store, run, "checkpoint", "", 120);
    int64_t newest = -1;
    for (const auto& row : store.checkpoints(run.id))
        if (row.onDisk) newest = row.step;
    if (newest < 0)
        throw Failure{kBadUsage, fmt::format("fork: run {} has no checkpoint on disk; allowed: a run that is going, or "
                                             "one with a checkpoint",
                                             run.name)};
    return newest;
}

int goOn(const Context& context, const Options& options, bool fork) {
    RunSpec spec;
    if (fork && options.step < 0 && !options.now)
        throw Failure{kBadUsage, "fork: from which step? allowed: --at STEP of a checkpoint, or --now"};
    const int64_t step = fork && options.now ? checkpointNow(context, options.run) : options.step;
    JobOptions job = jobOptions(context, options);
    {
        RunStore store(context.storePath(), RunStore::Mode::ReadOnly);
        const RunSummary run = findRun(store, options.run);
        // One that goes on already says so; what would change it is refused below, where its lock is held.
        const bool asIs = options.sets.empty() && options.step < 0;
        if (!fork && asIs && isActive(run.status)) return resumePaused(context, run);
        spec = storedSpec(store, run, options.sets);
        (fork ? job.forkRun : job.resumeRun) = run.id;
        if (options.device == "auto" && !run.device.empty()) job.device.device = run.device;
        const RunDocument document = store.document(run.id);
        if (options.threads == 0) job.device.threads = document.threads;
    }
    job.resumeStep = step;
    job.anyCorpus = fork && std::any_of(options.sets.begin(), options.sets.end(),
                                        [](const std::string& set) { return set.rfind("data.path=", 0) == 0; });
    InterruptCounter counter;
    return follow(context, spec, job);
}

void addDeviceOptions(CLI::App& command, const std::shared_ptr<Options>& options) {
    command.add_option("--set", options->sets, "PATH=VALUE, repeatable")->allow_extra_args(false);
    command.add_option("--device", options->device, "auto, cpu, cuda or cuda:N (MANTISSA_DEVICE for auto)");
    command.add_option("--threads", options->threads, "CPU threads (0: all)")->check(CLI::Range(0, 4096));
    command.add_flag("--beside", options->beside, "Do not wait for another run on the device");
}

}  // namespace

void addRunCommands(CLI::App& app, Context& context) {
    auto options = std::make_shared<Options>();
    auto* running = app.add_subcommand("run", "Trains a preset or a spec");
    running->add_option("PRESET|SPEC.json", options->source, "Preset or spec file (default: nano)");
    auto* name = running->add_option("--name", options->name, "Name of the run");
    running->add_option("--tag", options->tags, "Tag, repeatable")->allow_extra_args(false);
    auto* seeds = running->add_option("--seeds", options->seeds, "Seeds, separated by commas: one run each");
    addDeviceOptions(*running, options);
    addCommonFlags(*running, context, "mantissa-run run nano-bf16 --set train.steps=200 --seeds 1,2,3");
    running->callback([&context, options, name, seeds] {
        options->named = name->count() > 0;
        options->seeded = seeds->count() > 0;
        context.run = [&context, options] { return run(context, *options); };
    });

    auto* resuming = app.add_subcommand(
        "resume",
        "Goes on from a checkpoint as the same run; a paused run goes on where it is. Steps after an older checkpoint "
        "(--from) are superseded; fork keeps them");
    resuming->add_option("RUN", options->run, "Id or name")->required();
    resuming->add_option("--from", options->step, "Step of the checkpoint (default: the newest)")
        ->check(CLI::Range(int64_t{0}, kMostSteps));
    resuming->add_flag("--other-class", options->otherClass,
                       "Allow a checkpoint of another class of machine (not bit-identical)");
    addDeviceOptions(*resuming, options);
    addCommonFlags(*resuming, context, "mantissa-run resume nano-fp8-delayed-s1 --set train.steps=1200");
    resuming->callback(
        [&context, options] { context.run = [&context, options] { return goOn(context, *options, false); }; });

    auto* forking = app.add_subcommand("fork", "Goes on from a checkpoint as a new run");
    forking->add_option("RUN", options->run, "Id or name")->required();
    forking->add_option("--at", options->step, "Step of the checkpoint; 0 begins anew")
        ->check(CLI::Range(int64_t{0}, kMostSteps));
    forking->add_flag("--now", options->now, "From now: a run that is going writes a checkpoint first");
    auto* forkName = forking->add_option("--name", options->name, "Name of the new run");
    forking->add_option("--tag", options->tags, "Tag, repeatable")->allow_extra_args(false);
    addDeviceOptions(*forking, options);
    addCommonFlags(*forking, context, "mantissa-run fork nano-fp8-delayed-s1 --at 300 --set precision.recipe=current");
    forking->callback([&context, options, forkName] {
        options->named = forkName->count() > 0;
        context.run = [&context, options] { return goOn(context, *options, true); };
    });
}

}  // namespace mantissa::experiments::cli
