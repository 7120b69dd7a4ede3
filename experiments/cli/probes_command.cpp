// probes: what statistics cost on this machine.
#include <fmt/format.h>

#include <cstdio>

#include "experiments/cli/command.h"
#include "experiments/cli/interrupts.h"
#include "experiments/report/device_choice.h"
#include "experiments/report/probe_cost.h"

namespace mantissa::experiments::cli {

namespace {

struct Options {
    std::string source = "nano";
    std::vector<std::string> sets;
    engine::DeviceChoice device;
    double seconds = 20;
};

std::string change(double share) {
    return fmt::format("{:+.2f} %", 100 * share);
}

int probes(const Context& context, const Options& options) {
    const RunSpec spec = loadSpec(options.source, options.sets);
    InterruptCounter counter;
    const ProbeCost cost =
        measureProbeCost(spec, resolveDevice(options.device), options.seconds, [&] { return counter.count() > 0; });
    bool good = cost.identical;
    Json audits = Json::array();
    for (const auto& one : cost.audits) {
        good = good && one.untouched();
        audits.push_back({{"what", one.what},
                          {"before", fmt::format("{:016x}", one.before)},
                          {"after", fmt::format("{:016x}", one.after)},
                          {"untouched", one.untouched()}});
    }
    if (context.json) {
        printJson({{"rounds", cost.rounds},
                   {"turn_steps", cost.turnSteps},
                   {"plain_ms", number(cost.plainMs)},
                   {"cheap_ms", number(cost.cheapMs)},
                   {"everything_ms", number(cost.everythingMs)},
                   {"cheap", number(cost.cheap)},
                   {"cheap_low", number(cost.cheapLow)},
                   {"cheap_high", number(cost.cheapHigh)},
                   {"cheap_told", cost.cheapTold()},
                   {"everything_1_in_100", number(cost.at(100))},
                   {"everything_told", cost.everythingTold()},
                   {"identical", cost.identical},
                   {"audits", audits}});
        return good ? kDone : kRunFailed;
    }
    std::printf("%s, %s: %d rounds of %d steps of each kind, in turn\n\n", spec.modelName().c_str(),
                spec.recipeName().c_str(), cost.rounds, cost.turnSteps);
    printTable({"statistics", "median ms", "longer"},
               {{"none", digits(cost.plainMs, 4), ""},
                {"cheap set every step", digits(cost.cheapMs, 4),
                 fmt::format("{} (95 %: {} to {})", cost.cheapTold() ? change(cost.cheap) : "not told",
                             change(cost.cheapLow), change(cost.cheapHigh))},
                {"everything every step", digits(cost.everythingMs, 4),
                 cost.everythingTold() ? change(cost.at(1)) : "not told"},
                {"everything at 1 step in 100", "", cost.everythingTold() ? change(cost.at(100)) : "not told"}},
               {false, true, true});
    if (!cost.cheapTold() || !cost.everythingTold())
        std::printf(
            "\nThe steps scatter more than the difference is, so it cannot be told: mantissa-run probes %s "
            "--seconds %.0f measures longer, and nothing else should run meanwhile\n",
            options.source.c_str(), std::max(20.0, 4 * options.seconds));
    std::printf("\nlosses, gradient norms and the state in the end %s\n",
                cost.identical ? "are the same to the last bit" : "DIFFER: statistics changed the training");
    for (const auto& one : cost.audits)
        std::printf("state %016llx before and %016llx after %s: %s\n", static_cast<unsigned long long>(one.before),
                    static_cast<unsigned long long>(one.after), one.what.c_str(),
                    one.untouched() ? "untouched" : "CHANGED");
    return good ? kDone : kRunFailed;
}

}  // namespace

void addProbesCommand(CLI::App& app, Context& context) {
    auto options = std::make_shared<Options>();
    auto* command = app.add_subcommand("probes", "Measures what statistics cost: steps without, with and with all");
    command->add_option("PRESET|SPEC.json", options->source, "Preset or spec file (default: nano)");
    command->add_option("--set", options->sets, "PATH=VALUE, repeatable")->allow_extra_args(false);
    command->add_option("--device", options->device.device, "auto, cpu, cuda or cuda:N");
    command->add_option("--threads", options->device.threads, "CPU threads (0: all)")->check(CLI::Range(0, 4096));
    command->add_option("--seconds", options->seconds, "How long (default: 20)")->check(CLI::Range(0.0, 86400.0));
    addCommonFlags(*command, context, "mantissa-run probes nano --seconds 20");
    command->callback([&context, options] { context.run = [&context, options] { return probes(context, *options); }; });
}

}  // namespace mantissa::experiments::cli
