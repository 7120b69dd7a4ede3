// An executor with real threads, for the tests of kernels, which know no thread pool. The sanitizers see what a pool's
// threads would do.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

#include "kernels/executor.h"

namespace mantissa::test {

/// Starts its threads anew in every run(); tiles are taken from one atomic.
class ThreadExecutor final : public kernels::Executor {
  public:
    explicit ThreadExecutor(int threads) : threads_(threads) {}
    int threadCount() const override { return threads_; }
    void run(int64_t tiles, kernels::FunctionRef<void(int64_t, int)> body) override {
        std::atomic<int64_t> next{0};
        const auto work = [&](int worker) {
            for (int64_t tile = next++; tile < tiles; tile = next++) body(tile, worker);
        };
        std::vector<std::thread> others;
        for (int worker = 1; worker < threads_; ++worker) others.emplace_back(work, worker);
        work(0);
        for (std::thread& thread : others) thread.join();
    }

  private:
    int threads_;
};

}  // namespace mantissa::test
