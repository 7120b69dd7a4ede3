// Commands of a job: from this process by the mailbox, from others by the store.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "experiments/job/job_runner.h"
#include "experiments/text/number_text.h"

namespace mantissa::experiments {

namespace {

double secondsSince(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

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
            if (!paused_) event("command", "Paused.");
            paused_ = true;
            return;
        case Kind::Resume:
            if (paused_) event("command", "Resumed.");
            paused_ = false;
            return;
        case Kind::Stop:
            stop_ = true;
            reason_ = fmt::format("Stopped by the user at step {}.", stepper_ ? stepper_->stepIndex() : 0);
            event("command", reason_);
            return;
        case Kind::StopNow:
            stopNow_ = true;
            event("command", "Stopped at once.");
            return;
        case Kind::Checkpoint:
            if (stepper_) saveCheckpoint(false);
            return;
        case Kind::LearningRate:
            if (!stepper_ || !(command.rate > 0) || !std::isfinite(command.rate)) return;
            stepper_->setLearningRateFactor(command.rate / plan_.spec.trainer.optimizer.learningRate);
            event("command",
                  fmt::format("Learning rate: base {} → {}.", numberText(plan_.spec.trainer.optimizer.learningRate),
                              numberText(command.rate)));
            return;
        case Kind::Probes:
            if (!stepper_ || command.probes.every < 0 || command.probes.histograms < 0) return;
            stepper_->setProbes(command.probes);
            event("command",
                  fmt::format("Probes: every {} steps, histograms every {}, counters {}.", command.probes.every,
                              command.probes.histograms, command.probes.counters ? "on" : "off"));
            return;
    }
}

void JobRunner::applyRemote(const RunCommand& remote) {
    const nlohmann::json argument = nlohmann::json::parse(remote.argument, nullptr, false);
    JobCommand command;
    using Kind = JobCommand::Kind;
    const std::pair<const char*, Kind> names[] = {
        {"pause", Kind::Pause},      {"resume", Kind::Resume},         {"stop", Kind::Stop},
        {"stop_now", Kind::StopNow}, {"checkpoint", Kind::Checkpoint}, {"learning_rate", Kind::LearningRate},
        {"probes", Kind::Probes}};
    bool known = false;
    for (const auto& [name, kind] : names)
        if (remote.command == name) command.kind = kind, known = true;
    if (command.kind == Kind::LearningRate && known) {
        known = argument.is_number();
        if (known) command.rate = argument.get<double>();
    }
    if (command.kind == Kind::Probes && known) {
        known = argument.is_object();
        if (known) {
            command.probes = plan_.spec.trainer.probes;
            try {
                command.probes.every = argument.value("every", command.probes.every);
                command.probes.histograms = argument.value("histograms", command.probes.histograms);
                command.probes.counters = argument.value("counters", command.probes.counters);
            } catch (const nlohmann::json::exception&) {
                known = false;
            }
        }
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
