#include "engine/plan/arena.h"

#include <algorithm>

namespace mantissa::engine {

namespace {

size_t aligned(size_t bytes) {
    return (bytes + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment;
}

}  // namespace

int Arena::add(size_t bytes, int begin, int end) {
    Block block{aligned(bytes), 0, begin, end};
    std::vector<std::pair<size_t, size_t>> taken;  // address ranges of the blocks that live at the same time
    for (const Block& other : blocks_)
        if (other.bytes > 0 && other.begin <= end && begin <= other.end)
            taken.emplace_back(other.offset, other.offset + other.bytes);
    std::sort(taken.begin(), taken.end());
    for (const auto& [from, to] : taken) {
        if (block.offset + block.bytes <= from) break;
        block.offset = std::max(block.offset, to);
    }
    size_ = std::max(size_, block.offset + block.bytes);
    blocks_.push_back(block);
    return static_cast<int>(blocks_.size()) - 1;
}

size_t Arena::placeOver(const std::vector<Part>& parts, size_t bytes) {
    std::vector<std::pair<int64_t, int64_t>> forbidden;  // bases strictly inside (first, second) meet a living block
    for (const Part& part : parts)
        for (const Block& block : blocks_) {
            if (block.bytes == 0 || block.end < part.begin) continue;
            const int64_t from = static_cast<int64_t>(block.offset) - static_cast<int64_t>(part.offset + part.bytes);
            const int64_t to = static_cast<int64_t>(block.offset + block.bytes) - static_cast<int64_t>(part.offset);
            if (to > 0) forbidden.emplace_back(from, to);
        }
    std::sort(forbidden.begin(), forbidden.end());
    int64_t base = 0;
    for (const auto& [from, to] : forbidden) {
        if (from >= base) break;
        base = std::max(base, static_cast<int64_t>(aligned(static_cast<size_t>(to))));
    }
    size_ = std::max(size_, static_cast<size_t>(base) + aligned(bytes));
    return static_cast<size_t>(base);
}

}  // namespace mantissa::engine
