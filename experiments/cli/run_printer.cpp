#include "experiments/cli/run_printer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "experiments/cli/command.h"
#include "experiments/text/number_text.h"
#include "experiments/text/plain_text.h"

namespace mantissa::experiments::cli {

namespace {

constexpr double kTerminalSeconds = 0.1, kFileSeconds = 10;  ///< between two progress lines

Json planJson(uint64_t bytes, const std::map<std::string, uint64_t>& by) {
    Json parts = Json::object();
    for (const char* name : {"weights", "gradients", "moments", "activations", "workspace", "host"})
        if (const auto found = by.find(name); found != by.end()) parts[name] = found->second;
    return {{"bytes", bytes}, {"by", parts}};
}

}  // namespace

RunPrinter::RunPrinter(bool json, bool quiet, int64_t steps, std::string run)
    : json_(json), quiet_(quiet), terminal_(::isatty(STDERR_FILENO) != 0), steps_(steps), run_(std::move(run)) {}

void RunPrinter::print(const JobMessage& message) {
    std::visit([this](const auto& value) { on(value); }, message);
}

void RunPrinter::clearProgress() {
    if (showing_) std::fputs("\r\x1b[K", stderr);
    showing_ = false;
}

void RunPrinter::note(const std::string& text) {
    clearProgress();
    std::fprintf(stderr, "%s\n", plainText(text).c_str());
}

void RunPrinter::line(const std::string& text) {
    if (json_ || quiet_) return;
    clearProgress();
    std::puts(text.c_str());
    std::fflush(stdout);
}

void RunPrinter::on(const JobPhase& phase) {
    if (quiet_) return;
    clearProgress();
    if (terminal_) {
        std::fprintf(stderr, "%s …", plainText(phase.text).c_str());
        showing_ = true;
    } else if (phase.text.rfind("Waiting", 0) == 0) {
        std::fprintf(stderr, "%s\n", plainText(phase.text).c_str());
    }
}

void RunPrinter::on(const JobStarted& started) {
    run_ = started.run;
    name_ = started.name;
    steps_ = started.steps;
    firstStep_ = started.firstStep;
    if (json_)
        printJson({{"event", "start"},
                   {"run", started.run},
                   {"name", started.name},
                   {"device", started.device},
                   {"device_name", started.deviceName},
                   {"isa", started.isa},
                   {"class", started.determinismClass},
                   {"threads", started.threads},
                   {"parameters", started.parameters},
                   {"first_step", started.firstStep},
                   {"steps", started.steps},
                   {"data", started.dataDescription},
                   {"plan", planJson(started.planBytes, started.planBy)}});
    line(fmt::format("{}  {}\n{} ({}, {} threads), {} parameters, {} planned\n{}", plainText(started.name), started.run,
                     started.deviceName, started.isa, started.threads, started.parameters, bytesText(started.planBytes),
                     plainText(started.dataDescription)));
}

void RunPrinter::on(const JobStep& step) {
    const auto& m = step.metrics;
    if (json_)
        printJson({{"event", "step"},
                   {"step", m.step},
                   {"loss", number(m.loss)},
                   {"grad_norm", number(m.gradientNorm)},
                   {"lr", number(m.learningRate)},
                   {"tokens", step.totalTokens},
                   {"tokens_per_s", number(step.tokensPerSecond)},
                   {"step_ms", number(step.stepMs)}});
    lastLoss_ = m.loss;
    lastRate_ = lastRate_ == 0 ? step.tokensPerSecond : 0.9 * lastRate_ + 0.1 * step.tokensPerSecond;
    stepSeconds_ = stepSeconds_ == 0 ? step.stepMs / 1000 : 0.9 * stepSeconds_ + 0.1 * step.stepMs / 1000;
    lastStep_ = m.step;
    progress(step);
}

void RunPrinter::progress(const JobStep& step) {
    const auto now = std::chrono::steady_clock::now();
    if (quiet_ ||
        std::chrono::duration<double>(now - lastProgress_).count() < (terminal_ ? kTerminalSeconds : kFileSeconds))
        return;
    lastProgress_ = now;
    const std::string text =
        fmt::format("step {} / {}  {} %  loss {}  {} tokens/s  {} left", step.metrics.step, steps_,
                    step.metrics.step * 100 / std::max<int64_t>(steps_, 1), digits(lastLoss_, 4), digits(lastRate_, 4),
                    durationText(static_cast<double>(steps_ - step.metrics.step) * stepSeconds_));
    if (terminal_)
        std::fprintf(stderr, "\r\x1b[K%s", text.c_str());
    else
        std::fprintf(stderr, "%s\n", text.c_str());
    std::fflush(stderr);
    showing_ = terminal_;
}

void RunPrinter::on(const JobEval& eval) {
    evaluated_ = true;
    if (json_) printJson({{"event", "eval"}, {"step", eval.step}, {"loss", number(eval.loss)}});
    line(fmt::format("step {:>6}  loss {}  val {}  {} tokens/s", eval.step, digits(lastLoss_, 5), digits(eval.loss, 5),
                     digits(lastRate_, 4)));
}

void RunPrinter::on(const JobCheckpoint& checkpoint) {
    if (json_) printJson({{"event", "checkpoint"}, {"step", checkpoint.step}, {"path", checkpoint.path}});
}

void RunPrinter::on(const JobEventRow& row) {
    const RunEvent& event = row.event;
    if (event.kind == "alert" && json_)
        printJson({{"event", "alert"},
                   {"step", event.step},
                   {"kind", event.alert},
                   {"layer", event.layer},
                   {"tensor", event.tensor},
                   {"severity", event.severity},
                   {"text", event.text}});
    if ((event.kind == "command" || event.kind == "refused" || event.kind == "auto") && json_)
        printJson({{"event", event.kind}, {"step", event.step}, {"text", event.text}});
    if (event.kind != "started" && event.kind != "checkpoint" && event.kind != "ended")
        line(fmt::format("step {:>6}  {}: {}", event.step, event.kind, plainText(event.text)));
}

void RunPrinter::on(const JobState&) {}
void RunPrinter::on(const JobPrecision&) {}
void RunPrinter::on(const JobSpec&) {}

void RunPrinter::on(const JobCapture& capture) {
    if (json_)
        printJson({{"event", "capture"}, {"step", capture.step}, {"tensor", capture.tensor}, {"path", capture.path}});
}

void RunPrinter::on(const JobStorage& storage) {
    const auto now = std::chrono::steady_clock::now();
    const bool news = storage.trouble != storageTrouble_;
    if (quiet_ || (!news && std::chrono::duration<double>(now - lastStorage_).count() < kFileSeconds)) return;
    lastStorage_ = now;
    storageTrouble_ = storage.trouble;
    note(storage.text);
}

void RunPrinter::on(const JobEnded& ended) {
    ended_ = ended;
    if (json_)
        printJson({{"event", "end"},
                   {"run", run_},
                   {"status", statusName(ended.status)},
                   {"step", ended.step},
                   {"loss", lastStep_ > 0 ? number(ended.loss) : Json(nullptr)},
                   {"val_loss", evaluated_ ? number(ended.validationLoss) : Json(nullptr)},
                   {"seconds", number(ended.seconds)},
                   {"peak_bytes", ended.peakBytes},
                   {"tokens_per_s", number(ended.tokensPerSecond)},
                   {"reason", ended.reason}});
    std::string text = fmt::format("{} at step {}", statusName(ended.status), ended.step);
    if (lastStep_ > 0) text += fmt::format(": loss {}", digits(ended.loss, 5));
    if (evaluated_) text += fmt::format(", val {}", digits(ended.validationLoss, 5));
    if (lastStep_ > 0)
        text += fmt::format(", {}, {} tokens/s", durationText(ended.seconds), digits(ended.tokensPerSecond, 4));
    if (lastStep_ > 0 && ended.peakBytes > 0) text += fmt::format(", peak {}", bytesText(ended.peakBytes));
    line(text);
    if (!ended.reason.empty() && (ended.status == RunStatus::Stopped || ended.status == RunStatus::Finished))
        line(ended.reason);
}

}  // namespace mantissa::experiments::cli
