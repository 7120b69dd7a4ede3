// Placement of buffers by lifetime.
#include "engine/plan/arena.h"

#include <gtest/gtest.h>

#include <random>

namespace mantissa::engine {
namespace {

TEST(Arena, NeighboursInTimeShareMemory) {
    Arena arena;
    const int a = arena.add(1000, 0, 1), b = arena.add(500, 1, 2), c = arena.add(1000, 2, 3);
    EXPECT_EQ(arena.offset(a), 0u);
    EXPECT_EQ(arena.offset(b), 1024u);
    EXPECT_EQ(arena.offset(c), 0u);
    EXPECT_EQ(arena.size(), 1536u);
    EXPECT_EQ(arena.add(0, 0, 3), 3);
    EXPECT_EQ(arena.size(), 1536u);
}

TEST(Arena, LivingBlocksNeverMeet) {
    std::mt19937 random(3);
    for (int round = 0; round < 50; ++round) {
        struct Block {
            size_t bytes;
            int begin, end, id;
        };
        Arena arena;
        std::vector<Block> blocks;
        for (int i = 0; i < 40; ++i) {
            Block block{1 + random() % 5000, static_cast<int>(random() % 20), 0, 0};
            block.end = block.begin + static_cast<int>(random() % 8);
            block.id = arena.add(block.bytes, block.begin, block.end);
            blocks.push_back(block);
        }
        std::vector<Arena::Part> parts;
        size_t total = 0;
        for (int i = 0; i < 10; ++i) {
            const size_t bytes = 256 * (1 + random() % 8);
            parts.push_back({total, bytes, static_cast<int>(random() % 28)});
            total += bytes;
        }
        const size_t base = arena.placeOver(parts, total);
        EXPECT_LE(base + total, arena.size());
        EXPECT_EQ(base % Arena::kAlignment, 0u);
        const auto apart = [](size_t a, size_t aBytes, size_t b, size_t bBytes) {
            return a + aBytes <= b || b + bBytes <= a;
        };
        for (const Block& one : blocks) {
            for (const Block& two : blocks) {
                if (one.id < two.id && one.begin <= two.end && two.begin <= one.end) {
                    EXPECT_TRUE(apart(arena.offset(one.id), one.bytes, arena.offset(two.id), two.bytes));
                }
            }
            for (const Arena::Part& part : parts)
                if (part.begin <= one.end) {
                    EXPECT_TRUE(apart(arena.offset(one.id), one.bytes, base + part.offset, part.bytes));
                }
        }
    }
}

}  // namespace
}  // namespace mantissa::engine
