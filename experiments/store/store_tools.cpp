// store info, check, salvage, compact.
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "experiments/store/compactor.h"
#include "experiments/store/run_store.h"
#include "experiments/store/step_record.h"
#include "experiments/store/store_open.h"
#include "experiments/store/ulid.h"
#include "kernels/error.h"

namespace mantissa::experiments {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMaxProblems = 50;

uint64_t folderBytes(const std::string& folder) {
    uint64_t bytes = 0;
    std::error_code code;
    for (const auto& entry :
         fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied, code))
        if (entry.is_regular_file(code)) bytes += entry.file_size(code);
    return bytes;
}

/// Every row of a query as a problem; a failure to run it as one too.
void collect(Database& database, const std::string& query, StoreCheck& check,
             const std::function<std::string(const Statement&)>& text) {
    try {
        Statement statement = database.prepare(query);
        while (statement.step() && check.problems.size() < kMaxProblems)
            if (std::string problem = text(statement); !problem.empty()) check.problems.push_back(std::move(problem));
    } catch (const Error& error) {
        check.problems.push_back(error.what());
    }
}

void checkContent(Database& database, StoreCheck& check) {
    collect(database, "PRAGMA integrity_check(20)", check,
            [](const Statement& row) { return row.text(0) == "ok" ? std::string() : row.text(0); });
    collect(database, "PRAGMA foreign_key_check", check, [](const Statement& row) {
        return fmt::format("table {}: row {} belongs to no run", row.text(0), row.integer(1));
    });
    collect(database, "SELECT run.name, step_blob.step, data FROM step_blob JOIN run ON run.id = step_blob.run", check,
            [](const Statement& row) {
                return decodeStep(row.blob(2), row.integer(1))
                           ? std::string()
                           : fmt::format("run {}: the metrics of step {} cannot be read", row.text(0), row.integer(1));
            });
    collect(database, "SELECT run.name, series, start, n, chunk.steps, data FROM chunk JOIN run ON run.id = chunk.run",
            check, [](const Statement& row) {
                std::vector<int64_t> steps;
                std::vector<double> values;
                const bool good = decodeChunk(row.integer(1), row.integer(2), row.integer(3), row.blob(4), row.blob(5),
                                              steps, values);
                return good ? std::string()
                            : fmt::format("run {}: a block of series {} from step {} cannot be read", row.text(0),
                                          row.integer(1), row.integer(2));
            });
}

}  // namespace

StoreInfo storeInfo(const std::string& path) {
    RunStore store(path, RunStore::Mode::ReadOnly);
    StoreInfo info;
    info.path = path;
    info.schema = store.schema();
    info.runs = store.database().integer("SELECT count(*) FROM run WHERE hidden = 0");
    info.bytes = store.sizeBytes();
    info.checkpointBytes = folderBytes(store.folder());
    return info;
}

StoreCheck checkStore(const std::string& path) {
    StoreCheck check;
    if (std::string problem = headerProblem(path); !problem.empty()) {
        check.problems.push_back(path + ": " + problem);
    } else {
        try {
            Database database(path, Database::Access::ReadOnly, false);
            const int64_t schema = database.integer("PRAGMA user_version");
            if (schema > RunStore::kSchema)
                check.problems.push_back(
                    fmt::format("{} was written by a newer version (schema {}, this program knows {})", path, schema,
                                RunStore::kSchema));
            checkContent(database, check);
        } catch (const Error& error) {
            check.problems.push_back(error.what());
        }
    }
    check.ok = check.problems.empty();
    return check;
}

