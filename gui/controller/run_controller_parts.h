// What RunController keeps behind its header: connections and the jobs of this process. For its own files alone.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <utility>

#include "experiments/job/run_queue.h"
#include "gui/controller/run_controller.h"

namespace mantissa::gui {

inline QString sentence(const std::exception& exception) {
    return QString::fromStdString(exception.what());
}

/// Each store belongs to the thread named like it; problem: why it could not be opened.
struct RunController::Connections {
    using RunStore = experiments::RunStore;
    std::unique_ptr<RunStore> reader, poller, writer;
    QString readerProblem, writerProblem;
    experiments::RunQueue queue;  // writer's thread
    int64_t version = -1;         // poller's thread from here on
    std::chrono::steady_clock::time_point lastList{}, lastFile{};
    std::string path;                                        // of the open store
    std::optional<std::pair<uint64_t, uint64_t>> file, log;  // device and inode of the file that was opened, of its WAL
    int gone = 0, other = 0;  // looks in a row that found no file, another file, at the path
};

struct RunController::Job {
    std::shared_ptr<experiments::TrainingJob> job;
    QString id, phase;
    bool ended = false, checkpointAsked = false, stepped = false;
    std::deque<double> stepMs;  // the last kStepTimes
};

}  // namespace mantissa::gui
