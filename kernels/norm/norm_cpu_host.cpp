// Host entries of the norm: checks, tiles of 64 rows, column sums of the blocks added in block order.
#include <algorithm>
#include <cstring>

#include "kernels/device/cpu_host.h"
#include "kernels/norm/norm_cpu.h"

namespace mantissa::kernels {
namespace {

void check(const NormForward& op) {
    require(op.rows >= 0 && op.cols > 0, "norm forward: rows must be at least 0 and cols at least 1");
    require(isFloatType(op.type), "norm forward: type must be F32, BF16 or F16");
    require(op.residualIn && op.gain, "norm forward: residualIn and gain are needed");
    require(!op.delta || op.residualOut, "norm forward: delta needs residualOut");
    require(op.out || op.cast.format != DType::None, "norm forward: neither out nor a cast is wanted");
    requireCast(op.cast, op.type);
}

void check(const NormBackward& op) {
    require(op.rows >= 0 && op.cols > 0, "norm backward: rows must be at least 0 and cols at least 1");
    require(isFloatType(op.type), "norm backward: type must be F32, BF16 or F16");
    require(op.dOut && op.residual && op.gain && op.rstd && op.dResidual,
            "norm backward: an input or dResidual is missing");
    require(op.kind == NormKind::RmsNorm || op.mean, "norm backward: LayerNorm needs mean");
    require(op.again.format == DType::None, "norm backward: the CPU makes no transposed codes again");
    requireCast(op.cast, op.type);
}

struct BackwardLayout {
    RowCast cast;
    float* sums;  ///< (tiles, 3, cols)
    BackwardLayout(const NormBackward& op, const CpuContext& context, WorkspaceCursor& cursor)
        : cast(op.cast, op.rows, op.cols, context.executor->threadCount(), cursor),
          sums(cursor.take<float>(rowTiles(op.rows) * 3 * op.cols)) {}
};

}  // namespace

size_t workspaceCpu(const NormForward& op, const CpuContext& context) {
    WorkspaceCursor cursor(nullptr);
    RowCast(op.cast, op.rows, op.cols, context.executor->threadCount(), cursor);
    return cursor.bytes();
}

void runCpu(const NormForward& op, const CpuContext& context) {
    check(op);
    WorkspaceCursor cursor(context.workspace);
    RowCast cast(op.cast, op.rows, op.cols, context.executor->threadCount(), cursor);
    const NormKernels& kernels = normKernels(context.isa);
    context.executor->run(rowTiles(op.rows), [&](int64_t tile, int worker) {
        const int64_t first = tile * kTileRows;
        kernels.forward(op, first, std::min(op.rows, first + kTileRows), cast.tile(tile, worker));
    });
    cast.finish();
}

size_t workspaceCpu(const NormBackward& op, const CpuContext& context) {
    WorkspaceCursor cursor(nullptr);
    BackwardLayout(op, context, cursor);
    return cursor.bytes();
}

void runCpu(const NormBackward& op, const CpuContext& context) {
    check(op);
    WorkspaceCursor cursor(context.workspace);
    BackwardLayout layout(op, context, cursor);
    const NormKernels& kernels = normKernels(context.isa);
    const int64_t stride = 3 * op.cols, tiles = rowTiles(op.rows);
    context.executor->run(tiles, [&](int64_t tile, int worker) {
        const int64_t first = tile * kTileRows;
        float* sums = layout.sums + tile * stride;
        std::memset(sums, 0, static_cast<size_t>(stride) * sizeof(float));
        const NormColumnSums columns = {op.dGain ? sums : nullptr, op.dBias ? sums + op.cols : nullptr,
                                        op.dLinearBias ? sums + 2 * op.cols : nullptr};
        kernels.backward(op, first, std::min(op.rows, first + kTileRows), columns, layout.cast.tile(tile, worker));
    });
    float* const out[] = {op.dGain, op.dBias, op.dLinearBias};
    sumColumnBlocks(context, layout.sums, tiles, op.cols, out, 3, op.accumulate);
    layout.cast.finish();
}

}  // namespace mantissa::kernels
