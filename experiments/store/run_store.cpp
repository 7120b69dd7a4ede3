// Opening, lists, lookup and edits. Series are in run_store_series.cpp, tensor statistics in run_store_numerics.cpp.
#include "experiments/store/run_store.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "experiments/store/run_store_impl.h"
#include "experiments/store/store_open.h"
#include "experiments/store/ulid.h"
#include "kernels/error.h"

namespace mantissa::experiments {

namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

constexpr const char* kRunColumns =
    "SELECT id, ulid, name, status, status_text, step, steps, has_loss, loss, finite_loss, has_val, val_loss, "
    "finite_val, val_step, tokens_per_s, "
    "tokens, device, device_name, model, recipe, preset, seed, created_ms, started_ms, ended_ms, seconds, plan_bytes, "
    "peak_bytes, tags, note, "
    "colour, alerts, worst_alert, parent, parent_step, segment FROM run WHERE hidden = 0";

std::vector<std::string> tagsFrom(const std::string& text) {
    std::vector<std::string> tags;
    const Json json = Json::parse(text, nullptr, false);
    if (json.is_array())
        for (const auto& tag : json)
            if (tag.is_string()) tags.push_back(tag);
    return tags;
}

RunSummary readRow(const Statement& row) {
    RunSummary run;
    int column = 1;
    auto integer = [&] { return row.integer(column++); };
    auto real = [&] { return row.real(column++); };
    auto text = [&] { return row.text(column++); };
    run.id = text();
    run.name = text();
    run.status = statusFromName(text()).value_or(RunStatus::Failed);
    run.statusText = text();
    run.step = integer();
    run.steps = integer();
    run.hasLoss = integer() != 0;
    run.loss = real();
    run.lastFiniteLoss = real();
    run.hasValidation = integer() != 0;
    run.validationLoss = real();
    run.lastFiniteValidation = real();
    run.validationStep = integer();
    run.tokensPerSecond = real();
    run.tokens = integer();
    run.device = text();
    run.deviceName = text();
    run.model = text();
    run.recipe = text();
    run.preset = text();
    run.seed = static_cast<uint64_t>(integer());
    run.createdMs = integer();
    run.startedMs = integer();
    run.endedMs = integer();
    run.seconds = real();
    run.planBytes = static_cast<uint64_t>(integer());
    run.peakBytes = static_cast<uint64_t>(integer());
    run.tags = tagsFrom(text());
    run.note = text();
    run.colour = static_cast<int>(integer());
    run.alerts = static_cast<int>(integer());
    run.worstAlert = static_cast<int>(integer());
    run.parent = text();
    run.parentStep = integer();
    run.segments = static_cast<int>(integer()) + 1;
    return run;
}

std::string upper(std::string text) {
    for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return text;
}

}  // namespace

std::string defaultStorePath(const std::string& given) {
    if (!given.empty()) return given;
    if (const char* store = std::getenv("MANTISSA_STORE"); store != nullptr && *store != 0) return store;
    if (const char* data = std::getenv("XDG_DATA_HOME"); data != nullptr && *data != 0)
        return std::string(data) + "/mantissa/runs.mantissa";
    const char* home = std::getenv("HOME");
    return std::string(home == nullptr ? "." : home) + "/.local/share/mantissa/runs.mantissa";
}

int64_t RunStore::Impl::readId(const std::string& id) {
    if (const auto found = rows.find(id); found != rows.end()) return found->second;
    Statement& query = database->cached("SELECT id FROM run WHERE ulid = ? AND hidden = 0");
    const int64_t row = query.bind(id).step() ? query.integer(0) : 0;
    query.reset();
    if (row != 0) rows.emplace(id, row);
    return row;
}

int64_t RunStore::Impl::rowId(const std::string& id) {
    const int64_t row = readId(id);
    if (row == 0) throw Error(ErrorCode::InvalidConfig, fmt::format("there is no run {} in {}", id, path));
    return row;
}

std::string RunStore::Impl::lockPath(const std::string& id) const {
    return path + ".d/" + id + ".lock";
}

void RunStore::Impl::settle(RunSummary& run) const {
    const bool open = isActive(run.status) || run.status == RunStatus::Queued;
    if (!open || FileLock::isHeld(lockPath(run.id))) return;
    run.status = RunStatus::Interrupted;
    run.statusText = fmt::format("interrupted at step {}", run.step);
}

namespace {

/// Device and inode; zeros when there is no such file.
std::pair<uint64_t, uint64_t> identityOf(const std::string& path) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return {0, 0};
    return {info.st_dev, info.st_ino};
}

}  // namespace

