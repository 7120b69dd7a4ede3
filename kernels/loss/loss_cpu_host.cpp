// Host entries of the loss.
#include <algorithm>

#include "kernels/device/cpu_host.h"
#include "kernels/loss/loss_cpu.h"

namespace mantissa::kernels {
namespace {

void check(const CrossEntropy& op) {
    require(op.rows >= 0 && op.vocabulary > 0 && op.vocabularyPadded >= op.vocabulary,
            "cross-entropy: needs 1 <= vocabulary <= vocabularyPadded");
    require(isFloatType(op.type), "cross-entropy: type must be F32, BF16 or F16");
    require(op.logits && op.targets && op.losses, "cross-entropy: logits, targets and losses are needed");
    require(!op.backward || op.gradientScale, "cross-entropy: backward needs gradientScale");
    requireCast(op.cast, op.type);
    for (int64_t row = 0; row < op.rows; ++row)
        require(op.targets[row] >= 0 && op.targets[row] < op.vocabulary,
                "cross-entropy: a target is outside the vocabulary");
}

/// The cast that this call makes: of dlogits only.
CastTarget castOf(const CrossEntropy& op) {
    return op.backward ? op.cast : CastTarget{};
}

}  // namespace

size_t workspaceCpu(const CrossEntropy& op, const CpuContext& context) {
    WorkspaceCursor cursor(nullptr);
    RowCast(castOf(op), op.rows, op.vocabularyPadded, context.executor->threadCount(), cursor);
    return cursor.bytes();
}

void runCpu(const CrossEntropy& op, const CpuContext& context) {
    check(op);
    WorkspaceCursor cursor(context.workspace);
    RowCast cast(castOf(op), op.rows, op.vocabularyPadded, context.executor->threadCount(), cursor);
    const LossKernels& kernels = lossKernels(context.isa);
    context.executor->run(rowTiles(op.rows), [&](int64_t tile, int worker) {
        const int64_t first = tile * kTileRows;
        kernels.crossEntropy(op, first, std::min(op.rows, first + kTileRows), cast.tile(tile, worker));
    });
    cast.finish();
}

size_t workspaceCpu(const SumLosses&, const CpuContext&) {
    return 0;
}

void runCpu(const SumLosses& op, const CpuContext&) {
    require(op.sum && (op.losses || op.rows == 0), "sum of losses: losses and sum are needed");
    constexpr int64_t kBlock = 1024;
    double sum = op.accumulate ? *op.sum : 0;
    for (int64_t first = 0; first < op.rows; first += kBlock) {
        double block = 0;
        for (int64_t row = first; row < std::min(op.rows, first + kBlock); ++row) block += op.losses[row];
        sum += block;
    }
    *op.sum = sum;
}

}  // namespace mantissa::kernels
