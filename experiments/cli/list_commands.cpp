// list, show, delete, tag, note.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "experiments/cli/command.h"
#include "experiments/report/run_filter.h"
#include "experiments/text/number_text.h"
#include "experiments/text/plain_text.h"
#include "kernels/error.h"

namespace mantissa::experiments::cli {

namespace {

constexpr size_t kCellCharacters = 60;  ///< of a name or a note in the table; --json has the whole

/// ISO 8601 in UTC, to the ms; "" for 0.
std::string timeText(int64_t ms) {
    if (ms == 0) return "";
    const std::time_t seconds = ms / 1000;
    std::tm parts{};
    gmtime_r(&seconds, &parts);
    char buffer[40];
    std::strftime(buffer, sizeof buffer, "%Y-%m-%dT%H:%M:%S", &parts);
    return fmt::format("{}.{:03}Z", buffer, ms % 1000);
}

Json columnJson(const RunSummary& run, const std::string& column) {
    if (column == "started") return run.startedMs == 0 ? Json(nullptr) : Json(timeText(run.startedMs));
    if (column == "tags") return Json(run.tags);
    if (column == "loss") return run.hasLoss ? number(run.loss) : Json(nullptr);
    if (column == "val_loss") return run.hasValidation ? number(run.validationLoss) : Json(nullptr);
    const ColumnValue value = columnValue(run, column);
    if (!value.isNumber) return Json(value.text);
    if (std::isnan(value.number)) return Json(nullptr);
    const bool whole = column != "tokens_per_s" && column != "seconds";
    return whole ? Json(static_cast<int64_t>(value.number)) : number(value.number);
}

std::string columnText(const RunSummary& run, const std::string& column) {
    if (column == "run") return run.id;
    if (column == "started") return timeText(run.startedMs).substr(0, 16);
    if (column == "plan_bytes") return run.planBytes > 0 ? bytesText(run.planBytes) : "–";
    if (column == "peak_bytes") return run.peakBytes > 0 ? bytesText(run.peakBytes) : "–";
    if ((column == "loss" && run.hasLoss) || (column == "val_loss" && run.hasValidation))
        return digits(columnValue(run, column).number, 5);
    const ColumnValue value = columnValue(run, column);
    if (!value.isNumber) return plainText(value.text, kCellCharacters);
    if (std::isnan(value.number)) return "–";
    return value.number == std::floor(value.number) ? fmt::format("{:.0f}", value.number) : digits(value.number, 4);
}

int list(const Context& context, const std::string& filter, const std::string& columns, const std::string& sort) {
    const auto matches = compileFilter(filter);
    std::vector<std::string> wanted;
    for (size_t at = 0; at < columns.size();) {
        const size_t comma = std::min(columns.find(',', at), columns.size());
        wanted.push_back(columns.substr(at, comma - at));
        at = comma + 1;
        if (std::find(runColumns().begin(), runColumns().end(), wanted.back()) == runColumns().end()) {
            std::string allowed;
            for (const auto& name : runColumns()) allowed += (allowed.empty() ? "" : ", ") + name;
            throw Failure{kBadUsage,
                          fmt::format("list: --columns: \"{}\" is no column; allowed: {}", wanted.back(), allowed)};
        }
    }
    // Nobody has trained yet: the default store is empty rather than missing.
    const bool named = !context.store.empty() || std::getenv("MANTISSA_STORE") != nullptr;
    std::vector<RunSummary> runs;
    if (named || std::filesystem::exists(context.storePath()))
        runs = RunStore(context.storePath(), RunStore::Mode::ReadOnly).runs();
    const bool empty = runs.empty();
    runs.erase(std::remove_if(runs.begin(), runs.end(), [&](const RunSummary& run) { return !matches(run); }),
               runs.end());
    if (!sort.empty()) sortRuns(runs, sort);
    if (context.json) {
        if (wanted.empty())
            wanted = {"run", "name", "status", "step", "steps", "loss", "val_loss", "device", "started", "tags"};
        Json out = Json::array();
        for (const auto& run : runs) {
            Json row;
            for (const auto& column : wanted) row[column] = columnJson(run, column);
            out.push_back(row);
        }
        printJson(out);
        return kDone;
    }
    if (wanted.empty())
        wanted = {"run", "name", "status", "step", "steps", "loss", "val_loss", "device", "started", "tags"};
    std::vector<std::vector<std::string>> rows;
    std::vector<bool> right;
    for (const auto& column : wanted)
        right.push_back(columnValue(RunSummary{}, column).isNumber && column != "started");
    for (const auto& run : runs) {
        std::vector<std::string> row;
        for (const auto& column : wanted) row.push_back(columnText(run, column));
        rows.push_back(std::move(row));
    }
    if (rows.empty())
        std::puts(empty ? "No runs in this store yet." : "No run matches the filter.");
    else
        printTable(wanted, rows, right);
    return kDone;
}

Json eventJson(const RunEvent& event) {
    Json row = {{"step", event.step}, {"time", timeText(event.timeMs)}, {"kind", event.kind}, {"text", event.text}};
    if (!event.alert.empty())
        row.update(
            {{"alert", event.alert}, {"severity", event.severity}, {"layer", event.layer}, {"tensor", event.tensor}});
    return row;
}

Json showJson(RunStore& store, const RunSummary& run) {
    const RunDocument document = store.document(run.id);
    Json summary = Json::object();
    for (const auto& [name, s] : store.summary(run.id))
        summary[name] = {{"last", number(s.last)},
                         {"min", number(s.min)},
                         {"max", number(s.max)},
                         {"best", number(s.best)},
                         {"last_finite", number(s.lastFinite)},
                         {"last_step", s.lastStep},
                         {"count", s.count},
                         {"non_finite", s.nonFinite}};
    Json events = Json::array(), checkpoints = Json::array(), precision = Json::array(), tensors = Json::array();
    for (const auto& event : store.events(run.id)) events.push_back(eventJson(event));
    for (const auto& row : store.checkpoints(run.id))
        checkpoints.push_back({{"step", row.step},
                               {"path", row.path},
                               {"bytes", row.bytes},
                               {"on_disk", row.onDisk},
                               {"time", timeText(row.timeMs)}});
    for (const auto& row : document.precision)
        precision.push_back({{"layer", row.layer},
                             {"linear", row.linear.empty() ? "head" : row.linear},
                             {"gemm", row.gemm},
                             {"a", row.a},
                             {"b", row.b},
                             {"out", row.out},
                             {"recipe", row.recipe},
                             {"native", row.native},
                             {"algorithm", row.algorithm}});
    for (const auto& entry : document.catalogue) tensors.push_back(engine::tensorName(entry));
    Json out = {{"run", run.id},
                {"name", run.name},
                {"status", statusName(run.status)},
                {"reason", run.statusText},
                {"spec", Json::parse(document.specJson, nullptr, false)},
                {"device", run.device},
                {"device_name", run.deviceName},
                {"started", timeText(run.startedMs)},
                {"ended", timeText(run.endedMs)},
                {"steps", run.steps},
                {"step", run.step},
                {"summary", summary},
                {"events", events},
                {"checkpoints", checkpoints},
                {"precision", precision},
                {"tensors", tensors},
                {"tags", run.tags},
                {"note", run.note},
                {"segments", run.segments},
                {"isa", document.isa},
                {"class", document.determinismClass},
                {"threads", document.threads},
                {"parameters", document.parameters},
                {"data", document.dataDescription},
                {"plan", {{"bytes", run.planBytes}, {"by", document.planBytes}}},
                {"peak_bytes", run.peakBytes}};
    out["trouble"] = document.trouble.empty() ? Json(nullptr) : Json::parse(document.trouble, nullptr, false);
    if (document.entropyFloor) out["entropy_floor"] = *document.entropyFloor;
    if (document.notBitIdenticalFrom > 0) out["not_bit_identical_from"] = document.notBitIdenticalFrom;
    if (!run.parent.empty()) out.update({{"parent", run.parent}, {"parent_step", run.parentStep}});
    return out;
}

int show(const Context& context, const std::string& name) {
    RunStore store(context.storePath(), RunStore::Mode::ReadOnly);
    const RunSummary run = findRun(store, name);
    if (context.json) {
        printJson(showJson(store, run));
        return kDone;
    }
    const RunDocument document = store.document(run.id);
    std::printf("%s  %s\n", plainText(run.name).c_str(), run.id.c_str());
    // "interrupted at step 7" says no more than the status and the step.
    const bool more = !run.statusText.empty() && run.status != RunStatus::Interrupted;
    std::printf("%s%s%s, step %lld of %lld\n", statusName(run.status), more ? ": " : "",
                more ? plainText(run.statusText).c_str() : "", static_cast<long long>(run.step),
                static_cast<long long>(run.steps));
    std::printf("%s, %s, seed %llu, %lld parameters\n", run.model.c_str(), run.recipe.c_str(),
                static_cast<unsigned long long>(run.seed), static_cast<long long>(document.parameters));
    std::printf("%s, %s, %d threads; %s\n", run.deviceName.c_str(), document.isa.c_str(), document.threads,
                plainText(document.dataDescription).c_str());
    if (!run.note.empty()) std::printf("note: %s\n", plainText(run.note).c_str());
    const auto native = std::count_if(document.precision.begin(), document.precision.end(),
                                      [](const auto& row) { return row.a == "e4m3" || row.a == "e5m2"; });
    if (!document.precision.empty())
        std::printf("%lld of %zu products in FP8\n", static_cast<long long>(native), document.precision.size());
    std::puts("");
    std::vector<std::vector<std::string>> rows;
    for (const auto& [metric, s] : store.summary(run.id))
        rows.push_back({metric, digits(s.last, 5), digits(s.min, 5), digits(s.max, 5), digits(s.lastFinite, 5),
                        std::to_string(s.nonFinite)});
    printTable({"metric", "last", "min", "max", "last finite", "not finite"}, rows,
               {false, true, true, true, true, true});
    std::puts("");
    if (const Json trouble = Json::parse(document.trouble, nullptr, false); trouble.is_object()) {
        std::printf("first trouble, step %lld: %s\n", static_cast<long long>(trouble.value("step", int64_t{0})),
                    plainText(trouble.value("text", "")).c_str());
        for (const auto& place : trouble.value("chain", Json::array()))
            std::printf("  then %s: %s NaN, %s Inf\n", place.value("place", "").c_str(), place["nan"].dump().c_str(),
                        place["inf"].dump().c_str());
        if (const auto flight = trouble.value("flight", Json::array()); !flight.empty())
            std::printf("  steps %s to %s before it are kept at full rate\n", flight.front().dump().c_str(),
                        flight.back().dump().c_str());
        std::puts("");
    }
    for (const auto& event : store.events(run.id))
        std::printf("%8lld  %-10s  %s\n", static_cast<long long>(event.step), event.kind.c_str(),
                    plainText(event.text).c_str());
    return kDone;
}

/// A name that several runs have does not say which one is to go.
void refuseSharedName(RunStore& store, const std::string& name) {
    std::string ids;
    int count = 0;
    for (const auto& run : store.runs())
        if (run.name == name && ++count <= 4) ids += (ids.empty() ? "" : ", ") + run.id;
    if (count > 1)
        throw Failure{kBadUsage, fmt::format("delete: \"{}\" is the name of {} runs; allowed: their ids: {}{}",
                                             plainText(name, 60), count, ids, count > 4 ? " …" : "")};
}

int remove(const Context& context, const std::vector<std::string>& names) {
    RunStore store(context.storePath(), RunStore::Mode::ReadWrite);
    std::vector<RunSummary> runs;
    for (const auto& name : names) {  // all are known before one goes
        const RunSummary run = store.find(name);
        if (run.id != name && run.name == name) refuseSharedName(store, name);
        if (isActive(run.status) || run.status == RunStatus::Queued)
            throw Failure{kBadUsage, fmt::format("delete: run {} is {}; allowed: runs that have ended (mantissa-run "
                                                 "stop {} ends it)",
                                                 plainText(run.name, 60), statusName(run.status), run.id)};
        const bool twice = std::any_of(runs.begin(), runs.end(), [&](const auto& other) { return other.id == run.id; });
        if (!twice) runs.push_back(run);
    }
    Json list = Json::array();
    for (const auto& run : runs) {
        store.deleteRun(run.id);
        list.push_back(run.id);
        if (!context.json) std::printf("deleted %s  %s\n", run.id.c_str(), plainText(run.name).c_str());
    }
    if (context.json) printJson({{"deleted", list}});
    return kDone;
}

/// Adds and takes away; neither: the tags are printed.
int tag(const Context& context, const std::string& name, const std::vector<std::string>& added,
        const std::vector<std::string>& removed) {
    for (const auto& word : added) checkLabel("tag", word);
    const bool changes = !added.empty() || !removed.empty();
    RunStore store(context.storePath(), changes ? RunStore::Mode::ReadWrite : RunStore::Mode::ReadOnly);
    RunSummary run = findRun(store, name);
    auto take = [&](const std::string& word) {
        run.tags.erase(std::remove(run.tags.begin(), run.tags.end(), word), run.tags.end());
    };
    for (const auto& word : added) take(word), run.tags.push_back(word);
    for (const auto& word : removed) take(word);
    if (changes) store.setTags(run.id, run.tags);
    if (context.json)
        printJson({{"run", run.id}, {"tags", run.tags}});
    else
        for (const auto& text : run.tags) std::puts(plainText(text).c_str());
    return kDone;
}

int note(const Context& context, const std::string& name, const std::string& text, bool given) {
    if (given && !isUtf8(text))
        throw Failure{kBadUsage, fmt::format("note: \"{}\" has bytes that are no UTF-8 (shown as ?); allowed: UTF-8",
                                             plainText(text, 60))};
    RunStore store(context.storePath(), given ? RunStore::Mode::ReadWrite : RunStore::Mode::ReadOnly);
    RunSummary run = findRun(store, name);
    if (given) store.setNote(run.id, text);
    if (context.json)
        printJson({{"run", run.id}, {"note", given ? text : run.note}});
    else
        std::puts((given ? text : run.note).c_str());
    return kDone;
}

}  // namespace

void addListCommands(CLI::App& app, Context& context) {
    struct Options {
        std::string filter, columns, sort, run, text;
        std::vector<std::string> runs, words;
    };
    auto options = std::make_shared<Options>();
    auto* listing = app.add_subcommand("list", "The run table");
    listing->add_option("--filter", options->filter, "Expression, as in: loss < 2 and recipe = delayed");
    listing->add_option("--columns", options->columns, "Columns, separated by commas");
    listing->add_option("--sort", options->sort, "Column to sort by; -COLUMN descends");
    addCommonFlags(*listing, context, "mantissa-run list --filter \"val_loss < 2\" --sort val_loss");
    listing->callback([&context, options] {
        context.run = [&context, options] { return list(context, options->filter, options->columns, options->sort); };
    });

    auto* showing = app.add_subcommand("show", "One run: state, summary, events, effective precision");
    showing->add_option("RUN", options->run, "Id, unique beginning of one, or name")->required();
    addCommonFlags(*showing, context, "mantissa-run show nano-fp8-delayed-s1 --json");
    showing->callback(
        [&context, options] { context.run = [&context, options] { return show(context, options->run); }; });

    auto* deleting = app.add_subcommand("delete", "Removes runs with their series and checkpoints");
    deleting->add_option("RUN", options->runs, "Ids or names")->required();
    addCommonFlags(*deleting, context, "mantissa-run delete 01JE0XK3");
    deleting->callback(
        [&context, options] { context.run = [&context, options] { return remove(context, options->runs); }; });

    auto* tagging = app.add_subcommand("tag", "Adds tags; removes those given by --remove");
    tagging->add_option("RUN", options->run, "Id or name")->required();
    tagging->add_option("TAG", options->words, "Tags to add; none: print them");
    auto removed = std::make_shared<std::vector<std::string>>();
    tagging->add_option("--remove", *removed, "Tag to take away, repeatable")->allow_extra_args(false);
    addCommonFlags(*tagging, context, "mantissa-run tag nano-bf16-s1 baseline paper");
    tagging->callback([&context, options, removed] {
        context.run = [&context, options, removed] { return tag(context, options->run, options->words, *removed); };
    });

    auto* noting = app.add_subcommand("note", "Sets or prints the note of a run");
    noting->add_option("RUN", options->run, "Id or name")->required();
    auto* text = noting->add_option("TEXT", options->text, "The note; none: print it");
    addCommonFlags(*noting, context, "mantissa-run note nano-bf16-s1 \"the reference\"");
    noting->callback([&context, options, text] {
        context.run = [&context, options, given = text->count() > 0] {
            return note(context, options->run, options->text, given);
        };
    });
}

}  // namespace mantissa::experiments::cli
