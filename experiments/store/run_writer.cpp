#include "experiments/store/run_writer.h"

#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "experiments/store/series_reader.h"
#include "experiments/store/ulid.h"
#include "kernels/error.h"

namespace mantissa::experiments {

using Json = nlohmann::json;

namespace {

constexpr size_t kRates = 20;        ///< steps whose median is the throughput of the run list
constexpr int kSeriesPerSlice = 24;  ///< about 1 ms

std::string dump(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string catalogueJson(const std::vector<engine::CatalogueEntry>& catalogue) {
    Json list = Json::array();
    for (const auto& e : catalogue)
        list.push_back({e.layer, e.linear, static_cast<int>(e.role), e.format, e.recipe, e.rows, e.cols});
    return dump(list);
}

std::string precisionJson(const std::vector<engine::EffectivePrecision>& rows) {
    Json list = Json::array();
    for (const auto& r : rows)
        list.push_back({r.layer, r.linear, r.gemm, r.a, r.b, r.out, r.recipe, r.native, r.algorithm});
    return dump(list);
}

std::string detailsJson(const RunDocument& document) {
    Json details = {{"class", document.determinismClass},
                    {"isa", document.isa},
                    {"threads", document.threads},
                    {"parameters", document.parameters},
                    {"plan", document.planBytes},
                    {"plan_note", document.planNote},
                    {"data", document.dataDescription},
                    {"flops_per_token", document.flopsPerToken},
                    {"not_bit_identical_from", document.notBitIdenticalFrom}};
    if (document.specs.size() > 1) details["specs"] = document.specs;
    if (!document.trouble.empty()) details["trouble"] = document.trouble;
    if (document.entropyFloor) details["entropy_floor"] = *document.entropyFloor;
    if (document.corpus)
        details["corpus"] = {{"tokens", document.corpus->tokens},
                             {"hash", fmt::format("{:016x}", document.corpus->hash)}};
    return dump(details);
}

/// A lower value is better for a loss, a higher one for throughput.
bool isBetter(Metric metric, double candidate, double best) {
    return metric == Metric::TokensPerSecond || metric == Metric::LossScale ? candidate > best : candidate < best;
}

/// A disk that is full or fails, or a store held for long: worth waiting for. A damaged file is not.
bool canWait(int code) {
    return code == SQLITE_FULL || code == SQLITE_IOERR || code == SQLITE_BUSY || code == SQLITE_LOCKED ||
           code == SQLITE_CANTOPEN;
}

}  // namespace

std::string runLockPath(const RunStore& store, const std::string& ulid) {
    return store.folder() + "/" + ulid + ".lock";
}

std::string lockText() {
    return fmt::format("{}\n{}\n", ::getpid(), bootId());
}

void insertRun(RunStore& store, const std::string& ulid, const RunSpec& spec, const std::string& name,
               const std::vector<std::string>& tags, const std::string& device, const std::string& parent,
               int64_t parentStep) {
    Database& database = store.database();
    Transaction transaction(database);
    database
        .cached(
            "INSERT INTO run(ulid, name, status, steps, device, model, recipe, preset, seed, created_ms, tags, colour, "
            "parent, parent_step) "
            "VALUES (?, ?, 'queued', ?, ?, ?, ?, ?, ?, ?, ?, (SELECT coalesce(max(colour) + 1, 0) FROM run), ?, ?)")
        .bind(ulid)
        .bind(name)
        .bind(spec.trainer.steps)
        .bind(device)
        .bind(spec.modelName())
        .bind(spec.recipeName())
        .bind(spec.preset)
        .bind(spec.trainer.seed)
        .bind(nowMs())
        .bind(dump(Json(tags)))
        .bind(parent)
        .bind(parentStep)
        .run();
    const int64_t row = database.lastInsertId();
    database.cached("INSERT INTO document(run, spec) VALUES (?, ?)").bind(row).bind(spec.toJson(-1)).run();
    transaction.commit();
}

RunWriter::RunWriter(RunStore& store, const std::string& ulid, int64_t firstStep, uint64_t bufferBytes)
    : store_(store), ulid_(ulid), firstStep_(firstStep), bufferLimit_(bufferBytes) {
    const auto row = store.run(ulid);
    if (!row) throw Error(ErrorCode::Database, fmt::format("{}: run {} is not in the store", store.path(), ulid));
    row_ = *row;
    if (firstStep > 1) {
        row_.step = firstStep - 1;
        restoreSummaries();
    }
    row_.endedMs = 0;
    Statement& query = store.database().cached("SELECT id FROM run WHERE ulid = ?");
    query.bind(ulid).step();
    run_ = query.integer(0);
    query.reset();
}

/// After a resume the summaries are those of the steps that still rule.
void RunWriter::restoreSummaries() {
    for (const auto& [name, old] : store_.summary(ulid_)) {
        const auto metric = metricFromName(name);
        if (!metric) continue;
        const Series series = store_.series(ulid_, name);
        for (size_t i = 0; i < series.steps.size() && series.steps[i] < firstStep_; ++i)
            summarise(*metric, series.steps[i], series.values[i]);
        changed_[*metric] = true;
    }
    auto value = [&](Metric metric) { return summaries_.count(metric) > 0 ? summaries_[metric] : MetricSummary{}; };
    const MetricSummary loss = value(Metric::Loss), validation = value(Metric::ValidationLoss);
    row_.hasLoss = loss.count > 0;
    row_.loss = row_.hasLoss ? loss.last : std::nan("");
    row_.lastFiniteLoss = row_.hasLoss ? loss.lastFinite : std::nan("");
    row_.hasValidation = validation.count > 0;
    row_.validationLoss = row_.hasValidation ? validation.last : std::nan("");
    row_.lastFiniteValidation = row_.hasValidation ? validation.lastFinite : std::nan("");
    row_.validationStep = validation.lastStep;
    row_.tokens = static_cast<int64_t>(value(Metric::Tokens).last);
    row_.seconds = value(Metric::Seconds).last;
}

void RunWriter::setStatus(RunStatus status, const std::string& text) {
    row_.status = status;
    row_.statusText = text;
    const bool over = !isActive(status) && status != RunStatus::Queued;
    if (status == RunStatus::Running && row_.startedMs == 0) row_.startedMs = nowMs();
    row_.endedMs = over ? nowMs() : 0;
    dirty_ = true;
}

void RunWriter::setDocument(const RunDocument& document) {
    document_ = document.specJson;
    catalogue_ = catalogueJson(document.catalogue);
    details_ = detailsJson(document);
    documentDirty_ = dirty_ = true;
}

void RunWriter::setPrecision(const std::vector<engine::EffectivePrecision>& rows) {
    precision_ = precisionJson(rows);
    precisionDirty_ = dirty_ = true;
}

void RunWriter::setDevice(const std::string& device, const std::string& name, uint64_t planBytes) {
    row_.device = device;
    row_.deviceName = name;
    row_.planBytes = planBytes;
    dirty_ = true;
}

void RunWriter::setSteps(int64_t steps) {
    row_.steps = steps;
    dirty_ = true;
}

void RunWriter::setThroughput(double tokensPerSecond) {
    row_.tokensPerSecond = tokensPerSecond;
    dirty_ = true;
}

void RunWriter::setPeakBytes(uint64_t bytes) {
    row_.peakBytes = bytes;
    dirty_ = true;
}

void RunWriter::summarise(Metric metric, int64_t step, double value) {
    auto [entry, fresh] = summaries_.try_emplace(metric);
    MetricSummary& summary = entry->second;
    if (fresh) summary.min = summary.max = summary.best = summary.lastFinite = std::nan("");
    summary.last = value;
    summary.lastStep = step;
    ++summary.count;
    changed_[metric] = true;
    if (!std::isfinite(value)) {
        ++summary.nonFinite;
        return;
    }
    summary.lastFinite = value;
    summary.min = std::isnan(summary.min) ? value : std::min(summary.min, value);
    summary.max = std::isnan(summary.max) ? value : std::max(summary.max, value);
    summary.best = std::isnan(summary.best) || isBetter(metric, value, summary.best) ? value : summary.best;
}

void RunWriter::addStep(const StepRecord& record, const engine::NumericsRecord* numerics) {
    Pending item;
    item.step = record.step;
    item.timeMs = nowMs();
    item.data = encodeStep(record, numerics);
    if (numerics != nullptr) item.exponents = encodeExponents(*numerics);
    row_.step = record.step;
    for (const auto& [metric, value] : record.scalars) {
        if (metric != Metric::TimeMs && metric != Metric::Applied) summarise(metric, record.step, value);
        if (metric == Metric::Loss) {
            row_.hasLoss = true;
            row_.loss = value;
            if (std::isfinite(value)) row_.lastFiniteLoss = value;
        }
        if (metric == Metric::Tokens) row_.tokens = static_cast<int64_t>(value);
        if (metric == Metric::Seconds) row_.seconds = value;
        if (metric == Metric::TokensPerSecond) {
            recentRates_.push_back(value);
            if (recentRates_.size() > kRates) recentRates_.erase(recentRates_.begin());
            std::vector<double> sorted = recentRates_;
            std::nth_element(sorted.begin(), sorted.begin() + static_cast<int64_t>(sorted.size() / 2), sorted.end());
            row_.tokensPerSecond = sorted[sorted.size() / 2];
        }
    }
    push(std::move(item));
}

void RunWriter::addEvaluation(int64_t step, double loss) {
    Pending item;
    item.kind = Pending::Kind::Evaluation;
    item.step = step;
    item.loss = loss;
    row_.hasValidation = true;
    row_.validationLoss = loss;
    row_.validationStep = step;
    if (std::isfinite(loss)) row_.lastFiniteValidation = loss;
    summarise(Metric::ValidationLoss, step, loss);
    push(std::move(item));
}

void RunWriter::addEvent(const RunEvent& event) {
    Pending item;
    item.kind = Pending::Kind::Event;
    item.event = event;
    if (item.event.timeMs == 0) item.event.timeMs = nowMs();
    if (event.kind == "alert") {
        ++row_.alerts;
        row_.worstAlert = std::max(row_.worstAlert, event.severity);
    }
    push(std::move(item));
}

void RunWriter::addCheckpoint(const CheckpointRow& row) {
    Pending item;
    item.kind = Pending::Kind::Checkpoint;
    item.checkpoint = row;
    push(std::move(item));
}

void RunWriter::dropCheckpoint(const std::string& path) {
    Pending item;
    item.kind = Pending::Kind::DropCheckpoint;
    item.checkpoint.path = path;
    push(std::move(item));
}

void RunWriter::push(Pending item) {
    bufferedBytes_ += item.bytes();
    pending_.push_back(std::move(item));
    dirty_ = true;
    limitBuffer();
}

/// Beyond the limit the oldest steps go; events, evaluations and checkpoints are small and stay.
void RunWriter::limitBuffer() {
    while (bufferedBytes_ > bufferLimit_) {
        const auto oldest = std::find_if(pending_.begin(), pending_.end(),
                                         [](const Pending& item) { return item.kind == Pending::Kind::Step; });
        if (oldest == pending_.end()) return;
        bufferedBytes_ -= oldest->bytes();
        if (!lost_.empty() && lost_.back().second == oldest->step - 1 && lost_.size() > lostReported_)
            lost_.back().second = oldest->step;
        else
            lost_.emplace_back(oldest->step, oldest->step);
        pending_.erase(oldest);
    }
}

double RunWriter::bufferedSeconds() const {
    for (const auto& item : pending_)
        if (item.timeMs > 0) return static_cast<double>(nowMs() - item.timeMs) / 1000;
    return 0;
}

bool RunWriter::flush(bool full) {
    for (; lostReported_ < lost_.size() && bufferedBytes_ < bufferLimit_ / 2; ++lostReported_) {
        RunEvent event;
        event.step = lost_[lostReported_].second;
        event.kind = "notice";
        event.alert = "lost_range";
        event.text = fmt::format("Steps {} to {} were lost: the disk was full and the memory for waiting points too.",
                                 lost_[lostReported_].first, lost_[lostReported_].second);
        addEvent(event);
    }
    if (!somethingWaits()) return true;
    const int64_t segmentBefore = segment_;
    Database& database = store_.database();
    try {
        if (full) database.exec("PRAGMA synchronous=FULL");
        {
            Transaction transaction(database);
            if (segment_ < 0) openSegment();
            writeRow();  // first: it notices a run that was deleted before anything refers to it
            for (const auto& item : pending_) writePending(item);
            writeSummaries();
            transaction.commit();
        }
        if (full) database.exec("PRAGMA synchronous=NORMAL");
    } catch (const Error& error) {
        segment_ = segmentBefore;
        if (error.code() != ErrorCode::Database || !canWait(lastDatabaseCode())) throw;
        problem_ = error.what();
        return false;
    }
    pending_.clear();
    changed_.clear();
    bufferedBytes_ = 0;
    dirty_ = documentDirty_ = precisionDirty_ = false;
    problem_.clear();
    return true;
}

void RunWriter::compactSlice() {
    if (!problem_.empty() || segment_ < 0) return;
    if (!compactor_) compactor_ = std::make_unique<Compactor>(store_.database(), run_, static_cast<int>(segment_));
    try {
        compactor_->slice(kSeriesPerSlice);
    } catch (const Error& error) {
        // The blobs are still there, so nothing is lost; the next flush finds out whether the disk is full.
        if (!canWait(lastDatabaseCode())) throw;
    }
}

void RunWriter::compactAll() {
    if (!problem_.empty() || segment_ < 0) return;
    try {
        compactRun(store_.database(), run_);
    } catch (const Error& error) {
        if (!canWait(lastDatabaseCode())) throw;
    }
}

std::vector<RunCommand> RunWriter::takeCommands() {
    Database& database = store_.database();
    std::vector<RunCommand> commands;
    Statement& query = database.cached("SELECT id, command, argument FROM command WHERE run = ? ORDER BY id");
    query.bind(run_);
    while (query.step()) commands.push_back({query.integer(0), query.text(1), query.text(2)});
    query.reset();
    if (commands.empty()) return commands;
    try {
        Transaction transaction(database);
        database.cached("DELETE FROM command WHERE run = ? AND id <= ?").bind(run_).bind(commands.back().id).run();
        transaction.commit();
    } catch (const Error&) {
        if (!canWait(lastDatabaseCode())) throw;
        commands.clear();  // on a full disk they stay and come again
    }
    return commands;
}

}  // namespace mantissa::experiments
