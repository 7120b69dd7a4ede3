#include "experiments/store/store_open.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>

#include "experiments/spec/resources.h"
#include "experiments/store/run_store.h"
#include "experiments/store/ulid.h"
#include "experiments/text/output_file.h"
#include "kernels/error.h"

namespace mantissa::experiments {

namespace fs = std::filesystem;

namespace {

constexpr uint64_t kFullCheckBytes = 64ull
                                     << 20;  ///< below it every page is checked at the first opening (about 0.1 s)

[[noreturn]] void refuse(const std::string& path, const std::string& cause) {
    throw Error(ErrorCode::Database, fmt::format("{}: {}", path, cause));
}

uint32_t bigEndian(const std::array<unsigned char, 100>& header, size_t at) {
    return static_cast<uint32_t>(header[at]) << 24 | static_cast<uint32_t>(header[at + 1]) << 16 |
           static_cast<uint32_t>(header[at + 2]) << 8 | header[at + 3];
}

bool directoryWritable(const std::string& path) {
    const std::string parent = fs::path(path).parent_path().string();
    return ::access(parent.empty() ? "." : parent.c_str(), W_OK) == 0;
}

/// Small tables always, the whole file when it is small; once in the life of the process for one state of the file.
void checkPages(Database& database, const std::string& path) {
    static std::mutex mutex;
    static std::set<std::string> seen;
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return;
    const std::string key = fmt::format("{}:{}", info.st_dev, info.st_ino);
    {
        const std::lock_guard lock(mutex);
        if (seen.count(key) > 0) return;
    }
    std::vector<std::string> queries = {"PRAGMA quick_check(1)"};
    if (static_cast<uint64_t>(info.st_size) > kFullCheckBytes) {
        queries.clear();
        for (const char* table : {"run", "document", "segment", "metric_summary", "chunk_range", "event", "checkpoint",
                                  "command", "setting"})
            queries.push_back(fmt::format("PRAGMA quick_check({})", table));
    }
    std::string problem;
    try {
        for (const auto& query : queries) {
            Statement statement = database.prepare(query);
            if (statement.step() && statement.text(0) != "ok") problem = statement.text(0);
        }
    } catch (const Error&) {
        problem = "a page cannot be read";
    }
    if (const size_t line = problem.find('\n'); line != std::string::npos)
        problem = problem.substr(problem.find_first_not_of("*\n ", line), 120);
    if (!problem.empty())
        refuse(path, fmt::format("the file is damaged ({}); it was not written to; mantissa-run store salvage copies "
                                 "what can be read into a new file",
                                 problem.substr(0, 120)));
    const std::lock_guard lock(mutex);
    seen.insert(key);
}

void setPragmas(Database& database) {
    database.exec("PRAGMA foreign_keys=ON");
    database.exec("PRAGMA synchronous=NORMAL");
    database.exec("PRAGMA cache_size=-16384");
}

const std::vector<Migration>& migrations() {
    static const std::vector<Migration> steps;  // schema 1 is the first one
    return steps;
}

}  // namespace

std::unique_ptr<Database> openForReading(const std::string& path) {
    try {
        auto database = std::make_unique<Database>(path, Database::Access::ReadOnly, false);
        database->integer("SELECT count(*) FROM sqlite_master");
        return database;
    } catch (const Error&) {
        // WAL needs a place for its index; on a read-only disk with nothing in the WAL the file itself is the whole
        // truth.
        struct stat wal {};
        const bool hasWal = ::stat((path + "-wal").c_str(), &wal) == 0 && wal.st_size > 0;
        if (hasWal || directoryWritable(path)) throw;
        return std::make_unique<Database>(path, Database::Access::Immutable, false);
    }
}

std::string headerProblem(const std::string& path) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return std::string("cannot be opened: ") + std::strerror(errno);
    if (S_ISDIR(info.st_mode)) return "this is a folder, not a run store";
    if (info.st_size == 0) return "the file is empty (0 bytes), not a run store; it was not written to";
    std::ifstream file(path, std::ios::binary);
    if (!file) return std::string("cannot be read: ") + std::strerror(errno);
    std::array<unsigned char, 100> header{};
    file.read(reinterpret_cast<char*>(header.data()), header.size());
    if (file.gcount() < 100 || std::memcmp(header.data(), "SQLite format 3", 16) != 0)
        return "this is not a run store (its first bytes are not those of an SQLite file); it was not written to";
    if (const uint32_t id = bigEndian(header, 68); id != kApplicationId)
        return fmt::format(
            "this SQLite file belongs to another program (application id 0x{:08X}, a run store has 0x{:08X}); it was "
            "not written to",
            id, kApplicationId);
    uint64_t pageSize = static_cast<uint64_t>(header[16]) << 8 | header[17];
    if (pageSize == 1) pageSize = 65536;
    const uint64_t wanted = pageSize * bigEndian(header, 28);
    struct stat wal {};
    const bool hasWal = ::stat((path + "-wal").c_str(), &wal) == 0 && wal.st_size > 0;
    if (!hasWal && static_cast<uint64_t>(info.st_size) < wanted)
        return fmt::format(
            "the file is cut off: {} of {} bytes are there; it was not written to; mantissa-run store salvage copies "
            "what can be read into a new file",
            info.st_size, wanted);
    return {};
}

