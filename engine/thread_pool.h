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

/// Each worker has a share of the tiles, the same part of the range in every run, so that the rows which an op wrote
/// are read by the core that wrote them: where the cores have no common last-level cache, another's rows come over the
/// processor's fabric (measured on a virtual machine whose host moves it about: a small step 65 ms or 83). Tiles are
/// taken one by one from an atomic word, and who has done its share takes from the others', so a slow or busy core only
/// gets fewer of them. The caller works too, and waits only for tiles that another worker has taken. Waiters spin for a
/// short time, then sleep.
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
    /// Takes tiles of the run `generation`, first of its own share; ends when none is left or a later run has begun.
    void runTiles(uint32_t generation, int worker);
    void runShare(uint32_t generation, int owner, int worker);
    /// Of the share of `owner`; with owner = threadCount() the number of tiles.
    uint32_t firstTile(uint32_t tiles, int owner) const;
    uint32_t awaitWork(uint32_t seenGeneration);
    void awaitLastTile(uint32_t tiles);

    // Upper half: generation, one a run(). Lower half: tiles of the share not taken yet. One word, so that a worker
    // that was away for a while can never take a tile of a run that is not the one it looked at.
    struct alignas(64) Share {
        std::atomic<uint64_t> work{0};
    };
    std::vector<Share> shares_;                        ///< of each worker
    alignas(64) std::atomic<uint32_t> generation_{0};  ///< of the run whose shares are all there
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