RunStore::RunStore(const std::string& path, Mode mode) : impl_(std::make_unique<Impl>()) {
    OpenedStore opened = openStore(path, mode == Mode::ReadWrite);
    impl_->path = path;
    impl_->identity = identityOf(path);
    impl_->database = std::move(opened.database);
    impl_->schema = opened.schema;
    impl_->readOnlyReason = std::move(opened.readOnlyReason);
}

bool RunStore::inPlace() const {
    return identityOf(impl_->path) == impl_->identity;
}

std::string RunStore::rescue() {
    std::string target = impl_->path + ".rescued";
    for (int n = 2; identityOf(target).second != 0; ++n) target = fmt::format("{}.rescued-{}", impl_->path, n);
    Statement(impl_->database->handle(), impl_->path, "VACUUM INTO ?").bind(target).run();
    return target;
}

/// A writer that leaves moves the WAL into the file, unless somebody else is writing or reading just now.
RunStore::~RunStore() {
    if (readOnly()) return;
    FileLock lock;
    if (lock.acquire(folder() + "/write.lock", 0)) impl_->database->checkpoint(0, true);
}

void RunStore::moveWal() {
    FileLock lock;
    if (!readOnly() && lock.acquire(folder() + "/write.lock", 0)) impl_->database->checkpoint(0, false);
}

const std::string& RunStore::path() const {
    return impl_->path;
}
std::string RunStore::folder() const {
    return impl_->path + ".d";
}
bool RunStore::readOnly() const {
    return impl_->database->readOnly();
}
std::string RunStore::readOnlyReason() const {
    return impl_->readOnlyReason;
}
int RunStore::schema() const {
    return impl_->schema;
}
Database& RunStore::database() {
    return *impl_->database;
}

uint64_t RunStore::sizeBytes() const {
    uint64_t bytes = 0;
    for (const char* suffix : {"", "-wal"}) {
        struct stat info {};
        if (::stat((impl_->path + suffix).c_str(), &info) == 0) bytes += static_cast<uint64_t>(info.st_size);
    }
    return bytes;
}

int64_t RunStore::lastCommitMs() const {
    Statement& query = impl_->database->cached("SELECT coalesce(max(commit_ms), 0) FROM run");
    const int64_t result = query.step() ? query.integer(0) : 0;
    query.reset();
    return result;
}

int64_t RunStore::dataVersion() {
    Statement& query = impl_->database->cached("PRAGMA data_version");
    const int64_t version = query.step() ? query.integer(0) : 0;
    query.reset();
    return version;
}

// Lists
// -----------------------------------------------------------------------------------------------------------------

std::vector<RunSummary> RunStore::runs() {
    ReadView view(*impl_->database);
    Statement& pinned = impl_->database->cached("SELECT value FROM setting WHERE key = 'baseline'");
    const std::string baseline = pinned.step() ? pinned.text(0) : "";
    pinned.reset();
    static const std::string sql = std::string(kRunColumns) + " ORDER BY id";
    Statement& query = impl_->database->cached(sql.c_str());
    std::vector<RunSummary> list;
    impl_->rows.clear();
    while (query.step()) {
        list.push_back(readRow(query));
        list.back().baseline = list.back().id == baseline;
        impl_->rows.emplace(list.back().id, query.integer(0));
        impl_->settle(list.back());
    }
    query.reset();
    return list;
}

std::optional<RunSummary> RunStore::run(const std::string& id) {
    static const std::string sql = std::string(kRunColumns) + " AND ulid = ?";
    ReadView view(*impl_->database);
    Statement& query = impl_->database->cached(sql.c_str());
    query.bind(id);
    std::optional<RunSummary> found;
    if (query.step()) found = readRow(query);
    query.reset();
    if (!found) {
        impl_->rows.erase(id);
        return found;
    }
    impl_->settle(*found);
    Statement& pinned = impl_->database->cached("SELECT value FROM setting WHERE key = 'baseline'");
    found->baseline = pinned.step() && pinned.text(0) == id;
    pinned.reset();
    return found;
}

RunSummary RunStore::find(const std::string& idOrName) {
    const std::vector<RunSummary> all = runs();
    const std::string prefix = upper(idOrName);
    std::vector<const RunSummary*> byPrefix;
    const RunSummary* byName = nullptr;
    for (const auto& run : all) {
        if (run.id == prefix) return run;
        if (run.name == idOrName) byName = &run;
        if (!prefix.empty() && run.id.rfind(prefix, 0) == 0) byPrefix.push_back(&run);
    }
    if (byName != nullptr) return *byName;
    if (byPrefix.size() == 1) return *byPrefix[0];
    if (byPrefix.size() > 1)
        throw Error(ErrorCode::InvalidConfig, fmt::format("\"{}\" is the beginning of {} runs: {}, {} …", idOrName,
                                                          byPrefix.size(), byPrefix[0]->id, byPrefix[1]->id));
    throw Error(ErrorCode::InvalidConfig,
                fmt::format("there is no run \"{}\" in {}", idOrName.substr(0, 60), impl_->path));
}

