// An executor and memory for tests of kernels, which know no thread pool.
#pragma once

#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

#include "kernels/executor.h"

namespace mantissa::test {

/// Claims `threads` workers, runs tiles one after another in a scrambled order and hands out worker numbers unevenly.
/// What depends on the order of tiles or on which worker took one comes out different here.
class ShuffledExecutor final : public kernels::Executor {
  public:
    explicit ShuffledExecutor(int threads) : threads_(threads) {}
    int threadCount() const override { return threads_; }
    void run(int64_t tiles, kernels::FunctionRef<void(int64_t, int)> body) override {
        std::vector<int64_t> order(static_cast<size_t>(tiles));
        for (int64_t i = 0; i < tiles; ++i) order[static_cast<size_t>(i)] = i;
        for (int64_t i = tiles - 1; i > 0 && threads_ > 1; --i)
            std::swap(order[static_cast<size_t>(i)], order[next() % static_cast<size_t>(i + 1)]);
        for (int64_t tile : order) body(tile, static_cast<int>(next() % static_cast<size_t>(threads_)));
    }

  private:
    size_t next() {
        state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
        return static_cast<size_t>(state_ >> 33);
    }

    int threads_;
    uint64_t state_ = 1;
};

/// 256-byte aligned scratch filled with NaN patterns, with a guard behind it.
class AlignedMemory {
  public:
    explicit AlignedMemory(size_t bytes)
        : size_(bytes), memory_(static_cast<uint8_t*>(::operator new(bytes + kGuard, std::align_val_t(256)))) {
        std::memset(memory_, 0xFF, bytes + kGuard);
    }
    ~AlignedMemory() { ::operator delete(memory_, std::align_val_t(256)); }
    AlignedMemory(const AlignedMemory&) = delete;
    AlignedMemory& operator=(const AlignedMemory&) = delete;
    void* data() { return memory_; }
    size_t size() const { return size_; }
    bool guardIntact() const {
        for (size_t i = 0; i < kGuard; ++i)
            if (memory_[size_ + i] != 0xFF) return false;
        return true;
    }

  private:
    static constexpr size_t kGuard = 4096;
    size_t size_;
    uint8_t* memory_;
};

}  // namespace mantissa::test
