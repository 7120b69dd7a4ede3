// Inside of RunStore, shared by its source files.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "experiments/store/database.h"
#include "experiments/store/run_store.h"

namespace mantissa::experiments {

struct RunStore::Impl {
    std::string path, readOnlyReason;
    std::unique_ptr<Database> database;
    int schema = 0;
    std::pair<uint64_t, uint64_t> identity;  ///< device and inode of the file that was opened
    std::map<std::string, int64_t> rows;     ///< ULID to row id

    /// Throws InvalidConfig when there is no such run.
    int64_t rowId(const std::string& id);
    /// For reading: 0, which no row has, when there is no such run, so that a run deleted meanwhile reads as empty.
    int64_t readId(const std::string& id);
    std::string lockPath(const std::string& id) const;
    /// Queued, running or paused without a process behind it is interrupted.
    void settle(RunSummary& run) const;
};

}  // namespace mantissa::experiments
