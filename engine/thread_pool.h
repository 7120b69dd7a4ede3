// The engine's one thread pool: it runs the tiles that kernels declare.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "engine/run_delay.h"
#include "kernels/executor.h"

namespace mantissa::engine {

/// Tiles are handed out one by one from an atomic word, so a slow or busy core only gets fewer of them. The caller
/// works too, and waits only for tiles that another worker has taken. Waiters spin for a short time, then sleep.
/// Threads: run() and stepBoundary() from one thread at a time; never from inside a tile.
class ThreadPool final : public kernels::Executor {
  public:
    /// threads: workers, the caller included; 0: one for each processor this process may use.
    explicit ThreadPool(int threads = 0);
    ~ThreadPool() override;
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    int threadCount() const override { return static_cast<int>(workers_.size()) + 1; }
    void run(int64_t tiles, kernels::FunctionRef<void(int64_t, int)> body) override;

    /// Call once a training step. Other programs on our processors show as time in which our threads wait for one: more
    /// than a fifth of a step turns spinning off, 5 calm steps in a row turn it on again. (Measured: spinning gains
    /// 7-10 % of a small step on an idle machine, and costs 20 % beside busy loops. Counting involuntary context
    /// switches instead turned it off for a kernel's own short errands.)
    void stepBoundary();
    bool spins() const { return spinMicros_.load(std::memory_order_relaxed) > 0; }

    /// Processors this process may use (its affinity mask), at least 1.
    static int usableProcessors();

  private:
    using Body = kernels::FunctionRef<void(int64_t, int)>;

    double waitedSeconds() const;
    void workerLoop(int worker);
    void runTiles(int worker);
    uint64_t awaitWork(uint32_t seenGeneration);
    void awaitLastTile(uint32_t tiles);

    // Upper half: generation, one a run(). Lower half: tiles not taken yet. One word, so that a worker that was away
    // for a while can never take a tile of a run that is not the one it looked at.
    alignas(64) std::atomic<uint64_t> work_{0};
    std::atomic<const Body*> body_{nullptr};
    std::atomic<uint32_t> tiles_{0};
    alignas(64) std::atomic<uint32_t> done_{0};
    std::atomic<bool> failed_{false};
    std::exception_ptr failure_;
    alignas(64) std::atomic<uint32_t> bell_{0};  ///< sleeping workers wait for it to change
    std::atomic<int> spinMicros_{0};
    std::atomic<bool> closing_{false};
    bool maySpin_ = false;
    int calmSteps_ = 0;
    double waitedBefore_ = 0;
    std::chrono::steady_clock::time_point lastStep_;
    std::unique_ptr<RunDelay> callerDelay_;  ///< of the thread that calls stepBoundary()
    std::thread::id caller_;
    struct Worker {
        std::thread thread;
        std::atomic<const RunDelay*> delay{nullptr};  ///< the worker's own, while it runs
    };
    std::vector<Worker> workers_;
};

}  // namespace mantissa::engine
