#include "experiments/job/job_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "experiments/job/first_trouble.h"
#include "experiments/job/process_memory.h"
#include "experiments/report/device_choice.h"
#include "experiments/store/ulid.h"
#include "experiments/text/number_text.h"
#include "kernels/error.h"

namespace mantissa::experiments {

namespace fs = std::filesystem;

namespace {

uint64_t folderBytes(const std::string& folder) {
    uint64_t bytes = 0;
    std::error_code code;
    for (const auto& entry : fs::recursive_directory_iterator(folder, code))
        if (entry.is_regular_file(code)) bytes += entry.file_size(code);
    return bytes;
}

RunStatus statusOf(ErrorCode code) {
    return code == ErrorCode::OutOfMemory || code == ErrorCode::DeviceUnavailable ? RunStatus::Refused
                                                                                  : RunStatus::Failed;
}

/// What the board does not report has no series.
void addReading(const engine::DeviceReading& reading, StepRecord& record) {
    const std::pair<Metric, double> values[] = {{Metric::PowerWatts, reading.watts},
                                                {Metric::EnergyJoules, reading.joules},
                                                {Metric::SmMhz, reading.smMHz},
                                                {Metric::MemoryMhz, reading.memoryMHz},
                                                {Metric::Celsius, reading.celsius}};
    for (const auto& [metric, value] : values)
        if (value > 0) record.scalars.emplace_back(metric, value);
}

}  // namespace

std::map<std::string, uint64_t> planBy(const engine::MemoryPlan& plan) {
    return {{"weights", plan.weights},         {"gradients", plan.gradients}, {"moments", plan.moments},
            {"activations", plan.activations}, {"workspace", plan.workspace}, {"host", plan.host}};
}

JobRunner::JobRunner(JobPlan plan, Mailbox& mailbox, FileLock lock)
    : plan_(std::move(plan)),
      mailbox_(mailbox),
      lock_(std::move(lock)),
      loss_(std::nan("")),
      validationLoss_(std::nan("")) {
    mark_ = lastFlush_ = lastPoll_ = lastResident_ = Clock::now();
}

void JobRunner::run() {
    try {
        train();
    } catch (const Error& error) {
        finish(statusOf(error.code()), error.what());
    } catch (const std::bad_alloc&) {
        finish(RunStatus::Refused, "There was not enough memory.");
    } catch (const std::exception& error) {
        finish(RunStatus::Failed, error.what());
    }
    stepper_.reset();
    writer_.reset();
    store_.reset();
    deviceLock_.release();
    lock_.release();
    mailbox_.ended = true;
    if (mailbox_.wake) mailbox_.wake();
}

void JobRunner::train() {
    store_ = std::make_unique<RunStore>(plan_.options.store, RunStore::Mode::ReadWrite);
    writer_ = std::make_unique<RunWriter>(*store_, plan_.runId, plan_.checkpointStep + 1);
    if (plan_.options.resumeRun.empty()) {
        writer_->setStatus(RunStatus::Queued);
        flush(true);
    } else {
        before_ = store_->run(plan_.runId);
        writeStatus(*store_, plan_.runId, RunStatus::Queued, "");
    }
    if (!waitForDevice()) return finish(RunStatus::Stopped, "Stopped while it waited for the device.");
    prepare();
    loop();
    const bool measureOnly = plan_.options.measureOnly;
    if (diverged_) {
        if (savedStep_ != stepper_->stepIndex() && !measureOnly) saveCheckpoint(true);
        return finish(RunStatus::Diverged, reason_);
    }
    if (stopNow_) return finish(RunStatus::Stopped, "Stopped at once, without a checkpoint.");
    if (!stop_ && evaluatedStep_ != stepper_->stepIndex() && !measureOnly) evaluate();
    if (savedStep_ != stepper_->stepIndex() && !measureOnly) saveCheckpoint(true);
    finish(stop_ ? RunStatus::Stopped : RunStatus::Finished, stop_ ? reason_ : "");
}

/// One queue a device: the device's lock file says who has it. False: told to stop while waiting.
bool JobRunner::waitForDevice() {
    const std::string device = concreteDevice(plan_.options.device.device);
    const std::string path = fmt::format("{}/device-{}.lock", store_->folder(), device);
    std::string said;
    while (true) {
        poll(true);
        if (stop_ || stopNow_) return false;
        std::string before = plan_.options.waitFor ? plan_.options.waitFor() : "";
        if (before.empty() && (plan_.options.beside || deviceLock_.acquire(path, 0))) break;
        if (before.empty()) before = "another run of this store";
        if (said != before) mailbox_.post(JobPhase{fmt::format("Waiting for {}: {} is going", device, before)});
        said = before;
        mailbox_.waitForCommand(100);
    }
    deviceLock_.write(lockText() + plan_.name + "\n");
    return true;
}

void JobRunner::prepare() {
    residentBefore_ = residentMemory();
    resetPeakMemory();
    const StepperFactory make = plan_.options.makeStepper ? plan_.options.makeStepper : makeEngineStepper;
    stepper_ = make(plan_.spec, plan_.options.device, [&](const std::string& text) { mailbox_.post(JobPhase{text}); });
    baseRate_ = plan_.spec.trainer.optimizer.learningRate;
    makeAlarms();
    if (plan_.spec.autoPrecision.enabled)
        auto_ = std::make_unique<AutoPrecision>(plan_.spec.autoPrecision, plan_.spec.trainer.precision,
                                                stepper_->catalogue());
    announce();
    if (!plan_.checkpoint.empty()) load();
    // Nothing of a resumed run is changed before its checkpoint is loaded.
    before_.reset();
    writer_->setDocument(document_);
    writer_->setSteps(plan_.spec.trainer.steps);
    setState(RunStatus::Running);
    flush(true);
    mailbox_.post(JobPhase{"First step"});
    mark_ = Clock::now();
}

void JobRunner::load() {
    mailbox_.post(JobPhase{"Loading the checkpoint"});
    const engine::LoadNote note = stepper_->loadCheckpoint(plan_.checkpoint, plan_.options.otherClass);
    event(plan_.options.forkRun.empty() ? "resumed" : "started", plan_.origin);
    if (!note.text.empty()) event("notice", note.text);
    if (note.fp8StateMissing) {
        RunEvent alert;
        alert.step = plan_.checkpointStep;
        alert.kind = "alert";
        alert.alert = "fp8_state_missing";
        alert.severity = 1;
        alert.text = "The checkpoint has no FP8 state: all scales start at 1 and all amax windows are empty.";
        post(alert);
    }
    savedStep_ = plan_.options.forkRun.empty() ? plan_.checkpointStep : -1;
    const auto summary = store_->run(plan_.runId);
    if (summary) seconds_ = summary->seconds;
    if (!plan_.options.forkRun.empty()) {
        std::error_code code;
        if (fs::path(plan_.checkpoint).filename() == "origin") fs::remove_all(plan_.checkpoint, code);
        return;
    }
    for (CheckpointRow row : store_->checkpoints(plan_.runId)) {
        if (!row.onDisk) continue;
        if (row.path != plan_.checkpoint) {
            checkpoints_.push_back(row.path);
            continue;
        }
        // From now on it is the newest: those of the superseded tail are older than what is trained here.
        row.path = fmt::format("{}/{}", plan_.runId, fs::path(row.path).filename().string());
        writer_->addCheckpoint(row);
    }
    checkpoints_.push_back(plan_.checkpoint);
}

void JobRunner::announce() {
    const Stepper::Facts facts = stepper_->facts();
    const engine::MemoryPlan plan = stepper_->memoryPlan();
    JobStarted started;
    started.run = plan_.runId;
    started.name = plan_.name;
    started.device = facts.device;
    started.deviceName = facts.deviceName;
    started.isa = facts.isa;
    started.determinismClass = facts.determinismClass;
    started.threads = facts.threads;
    started.parameters = facts.parameters;
    started.firstStep = plan_.checkpointStep + 1;
    started.steps = plan_.spec.trainer.steps;
    started.planBytes = plan.total();
    started.planBy = planBy(plan);
    started.planNote = plan.note;
    started.dataDescription = facts.data;
    started.entropyFloor = facts.entropyFloor;
    started.flopsPerToken = facts.flopsPerToken;
    started.catalogue = stepper_->catalogue();

    RunDocument document = store_->document(plan_.runId);
    const int64_t firstStep = plan_.checkpointStep + 1;
    while (!document.specs.empty() && document.specs.back().first >= firstStep) document.specs.pop_back();
    const bool otherClass = !document.determinismClass.empty() && document.determinismClass != facts.determinismClass;
    if (otherClass && document.notBitIdenticalFrom == 0)
        document.notBitIdenticalFrom = static_cast<int>(plan_.checkpointStep);
    document.specJson = plan_.spec.toJson(-1);
    if (document.specs.empty() || document.specs.back().second != document.specJson)
        document.specs.emplace_back(document.specs.empty() ? 1 : firstStep, document.specJson);
    document.determinismClass = facts.determinismClass;
    document.isa = facts.isa;
    document.threads = facts.threads;
    document.parameters = facts.parameters;
    document.planBytes = started.planBy;
    document.planNote = plan.note;
    document.dataDescription = facts.data;
    document.entropyFloor = facts.entropyFloor;
    document.corpus = facts.corpus;
    document.flopsPerToken = facts.flopsPerToken;
    document.catalogue = started.catalogue;
    document_ = document;
    writer_->setDevice(facts.device, facts.deviceName, started.planBytes);
    mailbox_.post(std::move(started));
    if (plan_.checkpoint.empty())
        event("started", fmt::format("{}{}Started on {} ({}, {} threads).", plan_.origin,
                                     plan_.origin.empty() ? "" : " ", facts.deviceName, facts.isa, facts.threads));
    if (facts.replacedCharacters > 0)
        event("notice", fmt::format("{} characters of the text are outside the tokenizer's set and became \"?\".",
                                    facts.replacedCharacters));
    if (otherClass)
        event("notice",
              fmt::format("Not bit-identical from step {}: the checkpoint comes from another class of machine than {}.",
                          plan_.checkpointStep, facts.determinismClass));
}

// The loop
// --------------------------------------------------------------------------------------------------------------

/// The counter of a board's energy is too coarse for less than ten seconds.
bool JobRunner::stepsLeft() const {
    constexpr double kEnergySeconds = 11;
    if (stepper_->stepIndex() < plan_.spec.trainer.steps) return true;
    return plan_.options.measureOnly && energyFrom_ && secondsSince(*energyFrom_) < kEnergySeconds;
}

void JobRunner::loop() {
    while (stepsLeft()) {
        if (!stepper_->stepAhead()) {
            poll(false);
            if (paused_) pauseUntilToldOtherwise();
            if (stop_ || stopNow_ || diverged_) return;
        }
        oneStep();
    }
}

/// Whether the step after the coming one may start before the coming one is read: nothing happens between the two.
bool JobRunner::looksAhead() const {
    const int64_t step = stepper_->stepIndex() + 1;
    const auto due = [step](int64_t every) { return every > 0 && step % every == 0; };
    return !auto_ && !diverged_ && !windowWanted_ && step < plan_.spec.trainer.steps && !due(plan_.spec.evalEvery) &&
           !due(plan_.spec.checkpoint.every) && !mailbox_.hasCommands() &&
           secondsSince(lastPoll_) + lastStepSeconds_ < std::max(kLongestPollSeconds, 4 * lastStepSeconds_);
}

void JobRunner::oneStep() {
    tokensBefore_ = stepper_->tokensSeen();
    const bool ahead = looksAhead();
    windowWanted_ = false;
    const engine::StepMetrics metrics = ahead ? stepper_->stepThenAnother() : stepper_->step();
    afterStep(metrics);
    if (metrics.step == plan_.checkpointStep + 1 || std::exchange(precisionChanged_, false)) {
        auto rows = stepper_->effectivePrecision();
        writer_->setPrecision(rows);
        mailbox_.post(JobPrecision{std::move(rows)});
    }
    judgeFinite(metrics);
    if (auto_) decideAutomatically(metrics);
    const int64_t step = metrics.step;
    const bool last = step == plan_.spec.trainer.steps;
    const bool due = plan_.spec.evalEvery > 0 && step % plan_.spec.evalEvery == 0;
    if ((due && !diverged_ && !paused_) || (last && !plan_.options.measureOnly)) {
        flush(true);
        evaluate();
    }
    if (plan_.spec.checkpoint.every > 0 && step % plan_.spec.checkpoint.every == 0 && !diverged_) saveCheckpoint(last);
    // A step that is expected to end after the next commit is due must not keep this one waiting.
    flush(secondsSince(lastFlush_) + lastStepSeconds_ > kFlushSeconds);
    writer_->compactSlice();
}

void JobRunner::afterStep(const engine::StepMetrics& metrics) {
    const double elapsed = secondsSince(mark_);
    mark_ = Clock::now();
    lastStepSeconds_ = elapsed;
    seconds_ += elapsed;
    loss_ = metrics.loss;
    if (secondsSince(lastResident_) > 0.25 || resident_ == 0) {
        resident_ = residentBytes();
        lastResident_ = Clock::now();
    }
    JobStep step;
    step.metrics = metrics;
    step.totalTokens = stepper_->tokensSeen();
    // Results that arrive one step late may be read two at a time; their share of a quarter of a second says how fast.
    const double seconds = metrics.device ? stepClock_.add(elapsed) : elapsed;
    step.tokensPerSecond = seconds > 0 ? static_cast<double>(metrics.tokens) / seconds : 0;
    step.stepMs = seconds * 1000;
    step.memoryBytes = metrics.device ? metrics.device->memoryUsed : resident_;
    step.timeMs = nowMs();
    rates_.add(step.tokensPerSecond);

    StepRecord record;
    record.step = metrics.step;
    record.probed = metrics.numerics && metrics.numerics->probed;
    const Metric phases[] = {Metric::PhaseMatmul, Metric::PhaseAttention, Metric::PhaseElementwise,
                             Metric::PhaseOptimizer};
    double known = 0;
    record.scalars = {{Metric::Loss, metrics.loss},
                      {Metric::GradNorm, metrics.gradientNorm},
                      {Metric::LearningRate, metrics.learningRate},
                      {Metric::Tokens, static_cast<double>(step.totalTokens)},
                      {Metric::TokensPerSecond, step.tokensPerSecond},
                      {Metric::StepMs, step.stepMs},
                      {Metric::MemoryBytes, static_cast<double>(step.memoryBytes)},
                      {Metric::Seconds, seconds_},
                      {Metric::TimeMs, static_cast<double>(step.timeMs)},
                      {Metric::Applied, metrics.applied ? 1.0 : 0.0}};
    for (int i = 0; i < 4; ++i) {
        record.scalars.emplace_back(phases[i], metrics.phaseSeconds[i] * 1000);
        known += metrics.phaseSeconds[i] * 1000;
    }
    record.scalars.emplace_back(Metric::PhaseGap, std::max(0.0, elapsed * 1000 - known));
    if (metrics.device) addReading(*metrics.device, record);
    if (metrics.device && metrics.device->joules > 0 && !energyFrom_) energyFrom_ = Clock::now();
    if (plan_.spec.trainer.precision.mode == engine::PrecisionMode::Fp16)
        record.scalars.emplace_back(Metric::LossScale, metrics.lossScale);
    writer_->addStep(record, metrics.numerics.get());
    mailbox_.post(std::move(step));
    for (const RunEvent& alert : alarms_->check(metrics)) post(alert);
    if (metrics.trouble) recordTrouble(*metrics.trouble);
}

/// The first non-finite step is described once; later ones are alerts.
void JobRunner::recordTrouble(const engine::TroubleReport& report) {
    RunEvent row;
    row.step = report.step;
    row.kind = "notice";
    row.text = report.text;
    post(row);
    if (!document_.trouble.empty()) return;
    document_.trouble = troubleJson(report);
    writer_->setDocument(document_);
}

void JobRunner::makeAlarms() {
    alarms_ = std::make_unique<Alarms>(plan_.spec.trainer.precision, stepper_->catalogue(), plan_.spec.alarms);
    alarms_->warmUntil = plan_.spec.trainer.schedule.warmup + std::min(plan_.spec.trainer.precision.historyLength, 16);
    alarms_->window = [this](int tensor) {
        windowWanted_ = stepper_->stepAhead();  // then the coming step ends with nothing under way, and it is read
        return windowWanted_ ? engine::WindowState{} : stepper_->window(tensor);
    };
}

/// Moves that automatic precision asks for after this step; they hold from the next one on.
void JobRunner::decideAutomatically(const engine::StepMetrics& metrics) {
    const auto decisions = auto_->observe(metrics);
    if (decisions.empty()) return;
    const auto notes = stepper_->setPrecision(auto_->precision());
    for (const auto& decision : decisions) {
        RunEvent row;
        row.step = decision.step;
        row.kind = "auto";
        row.text = decision.text;
        row.layer = decision.layer;
        row.tensor = decision.linear.empty() ? decision.tensor : decision.linear + "/" + decision.tensor;
        post(row);
    }
    for (const std::string& note : notes) event("notice", note);
    plan_.spec.trainer.precision = auto_->precision();
    makeAlarms();
    recordSpec();
    precisionChanged_ = true;
}

void JobRunner::judgeFinite(const engine::StepMetrics& metrics) {
    nonFiniteRunning_ = metrics.finite ? 0 : nonFiniteRunning_ + 1;
    if (metrics.finite) return;
    const auto policy = plan_.spec.trainer.nonfinite;
    const bool searching =
        plan_.spec.trainer.precision.mode == engine::PrecisionMode::Fp16 && std::isfinite(metrics.loss);
    const std::string what = fmt::format("loss {}, gradient norm {} at step {}", numberText(metrics.loss),
                                         numberText(metrics.gradientNorm), metrics.step);
    if (policy == engine::NonfinitePolicy::Skip && nonFiniteRunning_ >= kDivergedSteps) {
        diverged_ = true;
        reason_ = fmt::format("{} steps running were not finite: {}.", nonFiniteRunning_, what);
    }
    if (searching) return;
    if (policy == engine::NonfinitePolicy::Stop ||
        (policy == engine::NonfinitePolicy::Pause && plan_.options.headless)) {
        diverged_ = true;
        reason_ = fmt::format("Not finite: {}. No update was made from it.", what);
    } else if (policy == engine::NonfinitePolicy::Pause) {
        paused_ = true;
    }
}

void JobRunner::evaluate() {
    engine::EvalResult result;
    audited("evaluation", [&] { result = stepper_->evaluate(); });
    evaluatedStep_ = stepper_->stepIndex();
    validationLoss_ = result.loss;
    writer_->addEvaluation(evaluatedStep_, result.loss);
    mailbox_.post(JobEval{evaluatedStep_, result.loss});
    mark_ = Clock::now();
}

// Checkpoints
// -----------------------------------------------------------------------------------------------------------

void JobRunner::saveCheckpoint(bool final) {
    flush(true, true);
    const auto start = Clock::now();
    const int64_t step = stepper_->stepIndex();
    const std::string relative = fmt::format("{}/step-{:08}", plan_.runId, step);
    const std::string folder = fs::absolute(store_->folder()).string() + "/" + relative;
    try {
        fs::create_directories(fs::path(folder).parent_path());
        audited("checkpoint", [&] { stepper_->saveCheckpoint(folder); });
    } catch (const std::exception& error) {
        // A checkpoint that cannot be written is no reason to lose the training: the run goes on and says so.
        RunEvent alert;
        alert.step = step;
        alert.kind = "alert";
        alert.alert = "checkpoint_failed";
        alert.severity = 2;
        alert.text = fmt::format("The checkpoint of step {} could not be written: {}", step, error.what());
        if (std::exchange(failedStep_, step) != step) post(alert);  // the end tries once more, and says nothing new
        mark_ = Clock::now();
        return;
    }
    savedStep_ = step;
    CheckpointRow row;
    row.step = step;
    row.timeMs = nowMs();
    row.path = relative;
    row.bytes = folderBytes(folder);
    writer_->addCheckpoint(row);
    checkpoints_.erase(std::remove(checkpoints_.begin(), checkpoints_.end(), folder), checkpoints_.end());
    checkpoints_.push_back(folder);
    const double seconds = secondsSince(start);
    event("checkpoint", fmt::format("Checkpoint written, {} in {:.1f} s.", bytesText(row.bytes), seconds));
    mailbox_.post(JobCheckpoint{step, folder, seconds, row.bytes});
    dropOldCheckpoints();
    flush(true, final);
    if (writer_->problem().empty()) store_->moveWal();  // a copy of the file alone then holds the run up to here
    mark_ = Clock::now();
}

void JobRunner::dropOldCheckpoints() {
    const int keep = plan_.spec.checkpoint.keep;
    while (keep > 0 && static_cast<int>(checkpoints_.size()) > keep) {
        const fs::path oldest = checkpoints_.front();
        checkpoints_.pop_front();
        std::error_code code;
        fs::remove_all(oldest, code);
        writer_->dropCheckpoint(plan_.runId + "/" + oldest.filename().string());
    }
}

// Store
// -----------------------------------------------------------------------------------------------------------------

void JobRunner::event(const std::string& kind, const std::string& text) {
    RunEvent row;
    row.step = stepper_ ? std::max(stepper_->stepIndex(), plan_.checkpointStep) : plan_.checkpointStep;
    row.kind = kind;
    row.text = text;
    post(row);
}

void JobRunner::post(const RunEvent& given) {
    RunEvent row = given;
    row.timeMs = nowMs();
    writer_->addEvent(row);
    mailbox_.post(JobEventRow{row});
}

uint64_t JobRunner::residentBytes() const {
    const uint64_t now = residentMemory();
    return now > residentBefore_ ? now - residentBefore_ : 0;
}

}  // namespace mantissa::experiments
