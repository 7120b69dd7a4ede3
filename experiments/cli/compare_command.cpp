// compare: config difference, final values, verdicts over seeds, where runs part.
#include "experiments/report/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "experiments/cli/command.h"
#include "experiments/text/number_text.h"
#include "experiments/text/plain_text.h"

namespace mantissa::experiments::cli {

namespace {

struct Options {
    std::vector<std::string> runs;
    std::string baseline, by = "step";
    double limit = 0.01, tolerance = 0.1;
};

const char* axisName(Axis axis) {
    return axis == Axis::Tokens ? "tokens" : axis == Axis::Time ? "time" : "step";
}

Json numbers(const std::map<std::string, double>& values) {
    Json json = Json::object();
    for (const auto& [name, value] : values) json[name] = number(value);
    return json;
}

void printComparisonJson(const Comparison& comparison) {
    Json runs = Json::array(), config = Json::array(), parts = Json::array(), groups = Json::array();
    for (const auto& row : comparison.runs)
        runs.push_back({{"run", row.run.id},
                        {"name", row.run.name},
                        {"status", statusName(row.run.status)},
                        {"final", numbers(row.final)},
                        {"difference", numbers(row.difference)},
                        {"ratio", numbers(row.ratio)}});
    for (const auto& row : comparison.config) {
        Json values = Json::array();
        for (const auto& value : row.values) values.push_back(Json::parse(value, nullptr, false));
        config.push_back({{"path", row.path}, {"values", values}});
    }
    for (const auto& point : comparison.parts)
        parts.push_back({{"run", point.run},
                         {"step", point.step},
                         {"tensor", point.tensor},
                         {"statistic", point.statistic},
                         {"value", number(point.value)},
                         {"baseline", number(point.baseline)}});
    for (const auto& group : comparison.groups)
        groups.push_back({{"name", group.name},
                          {"runs", group.runs},
                          {"pairs", group.pairs},
                          {"mean", number(group.mean)},
                          {"sd", number(group.sd)},
                          {"difference", number(group.difference)},
                          {"difference_sd", number(group.differenceSd)},
                          {"low", number(group.low)},
                          {"high", number(group.high)},
                          {"p", number(group.p)},
                          {"speed_ratio", number(group.speedRatio)},
                          {"verdict", group.verdict}});
    Json at = {{"by", axisName(comparison.axis)}, {"limit", number(comparison.limit)}};
    for (const auto& [name, x] : comparison.at) at[name] = number(x);
    printJson({{"baseline", comparison.baseline},
               {"at", at},
               {"runs", runs},
               {"config", config},
               {"parts", parts},
               {"groups", groups}});
}

std::string signedDigits(double value, int significant) {
    return (value > 0 ? "+" : "") + digits(value, significant);
}

void printComparison(const Comparison& comparison) {
    auto get = [](const std::map<std::string, double>& values, const char* name, auto text) {
        const auto found = values.find(name);
        return found == values.end() ? std::string("–") : text(found->second);
    };
    auto four = [](double value) { return digits(value, 5); };
    auto difference = [](double value) { return signedDigits(value, 2); };
    auto ratio = [](double value) { return "×" + digits(value, 3); };
    std::vector<std::vector<std::string>> rows;
    for (const auto& row : comparison.runs)
        rows.push_back({plainText(row.run.name, 60) + (row.run.id == comparison.baseline ? " (baseline)" : ""),
                        statusName(row.run.status), get(row.final, "val_loss", four),
                        get(row.difference, "val_loss", difference), get(row.final, "loss", four),
                        get(row.difference, "loss", difference), get(row.final, "tokens_per_s", four),
                        get(row.ratio, "tokens_per_s", ratio)});
    printTable({"run", "status", "val_loss", "difference", "loss", "difference", "tokens/s", "ratio"}, rows,
               {false, false, true, true, true, true, true, true});
    if (const std::string at = comparedAt(comparison); !at.empty()) std::printf("\n%s\n", at.c_str());
    bool several = false;
    for (const auto& group : comparison.groups) several = several || group.runs.size() > 1;
    if (several) {
        std::puts("");
        std::vector<std::vector<std::string>> table;
        for (const auto& group : comparison.groups)
            table.push_back({plainText(group.name), std::to_string(group.runs.size()),
                             fmt::format("{} ± {}", digits(group.mean, 5), digits(group.sd, 2)),
                             std::isnan(group.difference) ? "–"
                                                          : fmt::format("{} ± {}", signedDigits(group.difference, 2),
                                                                        digits(group.differenceSd, 2)),
                             std::isnan(group.low)
                                 ? "–"
                                 : fmt::format("{} … {}", signedDigits(group.low, 2), signedDigits(group.high, 2)),
                             "×" + digits(group.speedRatio, 3), group.verdict});
        printTable({"group", "seeds", "val_loss ± sd", "paired difference ± sd", "95 %", "speed", "verdict"}, table,
                   {false, true, true, true, true, true, false});
    }
    if (!comparison.config.empty()) std::puts("\nConfig differences");
    for (const auto& row : comparison.config) {
        std::string line = "  " + row.path + ":";
        for (const auto& value : row.values) line += " " + plainText(value);
        std::puts(line.c_str());
    }
    if (!comparison.parts.empty()) std::puts("\nWhere they part");
    for (const auto& point : comparison.parts)
        for (const auto& row : comparison.runs)
            if (row.run.id == point.run)
                std::printf("  %s: step %lld, %s, %s %s against %s\n", plainText(row.run.name, 60).c_str(),
                            static_cast<long long>(point.step), point.tensor.c_str(), point.statistic.c_str(),
                            digits(point.value, 4).c_str(), digits(point.baseline, 4).c_str());
}

int compare(const Context& context, const Options& options) {
    if (!(options.limit > 0) || !std::isfinite(options.limit))
        throw Failure{kBadUsage,
                      fmt::format("compare: --limit: {} is out of range; allowed: numbers above 0", options.limit)};
    if (!(options.tolerance >= 0) || !std::isfinite(options.tolerance))
        throw Failure{kBadUsage,
                      fmt::format("compare: --tolerance: {} is out of range; allowed: 0 and above", options.tolerance)};
    RunStore store(context.storePath(), RunStore::Mode::ReadOnly);
    std::vector<std::string> ids;
    for (const auto& name : options.runs)
        if (const std::string id = findRun(store, name).id; std::find(ids.begin(), ids.end(), id) == ids.end())
            ids.push_back(id);
    std::string baseline;
    if (!options.baseline.empty()) {
        baseline = findRun(store, options.baseline).id;
        if (std::find(ids.begin(), ids.end(), baseline) == ids.end()) ids.insert(ids.begin(), baseline);
    }
    if (ids.size() < 2) throw Failure{kBadUsage, "compare: one run cannot be compared; allowed: two or more runs"};
    const Axis axis = options.by == "tokens" ? Axis::Tokens : options.by == "time" ? Axis::Time : Axis::Step;
    const Comparison comparison = compareRuns(store, ids, baseline, axis, options.limit, options.tolerance);
    if (context.json)
        printComparisonJson(comparison);
    else
        printComparison(comparison);
    return kDone;
}

}  // namespace

void addCompareCommand(CLI::App& app, Context& context) {
    auto options = std::make_shared<Options>();
    auto* command = app.add_subcommand("compare", "Two or more runs side by side");
    command->add_option("RUN", options->runs, "Ids or names")->required();
    command->add_option("--baseline", options->baseline,
                        "Run to compare with (default: the pinned one, else the first)");
    command
        ->add_option("--by", options->by,
                     "step (default), tokens or time: losses at the largest x that all have reached")
        ->check(CLI::IsMember({"step", "tokens", "time"}));
    command->add_option("--limit", options->limit, "Largest loss difference that does not matter, nats");
    command->add_option("--tolerance", options->tolerance,
                        "Relative difference of amax or scale at which two runs part");
    addCommonFlags(*command, context, "mantissa-run compare nano-bf16-s1 nano-fp8-delayed-s1");
    command->callback(
        [&context, options] { context.run = [&context, options] { return compare(context, *options); }; });
}

}  // namespace mantissa::experiments::cli
