// what-if, diagnose, plan-of: what the recorded numerics of a run say.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "experiments/cli/command.h"
#include "experiments/report/diagnosis.h"
#include "experiments/report/shadow_rank.h"
#include "experiments/report/what_if.h"
#include "experiments/store/run_store_numerics.h"
#include "experiments/text/output_file.h"
#include "experiments/text/plain_text.h"
#include "kernels/error.h"

namespace mantissa::experiments::cli {

namespace {

struct Options {
    std::string run, tensor, out;
    ScalingChoice choice;
    std::string recipe, format, algorithm;
    int historyLength = 0, margin = -1;
    float epsilon = 0, scale = 0;
    bool powerOfTwo = false, all = false;
    int64_t from = 0, to = -1;
};

std::string share(double value) {
    return std::isnan(value) ? "not known" : value == 0 ? "0" : fmt::format("{:.3g} %", value * 100);
}

Json choiceJson(const ScalingChoice& choice) {
    Json json = {{"text", choice.text()}, {"recipe", choice.recipe}, {"format", choice.format}};
    if (choice.recipe == "delayed")
        json.update(
            {{"history_length", choice.historyLength}, {"algorithm", choice.algorithm}, {"margin", choice.margin}});
    if (choice.recipe == "current")
        json.update({{"power_of_two", choice.powerOfTwo}, {"epsilon", number(choice.epsilon)}});
    if (choice.recipe == "fixed") json["scale"] = number(choice.scale);
    return json;
}

Json summaryJson(const ReplaySummary& total) {
    return {{"steps", total.steps},
            {"known_steps", total.known},
            {"clipped_steps", total.clippedSteps},
            {"clipped_share", number(total.clippedShare)},
            {"underflow_share", number(total.underflowShare)},
            {"underflow_is_upper_bound", total.upperBound},
            {"frozen_steps", total.frozenSteps},
            {"worst_staleness", number(total.worstStaleness)}};
}

Json stepsJson(const Replay& replay, int64_t from, int64_t to) {
    Json rows = Json::array();
    for (const auto& step : replay.steps)
        if (step.step >= from && step.step <= to)
            rows.push_back({{"step", step.step},
                            {"amax", number(static_cast<double>(step.amax))},
                            {"scale", number(static_cast<double>(step.scale))},
                            {"clips", step.clips},
                            {"frozen", step.frozen},
                            {"clipped", number(step.clipped)},
                            {"clipped_range", {number(step.clippedLow), number(step.clippedHigh)}},
                            {"underflow", number(step.underflow)},
                            {"underflow_range", {number(step.underflowLow), number(step.underflowHigh)}},
                            {"exact", step.exact}});
    return rows;
}

/// The recorded choice with what the command line changes; none given: false.
bool askedChoice(const Options& options, ScalingChoice& choice) {
    const ScalingChoice before = choice;
    const bool delayed = options.historyLength > 0 || !options.algorithm.empty() || options.margin >= 0;
    if (delayed) choice.recipe = "delayed";
    if (!options.recipe.empty()) choice.recipe = options.recipe;
    if (!options.format.empty()) choice.format = options.format;
    if (!options.algorithm.empty()) choice.algorithm = options.algorithm;
    if (options.historyLength > 0) choice.historyLength = options.historyLength;
    if (options.margin >= 0) choice.margin = options.margin;
    if (options.powerOfTwo) choice.powerOfTwo = true;
    if (options.epsilon > 0) choice.epsilon = options.epsilon;
    if (options.scale > 0) choice.scale = options.scale, choice.recipe = "fixed";
    return !(choice == before) || delayed || !options.recipe.empty();
}

int whatIf(const Context& context, const Options& options) {
    RunStore store(context.storePath(), RunStore::Mode::ReadOnly);
    const RunSummary run = findRun(store, options.run);
    const AmaxSeries series = amaxSeries(store, run.id, findTensor(store, run.id, options.tensor));
    if (series.points.empty())
        throw Failure{kBadUsage, fmt::format("what-if: run {} has recorded no amax of {}", run.name, series.name)};
    ScalingChoice asked = series.recorded;
    const bool one = askedChoice(options, asked);
    const std::vector<ScalingChoice> choices = one ? std::vector<ScalingChoice>{asked} : usualChoices(series.recorded);
    const int64_t to = options.to < 0 ? series.points.back().step : options.to;
    std::vector<std::pair<std::string, Replay>> rows = {{"as recorded", recordedReplay(series)}};
    for (const auto& choice : choices)
        if (one || !(choice == series.recorded)) rows.emplace_back(choice.text(), replay(series, choice));
    if (context.json) {
        Json list = Json::array(), captured = Json::array();
        for (size_t i = 0; i < rows.size(); ++i) {
            Json row = {{"choice", choiceJson(rows[i].second.choice)},
                        {"recorded", i == 0},
                        {"total", summaryJson(summarise(rows[i].second, options.from, to))}};
            if (one || options.all) row["steps"] = stepsJson(rows[i].second, options.from, to);
            list.push_back(std::move(row));
        }
        for (const auto& kept : capturedTensors(store, run.id))
            if (kept.name == series.name) captured.push_back({{"step", kept.step}, {"path", kept.path}});
        printJson({{"run", run.id}, {"tensor", series.name}, {"choices", list}, {"captured", captured}});
        return kDone;
    }
    std::printf("%s of %s, recorded with %s\n\n", series.name.c_str(), plainText(run.name, 60).c_str(),
                series.recorded.text().c_str());
    std::vector<std::vector<std::string>> table;
    for (const auto& [name, replayed] : rows) {
        const ReplaySummary total = summarise(replayed, options.from, to);
        table.push_back({name, std::to_string(total.steps), std::to_string(total.clippedSteps),
                         share(total.clippedShare), (total.upperBound ? "at most " : "") + share(total.underflowShare),
                         std::to_string(total.frozenSteps), digits(total.worstStaleness, 3)});
    }
    printTable({"scaling", "steps", "that clip", "clipped", "underflow", "frozen", "worst staleness"}, table,
               {false, true, true, true, true, true, true});
    for (const auto& kept : capturedTensors(store, run.id))
        if (kept.name == series.name)
            std::printf(
                "\nkept at step %lld, exact under every recipe: mantissa-run tensor --what-if --dtype bf16 "
                "--file %s\n",
                static_cast<long long>(kept.step), kept.path.c_str());
    return kDone;
}

/// The command line that applies a change.
std::string commandOf(const RunSummary& run, const ProposedChange& change) {
    std::string sets;
    for (const auto& set : change.sets) sets += fmt::format(" '{}={}'", set.path, set.value);
    if (isActive(run.status) && change.live && !sets.empty())
        return fmt::format("mantissa-run set {}{}", run.name, sets);
    std::string flags;
    for (const auto& set : change.sets) flags += fmt::format(" --set '{}={}'", set.path, set.value);
    return fmt::format("mantissa-run fork {} --at {}{}", run.name, std::max<int64_t>(0, change.forkStep), flags);
}

Json findingJson(const RunSummary& run, const Finding& finding) {
    Json evidence = Json::array(), changes = Json::array(), applied = Json::array();
    for (const auto& one : finding.evidence)
        evidence.push_back(
            {{"text", one.text}, {"series", one.series}, {"step", one.step}, {"value", number(one.value)}});
    for (const auto& change : finding.changes) {
        Json sets = Json::object();
        for (const auto& set : change.sets) sets[set.path] = Json::parse(set.value);
        changes.push_back({{"title", change.title},
                           {"expected", change.expected},
                           {"figure", change.figure},
                           {"before", number(change.before)},
                           {"after", number(change.after)},
                           {"set", sets},
                           {"live", change.live},
                           {"needs_fork", change.needsFork},
                           {"fork_step", change.forkStep},
                           {"command", commandOf(run, change)}});
    }
    for (const auto& one : finding.applied)
        applied.push_back({{"text", one.text},
                           {"run", one.run},
                           {"step", one.step},
                           {"brought", one.brought},
                           {"figure", one.figure},
                           {"before", number(one.before)},
                           {"after", number(one.after)},
                           {"ended", one.ended}});
    return {{"kind", finding.kind},
            {"severity", finding.severity},
            {"place", finding.place()},
            {"layer", finding.layer},
            {"linear", finding.linear},
            {"tensor", finding.tensor},
            {"first_step", finding.firstStep},
            {"last_step", finding.lastStep},
            {"ongoing", finding.ongoing},
            {"what", finding.what},
            {"cause", finding.cause},
            {"evidence", evidence},
            {"changes", changes},
            {"applied", applied}};
}

int diagnoseRun(const Context& context, const Options& options) {
    RunStore store(context.storePath(), RunStore::Mode::ReadOnly);
    const RunSummary run = findRun(store, options.run);
    const Diagnosis diagnosis = diagnose(store, run.id);
    const auto whole = [&] {
        if (const size_t pieces = unreadablePieces(store, run.id)) throw unreadableFailure(store, run, pieces);
        return kDone;
    };
    if (context.json) {
        Json findings = Json::array();
        for (const auto& finding : diagnosis.findings) findings.push_back(findingJson(run, finding));
        printJson({{"run", run.id},
                   {"name", run.name},
                   {"steps", diagnosis.steps},
                   {"summary", diagnosis.summary},
                   {"findings", findings}});
        return whole();
    }
    std::printf("%s, %lld steps: %zu finding%s\n", plainText(run.name, 60).c_str(),
                static_cast<long long>(diagnosis.steps), diagnosis.findings.size(),
                diagnosis.findings.size() == 1 ? "" : "s");
    if (diagnosis.findings.empty()) std::puts(diagnosis.summary.c_str());
    int index = 0;
    for (const auto& finding : diagnosis.findings) {
        std::printf("\n%d. %s\n   %s\n", ++index, plainText(finding.what).c_str(), plainText(finding.cause).c_str());
        for (const auto& one : finding.evidence)
            std::printf("   - %s%s\n", one.text.c_str(),
                        one.series.empty() ? "" : fmt::format("  [{} @ {}]", one.series, one.step).c_str());
        for (const auto& change : finding.changes) {
            std::printf("   > %s%s%s\n", change.title.c_str(), change.expected.empty() ? "" : ": ",
                        change.expected.c_str());
            if (const std::string command = commandOf(run, change); !command.empty())
                std::printf("     %s\n", command.c_str());
        }
        for (const auto& one : finding.applied)
            std::printf("   = step %lld, %s: %s%s\n", static_cast<long long>(one.step), plainText(one.text).c_str(),
                        plainText(one.brought).c_str(), one.ended ? " The trouble has not come back." : "");
    }
    if (!diagnosis.findings.empty())
        std::puts(
            "\nShares: in a finding the mean of its steps; - evidence, the worst step; > a change, the mean of all "
            "steps "
            "since the first, as it was → as it would be; = what a change brought, likewise.");
    return whole();
}

int planOf(const Context& context, const Options& options) {
    RunStore store(context.storePath(), RunStore::Mode::ReadOnly);
    const RunSummary run = findRun(store, options.run);
    const ParsedSpec parsed = parseSpec(store.document(run.id).specJson);
    if (!parsed.ok()) throw specFailure("spec of run " + run.name, parsed.errors);
    RunSpec spec = parsed.spec;
    spec.autoPrecision.enabled = false;  // what it decided is in the rules now
    spec.trainer.faults.clear();
    const std::string text = spec.toJson() + "\n";
    if (options.out.empty()) {
        std::fwrite(text.data(), 1, text.size(), stdout);
        return kDone;
    }
    try {
        writeFile(options.out, text);
    } catch (const Error& error) {
        throw Failure{kBadUsage, fmt::format("plan-of: {}; allowed: a file path", error.what())};
    }
    return kDone;
}

int rankProducts(const Context& context, const Options& options) {
    RunStore store(context.storePath(), RunStore::Mode::ReadOnly);
    const RunSummary run = findRun(store, options.run);
    const auto ranks = rankShadows(store, run.id, options.from, options.to > 0 ? options.to : -1);
    if (ranks.empty() && !context.json) {
        std::printf("No product of %s was measured in these steps: mantissa-run set RUN probes.shadow_every=100\n",
                    plainText(run.name, 60).c_str());
        return kDone;
    }
    Json list = Json::array();
    std::vector<std::vector<std::string>> table;
    const auto decibels = [](double error) { return -20 * std::log10(error); };
    for (const ShadowRank& rank : ranks) {
        const std::string linear = rank.linear.empty() ? rank.layer : rank.layer + "." + rank.linear;
        list.push_back({{"linear", linear},
                        {"gemm", rank.gemm},
                        {"measured", rank.measured},
                        {"relative_error", number(rank.meanError)},
                        {"sqnr_db", number(decibels(rank.meanError))},
                        {"worst_relative_error", number(rank.worstError)},
                        {"worst_sqnr_db", number(decibels(rank.worstError))},
                        {"worst_step", rank.worstStep}});
        table.push_back({std::to_string(table.size() + 1), linear, rank.gemm, share(rank.meanError),
                         digits(decibels(rank.meanError), 3) + " dB", share(rank.worstError),
                         std::to_string(rank.worstStep), std::to_string(rank.measured)});
    }
    if (context.json)
        printJson({{"run", run.id}, {"products", list}});
    else
        printTable({"", "linear", "product", "error", "SQNR", "worst", "at step", "measured"}, table,
                   {true, false, false, true, true, true, true, true});
    return kDone;
}

}  // namespace

void addNumericsCommands(CLI::App& app, Context& context) {
    auto options = std::make_shared<Options>();
    CLI::App* asking = app.add_subcommand(
        "what-if", "Replays the recorded amaxes of a tensor under other scaling: scales, clipping, underflow");
    asking->add_option("RUN", options->run, "Id or name")->required();
    asking->add_option("TENSOR", options->tensor, "Name as in show --json: tensors, h.1/mlp.fc1/input")->required();
    asking->add_option("--recipe", options->recipe, "delayed, current, fixed, block128, mxfp8, nvfp4, bf16");
    asking->add_option("--format", options->format, "e4m3, e5m2");
    asking->add_option("--history-length", options->historyLength, "Window of the delayed rule")
        ->check(CLI::Range(1, 65536));
    asking->add_option("--algorithm", options->algorithm, "max, most_recent");
    asking->add_option("--margin", options->margin, "The scale is divided by 2^margin")->check(CLI::Range(0, 64));
    asking->add_flag("--pow2", options->powerOfTwo, "Current scales as powers of two");
    asking->add_option("--epsilon", options->epsilon, "Smallest amax of current scaling")->check(CLI::PositiveNumber);
    asking->add_option("--scale", options->scale, "Fixed scale")->check(CLI::PositiveNumber);
    asking->add_option("--from", options->from, "First step of the totals")->check(CLI::NonNegativeNumber);
    asking->add_option("--to", options->to, "Last step of the totals")->check(CLI::NonNegativeNumber);
    asking->add_flag("--all", options->all, "With --json: every step of every choice");
    addCommonFlags(*asking, context, "mantissa-run what-if nano-fp8-delayed-s1 h.1/mlp.fc1/input --history-length 4");
    asking->callback([&context, options] { context.run = [&context, options] { return whatIf(context, *options); }; });

    CLI::App* ranking = app.add_subcommand(
        "shadow", "Products ranked by damage: 64 rows of their output against the same product in higher precision");
    ranking->add_option("RUN", options->run, "Id or name")->required();
    ranking->add_option("--from", options->from, "First step")->check(CLI::NonNegativeNumber);
    ranking->add_option("--to", options->to, "Last step")->check(CLI::NonNegativeNumber);
    addCommonFlags(*ranking, context, "mantissa-run shadow nano-fp8-delayed-s1");
    ranking->callback(
        [&context, options] { context.run = [&context, options] { return rankProducts(context, *options); }; });

    CLI::App* diagnosing = app.add_subcommand(
        "diagnose", "What is wrong where and since when, why, and which changes would help by how much");
    diagnosing->add_option("RUN", options->run, "Id or name")->required();
    addCommonFlags(*diagnosing, context, "mantissa-run diagnose nano-fp8-unscaled-s1");
    diagnosing->callback(
        [&context, options] { context.run = [&context, options] { return diagnoseRun(context, *options); }; });

    CLI::App* planning = app.add_subcommand(
        "plan-of", "The spec that a run ended with, changes and decisions of automatic precision included");
    planning->add_option("RUN", options->run, "Id or name")->required();
    planning->add_option("--out", options->out, "File to write (default: standard output)");
    addCommonFlags(*planning, context, "mantissa-run plan-of nano-s1 --out tuned.json");
    planning->callback(
        [&context, options] { context.run = [&context, options] { return planOf(context, *options); }; });
}

}  // namespace mantissa::experiments::cli