RunDocument RunStore::document(const std::string& id) {
    RunDocument document;
    Statement& query =
        impl_->database->cached("SELECT spec, catalogue, precision, details FROM document WHERE run = ?");
    if (query.bind(impl_->readId(id)).step()) {
        document.specJson = query.text(0);
        const Json catalogue = Json::parse(query.text(1), nullptr, false),
                   precision = Json::parse(query.text(2), nullptr, false);
        const Json details = Json::parse(query.text(3), nullptr, false);
        query.reset();
        try {
            for (const auto& row : catalogue)
                document.catalogue.push_back({row.at(0), row.at(1),
                                              static_cast<engine::TensorRole>(row.at(2).get<int>()), row.at(3),
                                              row.at(4), row.at(5), row.at(6)});
            for (const auto& row : precision)
                document.precision.push_back({row.at(0), row.at(1), row.at(2), row.at(3), row.at(4), row.at(5),
                                              row.at(6), row.at(7), row.at(8)});
            document.determinismClass = details.value("class", "");
            document.isa = details.value("isa", "");
            document.threads = details.value("threads", 0);
            document.parameters = details.value("parameters", int64_t{0});
            document.planNote = details.value("plan_note", "");
            document.dataDescription = details.value("data", "");
            document.flopsPerToken = details.value("flops_per_token", 0.0);
            document.notBitIdenticalFrom = details.value("not_bit_identical_from", 0);
            if (details.contains("entropy_floor")) document.entropyFloor = details["entropy_floor"].get<double>();
            if (details.contains("corpus"))
                document.corpus = {details["corpus"].at("tokens").get<int64_t>(),
                                   std::strtoull(details["corpus"].at("hash").get<std::string>().c_str(), nullptr, 16)};
            document.trouble = details.value("trouble", "");
            if (details.contains("specs"))
                for (const auto& row : details["specs"]) document.specs.emplace_back(row.at(0), row.at(1));
            if (document.specs.empty()) document.specs.emplace_back(1, document.specJson);
            if (details.contains("plan"))
                for (const auto& [key, value] : details["plan"].items())
                    document.planBytes[key] = value.get<uint64_t>();
        } catch (const Json::exception&) {
            throw Error(ErrorCode::Database, fmt::format("{}: the description of run {} is damaged", impl_->path, id));
        }
    }
    query.reset();
    return document;
}

std::vector<RunEvent> RunStore::events(const std::string& id, int64_t afterEventId) {
    Statement& query = impl_->database->cached(
        "SELECT id, step, time_ms, kind, text, alert, severity, layer, tensor, tensor_index FROM event WHERE run = ? "
        "AND id > ? ORDER BY id");
    query.bind(impl_->readId(id)).bind(afterEventId);
    std::vector<RunEvent> list;
    while (query.step())
        list.push_back({query.integer(0), query.integer(1), query.integer(2), query.text(3), query.text(4),
                        query.text(5), static_cast<int>(query.integer(6)), query.text(7), query.text(8),
                        static_cast<int>(query.integer(9))});
    query.reset();
    return list;
}

std::vector<RunEvent> RunStore::alerts(const std::string& id) {
    std::vector<RunEvent> list = events(id);
    list.erase(std::remove_if(list.begin(), list.end(), [](const RunEvent& event) { return event.kind != "alert"; }),
               list.end());
    return list;
}

namespace {

/// Checkpoints of a run's folder that the table does not know, by age. A folder bears its final name only once it is
/// whole.
void addUnlisted(const std::string& folder, std::vector<CheckpointRow>& list) {
    std::vector<CheckpointRow> found;
    std::error_code code;
    for (const auto& entry : fs::directory_iterator(folder, code)) {
        const std::string name = entry.path().filename().string(), head = "step-";
        const bool named = name.size() >= head.size() + 8 && name.size() <= head.size() + 10 &&
                           name.rfind(head, 0) == 0 &&
                           std::all_of(name.begin() + 5, name.end(), [](char c) { return c >= '0' && c <= '9'; });
        const bool known = std::any_of(list.begin(), list.end(),
                                       [&](const CheckpointRow& row) { return fs::path(row.path).filename() == name; });
        if (!named || known || !entry.is_directory(code)) continue;
        CheckpointRow row{std::stoll(name.substr(head.size())), 0, entry.path().string(), 0, true};
        struct stat info {};
        if (::stat(row.path.c_str(), &info) == 0)
            row.timeMs = int64_t{info.st_mtim.tv_sec} * 1000 + info.st_mtim.tv_nsec / 1'000'000;
        for (const auto& file : fs::directory_iterator(row.path, code))
            if (file.is_regular_file(code)) row.bytes += file.file_size(code);
        found.push_back(std::move(row));
    }
    std::sort(found.begin(), found.end(),
              [](const auto& a, const auto& b) { return std::pair(a.timeMs, a.step) < std::pair(b.timeMs, b.step); });
    list.insert(list.end(), found.begin(), found.end());
}

}  // namespace

