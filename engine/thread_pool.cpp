#include "engine/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <chrono>

#include "kernels/error.h"

namespace mantissa::engine {

namespace {

constexpr int kSpinMicros = 50;     // longer than the gaps between the regions of a step
constexpr double kBusyShare = 0.2;  // of a step, for which our threads waited for a processor
constexpr int kCalmSteps = 5;

void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/// Polls `ready` for `micros`; returns whether it came true.
template <class Ready>
bool spinUntil(int micros, Ready ready) {
    if (ready()) return true;
    if (micros <= 0) return false;
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(micros);
    do {
        for (int i = 0; i < 16; ++i) {
            if (ready()) return true;
            relax();
        }
    } while (std::chrono::steady_clock::now() < end);
    return ready();
}

constexpr uint32_t generationOf(uint64_t work) {
    return static_cast<uint32_t>(work >> 32);
}
constexpr uint32_t remainingOf(uint64_t work) {
    return static_cast<uint32_t>(work);
}

}  // namespace

int ThreadPool::usableProcessors() {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

ThreadPool::ThreadPool(int threads) {
    const int processors = usableProcessors();
    if (threads <= 0) threads = processors;
    maySpin_ = threads > 1 && threads <= processors;
    spinMicros_ = maySpin_ ? kSpinMicros : 0;
    lastStep_ = std::chrono::steady_clock::now();
    shares_ = std::vector<Share>(static_cast<size_t>(threads));
    workers_ = std::vector<Worker>(static_cast<size_t>(threads) - 1);
    for (int worker = 1; worker < threads; ++worker)
        workers_[static_cast<size_t>(worker) - 1].thread = std::thread([this, worker] { workerLoop(worker); });
}

ThreadPool::~ThreadPool() {
    closing_ = true;
    ++bell_;
    bell_.notify_all();
    for (Worker& worker : workers_) worker.thread.join();
}

void ThreadPool::run(int64_t tiles, Body body) {
    if (tiles <= 0) return;
    if (tiles == 1 || workers_.empty()) {
        for (int64_t tile = 0; tile < tiles; ++tile) body(tile, 0);
        return;
    }
    if (tiles > UINT32_MAX) throw Error(ErrorCode::ShapeMismatch, "thread pool: more than 2^32 - 1 tiles in one call");
    body_.store(&body, std::memory_order_relaxed);
    tiles_.store(static_cast<uint32_t>(tiles), std::memory_order_relaxed);
    done_.store(0, std::memory_order_relaxed);
    const uint32_t generation = generation_.load(std::memory_order_relaxed) + 1u;
    for (int owner = 0; owner < threadCount(); ++owner)
        shares_[static_cast<size_t>(owner)].work.store(
            static_cast<uint64_t>(generation) << 32 |
            (firstTile(static_cast<uint32_t>(tiles), owner + 1) - firstTile(static_cast<uint32_t>(tiles), owner)));
    generation_.store(generation);
    ++bell_;
    bell_.notify_all();

    runTiles(generation, 0);
    awaitLastTile(static_cast<uint32_t>(tiles));
    if (failed_.exchange(false, std::memory_order_acquire)) std::rethrow_exception(std::exchange(failure_, nullptr));
}

uint32_t ThreadPool::firstTile(uint32_t tiles, int owner) const {
    return static_cast<uint32_t>(static_cast<uint64_t>(tiles) * static_cast<uint64_t>(owner) /
                                 static_cast<uint64_t>(threadCount()));
}

void ThreadPool::runTiles(uint32_t generation, int worker) {
    for (int i = 0; i < threadCount(); ++i) runShare(generation, (worker + i) % threadCount(), worker);
}

void ThreadPool::runShare(uint32_t generation, int owner, int worker) {
    std::atomic<uint64_t>& share = shares_[static_cast<size_t>(owner)].work;
    uint64_t work = share.load(std::memory_order_acquire);
    while (generationOf(work) == generation && remainingOf(work) > 0) {
        // Read before the exchange: when it succeeds, `work` stood all the time, so these belong to its run.
        const Body* body = body_.load(std::memory_order_relaxed);
        const uint32_t tiles = tiles_.load(std::memory_order_relaxed);
        const uint32_t tile = firstTile(tiles, owner + 1) - remainingOf(work);
        if (!share.compare_exchange_weak(work, work - 1, std::memory_order_acq_rel, std::memory_order_acquire))
            continue;
        try {
            if (!failed_.load(std::memory_order_relaxed)) (*body)(tile, worker);
        } catch (...) {
            // A second failure of the same run is dropped. done_ below publishes failure_ to the caller.
            if (!failed_.exchange(true)) failure_ = std::current_exception();
        }
        if (done_.fetch_add(1) + 1 == tiles && worker != 0) done_.notify_one();
        work = share.load(std::memory_order_acquire);
    }
}

void ThreadPool::awaitLastTile(uint32_t tiles) {
    const auto finished = [&] { return done_.load(std::memory_order_acquire) == tiles; };
    if (spinUntil(spinMicros_.load(std::memory_order_relaxed), finished)) return;
    for (uint32_t done = done_.load(); done != tiles; done = done_.load()) done_.wait(done);
}

uint32_t ThreadPool::awaitWork(uint32_t seenGeneration) {
    uint32_t generation = 0;
    const auto arrived = [&] {
        generation = generation_.load(std::memory_order_acquire);
        return generation != seenGeneration || closing_.load(std::memory_order_relaxed);
    };
    while (true) {
        const uint32_t bell = bell_.load();
        if (spinUntil(spinMicros_.load(std::memory_order_relaxed), arrived)) return generation;
        bell_.wait(bell);
    }
}

void ThreadPool::workerLoop(int worker) {
    const RunDelay delay;
    std::atomic<const RunDelay*>& published = workers_[static_cast<size_t>(worker) - 1].delay;
    published = &delay;
    for (uint32_t seen = 0;;) {
        seen = awaitWork(seen);
        if (closing_.load(std::memory_order_relaxed)) break;
        runTiles(seen, worker);
    }
    published = nullptr;  // nobody reads it any more: the pool is being destroyed by the thread that would
}

double ThreadPool::waitedSeconds() const {
    double seconds = callerDelay_->seconds();
    for (const Worker& worker : workers_)
        if (const RunDelay* delay = worker.delay.load()) seconds += delay->seconds();
    return seconds;
}

void ThreadPool::stepBoundary() {
    const auto now = std::chrono::steady_clock::now();
    const bool sameCaller = callerDelay_ && caller_ == std::this_thread::get_id();
    if (!sameCaller) {
        callerDelay_ = std::make_unique<RunDelay>();
        caller_ = std::this_thread::get_id();
    }
    const double waited = waitedSeconds(), step = std::chrono::duration<double>(now - lastStep_).count();
    const bool busy = sameCaller && waited - waitedBefore_ > kBusyShare * step * threadCount();
    waitedBefore_ = waited;
    lastStep_ = now;
    calmSteps_ = busy ? 0 : calmSteps_ + 1;
    if (busy)
        spinMicros_.store(0, std::memory_order_relaxed);
    else if (maySpin_ && calmSteps_ >= kCalmSteps)
        spinMicros_.store(kSpinMicros, std::memory_order_relaxed);
}

}  // namespace mantissa::engine
