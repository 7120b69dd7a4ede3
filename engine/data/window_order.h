// The order of training windows: a keyed permutation of each epoch, computed at one index without any table.
#pragma once

#include <cstdint>

namespace mantissa::engine {

/// Image of `index` in [0, count) under a permutation chosen by (seed, epoch): a Feistel network of six rounds on the
/// next even power of two, walked until it falls into the range. Needs count >= 1.
int64_t permutedWindow(int64_t index, int64_t count, uint64_t seed, uint64_t epoch);

/// Offset of an epoch's windows, uniform in [0, context).
int64_t epochOffset(int64_t context, uint64_t seed, uint64_t epoch);

}  // namespace mantissa::engine
