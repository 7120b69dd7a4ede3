// Ladders in the store: the document in the table of settings, everything measured in the runs themselves.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "experiments/ladder/ladder.h"
#include "experiments/store/database.h"
#include "kernels/error.h"

namespace mantissa::experiments {

namespace {

using Json = nlohmann::ordered_json;

const std::string kPrefix = "ladder/";

const char* modeName(LadderMode mode) {
    return mode == LadderMode::Rungs ? "rungs" : "widths";
}

/// Values of the store whose key begins with `prefix`, in order.
std::map<std::string, std::string> settings(RunStore& store, const std::string& prefix) {
    std::map<std::string, std::string> found;
    Statement& rows =
        store.database().cached("SELECT key, value FROM setting WHERE substr(key, 1, length(?1)) = ?1 ORDER BY key");
    rows.bind(prefix);
    while (rows.step()) found[rows.text(0)] = rows.text(1);
    return found;
}

/// The values of the timed steps; those that a run goes on with for its energy alone are left out.
std::vector<double> timed(RunStore& store, const LadderResult& ladder, const RungResult& rung,
                          const std::string& metric) {
    std::vector<double> values;
    const Series series = store.series(rung.run, metric);
    for (size_t i = 0; i < series.steps.size(); ++i)
        if (series.steps[i] > ladder.warmup && series.steps[i] <= ladder.warmup + ladder.steps &&
            std::isfinite(series.values[i]))
            values.push_back(series.values[i]);
    return values;
}

/// The value at a share of the sorted values, between neighbours by proportion; 0 for none.
double quantile(std::vector<double> values, double share) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    const double at = share * static_cast<double>(values.size() - 1);
    const size_t low = static_cast<size_t>(at), high = std::min(low + 1, values.size() - 1);
    return values[low] + (values[high] - values[low]) * (at - static_cast<double>(low));
}

/// Energy of the timed steps by the board's counter, per token; absent where it was not read over ten seconds.
std::optional<double> energyPerToken(RunStore& store, const RungResult& rung, int warmup, double tokensPerStep) {
    constexpr double kLeastSeconds = 10;
    const Series joules = store.series(rung.run, "energy_j"), seconds = store.series(rung.run, "seconds");
    std::map<int64_t, double> time;
    for (size_t i = 0; i < seconds.steps.size(); ++i) time[seconds.steps[i]] = seconds.values[i];
    size_t first = 0;
    while (first < joules.steps.size() && joules.steps[first] < std::max(1, warmup)) ++first;
    if (first + 1 >= joules.steps.size()) return std::nullopt;
    const size_t last = joules.steps.size() - 1;
    const double elapsed = time[joules.steps[last]] - time[joules.steps[first]];
    const double used = joules.values[last] - joules.values[first];
    const double tokens = tokensPerStep * static_cast<double>(joules.steps[last] - joules.steps[first]);
    if (elapsed < kLeastSeconds || used <= 0 || tokens <= 0) return std::nullopt;
    return used / tokens * 1000;
}

void measure(RunStore& store, const LadderResult& ladder, RungResult& rung) {
    const std::vector<double> steps = timed(store, ladder, rung, "step_ms");
    if (steps.empty()) return;
    rung.timedSteps = static_cast<int64_t>(steps.size());
    rung.stepMs = quantile(steps, 0.5);
    rung.spreadMs = (quantile(steps, 0.75) - quantile(steps, 0.25)) / 2;
    rung.tokensPerSecond = rung.stepMs > 0 ? static_cast<double>(ladder.tokensPerStep) / rung.stepMs * 1000 : 0;
    double known = 0;
    for (int phase = 0; phase + 1 < kLadderPhases; ++phase) {
        const std::string name = fmt::format("phase/{}_ms", kLadderPhaseNames[phase]);
        rung.phaseMs[phase] = quantile(timed(store, ladder, rung, name), 0.5);
        known += rung.phaseMs[phase];
    }
    rung.phaseMs[kLadderPhases - 1] = std::max(0.0, rung.stepMs - known);
    rung.millijoulesPerToken = energyPerToken(store, rung, ladder.warmup, static_cast<double>(ladder.tokensPerStep));
}

void takeRun(RunStore& store, LadderResult& ladder, RungResult& rung) {
    const std::optional<RunSummary> run = rung.run.empty() ? std::nullopt : store.run(rung.run);
    if (!run) {
        if (!rung.run.empty()) rung.text = "the run was deleted";
        rung.run.clear();
        rung.state = rung.text.empty() || rung.text == "the run was deleted" ? RungState::NotRun : RungState::Failed;
        return;
    }
    const RunDocument document = store.document(rung.run);
    rung.step = run->step;
    rung.planBytes = run->planBytes;
    rung.peakBytes = run->peakBytes;
    rung.planBy = document.planBytes;
    for (const auto& row : document.precision) rung.native = rung.native && row.native;
    if (!run->deviceName.empty()) ladder.deviceName = run->deviceName, ladder.device = run->device;
    if (!document.isa.empty()) ladder.isa = document.isa, ladder.threads = document.threads;
    switch (run->status) {
        case RunStatus::Finished:
            rung.state = RungState::Measured;
            measure(store, ladder, rung);
            if (rung.timedSteps == 0) rung.state = RungState::Failed, rung.text = "no timed step was recorded";
            return;
        case RunStatus::Queued:
        case RunStatus::Running:
        case RunStatus::Paused:
            rung.state = RungState::Running;
            return;
        case RunStatus::Stopped:
        case RunStatus::Interrupted:
            rung.state = RungState::Stopped;
            rung.text = fmt::format("stopped after {} of {} steps", run->step, run->steps);
            return;
        default:
            rung.state = RungState::Failed;
            rung.refused = run->status == RunStatus::Refused;
            rung.text = run->statusText.empty() ? statusName(run->status) : run->statusText;
    }
}

}  // namespace

