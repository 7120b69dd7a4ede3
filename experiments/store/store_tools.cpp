// store info, check, compact.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>

#include "experiments/spec/run_spec.h"
#include "experiments/store/compactor.h"
#include "experiments/store/run_store.h"
#include "experiments/store/step_record.h"
#include "experiments/store/store_open.h"
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

/// What list, show and export would refuse: tables that lack a column, descriptions that are no JSON.
void checkReading(const std::string& path, StoreCheck& check) {
    const auto add = [&](const std::string& problem) {
        const bool known = std::find(check.problems.begin(), check.problems.end(), problem) != check.problems.end();
        if (!known && check.problems.size() < kMaxProblems) check.problems.push_back(problem);
    };
    const auto told = [&](const std::function<void()>& read) {
        try {
            read();
        } catch (const Error& error) {
            add(error.what());
        }
    };
    told([&] {
        RunStore store(path, RunStore::Mode::ReadOnly);
        for (const RunSummary& run : store.runs())
            told([&] {
                if (const ParsedSpec parsed = parseSpec(store.document(run.id).specJson); !parsed.ok())
                    add(fmt::format("run {}: its spec cannot be read: {}", run.name, parsed.errors.front().message));
                store.events(run.id);
                store.checkpoints(run.id);
                store.seriesNames(run.id);
            });
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
            if (schema < 1)
                check.problems.push_back(fmt::format("{}: schema {} is not one of a run store", path, schema));
            if (schema > RunStore::kSchema)
                check.problems.push_back(
                    fmt::format("{} was written by a newer version (schema {}, this program knows {})", path, schema,
                                RunStore::kSchema));
            checkContent(database, check);
            if (schema >= 1 && schema <= RunStore::kSchema) checkReading(path, check);
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
    if (!lock.acquire(store.folder() + "/write.lock", 10'000) && lock.problem() != 0)
        throw Error(ErrorCode::Database,
                    fmt::format("{}.d/write.lock cannot be opened: {}", path, std::strerror(lock.problem())));
    if (!lock.held()) throw Error(ErrorCode::Database, path + ": another program holds the store for longer than 10 s");
    database.exec("VACUUM");
    database.checkpoint(0, true);
}

}  // namespace mantissa::experiments
