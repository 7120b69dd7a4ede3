#include <algorithm>

#include "kernels/device/cpu_host.h"

namespace mantissa::kernels {
namespace {

constexpr int64_t kStrip = 64;

/// Columns [first, first + n) of one sum, n <= kStrip.
void sumStrip(const float* partials, int64_t blocks, int64_t stride, int64_t n, float* out, bool accumulate) {
    double sums[kStrip] = {};
    for (int64_t block = 0; block < blocks; ++block)
        for (int64_t c = 0; c < n; ++c) sums[c] += partials[block * stride + c];
    for (int64_t c = 0; c < n; ++c)
        out[c] = static_cast<float>((accumulate ? static_cast<double>(out[c]) : 0.0) + sums[c]);
}

}  // namespace

void sumColumnBlocks(const CpuContext& context, const float* partials, int64_t blocks, int64_t cols, float* const* out,
                     int count, bool accumulate) {
    constexpr int64_t kWorthARegion = 65536;
    const int64_t strips = (cols + kStrip - 1) / kStrip;
    const auto tile = [&](int64_t index, int) {
        const int64_t sum = index / strips, first = index % strips * kStrip;
        if (!out[sum]) return;
        sumStrip(partials + sum * cols + first, blocks, count * cols, std::min(kStrip, cols - first), out[sum] + first,
                 accumulate);
    };
    if (blocks * cols * count >= kWorthARegion)
        context.executor->run(count * strips, tile);
    else
        for (int64_t index = 0; index < count * strips; ++index) tile(index, 0);
}

}  // namespace mantissa::kernels
