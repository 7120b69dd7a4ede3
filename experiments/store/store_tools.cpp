// store info, check, salvage, compact.
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>

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
    auto add = [&check](const std::string& problem) {
        const bool known = std::find(check.problems.begin(), check.problems.end(), problem) != check.problems.end();
        if (!problem.empty() && !known) check.problems.push_back(problem);
    };
    try {
        Statement statement = database.prepare(query);
        while (statement.step() && check.problems.size() < kMaxProblems) add(text(statement));
    } catch (const Error& error) {
        add(error.what());
    }
}

void checkContent(Database& database, StoreCheck& check) {
    collect(database, "PRAGMA integrity_check(20)", check, [](const Statement& row) {
        std::string text = row.text(0) == "ok" ? "" : row.text(0);
        if (const std::string head = "*** in database main ***\n"; text.rfind(head, 0) == 0) text.erase(0, head.size());
        return text.substr(0, text.find('\n'));
    });
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
            const std::unique_ptr<Database> opened = openForReading(path);
            Database& database = *opened;
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

/// Copies one table from a damaged file, row by row.
class TableRescue {
  public:
    TableRescue(sqlite3* source, sqlite3* target, const Table& table, SalvageReport& report,
                const std::function<bool()>& goOn)
        : source_(source), target_(target), table_(table), report_(report), goOn_(goOn) {
        std::string marks = "?";
        for (int i = 1; i < table.count; ++i) marks += ", ?";
        const std::string insert =
            fmt::format("INSERT OR IGNORE INTO {}({}) VALUES ({})", table.name, table.columns, marks);
        sqlite3_prepare_v2(target, insert.c_str(), -1, &write_, nullptr);
    }
    ~TableRescue() { sqlite3_finalize(write_); }
    TableRescue(const TableRescue&) = delete;
    TableRescue& operator=(const TableRescue&) = delete;

    /// A table with row ids: what cannot be read is jumped over, in steps that double.
    void byRowId() {
        constexpr int64_t kEnd = int64_t{1} << 52;
        const std::string select = fmt::format("SELECT rowid, {} FROM {} NOT INDEXED WHERE rowid > ? ORDER BY rowid",
                                               table_.columns, table_.name);
        int64_t last = 0, jump = 1, gap = 0;  // gap: first id that could not be read, 0 for none
        for (int code = SQLITE_ROW; code != SQLITE_DONE && !cancelled_ && last < kEnd;) {
            code = rows(select, last, 1, [&](sqlite3_stmt* row) {
                const int64_t id = sqlite3_column_int64(row, 0);
                if (gap > 0 && id > gap) problem(fmt::format("rows {} to {} cannot be read", gap, id - 1));
                last = id, jump = 1, gap = 0;
            });
            if (code == SQLITE_DONE || cancelled_) break;
            if (gap == 0) gap = last + 1;
            last += jump;
            jump *= 2;
        }
        if (gap > 0) problem(fmt::format("rows from {} on cannot be read", gap));
    }

    /// A table without row ids: every run from both ends, so that damage stays with its run.
    void byRun(int64_t run) {
        const std::string select =
            fmt::format("SELECT {} FROM {} WHERE run = ? ORDER BY ", table_.columns, table_.name);
        if (rows(select + table_.order, run, 0, [](sqlite3_stmt*) {}) == SQLITE_DONE || cancelled_) return;
        rows(select + descending(table_.order), run, 0, [](sqlite3_stmt*) {});
        problem(fmt::format("rows of run {} cannot be read", run));
    }

    /// A small table, whole.
    void whole() {
        if (rows(fmt::format("SELECT {} FROM {} WHERE 0 = ?", table_.columns, table_.name), 0, 0,
                 [](sqlite3_stmt*) {}) != SQLITE_DONE)
            problem("not everything could be read");
    }

  private:
    /// Copies the rows of a query with one parameter until its end or the first page that cannot be read; returns
    /// SQLite's code. first: column of the row that is the table's first one.
    template <class Seen>
    int rows(const std::string& select, int64_t parameter, int first, Seen seen) {
        sqlite3_stmt* read = nullptr;
        int code = sqlite3_prepare_v2(source_, select.c_str(), -1, &read, nullptr);
        if (code == SQLITE_OK) code = sqlite3_bind_int64(read, 1, parameter);
        while (code == SQLITE_OK || code == SQLITE_ROW) {
            code = sqlite3_step(read);
            if (code != SQLITE_ROW) break;
            seen(read);
            for (int i = 0; i < table_.count; ++i)
                sqlite3_bind_value(write_, i + 1, sqlite3_column_value(read, first + i));
            // A row that breaks a constraint of the schema is damaged and stays behind.
            if (sqlite3_step(write_) != SQLITE_DONE)
                ++report_.lostRows;
            else
                report_.rows += sqlite3_changes(target_);
            sqlite3_reset(write_);
            if (!goOn_()) cancelled_ = true, code = SQLITE_INTERRUPT;
        }
        sqlite3_finalize(read);
        return code;
    }
    void problem(const std::string& text) {
        if (report_.problems.size() < kMaxProblems)
            report_.problems.push_back(fmt::format("table {}: {}", table_.name, text));
    }

    sqlite3 *source_, *target_;
    const Table& table_;
    SalvageReport& report_;
    const std::function<bool()>& goOn_;
    sqlite3_stmt* write_ = nullptr;
    bool cancelled_ = false;
};

void rescueTable(sqlite3* source, Database& target, const Table& table, SalvageReport& report,
                 const std::function<bool()>& goOn) {
    sqlite3_stmt* probe = nullptr;
    const bool hasRowId = sqlite3_prepare_v2(target.handle(), fmt::format("SELECT rowid FROM {}", table.name).c_str(),
                                             -1, &probe, nullptr) == SQLITE_OK;
    sqlite3_finalize(probe);
    TableRescue rescue(source, target.handle(), table, report, goOn);
    if (table.name == "setting") return rescue.whole();
    if (hasRowId) return rescue.byRowId();
    Statement runs = target.prepare("SELECT id FROM run ORDER BY id");
    while (runs.step()) rescue.byRun(runs.integer(0));
}

/// A copy to work on, so that nothing, not even an index of the WAL, is written beside the source.
struct WorkingCopy {
    explicit WorkingCopy(const std::string& source, const std::string& target)
        : path(target + ".salvage-" + makeUlid()) {
        std::error_code code;
        fs::copy_file(source, path, code);
        if (code) {
            std::error_code ignored;
            fs::remove(path, ignored);
            throw Error(ErrorCode::Database, fmt::format("{}: cannot be copied: {}", source, code.message()));
        }
        fillUp();
        if (fs::exists(source + "-wal")) fs::copy_file(source + "-wal", path + "-wal", code);
    }
    ~WorkingCopy() {
        std::error_code code;
        for (const char* suffix : {"", "-wal", "-shm"}) fs::remove(path + suffix, code);
    }
    std::string path;

  private:
    /// SQLite opens no file that is shorter than its header says: the pages that were cut off become empty ones (a hole
    /// in the file), which then count as damaged one by one.
    void fillUp() const {
        std::array<unsigned char, 32> header{};
        std::ifstream file(path, std::ios::binary);
        if (!file.read(reinterpret_cast<char*>(header.data()), header.size())) return;
        uint64_t page = static_cast<uint64_t>(header[16]) << 8 | header[17];
        if (page == 1) page = 65536;
        uint64_t pages = 0;
        for (size_t i = 28; i < 32; ++i) pages = pages << 8 | header[i];
        std::error_code code;
        if (fs::file_size(path, code) < page * pages && !code) fs::resize_file(path, page * pages, code);
    }
};

}  // namespace

