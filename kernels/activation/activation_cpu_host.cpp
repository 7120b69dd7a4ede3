// Host entries of the activations: checks, tiles of 64 rows, column sums of the blocks added in block order.
#include <algorithm>
#include <cstring>

#include "kernels/activation/activation_cpu.h"
#include "kernels/device/cpu_host.h"

namespace mantissa::kernels {
namespace {

int64_t widthOfInput(const ActivationBackward& op) {
    return op.kind == Activation::GeluTanh ? op.cols : 2 * op.cols;
}

void check(const ActivationForward& op) {
    require(op.rows >= 0 && op.cols > 0, "activation forward: rows must be at least 0 and cols at least 1");
    require(isFloatType(op.type), "activation forward: type must be F32, BF16 or F16");
    require(op.in, "activation forward: in is needed");
    require(op.out || op.cast.format != DType::None, "activation forward: neither out nor a cast is wanted");
    requireCast(op.cast, op.type);
}

void check(const ActivationBackward& op) {
    require(op.rows >= 0 && op.cols > 0, "activation backward: rows must be at least 0 and cols at least 1");
    require(isFloatType(op.type), "activation backward: type must be F32, BF16 or F16");
    require(op.in && op.dOut, "activation backward: in and dOut are needed");
    require(op.dIn || op.cast.format != DType::None, "activation backward: neither dIn nor a cast is wanted");
    require(op.again.format == DType::None, "activation backward: the CPU makes no transposed codes again");
    requireCast(op.cast, op.type);
}

struct BackwardLayout {
    RowCast cast;
    float* sums;  ///< (tiles, width), nullptr when no bias gradient is wanted
    BackwardLayout(const ActivationBackward& op, const CpuContext& context, WorkspaceCursor& cursor)
        : cast(op.cast, op.rows, widthOfInput(op), context.executor->threadCount(), cursor),
          sums(op.dBias ? cursor.take<float>(rowTiles(op.rows) * widthOfInput(op)) : nullptr) {}
};

}  // namespace

size_t workspaceCpu(const ActivationForward& op, const CpuContext& context) {
    WorkspaceCursor cursor(nullptr);
    RowCast(op.cast, op.rows, op.cols, context.executor->threadCount(), cursor);
    return cursor.bytes();
}

void runCpu(const ActivationForward& op, const CpuContext& context) {
    check(op);
    WorkspaceCursor cursor(context.workspace);
    RowCast cast(op.cast, op.rows, op.cols, context.executor->threadCount(), cursor);
    const ActivationKernels& kernels = activationKernels(context.isa);
    context.executor->run(rowTiles(op.rows), [&](int64_t tile, int worker) {
        const int64_t first = tile * kTileRows;
        kernels.forward(op, first, std::min(op.rows, first + kTileRows), cast.tile(tile, worker));
    });
    cast.finish();
}

size_t workspaceCpu(const ActivationBackward& op, const CpuContext& context) {
    WorkspaceCursor cursor(nullptr);
    BackwardLayout(op, context, cursor);
    return cursor.bytes();
}

void runCpu(const ActivationBackward& op, const CpuContext& context) {
    check(op);
    WorkspaceCursor cursor(context.workspace);
    BackwardLayout layout(op, context, cursor);
    const ActivationKernels& kernels = activationKernels(context.isa);
    const int64_t width = widthOfInput(op), tiles = rowTiles(op.rows);
    context.executor->run(tiles, [&](int64_t tile, int worker) {
        const int64_t first = tile * kTileRows;
        float* sums = layout.sums ? layout.sums + tile * width : nullptr;
        if (sums) std::memset(sums, 0, static_cast<size_t>(width) * sizeof(float));
        kernels.backward(op, first, std::min(op.rows, first + kTileRows), sums, layout.cast.tile(tile, worker));
    });
    if (op.dBias) sumColumnBlocks(context, layout.sums, tiles, width, &op.dBias, 1, op.accumulate);
    layout.cast.finish();
}

}  // namespace mantissa::kernels
