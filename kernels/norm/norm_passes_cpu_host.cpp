// Host entry of the norm written out: tiles of 64 rows; sums of columns as in the fused op.
#include <algorithm>
#include <cstring>

#include "kernels/device/cpu_host.h"
#include "kernels/norm/norm_passes_cpu.h"

namespace mantissa::kernels {

size_t workspaceCpu(const NormPass& op, const CpuContext&) {
    if (!sumsColumns(op.stage)) return 0;
    WorkspaceCursor cursor(nullptr);
    cursor.take<float>(rowTiles(op.rows) * op.cols);
    return cursor.bytes();
}

void runCpu(const NormPass& op, const CpuContext& context) {
    require(op.rows >= 0 && op.cols > 0, "norm pass: rows must be at least 0 and cols at least 1");
    require(isFloatType(op.type), "norm pass: type must be F32, BF16 or F16");
    require(complete(op), "norm pass: an input or output of the stage is missing");
    const NormPassKernels& kernels = normPassKernels(context.isa);
    const bool columns = sumsColumns(op.stage);
    float* const sums = static_cast<float*>(context.workspace);
    const int64_t tiles = rowTiles(op.rows);
    context.executor->run(tiles, [&](int64_t tile, int) {
        const int64_t first = tile * kTileRows;
        float* own = columns ? sums + tile * op.cols : nullptr;
        if (own) std::memset(own, 0, static_cast<size_t>(op.cols) * sizeof(float));
        kernels.run(op, first, std::min(op.rows, first + kTileRows), own);
    });
    if (columns) sumColumnBlocks(context, sums, tiles, op.cols, &op.columnOut, 1, op.accumulate);
}

}  // namespace mantissa::kernels
