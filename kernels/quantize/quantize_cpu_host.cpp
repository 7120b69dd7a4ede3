// The quantize op on the CPU: checks, tiles of rows, partial sums in tile order.
#include <algorithm>
#include <string>

#include "kernels/device/cpu_ops.h"
#include "kernels/formats/fp8.h"
#include "kernels/quantize/quantize_kernels.h"

namespace mantissa::kernels {
namespace {

/// Rows of one tile: about 32,768 elements (some ten microseconds), and at least 16 rows where bias sums are kept per
/// tile. Depends on the shape alone, so sums are the same on any thread count.
int64_t tileRows(const Quantize& op) {
    const int64_t rows = std::clamp<int64_t>(32768 / std::max<int64_t>(op.cols, 1), op.dbias ? 16 : 1, 1024);
    return std::min(rows, std::max<int64_t>(op.rows, 1));
}

int64_t tileCount(const Quantize& op) {
    return (op.rows + tileRows(op) - 1) / tileRows(op);
}

void check(const Quantize& op) {
    const std::string shape = "(" + std::to_string(op.rows) + ", " + std::to_string(op.cols) + ")";
    if (op.rows < 0 || op.cols < 0) throw Error(ErrorCode::ShapeMismatch, "quantize: negative size " + shape);
    if (op.inType != DType::BF16 && op.inType != DType::F32)
        throw Error(ErrorCode::ShapeMismatch,
                    std::string("quantize: input type ") + dtypeName(op.inType) + "; allowed: bf16, f32");
    if (!isFp8(op.target.format) && !(op.target.format == DType::None && op.dbias))
        throw Error(ErrorCode::ShapeMismatch,
                    std::string("quantize: format ") + dtypeName(op.target.format) + "; allowed: e4m3, e5m2");
    if (!op.in && op.rows * op.cols > 0) throw Error(ErrorCode::ShapeMismatch, "quantize: no input for " + shape);
}

}  // namespace

size_t workspaceCpu(const Quantize& op, const CpuContext&) {
    const size_t tiles = static_cast<size_t>(tileCount(op));
    return tiles * (sizeof(SpanStats) + (op.dbias ? static_cast<size_t>(op.cols) * sizeof(float) : 0));
}

void runCpu(const Quantize& op, const CpuContext& context) {
    check(op);
    const int64_t tiles = tileCount(op), rows = tileRows(op);
    const CastParams params = op.target.format == DType::None ? CastParams() : makeCastParams(op.target);
    auto* stats = static_cast<SpanStats*>(context.workspace);
    auto* biasSums = reinterpret_cast<float*>(stats + tiles);
    const auto& kernels = quantizeKernels(context.isa);
    context.executor->run(tiles, [&](int64_t tile, int) {
        resetSpanStats(stats + tile, 1);
        kernels.tile(op, params, tile * rows, std::min(op.rows, (tile + 1) * rows),
                     op.dbias ? biasSums + tile * op.cols : nullptr, stats[tile]);
    });
    if (op.target.format != DType::None) mergeSpanStats(stats, tiles, op.target, params);
    if (!op.dbias) return;
    for (int64_t col = 0; col < op.cols; ++col) {
        float sum = op.accumulateBias ? op.dbias[col] : 0.0f;
        for (int64_t tile = 0; tile < tiles; ++tile) sum += biasSums[tile * op.cols + col];
        op.dbias[col] = sum;
    }
}

}  // namespace mantissa::kernels