std::vector<CheckpointRow> RunStore::checkpoints(const std::string& id) {
    Statement& query =
        impl_->database->cached("SELECT step, time_ms, path, bytes, on_disk FROM checkpoint WHERE run = ? ORDER BY id");
    query.bind(impl_->readId(id));
    std::vector<CheckpointRow> list;
    while (query.step()) {
        // Paths inside the store's folder are stored relative, so that the pair can be moved together.
        const std::string stored = query.text(2);
        const std::string path =
            fs::path(stored).is_absolute() ? stored : fs::absolute(folder()).string() + "/" + stored;
        list.push_back({query.integer(0), query.integer(1), path, static_cast<uint64_t>(query.integer(3)),
                        query.integer(4) != 0 && fs::exists(path)});
    }
    query.reset();
    addUnlisted(fs::absolute(folder()).string() + "/" + id, list);
    return list;
}

// Edits
// -----------------------------------------------------------------------------------------------------------------

namespace {
void change(Database& database, const char* sql, const std::string& value, int64_t row) {
    Transaction transaction(database);
    database.cached(sql).bind(value).bind(row).run();
    if (database.changes() == 0) throw Error(ErrorCode::Database, database.path() + ": the run was deleted meanwhile");
    transaction.commit();
}
}  // namespace

void RunStore::rename(const std::string& id, const std::string& name) {
    if (name.empty()) throw Error(ErrorCode::InvalidConfig, "a run needs a name");
    change(*impl_->database, "UPDATE run SET name = ? WHERE id = ? AND hidden = 0", name, impl_->rowId(id));
}

void RunStore::setNote(const std::string& id, const std::string& note) {
    change(*impl_->database, "UPDATE run SET note = ? WHERE id = ? AND hidden = 0", note, impl_->rowId(id));
}

void RunStore::setTags(const std::string& id, const std::vector<std::string>& tags) {
    change(*impl_->database, "UPDATE run SET tags = ? WHERE id = ? AND hidden = 0",
           Json(tags).dump(-1, ' ', false, Json::error_handler_t::replace), impl_->rowId(id));
}

void RunStore::setBaseline(const std::string& id) {
    if (!id.empty()) impl_->rowId(id);
    Transaction transaction(*impl_->database);
    impl_->database
        ->cached(
            "INSERT INTO setting(key, value) VALUES ('baseline', ?) ON CONFLICT(key) DO UPDATE SET value = "
            "excluded.value")
        .bind(id)
        .run();
    transaction.commit();
}

void RunStore::deleteRun(const std::string& id) {
    Database& database = *impl_->database;
    const int64_t row = impl_->rowId(id);
    if (FileLock::isHeld(impl_->lockPath(id)))
        throw Error(ErrorCode::Database, fmt::format("run {} is going and cannot be deleted; stop it first",
                                                     run(id).value_or(RunSummary{}).name));
    {
        Transaction transaction(database);
        database.cached("UPDATE run SET hidden = 1 WHERE id = ?").bind(row).run();
        transaction.commit();
    }
    // Large tables go in pieces, so that no other writer waits long; what a crash leaves is hidden and goes with store
    // compact.
    for (const char* sql : {"DELETE FROM chunk WHERE id IN (SELECT id FROM chunk WHERE run = ? LIMIT 2000)",
                            "DELETE FROM step_blob WHERE id IN (SELECT id FROM step_blob WHERE run = ? LIMIT 2000)"})
        for (bool more = true; more;) {
            Transaction transaction(database);
            database.cached(sql).bind(row).run();
            more = database.changes() > 0;
            transaction.commit();
        }
    Transaction transaction(database);
    database.cached("DELETE FROM run WHERE id = ?").bind(row).run();
    transaction.commit();
    impl_->rows.erase(id);
    std::error_code code;
    fs::remove_all(folder() + "/" + id, code);
    fs::remove(impl_->lockPath(id), code);
}

void RunStore::sendCommand(const std::string& id, const std::string& command, const std::string& argument) {
    const int64_t row = impl_->rowId(id);
    Transaction transaction(*impl_->database);
    impl_->database->cached("INSERT INTO command(run, command, argument, created_ms) VALUES (?, ?, ?, ?)")
        .bind(row)
        .bind(command)
        .bind(argument)
        .bind(nowMs())
        .run();
    transaction.commit();
}

}  // namespace mantissa::experiments