void createStore(const std::string& name) {
    std::string path;
    try {
        path = followLinks(name);  // a link to a store that is not there yet stays a link
    } catch (const Error& error) {
        throw Error(ErrorCode::Database, error.what());
    }
    std::error_code code;
    const fs::path parent = fs::path(path).parent_path();
    if (!parent.empty()) fs::create_directories(parent, code);
    if (code) refuse(path, "the folder cannot be made: " + code.message());
    const std::string temporary = fmt::format("{}.new-{}", path, makeUlid());
    try {
        Database database(temporary, Database::Access::ReadWrite, true);
        database.exec("PRAGMA page_size=16384");
        database.exec("PRAGMA journal_mode=DELETE");
        database.exec("BEGIN IMMEDIATE");
        database.exec(resourceText("store/schema.sql"));
        database.exec(fmt::format("PRAGMA application_id={}", kApplicationId));
        database.exec(fmt::format("PRAGMA user_version={}", RunStore::kSchema));
        database.exec("COMMIT");
        database.exec("PRAGMA journal_mode=WAL");
    } catch (const Error& error) {
        fs::remove(temporary, code);
        std::string text = error.what();
        if (const size_t at = text.find(temporary); at == 0) text = path + text.substr(temporary.size());
        throw Error(ErrorCode::Database, text);
    }
    const bool linked = ::link(temporary.c_str(), path.c_str()) == 0;
    const int cause = errno;
    bool placed = linked || cause == EEXIST;
    if (!placed)
        placed =
            ::access(path.c_str(), F_OK) != 0 && ::rename(temporary.c_str(), path.c_str()) == 0;  // no hard links there
    for (const char* suffix : {"", "-wal", "-shm", "-journal"}) fs::remove(temporary + suffix, code);
    if (!placed) refuse(path, std::string("cannot be made: ") + std::strerror(cause));
}

void migrateStore(Database& database, int from, const std::vector<Migration>& steps) {
    const std::string backup = fmt::format("{}.schema{}.bak", database.path(), from);
    std::error_code code;
    fs::remove(backup, code);
    Statement copy = database.prepare("VACUUM INTO ?1");
    copy.bind(backup).run();
    Transaction transaction(database);
    int version = static_cast<int>(database.integer("PRAGMA user_version"));
    for (const auto& step : steps)
        if (step.to == version + 1) {
            database.exec(step.sql);
            version = step.to;
        }
    database.exec(fmt::format("PRAGMA user_version={}", version));
    transaction.commit();
}

OpenedStore openStore(const std::string& path, bool wantWrite) {
    if (path.empty()) refuse("store", "no file is named");
    const bool exists = ::access(path.c_str(), F_OK) == 0;
    if (!exists && !wantWrite) refuse(path, "there is no such store");
    if (!exists) createStore(path);
    if (const std::string problem = headerProblem(path); !problem.empty()) refuse(path, problem);

    OpenedStore opened;
    opened.database = openForReading(path);
    setPragmas(*opened.database);
    opened.schema = static_cast<int>(opened.database->integer("PRAGMA user_version"));
    if (opened.schema < 1)
        refuse(path, fmt::format("schema {} is not one of a run store; it was not written to", opened.schema));
    checkPages(*opened.database, path);
    if (opened.schema > RunStore::kSchema) {
        opened.readOnlyReason = fmt::format(
            "{} was written by a newer version (schema {}, this program knows {}). It is open for reading only.",
            fs::path(path).filename().string(), opened.schema, RunStore::kSchema);
        return opened;
    }
    if (!wantWrite) {
        opened.readOnlyReason = "The store was opened for reading only.";
        return opened;
    }
    if (::access(path.c_str(), W_OK) != 0 || !directoryWritable(path)) {
        opened.readOnlyReason =
            fmt::format("{} or its folder cannot be written to. It is open for reading only.", path);
        return opened;
    }
    opened.database = std::make_unique<Database>(path, Database::Access::ReadWrite, false);
    setPragmas(*opened.database);
    std::error_code code;
    fs::create_directories(path + ".d", code);
    opened.database->setWriteLock(path + ".d/write.lock");
    if (opened.schema < RunStore::kSchema) {
        migrateStore(*opened.database, opened.schema, migrations());
        opened.schema = static_cast<int>(opened.database->integer("PRAGMA user_version"));
    }
    return opened;
}

}  // namespace mantissa::experiments