void writeLadder(RunStore& store, const LadderDocument& document) {
    const LadderRequest& request = document.request;
    const Json json = {{"mode", modeName(request.mode)}, {"spec", Json::parse(request.base.toJson(-1))},
                       {"widths", request.widths},       {"warmup", request.warmup},
                       {"steps", request.steps},         {"device", document.device},
                       {"threads", document.threads},    {"created_ms", document.createdMs},
                       {"runs", document.runs},          {"texts", document.texts}};
    Database& database = store.database();
    Transaction transaction(database);
    database
        .cached("INSERT INTO setting(key, value) VALUES (?, ?) ON CONFLICT(key) DO UPDATE SET value = excluded.value")
        .bind(kPrefix + document.id)
        .bind(json.dump(-1, ' ', false, Json::error_handler_t::replace))
        .run();
    transaction.commit();
}

LadderDocument readLadderDocument(RunStore& store, const std::string& id) {
    const auto found = settings(store, kPrefix + id);
    if (found.size() != 1)
        throw Error(ErrorCode::InvalidConfig, fmt::format("ladder {}: there is no such ladder in {}; allowed: one that "
                                                          "mantissa-run ladder --list names",
                                                          id, store.path()));
    LadderDocument document;
    document.id = found.begin()->first.substr(kPrefix.size());
    try {
        const Json json = Json::parse(found.begin()->second);
        LadderRequest& request = document.request;
        request.mode = json.at("mode") == modeName(LadderMode::Widths) ? LadderMode::Widths : LadderMode::Rungs;
        ParsedSpec parsed = parseSpec(json.at("spec").dump());
        if (!parsed.ok()) throw Error(ErrorCode::Database, parsed.errors[0].path + ": " + parsed.errors[0].message);
        request.base = parsed.spec;
        request.widths = json.at("widths").get<std::vector<int>>();
        request.warmup = json.at("warmup");
        request.steps = json.at("steps");
        document.device = json.at("device");
        document.threads = json.at("threads");
        document.createdMs = json.at("created_ms");
        document.runs = json.at("runs").get<std::vector<std::string>>();
        document.texts = json.at("texts").get<std::vector<std::string>>();
    } catch (const Json::exception& error) {
        throw Error(ErrorCode::Database, fmt::format("ladder {}: cannot be read: {}", id, error.what()));
    }
    return document;
}

std::vector<LadderEntry> ladders(RunStore& store) {
    std::vector<LadderEntry> entries;
    for (const auto& [key, value] : settings(store, kPrefix)) {
        const Json json = Json::parse(value, nullptr, false);
        if (!json.is_object()) continue;
        LadderEntry entry;
        entry.id = key.substr(kPrefix.size());
        try {
            const bool widths = json.value("mode", "") == modeName(LadderMode::Widths);
            entry.mode = widths ? LadderMode::Widths : LadderMode::Rungs;
            entry.preset = json.contains("spec") ? json["spec"].value("preset", "") : "";
            entry.device = json.value("device", "");
            entry.createdMs = json.value("created_ms", int64_t{0});
        } catch (const Json::exception&) {
            continue;  // damaged: readLadder says so where it is asked for
        }
        entries.push_back(std::move(entry));
    }
    return entries;
}

std::string newestLadder(RunStore& store, const std::string& preset, LadderMode mode) {
    std::string newest;
    for (const LadderEntry& entry : ladders(store))
        if (entry.preset == preset && entry.mode == mode) newest = entry.id;
    return newest;
}

LadderResult plannedLadder(const LadderRequest& request) {
    LadderResult ladder;
    ladder.preset = request.base.preset;
    ladder.mode = request.mode;
    ladder.warmup = request.warmup;
    ladder.steps = request.steps;
    const engine::TrainerConfig& trainer = request.base.trainer;
    ladder.batch = trainer.batch * trainer.accumulation;
    ladder.context = trainer.model.context;
    ladder.layers = trainer.model.layers;
    ladder.tokensPerStep = static_cast<int64_t>(ladder.batch) * ladder.context;
    for (RungPlan& plan : ladderRungs(request)) {
        RungResult rung;
        rung.key = plan.key, rung.title = plan.title, rung.note = plan.note;
        rung.before = plan.before, rung.width = plan.width;
        ladder.rungs.push_back(std::move(rung));
    }
    return ladder;
}

LadderResult readLadder(RunStore& store, const std::string& id) {
    const LadderDocument document = readLadderDocument(store, id);
    LadderResult ladder = plannedLadder(document.request);
    ladder.id = document.id;
    ladder.createdMs = document.createdMs;
    ladder.device = document.device;
    ladder.threads = document.threads;
    for (size_t i = 0; i < ladder.rungs.size(); ++i) {
        RungResult& rung = ladder.rungs[i];
        if (i < document.runs.size()) rung.run = document.runs[i];
        if (i < document.texts.size()) rung.text = document.texts[i];
        takeRun(store, ladder, rung);
    }
    return ladder;
}

}  // namespace mantissa::experiments
