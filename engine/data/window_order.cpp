#include "engine/data/window_order.h"

#include <bit>

#include "kernels/simd/philox.h"

namespace mantissa::engine {
namespace {

// Streams of Philox for data, apart from those of weights and rounding (their stream numbers are small).
constexpr uint64_t kOrderStream = 0x6F72646572000000u;   // "order"
constexpr uint64_t kOffsetStream = 0x6F66667365740000u;  // "offset"

}  // namespace

int64_t permutedWindow(int64_t index, int64_t count, uint64_t seed, uint64_t epoch) {
    if (count == 1) return 0;
    const int half = (std::bit_width(static_cast<uint64_t>(count - 1)) + 1) / 2;
    const uint64_t mask = (uint64_t{1} << half) - 1;
    uint64_t value = static_cast<uint64_t>(index);
    do {
        uint64_t left = value >> half, right = value & mask;
        for (uint64_t round = 0; round < 6; ++round) {
            const kernels::Philox4 random =
                kernels::philox4x32({{static_cast<uint32_t>(right), static_cast<uint32_t>(right >> 32),
                                      static_cast<uint32_t>(epoch), static_cast<uint32_t>(epoch >> 32)}},
                                    seed ^ (kOrderStream + round));
            const uint64_t next = left ^ (random.value[0] | (static_cast<uint64_t>(random.value[1]) << 32));
            left = right;
            right = next & mask;
        }
        value = (left << half) | right;
    } while (value >= static_cast<uint64_t>(count));
    return static_cast<int64_t>(value);
}

int64_t epochOffset(int64_t context, uint64_t seed, uint64_t epoch) {
    const kernels::Philox4 random = kernels::philoxBlock(seed, epoch, kOffsetStream);
    return static_cast<int64_t>((static_cast<uint64_t>(random.value[0]) * static_cast<uint64_t>(context)) >> 32);
}

}  // namespace mantissa::engine
