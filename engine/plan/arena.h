// Places buffers with known lifetimes in one piece of device memory, before anything is allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mantissa::engine {

/// Lifetimes are closed intervals of the step's time line (gpt_buffers.h). Blocks are placed in the order in which they
/// were added, each at the lowest address that is free during its whole life.
class Arena {
  public:
    static constexpr size_t kAlignment = 256;

    /// Returns the block's number. Zero bytes take no room.
    int add(size_t bytes, int begin, int end);
    size_t offset(int block) const { return blocks_[static_cast<size_t>(block)].offset; }
    size_t size() const { return size_; }

    /// A flat array whose parts come to life one after the other and then stay: part i is (offset, bytes) of the array,
    /// alive from `begin`.
    struct Part {
        size_t offset, bytes;
        int begin;
    };
    /// The lowest address at which no part meets a block that is alive together with it. The arena grows to hold the
    /// array.
    size_t placeOver(const std::vector<Part>& parts, size_t bytes);

  private:
    struct Block {
        size_t bytes, offset;
        int begin, end;
    };
    std::vector<Block> blocks_;
    size_t size_ = 0;
};

}  // namespace mantissa::engine
