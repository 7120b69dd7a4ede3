// The thread pool: every tile once, on any number of threads, under stress; exceptions; spinning on and off.
#include "engine/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <chrono>
#include <mutex>
#include <set>
#include <stdexcept>

namespace mantissa::engine {
namespace {

class ThreadPoolTest : public testing::TestWithParam<int> {};

TEST_P(ThreadPoolTest, RunsEveryTileOnce) {
    ThreadPool pool(GetParam());
    EXPECT_EQ(pool.threadCount(), GetParam());
    for (int64_t tiles : {0, 1, 2, 7, 64, 1000}) {
        std::vector<std::atomic<int>> calls(tiles);
        pool.run(tiles, [&](int64_t tile, int worker) {
            ASSERT_GE(worker, 0);
            ASSERT_LT(worker, GetParam());
            ++calls[tile];
        });
        for (int64_t tile = 0; tile < tiles; ++tile) EXPECT_EQ(calls[tile], 1) << "tile " << tile << " of " << tiles;
    }
}

TEST_P(ThreadPoolTest, ShortRegionsInARowNeverMixTheirTiles) {
    ThreadPool pool(GetParam());
    std::vector<int> values(17);
    for (int round = 0; round < 20000; ++round) {
        const int64_t tiles = 2 + round % 16;
        pool.run(tiles, [&](int64_t tile, int) { values[tile] = round; });
        for (int64_t tile = 0; tile < tiles; ++tile) ASSERT_EQ(values[tile], round) << "tile " << tile;
    }
}

TEST_P(ThreadPoolTest, AWorkerIndexIsNeverUsedTwiceAtOnce) {
    ThreadPool pool(GetParam());
    std::vector<std::atomic<int>> inside(GetParam());
    pool.run(500, [&](int64_t, int worker) {
        EXPECT_EQ(inside[worker].fetch_add(1), 0);
        sched_yield();
        inside[worker].fetch_sub(1);
    });
}

TEST_P(ThreadPoolTest, EachWorkerBeginsWithItsOwnPartOfTheRange) {
    constexpr int64_t kShare = 5;
    ThreadPool pool(GetParam());
    for (int round = 0; round < 20; ++round) {
        std::vector<int64_t> first(static_cast<size_t>(GetParam()), -1);  // each element: its worker alone
        std::atomic<int> begun{0};
        pool.run(kShare * GetParam(), [&](int64_t tile, int worker) {
            if (first[static_cast<size_t>(worker)] >= 0) return;
            first[static_cast<size_t>(worker)] = tile;
            // Nobody takes from the others before all have taken a tile.
            for (++begun; begun < GetParam();) sched_yield();
        });
        for (int worker = 0; worker < GetParam(); ++worker)
            ASSERT_EQ(first[static_cast<size_t>(worker)], worker * kShare) << "round " << round;
    }
}

TEST_P(ThreadPoolTest, RethrowsOneExceptionAndGoesOn) {
    ThreadPool pool(GetParam());
    for (int round = 0; round < 200; ++round) {
        EXPECT_THROW(pool.run(50,
                              [&](int64_t tile, int) {
                                  if (tile % 3 == 1) throw std::runtime_error("tile");
                              }),
                     std::runtime_error);
        std::atomic<int> count{0};
        pool.run(50, [&](int64_t, int) { ++count; });
        ASSERT_EQ(count, 50);
    }
}

TEST_P(ThreadPoolTest, SleepingWorkersWakeUp) {
    ThreadPool pool(GetParam());
    for (int round = 0; round < 20; ++round) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));  // far beyond the spin
        std::atomic<int> count{0};
        pool.run(9, [&](int64_t, int) { ++count; });
        ASSERT_EQ(count, 9);
    }
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest, testing::Values(1, 2, 3, 16));

TEST(ThreadPool, SeveralWorkersTakePartInALongRegion) {
    ThreadPool pool(3);
    std::mutex mutex;
    std::set<int> workers;
    pool.run(60, [&](int64_t, int worker) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        std::lock_guard lock(mutex);
        workers.insert(worker);
    });
    EXPECT_EQ(workers.size(), 3u);
}

TEST(ThreadPool, ZeroThreadsMeansEveryUsableProcessor) {
    EXPECT_EQ(ThreadPool().threadCount(), ThreadPool::usableProcessors());
}

TEST(ThreadPool, NeverSpinsWithMoreThreadsThanProcessors) {
    ThreadPool pool(ThreadPool::usableProcessors() + 1);
    EXPECT_FALSE(pool.spins());
    for (int step = 0; step < 20; ++step) pool.stepBoundary();
    EXPECT_FALSE(pool.spins());
}

TEST(ThreadPool, WaitingForProcessorsTurnsSpinningOffAndCalmStepsOnAgain) {
    ThreadPool pool;
    if (pool.threadCount() < 2) GTEST_SKIP() << "one processor: the pool has no waiters";
    ASSERT_TRUE(pool.spins());
    // Two busy threads for each of the pool's leave it a third of the processors.
    std::atomic<bool> end{false};
    std::vector<std::thread> busy;
    for (int i = 0; i < 2 * pool.threadCount(); ++i)
        busy.emplace_back([&] {
            while (!end) {
            }
        });
    const auto work = [] {
        const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(10);
        while (std::chrono::steady_clock::now() < until) {
        }
    };
    bool stopped = false;
    for (int step = 0; step < 100 && !stopped; ++step) {
        pool.run(4 * pool.threadCount(), [&](int64_t, int) { work(); });
        pool.stepBoundary();
        stopped = !pool.spins();
    }
    end = true;
    for (std::thread& thread : busy) thread.join();
    EXPECT_TRUE(stopped);
    pool.stepBoundary();
    int steps = 0;
    for (; steps < 200 && !pool.spins(); ++steps) pool.stepBoundary();
    EXPECT_GE(steps, 4);
    EXPECT_TRUE(pool.spins());
}

}  // namespace
}  // namespace mantissa::engine
