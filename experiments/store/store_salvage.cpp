// store salvage: copies what can be read of a damaged file into a new one.
#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "experiments/store/run_store.h"
#include "experiments/store/series_chunk.h"
#include "experiments/store/step_record.h"
#include "experiments/store/store_open.h"
#include "experiments/store/ulid.h"
#include "kernels/error.h"

namespace mantissa::experiments {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMaxProblems = 50;

struct Table {
    std::string name, holds, order;  ///< holds: what a person would miss
    std::string columns;
    std::vector<int> keys;  ///< columns of the primary key
    int count = 0;
};

/// The tables of this version's schema, parents first.
std::vector<Table> tablesOf(Database& database) {
    std::vector<Table> tables;
    static constexpr std::array<std::pair<const char*, const char*>, 12> kTables{
        {{"run", "the list of runs"},
         {"document", "specs and tensor names"},
         {"segment", "where a run was resumed"},
         {"metric_summary", "last and best values"},
         {"step_blob", "metrics of single steps"},
         {"chunk", "packed series"},
         {"chunk_range", "which steps are packed"},
         {"exponents", "histograms"},
         {"evaluation", "validation losses"},
         {"event", "events and alerts"},
         {"checkpoint", "the list of checkpoints"},
         {"setting", "settings"}}};
    for (const auto& [name, holds] : kTables) {
        Table table{name, holds, "", "", {}, 0};
        Statement info = database.prepare(fmt::format("PRAGMA table_info({})", name));
        std::string keys;
        while (info.step()) {
            table.columns += (table.columns.empty() ? "" : ", ") + info.text(1);
            if (info.integer(5) > 0) {
                keys += (keys.empty() ? "" : ", ") + info.text(1);
                table.keys.push_back(table.count);
            }
            ++table.count;
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

    /// A table with row ids: what cannot be read is jumped over, in steps that double; then the rows that a step jumped
    /// too far over are read from behind. Row ids ascend: one that does not comes from a page that a damaged pointer
    /// leads back to, and following it would never end. So every query begins after the row before it.
    void byRowId() {
        const std::string select = fmt::format("SELECT rowid, {} FROM {} NOT INDEXED WHERE rowid > ? ORDER BY rowid",
                                               table_.columns, table_.name);
        int64_t last = 0, jump = 1, gap = 0;  // gap: first id that could not be read, 0 for none
        for (int code = SQLITE_ROW; code != SQLITE_DONE && !cancelled_ && last < kEnd;) {
            int64_t resumed = 0;
            code = rows(select, last, 1, [&](sqlite3_stmt* row) {
                const int64_t id = sqlite3_column_int64(row, 0);
                if (id <= last) return Row::Astray;
                if (id - last > kMostIdsApart) return Row::Damaged;
                if (gap > 0) resumed = id;
                if (gap == 0) last = id;
                return gap > 0 ? Row::Astray : Row::Good;
            });
            if (resumed > 0) {  // readable again: first what was jumped too far over
                closeGap(gap, resumed);
                last = resumed - 1, jump = 1, gap = 0, code = SQLITE_ROW;
                continue;
            }
            if (code == SQLITE_DONE || cancelled_) break;
            if (gap == 0) gap = last + 1;
            last += jump;
            jump *= 2;
        }
        if (gap > 0 && !cancelled_) closeGap(gap, kEnd);
    }

    /// A table without row ids: every run from both ends, so that damage stays with its run.
    void byRun(int64_t run) {
        const std::string select =
            fmt::format("SELECT {} FROM {} WHERE run = ? ORDER BY ", table_.columns, table_.name);
        if (rows(select + table_.order, run, 0, inOrder(1)) == SQLITE_DONE || cancelled_) return;
        rows(select + descending(table_.order), run, 0, inOrder(-1));
        problem(fmt::format("rows of run {} cannot be read", run));
    }

    /// A small table, whole.
    void whole() {
        if (rows(fmt::format("SELECT {} FROM {} WHERE 0 = ? ORDER BY {}", table_.columns, table_.name, table_.order), 0,
                 0, inOrder(1)) != SQLITE_DONE)
            problem("not everything could be read");
    }

  private:
    enum class Row { Good, Damaged, Astray };  ///< Damaged: left out. Astray: the page is not one that follows

    static constexpr int64_t kEnd = int64_t{1} << 52;  ///< no id of a run store comes near
    /// Deleted runs leave ids unused, but never so many; an id further away is a damaged one.
    static constexpr int64_t kMostIdsApart = int64_t{1} << 40;

    /// For a query that is ordered by the table's key: each key after the one before (direction 1) or before it (-1).
    std::function<Row(sqlite3_stmt*)> inOrder(int direction) {
        return [this, direction, before = std::vector<std::string>()](sqlite3_stmt* row) mutable {
            std::vector<std::string> key;
            for (const int column : table_.keys) key.push_back(sortable(row, column));
            const bool astray = !before.empty() && (direction > 0 ? !(before < key) : !(key < before));
            before = std::move(key);
            return astray ? Row::Astray : Row::Good;
        };
    }

    /// Eight bytes that sort as the integer, or the text itself: the keys of the schema are one or the other.
    static std::string sortable(sqlite3_stmt* row, int column) {
        if (sqlite3_column_type(row, column) != SQLITE_INTEGER) {
            const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(row, column));
            return text == nullptr ? std::string() : text;
        }
        const uint64_t value = static_cast<uint64_t>(sqlite3_column_int64(row, column)) ^ (uint64_t{1} << 63);
        std::string bytes;
        for (int shift = 56; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
        return bytes;
    }

    /// Rows gap … end - 1, from behind, as far as they can be read; the rest is told.
    void closeGap(int64_t gap, int64_t end) {
        int64_t next = end;
        const int code = rows(fmt::format("SELECT rowid, {} FROM {} NOT INDEXED WHERE rowid < ? AND rowid >= {} "
                                          "ORDER BY rowid DESC",
                                          table_.columns, table_.name, gap),
                              end, 1, [&](sqlite3_stmt* row) {
                                  const int64_t id = sqlite3_column_int64(row, 0);
                                  if (id >= next) return Row::Astray;
                                  next = id;
                                  return Row::Good;
                              });
        if (code == SQLITE_DONE || next <= gap || cancelled_) return;
        problem(next == kEnd      ? fmt::format("rows from {} on cannot be read", gap)
                : next == gap + 1 ? fmt::format("row {} cannot be read", gap)
                                  : fmt::format("rows {} to {} cannot be read", gap, next - 1));
    }

    /// Copies the rows of a query with one parameter until its end, the first page that cannot be read or the first row
    /// that is astray; returns SQLite's code. first: column of the row that is the table's first one.
    template <class Judge>
    int rows(const std::string& select, int64_t parameter, int first, Judge judge) {
        sqlite3_stmt* read = nullptr;
        int code = sqlite3_prepare_v2(source_, select.c_str(), -1, &read, nullptr);
        if (code == SQLITE_OK) code = sqlite3_bind_int64(read, 1, parameter);
        while (code == SQLITE_OK || code == SQLITE_ROW) {
            code = sqlite3_step(read);
            if (code != SQLITE_ROW) break;
            const Row row = judge(read);
            if (row == Row::Astray) code = SQLITE_CORRUPT;
            if (row == Row::Damaged) ++report_.lostRows;
            if (row == Row::Good) copy(read, first);
            if (!goOn_()) cancelled_ = true, code = SQLITE_INTERRUPT;
        }
        if (code == SQLITE_INTERRUPT && !goOn_()) cancelled_ = true;
        sqlite3_finalize(read);
        return code;
    }
    void copy(sqlite3_stmt* read, int first) {
        for (int i = 0; i < table_.count; ++i) sqlite3_bind_value(write_, i + 1, sqlite3_column_value(read, first + i));
        // A row that breaks a constraint of the schema is damaged and stays behind.
        if (sqlite3_step(write_) != SQLITE_DONE)
            ++report_.lostRows;
        else
            report_.rows += sqlite3_changes(target_);
        sqlite3_reset(write_);
    }
    void problem(const std::string& text) {
        if (report_.problems.size() < kMaxProblems)
            report_.problems.push_back(fmt::format("table {} ({}): {}", table_.name, table_.holds, text));
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

/// Takes out what a page that could be read holds in vain: metrics and blocks that cannot be decoded. What store check
/// would find in the new file is told here and is not in it.
void dropUnreadable(Database& target, SalvageReport& report) {
    std::vector<int64_t> steps, chunks;
    const auto note = [&report](const std::string& text) {
        if (report.problems.size() < kMaxProblems) report.problems.push_back(text);
    };
    Statement blobs =
        target.prepare("SELECT b.id, run.name, b.step, b.data FROM step_blob b JOIN run ON run.id = b.run");
    while (blobs.step()) {
        if (decodeStep(blobs.blob(3), blobs.integer(2))) continue;
        steps.push_back(blobs.integer(0));
        note(fmt::format("run {}: the metrics of step {} cannot be read", blobs.text(1), blobs.integer(2)));
    }
    Statement blocks = target.prepare(
        "SELECT c.id, run.name, c.series, c.start, c.n, c.steps, c.data FROM chunk c JOIN run ON run.id = c.run");
    while (blocks.step()) {
        std::vector<int64_t> at;
        std::vector<double> values;
        if (decodeChunk(blocks.integer(2), blocks.integer(3), blocks.integer(4), blocks.blob(5), blocks.blob(6), at,
                        values))
            continue;
        chunks.push_back(blocks.integer(0));
        note(fmt::format("run {}: a block of series {} from step {} cannot be read", blocks.text(1), blocks.integer(2),
                         blocks.integer(3)));
    }
    for (const int64_t id : steps) target.prepare("DELETE FROM step_blob WHERE id = ?").bind(id).run();
    for (const int64_t id : chunks) target.prepare("DELETE FROM chunk WHERE id = ?").bind(id).run();
    report.lostRows += static_cast<int64_t>(steps.size() + chunks.size());
}

/// Asks the caller whether to go on: by row, and while SQLite looks for one.
struct Watch {
    const std::function<bool(int64_t, int64_t)>& progress;
    int64_t done = 0;
    bool cancelled = false;
    bool ask() {
        cancelled = cancelled || (progress && !progress(done, 0));
        return !cancelled;
    }
    static int onProgress(void* self) { return static_cast<Watch*>(self)->ask() ? 0 : 1; }
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
        Watch watch{progress};
        sqlite3_progress_handler(reading.handle(), 10'000, Watch::onProgress, &watch);
        const std::function<bool()> goOn = [&watch] {
            return !watch.cancelled && (++watch.done % 1000 != 0 || watch.ask());
        };
        for (const Table& table : tables)
            if (!watch.cancelled) rescueTable(reading.handle(), writing, table, report, goOn);
        int64_t orphans = 0;
        for (const Table& table : tables)
            if (table.name != "run" && table.name != "setting") {
                writing.exec(fmt::format("DELETE FROM {} WHERE run NOT IN (SELECT id FROM run)", table.name));
                report.lostRows += writing.changes();
                orphans += writing.changes();
            }
        dropUnreadable(writing, report);
        if (orphans > 0)
            report.problems.push_back(
                fmt::format("{} rows belong to runs that are not in the list of runs any more", orphans));
        writing.exec("COMMIT");
        report.runs = writing.integer("SELECT count(*) FROM run");
        writing.checkpoint(0, true);
        if (watch.cancelled) report.problems.push_back("cancelled: the new file holds what was copied until then");
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
