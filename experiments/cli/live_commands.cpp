// set, pause, stop, checkpoint, capture: commands to a run that another process trains, through the store.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "experiments/cli/live.h"
#include "experiments/spec/spec_fields.h"
#include "experiments/text/plain_text.h"

namespace mantissa::experiments::cli {

namespace {

constexpr int kPollMs = 50;

struct Options {
    std::string run, tensor;
    std::vector<std::string> sets;
    double seconds = 60;
    bool now = false;
};

int64_t newestEvent(RunStore& store, const std::string& id) {
    const auto events = store.events(id);
    return events.empty() ? 0 : events.back().id;
}

void print(const Context& context, const RunSummary& run, const std::vector<RunEvent>& events) {
    if (context.json) {
        Json list = Json::array();
        for (const auto& event : events)
            list.push_back({{"step", event.step}, {"kind", event.kind}, {"text", event.text}});
        printJson({{"run", run.id}, {"events", list}});
        return;
    }
    for (const auto& event : events)
        std::printf("step %6lld  %s: %s\n", static_cast<long long>(event.step), event.kind.c_str(),
                    plainText(event.text).c_str());
}

int send(const Context& context, const Options& options, const std::string& command, const std::string& argument) {
    RunStore store(context.storePath(), RunStore::Mode::ReadWrite);
    const RunSummary run = activeRun(store, options.run, command);
    const auto answer = sendAndWait(store, run, command, argument, options.seconds);
    print(context, run, answer);
    for (const auto& event : answer)
        if (event.kind == "refused") throw Failure{kBadUsage, fmt::format("run {}: {}", run.name, event.text)};
    return kDone;
}

int set(const Context& context, const Options& options) {
    Json argument = Json::object();
    RunSpec spec;
    {
        RunStore store(context.storePath(), RunStore::Mode::ReadOnly);
        const RunSummary run = activeRun(store, options.run, "set");
        const ParsedSpec parsed = parseSpec(store.document(run.id).specJson);
        if (!parsed.ok()) throw specFailure("spec of run " + run.name, parsed.errors);
        spec = parsed.spec;
    }
    const RunSpec before = spec;
    applySets(spec, options.sets);  // a mistake is told here, at once
    for (const std::string& one : options.sets) {
        const std::string path = one.substr(0, one.find('='));
        if (!isLivePath(path))
            throw Failure{kBadUsage, fmt::format("set: {}: it cannot change while a run goes; allowed: precision.*, "
                                                 "probes.*, optimizer.learning_rate, train.nonfinite, checkpoint.*, "
                                                 "eval.every, alarms.*, or mantissa-run fork RUN --now --set {}",
                                                 path, one)};
        argument[path] = Json::parse(getPath(spec, path));
    }
    return send(context, options, "set", argument.dump());
}

}  // namespace

RunSummary activeRun(RunStore& store, const std::string& name, const std::string& command) {
    const RunSummary run = findRun(store, name);
    if (isActive(run.status) || run.status == RunStatus::Queued) return run;
    throw Failure{kBadUsage,
                  fmt::format("{}: run {} is not going, it is {}; allowed: a run that is running or paused, or "
                              "mantissa-run fork {} --at STEP --set PATH=VALUE",
                              command, run.name, statusName(run.status), run.name)};
}

std::vector<RunEvent> sendAndWait(RunStore& store, const RunSummary& run, const std::string& command,
                                  const std::string& argument, double seconds) {
    const int64_t before = newestEvent(store, run.id);
    const int64_t checkpointsBefore = static_cast<int64_t>(store.checkpoints(run.id).size());
    store.sendCommand(run.id, command, argument);
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (std::chrono::steady_clock::now() < end) {
        std::this_thread::sleep_for(std::chrono::milliseconds(kPollMs));
        std::vector<RunEvent> answer;
        for (const auto& event : store.events(run.id, before))
            if (event.kind == "command" || event.kind == "refused" || event.kind == "ended" || event.kind == command)
                answer.push_back(event);
        const bool written =
            command != "checkpoint" || static_cast<int64_t>(store.checkpoints(run.id).size()) > checkpointsBefore;
        if (!answer.empty() && written) return answer;
        const auto now = store.run(run.id);
        if (!now || (!isActive(now->status) && now->status != RunStatus::Queued))
            throw Failure{kRunFailed, fmt::format("{}: run {} ended before it took the command", command, run.name)};
    }
    throw Failure{kRunFailed, fmt::format("{}: run {} has not answered for {} s; a step may take longer, then it "
                                          "follows later",
                                          command, run.name, seconds)};
}

void addLiveCommands(CLI::App& app, Context& context) {
    auto options = std::make_shared<Options>();
    const auto add = [&](const char* name, const char* help, const std::string& example) {
        CLI::App* command = app.add_subcommand(name, help);
        command->add_option("RUN", options->run, "Id or name")->required();
        command->add_option("--wait", options->seconds, "Seconds to wait for the answer (60)")
            ->check(CLI::PositiveNumber);
        addCommonFlags(*command, context, example);
        return command;
    };
    CLI::App* setting = add("set", "Changes fields of the spec of a run that is going, all or none, between two steps",
                            "mantissa-run set nano-fp8-delayed-s1 precision.history_length=4 precision.margin=1");
    // Not named PATH=VALUE: CLI11 from 2.4 on (Ubuntu 24.04) ends a program that has "=" in a name.
    setting->add_option("SETTING", options->sets, "Fields to change, each PATH=VALUE")->required();
    setting->callback([&context, options] { context.run = [&context, options] { return set(context, *options); }; });

    CLI::App* pausing = add("pause", "Pauses a run that is going (resume goes on)", "mantissa-run pause nano-bf16-s1");
    pausing->callback(
        [&context, options] { context.run = [&context, options] { return send(context, *options, "pause", ""); }; });

    CLI::App* stopping = add("stop", "Stops a run that is going, with a checkpoint", "mantissa-run stop nano-bf16-s1");
    stopping->add_flag("--now", options->now, "After the current step, without a checkpoint");
    stopping->callback([&context, options] {
        context.run = [&context, options] { return send(context, *options, options->now ? "stop_now" : "stop", ""); };
    });

    CLI::App* saving =
        add("checkpoint", "Writes a checkpoint of a run that is going", "mantissa-run checkpoint nano-bf16-s1");
    saving->callback([&context, options] {
        context.run = [&context, options] { return send(context, *options, "checkpoint", ""); };
    });

    CLI::App* capturing = add("capture", "Keeps the values of one tensor as they enter the cast of the next step",
                              "mantissa-run capture nano-fp8-delayed-s1 h.1/mlp.fc1/input");
    capturing->add_option("TENSOR", options->tensor, "Name as in show --json: tensors")->required();
    capturing->callback([&context, options] {
        context.run = [&context, options] {
            RunStore store(context.storePath(), RunStore::Mode::ReadOnly);
            const RunSummary run = activeRun(store, options->run, "capture");
            findTensor(store, run.id, options->tensor);
            return send(context, *options, "capture", Json(options->tensor).dump());
        };
    });
}

}  // namespace mantissa::experiments::cli
