// Opening a workspace file without ever harming one that is not ours, damaged, or newer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "experiments/store/database.h"

namespace mantissa::experiments {

constexpr uint32_t kApplicationId = 0x4D4E5453;  ///< "MNTS"

struct OpenedStore {
    std::unique_ptr<Database> database;
    int schema = 0;
    std::string readOnlyReason;  ///< "" when writable
};

/// Throws Database with one sentence (file, cause). See RunStore::RunStore.
OpenedStore openStore(const std::string& path, bool wantWrite);

/// Opens for reading; where the folder cannot be written to and nothing waits in the WAL, the file itself is read.
std::unique_ptr<Database> openForReading(const std::string& path);

/// The cause why the bytes at `path` are no usable store, "" when they look like one. Reads at most one page; opens
/// nothing with SQLite.
std::string headerProblem(const std::string& path);

/// Makes a new store atomically (a temporary file, then a hard link); one that appears meanwhile is left alone and is
/// fine.
void createStore(const std::string& path);

/// One step of the schema: SQL that turns version `to − 1` into `to`.
struct Migration {
    int to;
    std::string sql;
};
/// Applies the missing steps in one transaction after copying the file to "<path>.schema<N>.bak". Throws Database.
void migrateStore(Database& database, int from, const std::vector<Migration>& steps);

}  // namespace mantissa::experiments
