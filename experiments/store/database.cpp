#include "experiments/store/database.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "kernels/error.h"

namespace mantissa::experiments {

namespace {

constexpr int kBusyMs = 10'000;
constexpr int kCheckpointPages = 256;  ///< 4 MiB at 16 KiB a page
thread_local int lastCode = 0;

/// ": " and what the system said, with the limit's name where a limit of the user was met; "" when it said nothing.
/// SQLite does not keep the cause of every failed write, so a limit on the size of files is named where there is one.
std::string systemText(int error, int code) {
    rlimit size{};
    const bool limited = ::getrlimit(RLIMIT_FSIZE, &size) == 0 && size.rlim_cur != RLIM_INFINITY;
    if (code == SQLITE_IOERR && limited && (error == 0 || error == EFBIG))
        return fmt::format(": no file may grow beyond {} bytes here (ulimit -f)", size.rlim_cur);
    if (error == EMFILE) return ": too many files are open (ulimit -n)";
    if (error == EDQUOT) return ": the disk quota is used up";
    return error == 0 ? std::string() : std::string(": ") + std::strerror(error);
}

[[noreturn]] void fail(sqlite3* db, const std::string& file, int code, const std::string& doing) {
    lastCode = code & 0xFF;
    const char* cause = db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(code);
    // SQLite's own words say neither which limit nor why.
    const bool system = lastCode == SQLITE_IOERR || lastCode == SQLITE_CANTOPEN;
    const std::string more = system && db != nullptr ? systemText(sqlite3_system_errno(db), lastCode) : "";
    const std::string both = cause + more;
    cause = both.c_str();
    if (lastCode == SQLITE_FULL) cause = "the disk is full";
    if (lastCode == SQLITE_CORRUPT) cause = "the file is damaged (mantissa-run store salvage rescues what can be read)";
    if (lastCode == SQLITE_NOTADB) cause = "this is not a run store";
    if (lastCode == SQLITE_BUSY || lastCode == SQLITE_LOCKED)
        cause = "another program holds the store for longer than 10 s";
    throw Error(ErrorCode::Database, fmt::format("{}: {}: {}", file, doing, cause));
}

}  // namespace

int lastDatabaseCode() {
    return lastCode;
}

// File lock
// -------------------------------------------------------------------------------------------------------------

FileLock& FileLock::operator=(FileLock&& other) noexcept {
    if (this != &other) {
        release();
        fd_ = other.fd_;
        other.fd_ = -1;
    }
    return *this;
}

bool FileLock::acquire(const std::string& path, int waitMs) {
    release();
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    problem_ = fd < 0 ? errno : 0;
    if (fd < 0) return false;
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(waitMs);
    auto pause = std::chrono::microseconds(50);
    while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (std::chrono::steady_clock::now() >= end) {
            ::close(fd);
            return false;
        }
        std::this_thread::sleep_for(pause);
        pause = std::min(pause * 2, std::chrono::microseconds(5000));
    }
    fd_ = fd;
    return true;
}

void FileLock::write(const std::string& text) {
    if (fd_ < 0) return;
    if (::ftruncate(fd_, 0) != 0) return;
    // The content only helps people; the lock itself is what counts, so a short write is no error.
    [[maybe_unused]] const ssize_t written = ::pwrite(fd_, text.data(), text.size(), 0);
}

void FileLock::release() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
}

bool FileLock::isHeld(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    const bool held = ::flock(fd, LOCK_SH | LOCK_NB) != 0;
    ::close(fd);
    return held;
}

// Statement
// -------------------------------------------------------------------------------------------------------------

Statement::Statement(sqlite3* db, const std::string& file, std::string_view sql) : db_(db), file_(file) {
    const int code = sqlite3_prepare_v2(db, sql.data(), static_cast<int>(sql.size()), &statement_, nullptr);
    if (code != SQLITE_OK) fail(db, file, code, "reading");
}

Statement::Statement(Statement&& other) noexcept
    : db_(other.db_), statement_(other.statement_), file_(other.file_), bound_(other.bound_) {
    other.statement_ = nullptr;
}

Statement::~Statement() {
    sqlite3_finalize(statement_);
}

Statement& Statement::bind(int64_t value) {
    sqlite3_bind_int64(statement_, ++bound_, value);
    return *this;
}

Statement& Statement::bind(double value) {
    if (std::isnan(value)) return bindNull();
    sqlite3_bind_double(statement_, ++bound_, value);
    return *this;
}

Statement& Statement::bind(const std::string& value) {
    sqlite3_bind_text(statement_, ++bound_, value.data(), static_cast<int>(value.size()), SQLITE_TRANSIENT);
    return *this;
}

Statement& Statement::bind(const std::vector<uint8_t>& value) {
    // A null pointer would bind NULL; an empty blob is a value.
    static const uint8_t nothing = 0;
    sqlite3_bind_blob64(statement_, ++bound_, value.empty() ? &nothing : value.data(), value.size(), SQLITE_STATIC);
    return *this;
}

Statement& Statement::bindNull() {
    sqlite3_bind_null(statement_, ++bound_);
    return *this;
}

bool Statement::step() {
    const int code = sqlite3_step(statement_);
    if (code == SQLITE_ROW) return true;
    if (code == SQLITE_DONE) return false;
    sqlite3_reset(statement_);
    fail(db_, file_, code, sqlite3_stmt_readonly(statement_) ? "reading" : "writing");
}

void Statement::run() {
    while (step()) {
    }
    reset();
}