void compactStore(const std::string& path) {
    RunStore store(path, RunStore::Mode::ReadWrite);
    if (store.readOnly()) throw Error(ErrorCode::Database, fmt::format("{}: {}", path, store.readOnlyReason()));
    Database& database = store.database();
    {
        Transaction transaction(database);
        database.exec("DELETE FROM run WHERE hidden = 1");
        transaction.commit();
    }
    for (const auto& run : store.runs()) {
        if (isActive(run.status) || run.status == RunStatus::Queued) continue;
        Statement query = database.prepare("SELECT id FROM run WHERE ulid = ?");
        if (query.bind(run.id).step()) compactRun(database, query.integer(0));
    }
    FileLock lock;
    if (!lock.acquire(store.folder() + "/write.lock", 10'000))
        throw Error(ErrorCode::Database, path + ": another program holds the store for longer than 10 s");
    database.exec("VACUUM");
    database.checkpoint(0, true);
}

// Salvage
// ---------------------------------------------------------------------------------------------------------------

namespace {

struct Table {
    std::string name, order;
    std::string columns;
    int count = 0;
};

/// The tables of this version's schema, parents first.
std::vector<Table> tablesOf(Database& database) {
    std::vector<Table> tables;
    for (const char* name : {"run", "document", "segment", "metric_summary", "step_blob", "chunk", "chunk_range",
                             "exponents", "evaluation", "event", "checkpoint", "setting"}) {
        Table table{name, "", "", 0};
        Statement info = database.prepare(fmt::format("PRAGMA table_info({})", name));
        std::string keys;
        while (info.step()) {
            table.columns += (table.columns.empty() ? "" : ", ") + info.text(1);
            ++table.count;
            if (info.integer(5) > 0) keys += (keys.empty() ? "" : ", ") + info.text(1);
        }
        table.order = keys;
        tables.push_back(std::move(table));
    }
    return tables;
}

std::string descending(const std::string& keys) {
    std::string text;
    for (size_t at = 0; at < keys.size();) {
        const size_t comma = std::min(keys.find(", ", at), keys.size());
        text += (text.empty() ? "" : ", ") + keys.substr(at, comma - at) + " DESC";
        at = comma + 2;
    }
    return text;
}

/// Copies rows in one direction until the end or the first page that cannot be read. True: reached the end.
bool copyRows(sqlite3* source, sqlite3* target, const Table& table, bool backward, SalvageReport& report,
              const std::function<bool()>& goOn) {
    const std::string order = backward ? descending(table.order) : table.order;
    const std::string select = fmt::format("SELECT {} FROM {} ORDER BY {}", table.columns, table.name, order);
    std::string marks = "?";
    for (int i = 1; i < table.count; ++i) marks += ", ?";
    const std::string insert =
        fmt::format("INSERT OR IGNORE INTO {}({}) VALUES ({})", table.name, table.columns, marks);
    sqlite3_stmt *read = nullptr, *write = nullptr;
    int code = sqlite3_prepare_v2(source, select.c_str(), -1, &read, nullptr);
    if (code == SQLITE_OK) code = sqlite3_prepare_v2(target, insert.c_str(), -1, &write, nullptr);
    while (code == SQLITE_OK || code == SQLITE_ROW) {
        code = sqlite3_step(read);
        if (code != SQLITE_ROW) break;
        for (int i = 0; i < table.count; ++i) sqlite3_bind_value(write, i + 1, sqlite3_column_value(read, i));
        // A row that breaks a constraint of the schema is damaged and stays behind.
        if (sqlite3_step(write) != SQLITE_DONE)
            ++report.lostRows;
        else
            report.rows += sqlite3_changes(target);
        sqlite3_reset(write);
        if (!goOn()) code = SQLITE_INTERRUPT;
    }
    sqlite3_finalize(read);
    sqlite3_finalize(write);
    if (code != SQLITE_DONE && report.problems.size() < kMaxProblems)
        report.problems.push_back(fmt::format("table {}: {}", table.name, sqlite3_errstr(code)));
    return code == SQLITE_DONE;
}

/// A copy to work on, so that nothing, not even an index of the WAL, is written beside the source.
struct WorkingCopy {
    explicit WorkingCopy(const std::string& source, const std::string& target)
        : path(target + ".salvage-" + makeUlid()) {
        std::error_code code;
        fs::copy_file(source, path, code);
        if (code) throw Error(ErrorCode::Database, fmt::format("{}: cannot be copied: {}", source, code.message()));
        if (fs::exists(source + "-wal")) fs::copy_file(source + "-wal", path + "-wal", code);
    }
    ~WorkingCopy() {
        std::error_code code;
        for (const char* suffix : {"", "-wal", "-shm"}) fs::remove(path + suffix, code);
    }
    std::string path;
};

}  // namespace

SalvageReport salvageStore(const std::string& source, const std::string& target,
                           const std::function<bool(int64_t, int64_t)>& progress) {
    if (::access(source.c_str(), R_OK) != 0)
        throw Error(ErrorCode::Database, fmt::format("{}: {}", source, std::strerror(errno)));
    if (fs::exists(target))
        throw Error(ErrorCode::Database,
                    fmt::format("{}: the file exists already; salvage writes into a new one only", target));
    const WorkingCopy copy(source, target);
    SalvageReport report;
    {
        Database reading(copy.path, Database::Access::ReadWrite, false);
        Statement probe = reading.prepare("SELECT count(*) FROM sqlite_master WHERE name = 'run'");
        if (!probe.step() || probe.integer(0) == 0)
            throw Error(ErrorCode::Database, fmt::format("{}: nothing of a run store can be read", source));
        createStore(target);
        Database writing(target, Database::Access::ReadWrite, false);
        writing.exec("PRAGMA foreign_keys=OFF");
        writing.exec("BEGIN");
        const auto tables = tablesOf(writing);
        int64_t done = 0;
        bool cancelled = false;
        auto goOn = [&] {
            if (progress && ++done % 1000 == 0) cancelled = cancelled || !progress(done, 0);
            return !cancelled;
        };
        for (const Table& table : tables)
            if (!copyRows(reading.handle(), writing.handle(), table, false, report, goOn) && !cancelled)
                copyRows(reading.handle(), writing.handle(), table, true, report, goOn);
        for (const Table& table : tables)
            if (table.name != "run" && table.name != "setting") {
                writing.exec(fmt::format("DELETE FROM {} WHERE run NOT IN (SELECT id FROM run)", table.name));
                report.lostRows += writing.changes();
            }
        writing.exec("COMMIT");
        report.runs = writing.integer("SELECT count(*) FROM run");
        writing.checkpoint(0, true);
        if (cancelled) report.problems.push_back("cancelled: the new file holds what was copied until then");
    }
    return report;
}

}  // namespace mantissa::experiments
