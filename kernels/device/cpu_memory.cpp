#include "kernels/device/cpu_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <string>

#include "kernels/error.h"

namespace mantissa::kernels {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;

void* map(size_t bytes) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? nullptr : memory;
}

/// A block that starts at a huge-page boundary: mapped with room to spare, the rest given back.
void* mapAligned(size_t bytes) {
    void* memory = map(bytes + kHugePage);
    if (!memory) return nullptr;
    const uintptr_t start = reinterpret_cast<uintptr_t>(memory);
    const uintptr_t aligned = (start + kHugePage - 1) / kHugePage * kHugePage;
    if (aligned > start) munmap(memory, aligned - start);
    const uintptr_t end = aligned + bytes, mappedEnd = start + bytes + kHugePage;
    if (mappedEnd > end) munmap(reinterpret_cast<void*>(end), mappedEnd - end);
    void* block = reinterpret_cast<void*>(aligned);
    madvise(block, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);  // a hint; its refusal changes nothing
    return block;
}

}  // namespace

CpuMemory::~CpuMemory() {
    for (const auto& [memory, bytes] : blocks_) munmap(memory, bytes);
}

void* CpuMemory::allocate(size_t bytes) {
    constexpr size_t kLargest = SIZE_MAX / 4;
    const size_t mapped = bytes > kLargest ? bytes : (bytes + kPage) / kPage * kPage;
    void* memory = bytes > kLargest ? nullptr : bytes >= 2 * kHugePage ? mapAligned(mapped) : map(mapped);
    if (!memory)
        throw Error(ErrorCode::OutOfMemory, "CPU memory: " + std::to_string(bytes) + " bytes could not be allocated");
    blocks_[memory] = mapped;
    return memory;
}

void CpuMemory::release(void* memory) noexcept {
    const auto block = blocks_.find(memory);
    if (block == blocks_.end()) return;
    munmap(memory, block->second);
    blocks_.erase(block);
}

}  // namespace mantissa::kernels