void Statement::reset() {
    sqlite3_reset(statement_);
    sqlite3_clear_bindings(statement_);
    bound_ = 0;
}

int64_t Statement::integer(int column) const {
    return sqlite3_column_int64(statement_, column);
}

double Statement::real(int column) const {
    return isNull(column) ? std::nan("") : sqlite3_column_double(statement_, column);
}

std::string Statement::text(int column) const {
    const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return data == nullptr ? std::string()
                           : std::string(data, static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
}

BlobView Statement::blob(int column) const {
    const auto* data = static_cast<const uint8_t*>(sqlite3_column_blob(statement_, column));
    return {data, static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
}

bool Statement::isNull(int column) const {
    return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

// Database
// --------------------------------------------------------------------------------------------------------------

Database::Database(const std::string& path, Access access, bool create) : path_(path), access_(access) {
    std::string uri = "file:";
    for (const unsigned char c : path)
        uri += std::isalnum(c) || c == '/' || c == '.' || c == '-' || c == '_' ? std::string(1, c)
                                                                               : fmt::format("%{:02X}", c);
    if (access == Access::Immutable) uri += "?immutable=1";
    const int flags = SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX |
                      (access == Access::ReadWrite ? SQLITE_OPEN_READWRITE | (create ? SQLITE_OPEN_CREATE : 0)
                                                   : SQLITE_OPEN_READONLY);
    const int code = sqlite3_open_v2(uri.c_str(), &db_, flags, nullptr);
    if (code != SQLITE_OK) {
        const std::string cause =
            sqlite3_errstr(code) + (db_ != nullptr ? systemText(sqlite3_system_errno(db_), code & 0xFF) : "");
        sqlite3_close_v2(db_);
        lastCode = code & 0xFF;
        throw Error(ErrorCode::Database, fmt::format("{}: opening: {}", path, cause));
    }
    sqlite3_extended_result_codes(db_, 1);
    sqlite3_busy_timeout(db_, kBusyMs);
    sqlite3_db_config(db_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    sqlite3_wal_autocheckpoint(db_, 0);
    sqlite3_wal_hook(
        db_,
        [](void* self, sqlite3*, const char*, int pages) {
            static_cast<Database*>(self)->walPages_ = pages;
            return SQLITE_OK;
        },
        this);
}

Database::~Database() {
    cache_.clear();
    sqlite3_close_v2(db_);
}

Statement& Database::cached(const char* sql) {
    for (auto& [text, statement] : cache_)
        if (text == sql) {
            statement->reset();
            return *statement;
        }
    cache_.emplace_back(sql, std::make_unique<Statement>(db_, path_, sql));
    return *cache_.back().second;
}

void Database::exec(const std::string& sql) {
    const int code = sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr);
    if (code != SQLITE_OK) fail(db_, path_, code, "writing");
}

int64_t Database::integer(const std::string& sql) {
    Statement statement = prepare(sql);
    return statement.step() ? statement.integer(0) : 0;
}

int64_t Database::lastInsertId() const {
    return sqlite3_last_insert_rowid(db_);
}

int64_t Database::changes() const {
    return sqlite3_changes64(db_);
}

void Database::checkpoint(int pages, bool truncate) noexcept {
    if (walPages_ <= pages && !truncate) return;
    // A reader in the way only means that less is moved: PASSIVE never waits. TRUNCATE would wait, so it gets no time
    // to.
    sqlite3_busy_timeout(db_, truncate ? 0 : kBusyMs);
    int left = 0, moved = 0;
    const int code = sqlite3_wal_checkpoint_v2(
        db_, nullptr, truncate ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE, &left, &moved);
    if (code == SQLITE_OK && left == moved) walPages_ = 0;
    sqlite3_busy_timeout(db_, kBusyMs);
}

// Transactions
// ----------------------------------------------------------------------------------------------------------

Transaction::Transaction(Database& database) : database_(database) {
    if (database.readOnly())
        throw Error(ErrorCode::Database, database.path() + ": writing: the store is open for reading only");
    if (!database.writeLockPath_.empty() && !lock_.acquire(database.writeLockPath_, kBusyMs)) {
        lastCode = SQLITE_BUSY;
        if (lock_.problem() != 0)
            throw Error(ErrorCode::Database,
                        fmt::format("{}: writing: {} cannot be opened{}", database.path(), database.writeLockPath_,
                                    systemText(lock_.problem(), SQLITE_CANTOPEN)));
        throw Error(ErrorCode::Database,
                    database.path() + ": writing: another program holds the store for longer than 10 s");
    }
    database.exec("BEGIN IMMEDIATE");
    open_ = true;
}

Transaction::~Transaction() {
    if (open_) sqlite3_exec(database_.db_, "ROLLBACK", nullptr, nullptr, nullptr);
}

void Transaction::commit() {
    if (database_.beforeCommit)
        if (const int code = database_.beforeCommit(); code != 0) fail(nullptr, database_.path(), code, "writing");
    database_.exec("COMMIT");
    open_ = false;
    database_.checkpoint(kCheckpointPages, false);
}

ReadView::ReadView(Database& database) : database_(database) {
    if (sqlite3_get_autocommit(database.handle()) == 0) return;
    database.exec("BEGIN");
    open_ = true;
}

ReadView::~ReadView() {
    if (open_) sqlite3_exec(database_.handle(), "COMMIT", nullptr, nullptr, nullptr);
}

}  // namespace mantissa::experiments
