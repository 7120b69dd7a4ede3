// Commands of a job: from this process by the mailbox, from others by the store.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "experiments/job/capture.h"
#include "experiments/job/job_runner.h"
#include "experiments/report/what_if.h"
#include "experiments/spec/spec_fields.h"
#include "experiments/store/derived.h"
#include "kernels/error.h"

namespace mantissa::experiments {

namespace {

std::string errorText(const SpecError& error) {
    std::string allowed;
    for (const auto& word : error.allowed) allowed += (allowed.empty() ? "" : ", ") + word;
    return fmt::format("{}{}{}; allowed: {}", error.path, error.path.empty() ? "" : ": ", error.message, allowed);
}

constexpr const char* kLivePaths[] = {
    "precision.", "probes.", "optimizer.learning_rate", "train.nonfinite", "checkpoint.", "eval.every", "alarms."};

std::string livePathsText() {
    std::string text;
    for (const std::string path : kLivePaths)
        text += (text.empty() ? "" : ", ") + path + (path.back() == '.' ? "*" : "");
    return text;
}

}  // namespace

bool isLivePath(const std::string& path) {
    for (const std::string live : kLivePaths)
        if (live.back() == '.' ? path.rfind(live, 0) == 0 : path == live) return true;
    return false;
}

void JobRunner::poll(bool force) {
    for (const JobCommand& command : mailbox_.takeCommands()) apply(command);
    if (!force && secondsSince(lastPoll_) < kPollSeconds) return;
    lastPoll_ = Clock::now();
    if (writer_->problem().empty())
        for (const RunCommand& command : writer_->takeCommands()) applyRemote(command);
}

void JobRunner::apply(const JobCommand& command) {
    using Kind = JobCommand::Kind;
    switch (command.kind) {
        case Kind::Pause:
            event("command", paused_ ? "Paused already." : "Paused.");
            paused_ = true;
            return;
        case Kind::Resume:
            event("command", paused_ ? "Resumed." : "Going on already.");
            paused_ = false;
            return;
        case Kind::Stop:
            stop_ = true;
            reason_ = fmt::format("Stopped by the user at step {}.", stepper_ ? stepper_->stepIndex() : 0);
            event("command", "Asked to stop.");
            return;
        case Kind::StopNow:
            stopNow_ = true;
            event("command", "Stopped at once.");
            return;
        case Kind::Checkpoint:
            if (stepper_) saveCheckpoint(false);
            return;
        case Kind::Set:
            return applySet(command.sets);
        case Kind::Precision: {
            RunSpec next = baseSpec();
            next.trainer.precision = command.precision;
            return adopt(next, "a precision setting");
        }
        case Kind::Capture:
            return applyCapture(command.tensor);
    }
}

void JobRunner::refuse(const std::string& asked, const std::string& reason) {
    event("refused", fmt::format("Not applied: {}: {}", asked, reason));
}

/// The spec without what automatic precision laid over it.
RunSpec JobRunner::baseSpec() const {
    RunSpec spec = plan_.spec;
    if (auto_) spec.trainer.precision = auto_->base();
    return spec;
}

void JobRunner::applySet(const std::vector<SpecSet>& sets) {
    std::string asked;
    for (const SpecSet& one : sets) asked += fmt::format("{}{}={}", asked.empty() ? "" : ", ", one.path, one.value);
    RunSpec next = baseSpec();
    for (const SpecSet& one : sets) {
        if (findField(one.path) != nullptr && !isLivePath(one.path))
            return refuse(asked, fmt::format("{} cannot change while a run goes; allowed: {}, or a fork", one.path,
                                             livePathsText()));
        if (const auto errors = setPath(next, one.path, one.value); !errors.empty())
            return refuse(asked, errorText(errors.front()));
    }
    adopt(next, asked);
}

/// Applies a changed spec, all or nothing; each field that changed becomes an event.
void JobRunner::adopt(const RunSpec& next, const std::string& asked) {
    const RunSpec before = baseSpec();
    if (const auto errors = validate(next); !errors.empty()) return refuse(asked, errorText(errors.front()));
    const auto changed = differences(before, next);
    if (changed.empty()) return event("command", fmt::format("Nothing changes: {} is in force already.", asked));
    const auto touches = [&](const char* section) {
        return std::any_of(changed.begin(), changed.end(),
                           [&](const SpecDifference& one) { return one.path.rfind(section, 0) == 0; });
    };
    std::vector<std::string> notes;
    const bool precision = touches("precision.");
    if (stepper_ && precision) {
        std::unique_ptr<AutoPrecision> automatic = nextAuto(before, next);
        const engine::PrecisionConfig wanted = automatic ? automatic->precision() : next.trainer.precision;
        try {
            notes = stepper_->setPrecision(wanted);
        } catch (const Error& error) {
            return refuse(asked, error.what());
        }
        auto_ = std::move(automatic);
        plan_.spec = next;
        plan_.spec.trainer.precision = wanted;
    } else {
        const engine::PrecisionConfig inForce = plan_.spec.trainer.precision;
        plan_.spec = next;
        if (stepper_) plan_.spec.trainer.precision = inForce;
    }
    if (stepper_) {
        stepper_->setLearningRateFactor(static_cast<double>(next.trainer.optimizer.learningRate) /
                                        static_cast<double>(baseRate_));
        if (touches("probes.")) audited("change of probes", [&] { stepper_->setProbes(next.trainer.probes); });
        if (precision || touches("alarms.")) makeAlarms();
    }
    for (const SpecDifference& one : changed)
        event("command", fmt::format("{}: {} → {}", one.path, one.left, one.right));
    for (const std::string& note : notes) event("notice", note);
    recordSpec();
    if (stepper_ && precision) precisionChanged_ = true;
}

/// Automatic precision after a change of the spec: what it decided stays, unless it was switched or set otherwise.
std::unique_ptr<AutoPrecision> JobRunner::nextAuto(const RunSpec& before, const RunSpec& next) const {
    if (!next.autoPrecision.enabled) return nullptr;
    if (!auto_ || !(before.autoPrecision == next.autoPrecision))
        return std::make_unique<AutoPrecision>(next.autoPrecision, next.trainer.precision, stepper_->catalogue());
    auto same = std::make_unique<AutoPrecision>(*auto_);
    same->setBase(next.trainer.precision);
    return same;
}

void JobRunner::applyCapture(const std::string& tensor) {
    if (!stepper_) return refuse("capture " + tensor, "the run has not started yet");
    try {
        const int index = findTensor(*store_, plan_.runId, tensor);
        const auto entry = stepper_->catalogue()[static_cast<size_t>(index)];
        const int64_t step = stepper_->stepIndex() + 1;
        std::vector<float> values;
        audited("capture", [&] { values = stepper_->captureTensor(index); });
        const std::string path =
            writeCapture(store_->folder() + "/" + plan_.runId + "/captures", plan_.runId, step, entry, values);
        event("capture", fmt::format("{} kept as it enters the cast of step {}: {} values.", engine::tensorName(entry),
                                     step, values.size()));
        mailbox_.post(JobCapture{step, engine::tensorName(entry), path});
    } catch (const Error& error) {
        refuse("capture " + tensor, error.what());
    }
    mark_ = Clock::now();
}

/// The spec in force from the next step on goes into the store and to who watches.
void JobRunner::recordSpec() {
    if (!stepper_) return;
    const int64_t step = stepper_->stepIndex();
    auto& specs = document_.specs;
    if (!specs.empty() && specs.back().first == step + 1) specs.pop_back();
    specs.emplace_back(step + 1, plan_.spec.toJson(-1));
    document_.specJson = specs.back().second;
    const auto catalogue = stepper_->catalogue();
    for (size_t i = 0; i < catalogue.size() && i < document_.catalogue.size(); ++i) {
        // What was recorded in FP8 stays readable: the format of a tensor that left FP8 is kept.
        document_.catalogue[i].recipe = catalogue[i].recipe;
        if (largestFinite(catalogue[i].format) > 0) document_.catalogue[i].format = catalogue[i].format;
    }
    // Another recipe keeps other copies, shadow products keep plain operands.
    const engine::MemoryPlan memory = stepper_->memoryPlan();
    if (const auto by = planBy(memory); by != document_.planBytes) {
        document_.planBytes = by;
        document_.planNote = memory.note;
        const Stepper::Facts facts = stepper_->facts();
        writer_->setDevice(facts.device, facts.deviceName, memory.total());
    }
    writer_->setDocument(document_);
    mailbox_.post(JobSpec{step, plan_.spec, catalogue});
}

void JobRunner::applyRemote(const RunCommand& remote) {
    const nlohmann::json argument = nlohmann::json::parse(remote.argument, nullptr, false);
    JobCommand command;
    using Kind = JobCommand::Kind;
    const std::pair<const char*, Kind> names[] = {{"pause", Kind::Pause},
                                                  {"resume", Kind::Resume},
                                                  {"stop", Kind::Stop},
                                                  {"stop_now", Kind::StopNow},
                                                  {"checkpoint", Kind::Checkpoint},
                                                  {"set", Kind::Set},
                                                  {"learning_rate", Kind::Set},
                                                  {"probes", Kind::Set},
                                                  {"capture", Kind::Capture}};
    bool known = false;
    for (const auto& [name, kind] : names)
        if (remote.command == name) command.kind = kind, known = true;
    if (remote.command == "learning_rate") {
        command.sets.push_back({"optimizer.learning_rate", argument.dump()});
        known = argument.is_number();
    } else if (known && command.kind == Kind::Set) {
        known = argument.is_object() && !argument.empty();
        const std::string section = remote.command == "probes" ? "probes." : "";
        if (known)
            for (const auto& [path, value] : argument.items()) command.sets.push_back({section + path, value.dump()});
    } else if (known && command.kind == Kind::Capture) {
        known = argument.is_string();
        if (known) command.tensor = argument.get<std::string>();
    }
    if (known)
        apply(command);
    else
        event("notice", fmt::format("A command was not understood: {} {}", remote.command, remote.argument));
}

void JobRunner::pauseUntilToldOtherwise() {
    setState(RunStatus::Paused);
    flush(true);
    while (paused_ && !stop_ && !stopNow_) {
        mailbox_.waitForCommand(50);
        poll(true);
        flush(secondsSince(lastFlush_) > kFlushSeconds);
    }
    setState(RunStatus::Running);
    mark_ = Clock::now();
}

void JobRunner::setState(RunStatus status) {
    writer_->setStatus(status);
    mailbox_.post(JobState{status});
}

}  // namespace mantissa::experiments
