#include "experiments/job/training_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "engine/checkpoint/checkpoint.h"
#include "engine/faults.h"
#include "experiments/job/corpus_check.h"
#include "experiments/job/job_runner.h"
#include "experiments/report/device_choice.h"
#include "experiments/store/ulid.h"
#include "experiments/text/number_text.h"
#include "kernels/device/device_info.h"
#include "kernels/error.h"

namespace mantissa::experiments {

struct TrainingJob::Impl {
    std::string runId, name;
    Mailbox mailbox;
    std::jthread thread;
    void send(JobCommand::Kind kind) {
        JobCommand command;
        command.kind = kind;
        mailbox.send(std::move(command));
    }
};

namespace {

/// The checkpoint to go on from. Throws InvalidConfig naming those that there are.
CheckpointRow findCheckpoint(RunStore& store, const RunSummary& run, int64_t step) {
    std::optional<CheckpointRow> found;
    std::string there;
    for (const auto& row : store.checkpoints(run.id)) {
        if (!row.onDisk) continue;
        there += (there.empty() ? "" : ", ") + std::to_string(row.step);
        if (step < 0 || row.step == step) found = row;
    }
    if (found) return *found;
    if (there.empty())
        throw Error(
            ErrorCode::InvalidConfig,
            fmt::format("run {} has no checkpoint on disk, so there is nothing to go on from; allowed: a run "
                        "with a checkpoint (a spec with a smaller checkpoint.every writes the first one earlier)",
                        run.name));
    throw Error(ErrorCode::InvalidConfig,
                fmt::format("run {} has no checkpoint at step {}; there are: {}", run.name, step, there));
}

/// The steps of the other checkpoints on disk, for the sentence about one that is damaged.
std::string otherSteps(RunStore& store, const RunSummary& run, int64_t step) {
    std::string steps;
    for (const auto& row : store.checkpoints(run.id))
        if (row.onDisk && row.step != step) steps += (steps.empty() ? "" : ", ") + std::to_string(row.step);
    return steps.empty() ? "the run has no other checkpoint" : "the run also has checkpoints of step " + steps;
}

/// A checkpoint that cannot be loaded is refused before anything is written: damaged, of another step than the
/// store says, of another model, or of another class of machine.
void checkCheckpoint(RunStore& store, const RunSummary& run, const CheckpointRow& row, const JobPlan& plan) {
    const JobOptions& options = plan.options;
    if (options.makeStepper) return;
    engine::CheckpointInfo info;
    try {
        info = engine::checkpoint::verify(row.path, plan.spec.trainer.model);
        if (info.step != row.step)
            throw Error(ErrorCode::InvalidFile,
                        fmt::format("{}: holds the state after step {}, not that of step {}: its files are those of "
                                    "another checkpoint",
                                    row.path, info.step, row.step));
    } catch (const Error& error) {
        if (error.code() != ErrorCode::InvalidFile) throw;
        throw Error(ErrorCode::InvalidFile, fmt::format("{}; {}", error.what(), otherSteps(store, run, row.step)));
    }
    if (options.otherClass || concreteDevice(options.device.device) != "cpu") return;
    if (const std::string here = kernels::probeCpu().determinismClass; here != info.determinismClass)
        throw Error(
            ErrorCode::InvalidConfig,
            fmt::format("{}: made on a machine of class {}, this one is of class {}; allowed: the same class, or "
                        "--other-class (the run is then not bit-identical from step {} on)",
                        row.path, info.determinismClass, here, row.step));
}

/// What makes a run the run it is: another value makes another run. All else may change when it goes on.
bool isIdentity(const std::string& path) {
    return path == "seed" || path == "train.batch" || path == "train.accumulation" || path.rfind("model.", 0) == 0 ||
           path.rfind("data.", 0) == 0;
}

/// Refuses a resume under a spec of another run; otherwise what has changed, in words ("" for nothing).
std::string changesOf(RunStore& store, const RunSummary& run, const RunSpec& spec) {
    const ParsedSpec stored = parseSpec(store.document(run.id).specJson);
    if (!stored.ok()) return "";
    std::string text;
    for (const auto& one : differences(stored.spec, spec)) {
        if (isIdentity(one.path))
            throw Error(
                ErrorCode::InvalidConfig,
                fmt::format(
                    "resume: {}: {} in run {} and {} here, which would be another run; allowed: changes of anything "
                    "but seed, model.*, data.*, train.batch and train.accumulation, or a new run by fork",
                    one.path, one.left, run.name, one.right));
        text += fmt::format(" {}: {}, was {}.", one.path, one.right, one.left);
    }
    return text;
}

/// What a resume from before the run's last step makes of the steps after it, in words ("" when there are none).
std::string supersededBy(const RunSummary& run, int64_t from, int keep) {
    if (run.step <= from) return "";
    return fmt::format(
        " Steps {} to {} of before are superseded: charts draw them dimmed, export and show leave them "
        "out{}. A fork from there keeps both.",
        from + 1, run.step,
        keep > 0 ? fmt::format(", and their checkpoints are the first that checkpoint.keep ({}) drops", keep) : "");
}

/// Planted faults that come from the run gone on from and have no place left under the changed plan (a scale that is
/// not delayed any more cannot stop being updated) are left out. What was left out, in words ("" for nothing).
std::string leaveOutFaults(RunStore& store, const RunSummary& run, RunSpec& spec) {
    const ParsedSpec stored = parseSpec(store.document(run.id).specJson);
    if (!stored.ok()) return "";
    const auto& before = stored.spec.trainer.faults;
    auto& faults = spec.trainer.faults;
    std::string text;
    for (auto fault = faults.begin(); fault != faults.end();) {
        const bool inherited = std::any_of(before.begin(), before.end(), [&](const engine::PlantedFault& one) {
            return one.kind == fault->kind && one.step == fault->step && one.target == fault->target;
        });
        const std::string refusal = inherited ? engine::faultRefusal(*fault, spec.trainer) : "";
        if (!refusal.empty()) text += fmt::format(" Left out of {}.", refusal);
        fault = refusal.empty() ? fault + 1 : faults.erase(fault);
    }
    return text;
}

/// Ends with the sentence for a planted fault that has no place in the run, before the run is stored.
void refuseFaults(const RunSpec& spec) {
    for (const auto& fault : spec.trainer.faults)
        if (const std::string refusal = engine::faultRefusal(fault, spec.trainer); !refusal.empty())
            throw Error(ErrorCode::InvalidConfig, refusal);
}

/// Step 0 needs no checkpoint: a fork there begins anew.
bool beginsAnew(RunStore& store, const RunSummary& run, int64_t step) {
    if (step != 0) return false;
    for (const auto& row : store.checkpoints(run.id))
        if (row.onDisk && row.step == 0) return false;
    return true;
}

FileLock lockRun(const RunStore& store, const std::string& id, const std::string& name) {
    FileLock lock;
    if (!lock.acquire(runLockPath(store, id), 1000) && lock.problem() != 0)
        throw Error(ErrorCode::Database,
                    fmt::format("{} cannot be opened: {}", runLockPath(store, id), std::strerror(lock.problem())));
    if (!lock.held()) throw Error(ErrorCode::InvalidConfig, fmt::format("run {} is going in another process", name));
    lock.write(lockText());
    return lock;
}

/// The files of a folder once more under another name; the folder itself where that is not possible.
std::string linkFolder(const std::string& from, const std::string& to) {
    namespace fs = std::filesystem;
    std::error_code code;
    fs::create_directories(to, code);
    for (const auto& entry : fs::directory_iterator(from, code)) {
        if (!code) fs::create_hard_link(entry.path(), fs::path(to) / entry.path().filename(), code);
        if (code) break;
    }
    if (!code) return to;
    fs::remove_all(to, code);
    return from;
}

/// Where a fork goes on from; the parent's id.
std::string prepareFork(RunStore& store, JobPlan& plan) {
    const RunSummary run = store.find(plan.options.forkRun);
    const std::string leftOut = leaveOutFaults(store, run, plan.spec);
    if (!plan.options.makeStepper) checkCorpus(store, run, plan.spec, plan.options.resumeStep, plan.options.anyCorpus);
    if (beginsAnew(store, run, plan.options.resumeStep)) {
        plan.origin = fmt::format("Forked from {}, from the start.{}", run.name, leftOut);
        return run.id;
    }
    const CheckpointRow checkpoint = findCheckpoint(store, run, plan.options.resumeStep);
    if (checkpoint.step >= plan.spec.trainer.steps)
        throw Error(ErrorCode::InvalidConfig,
                    fmt::format("a fork of {} at step {} has nothing left to do of {} steps; a larger train.steps "
                                "lets it go on",
                                run.name, checkpoint.step, plan.spec.trainer.steps));
    checkCheckpoint(store, run, checkpoint, plan);
    plan.checkpointStep = checkpoint.step;
    plan.origin = fmt::format("Forked from {} at step {}.{}", run.name, checkpoint.step, leftOut);
    // Its own links: the parent may drop the checkpoint while this run waits for the device.
    plan.checkpoint = linkFolder(checkpoint.path, fmt::format("{}/{}/origin", store.folder(), plan.runId));
    return run.id;
}

/// Finds or makes the run's row and takes its lock.
FileLock settle(RunStore& store, JobPlan& plan) {
    JobOptions& options = plan.options;
    if (!options.resumeRun.empty()) {
        const RunSummary run = store.find(options.resumeRun);
        plan.runId = run.id;
        plan.name = run.name;
        FileLock lock = lockRun(store, run.id, run.name);
        const CheckpointRow checkpoint = findCheckpoint(store, run, options.resumeStep);
        if (checkpoint.step >= plan.spec.trainer.steps)
            throw Error(ErrorCode::InvalidConfig,
                        fmt::format("run {} has done all of its {} steps; a larger train.steps lets it go on", run.name,
                                    plan.spec.trainer.steps));
        keepDataPath(store, run, plan.spec);
        const std::string changes = changesOf(store, run, plan.spec);
        plan.spec.data.path = absoluteDataPath(plan.spec.data.path);
        const std::string leftOut = leaveOutFaults(store, run, plan.spec);
        checkCheckpoint(store, run, checkpoint, plan);
        if (!options.makeStepper) checkCorpus(store, run, plan.spec, checkpoint.step, false);
        plan.checkpoint = checkpoint.path;
        plan.checkpointStep = checkpoint.step;
        plan.origin = fmt::format("Resumed from the checkpoint of step {}.{}{}{}", checkpoint.step, changes, leftOut,
                                  supersededBy(run, checkpoint.step, plan.spec.checkpoint.keep));
        return lock;
    }
    plan.spec.data.path = absoluteDataPath(plan.spec.data.path);
    plan.runId = makeUlid();
    plan.name = options.name.empty() ? plan.spec.defaultName() : options.name;
    const std::string parent = options.forkRun.empty() ? "" : prepareFork(store, plan);
    refuseFaults(plan.spec);
    FileLock lock = lockRun(store, plan.runId, plan.name);
    insertRun(store, plan.runId, plan.spec, plan.name, options.tags, options.device.device, parent,
              plan.checkpointStep);
    return lock;
}

}  // namespace

TrainingJob::TrainingJob(const RunSpec& spec, JobOptions options) : impl_(std::make_unique<Impl>()) {
    if (const auto errors = validate(spec); !errors.empty())
        throw Error(ErrorCode::InvalidConfig, fmt::format("{}: {}", errors[0].path, errors[0].message));
    JobPlan plan;
    plan.spec = spec;
    plan.options = std::move(options);
    plan.options.device = resolveDevice(plan.options.device);
    RunStore store(plan.options.store, RunStore::Mode::ReadWrite);
    if (store.readOnly()) throw Error(ErrorCode::Database, fmt::format("{}: {}", store.path(), store.readOnlyReason()));
    FileLock lock = settle(store, plan);
    impl_->runId = plan.runId;
    impl_->name = plan.name;
    impl_->mailbox.wake = plan.options.wake;
    auto runner = std::make_shared<JobRunner>(std::move(plan), impl_->mailbox, std::move(lock));
    impl_->thread = std::jthread([runner = std::move(runner)]() mutable {
        runner->run();
        runner.reset();
    });
}

TrainingJob::~TrainingJob() {
    if (!ended()) stop();
    join();
}

const std::string& TrainingJob::runId() const {
    return impl_->runId;
}
const std::string& TrainingJob::name() const {
    return impl_->name;
}
void TrainingJob::pause() {
    impl_->send(JobCommand::Kind::Pause);
}
void TrainingJob::resume() {
    impl_->send(JobCommand::Kind::Resume);
}
void TrainingJob::stop() {
    impl_->send(JobCommand::Kind::Stop);
}
void TrainingJob::stopNow() {
    impl_->send(JobCommand::Kind::StopNow);
}
void TrainingJob::checkpoint() {
    impl_->send(JobCommand::Kind::Checkpoint);
}
void TrainingJob::set(std::vector<SpecSet> changes) {
    JobCommand command;
    command.kind = JobCommand::Kind::Set;
    command.sets = std::move(changes);
    impl_->mailbox.send(std::move(command));
}
void TrainingJob::setLearningRate(double rate) {
    set({{"optimizer.learning_rate", numberText(rate)}});
}
void TrainingJob::setProbes(const engine::ProbeConfig& probes) {
    RunSpec spec;
    spec.trainer.probes = probes;
    std::vector<SpecSet> changes;
    for (const std::string& path : specPaths())
        if (path.rfind("probes.", 0) == 0) changes.push_back({path, getPath(spec, path)});
    set(std::move(changes));
}
void TrainingJob::setPrecision(const engine::PrecisionConfig& precision) {
    JobCommand command;
    command.kind = JobCommand::Kind::Precision;
    command.precision = precision;
    impl_->mailbox.send(std::move(command));
}
void TrainingJob::capture(const std::string& tensor) {
    JobCommand command;
    command.kind = JobCommand::Kind::Capture;
    command.tensor = tensor;
    impl_->mailbox.send(std::move(command));
}
std::vector<JobMessage> TrainingJob::drain() {
    return impl_->mailbox.takeMessages();
}
bool TrainingJob::ended() const {
    return impl_->mailbox.ended;
}
void TrainingJob::join() {
    if (impl_->thread.joinable()) impl_->thread.join();
}

}  // namespace mantissa::experiments
