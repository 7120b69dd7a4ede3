// Zeroed memory of the CPU backend, mapped so that only touched pages count.
#pragma once

#include <cstddef>
#include <unordered_map>

namespace mantissa::kernels {

/// Owns its blocks; what is left is unmapped at destruction. Thread: one at a time.
class CpuMemory {
  public:
    CpuMemory() = default;
    ~CpuMemory();
    CpuMemory(const CpuMemory&) = delete;
    CpuMemory& operator=(const CpuMemory&) = delete;

    /// Zeroed, page aligned (so also 256-byte aligned). Blocks of 4 MiB and more start at a 2 MiB boundary and ask for
    /// huge pages. 0 bytes give a valid pointer. Throws OutOfMemory with the number of bytes.
    void* allocate(size_t bytes);
    /// nullptr is allowed; a pointer that is not ours is ignored.
    void release(void* memory) noexcept;

  private:
    std::unordered_map<void*, size_t> blocks_;
};

}  // namespace mantissa::kernels