SalvageReport salvageStore(const std::string& source, const std::string& target,
                           const std::function<bool(int64_t, int64_t)>& progress) {
    if (::access(source.c_str(), R_OK) != 0)
        throw Error(ErrorCode::Database, fmt::format("{}: {}", source, std::strerror(errno)));
    if (fs::exists(fs::symlink_status(target)))  // also a link that leads nowhere
        throw Error(ErrorCode::Database,
                    fmt::format("{}: the file exists already; salvage writes into a new one only", target));
    const WorkingCopy copy(source, target);
    SalvageReport report;
    try {
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
            if (!cancelled) rescueTable(reading.handle(), writing, table, report, goOn);
        for (const Table& table : tables)
            if (table.name != "run" && table.name != "setting") {
                writing.exec(fmt::format("DELETE FROM {} WHERE run NOT IN (SELECT id FROM run)", table.name));
                report.lostRows += writing.changes();
            }
        writing.exec("COMMIT");
        report.runs = writing.integer("SELECT count(*) FROM run");
        writing.checkpoint(0, true);
        if (cancelled) report.problems.push_back("cancelled: the new file holds what was copied until then");
    } catch (const Error& error) {
        // The sentence is about the file that is known, not about the copy, and not the advice to do what was just
        // done.
        const std::string text = error.what();
        if (text.find(copy.path) == std::string::npos) throw;
        throw Error(ErrorCode::Database, fmt::format("{}: nothing of a run store can be read", source));
    }
    return report;
}

}  // namespace mantissa::experiments
