// SQLite through its C API: connection, statement, transaction, file lock. Every failure is an Error Database naming
// the file.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

struct sqlite3;
struct sqlite3_stmt;

namespace mantissa::experiments {

/// An advisory lock on a file (flock): freed by the kernel when the process ends. Movable.
class FileLock {
  public:
    FileLock() = default;
    ~FileLock() { release(); }
    FileLock(FileLock&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
    FileLock& operator=(FileLock&& other) noexcept;
    /// Exclusive; makes the file when missing. Waits at most `waitMs`. False: somebody else has it, or the file cannot
    /// be opened: see problem().
    bool acquire(const std::string& path, int waitMs);
    /// errno of the last acquire() whose file could not be opened; 0 when it could.
    int problem() const { return problem_; }
    /// Replaces the file's content; for people and for finding out who holds it.
    void write(const std::string& text);
    void release();
    bool held() const { return fd_ >= 0; }
    /// True when another open file has the exclusive lock; false also when there is no such file. Needs no write
    /// permission.
    static bool isHeld(const std::string& path);

  private:
    int fd_ = -1, problem_ = 0;
};

/// A blob of a row; valid until the statement moves on.
struct BlobView {
    const uint8_t* data = nullptr;
    size_t size = 0;
};

class Statement {
  public:
    Statement(sqlite3* db, const std::string& file, std::string_view sql);
    ~Statement();
    Statement(const Statement&) = delete;
    Statement& operator=(const Statement&) = delete;
    Statement(Statement&& other) noexcept;

    Statement& bind(int64_t value);
    Statement& bind(int value) { return bind(static_cast<int64_t>(value)); }
    Statement& bind(uint64_t value) { return bind(static_cast<int64_t>(value)); }
    Statement& bind(double value);  ///< NaN becomes NULL
    Statement& bind(const std::string& value);
    Statement& bind(const char* value) { return bind(std::string(value)); }
    Statement& bind(const std::vector<uint8_t>& value);  ///< must outlive the step
    Statement& bindNull();

    bool step();  ///< true: a row is there. Throws Database
    void run();   ///< steps to the end and resets
    void reset();

    int64_t integer(int column) const;
    double real(int column) const;  ///< NULL is NaN
    std::string text(int column) const;
    BlobView blob(int column) const;
    bool isNull(int column) const;

  private:
    sqlite3* db_;
    sqlite3_stmt* statement_ = nullptr;
    const std::string& file_;
    int bound_ = 0;
};

/// One connection. Writers never checkpoint on their own (no auto-checkpoint): a Transaction takes the store's write
/// lock, and the checkpoint runs under the same lock, so that no commit and no checkpoint ever overlap, whoever they
/// are from.
class Database {
  public:
    enum class Access { ReadWrite, ReadOnly, Immutable };
    Database(const std::string& path, Access access, bool create);
    ~Database();
    Database(const Database&) = delete;
    Database& operator=(const Database&) = delete;

    Statement prepare(std::string_view sql) { return Statement(db_, path_, sql); }
    /// Cached by text; reset before it is handed out. Not for recursion on the same text.
    Statement& cached(const char* sql);
    void exec(const std::string& sql);
    int64_t integer(const std::string& sql);
    int64_t lastInsertId() const;
    int64_t changes() const;
    sqlite3* handle() { return db_; }
    const std::string& path() const { return path_; }
    bool readOnly() const { return access_ != Access::ReadWrite; }
    /// Path of the lock file that write transactions take; "" before the store has set it.
    void setWriteLock(const std::string& path) { writeLockPath_ = path; }
    /// Moves the WAL into the file when it has more than `pages` pages. Only under the write lock. Never throws: it can
    /// be done later.
    void checkpoint(int pages, bool truncate) noexcept;
    /// Pieces of a run (step records, packed blocks) that readers on this connection could not decode and left out,
    /// each once: (segment, series or −1 for a record of all, first step).
    using Pieces = std::set<std::tuple<int, int64_t, int64_t>>;
    Pieces& unreadable(int64_t run) { return unreadable_[run]; }
    /// Test hook: called before each commit; a non-zero return is treated as that SQLite error (e.g. SQLITE_FULL).
    std::function<int()> beforeCommit;

  private:
    friend class Transaction;
    std::string path_;
    Access access_;
    sqlite3* db_ = nullptr;
    std::vector<std::pair<const char*, std::unique_ptr<Statement>>> cache_;
    std::string writeLockPath_;
    std::map<int64_t, Pieces> unreadable_;
    int walPages_ = 0;
};

/// BEGIN IMMEDIATE under the write lock; rolls back unless committed. Waits up to 5 s for other writers, then throws
/// Database.
class Transaction {
  public:
    explicit Transaction(Database& database);
    ~Transaction();
    void commit();

  private:
    Database& database_;
    FileLock lock_;
    bool open_ = false;
};

/// A consistent view for several SELECTs (BEGIN … COMMIT of a reader). May be nested: the outer one counts.
class ReadView {
  public:
    explicit ReadView(Database& database);
    ~ReadView();

  private:
    Database& database_;
    bool open_ = false;
};

/// SQLite's result code inside an Error of the store, for "disk full" decisions; 0 when unknown.
int lastDatabaseCode();

}  // namespace mantissa::experiments
