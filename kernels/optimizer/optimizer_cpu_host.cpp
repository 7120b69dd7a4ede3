// Host entries of the optimizer. AdamW: one region over all tensors in tiles of 32768 elements that never cross a
// tensor.
#include <algorithm>

#include "kernels/device/cpu_host.h"
#include "kernels/optimizer/normal_table.h"
#include "kernels/optimizer/optimizer_cpu.h"
#include "kernels/optimizer/step_control.h"

namespace mantissa::kernels {
namespace {

int64_t flatTiles(int64_t n) {
    return (n + kFlatBlock - 1) / kFlatBlock;
}

/// Calls body(first, n) for blocks of the flat range [0, n).
template <class F>
void overBlocks(const CpuContext& context, int64_t n, F body) {
    context.executor->run(flatTiles(n), [&](int64_t tile, int) {
        const int64_t first = tile * kFlatBlock;
        body(first, std::min(kFlatBlock, n - first));
    });
}

/// Workspace of AdamW: where each tensor's tiles and statistics begin, its cast parameters, statistics a tile that
/// casts.
struct AdamWLayout {
    int64_t* firstTile;   ///< (tensorCount + 1)
    int64_t* firstStats;  ///< (tensorCount + 1)
    CastParams* params;   ///< (tensorCount)
    SpanStats* stats;
    int64_t tiles = 0, castTiles = 0;

    AdamWLayout(const AdamW& op, WorkspaceCursor& cursor)
        : firstTile(cursor.take<int64_t>(op.tensorCount + 1)),
          firstStats(cursor.take<int64_t>(op.tensorCount + 1)),
          params(cursor.take<CastParams>(op.tensorCount)) {
        for (int t = 0; t < op.tensorCount; ++t) {
            if (firstTile) mark(t);
            const int64_t count = flatTiles(op.tensors[t].rows * op.tensors[t].cols);
            tiles += count;
            if (op.tensors[t].cast.format != DType::None) castTiles += count;
        }
        if (firstTile) mark(op.tensorCount);
        stats = cursor.take<SpanStats>(castTiles);
    }

    int tensorOf(int64_t tile, int count) const {
        return static_cast<int>(std::upper_bound(firstTile, firstTile + count, tile) - firstTile) - 1;
    }

  private:
    void mark(int tensor) {
        firstTile[tensor] = tiles;
        firstStats[tensor] = castTiles;
    }
};

/// `compute` moved so that the tensor's place in it is found at the tensor's offset in the flat arrays.
AdamW withCompute(AdamW op, const ParameterTensor& tensor) {
    if (!op.compute || tensor.computeOffset == kComputeAtOffset) return op;
    if (tensor.computeOffset == kNoCompute) {
        op.compute = nullptr;
    } else {
        const int64_t shift = (tensor.computeOffset - tensor.offset) * static_cast<int64_t>(dtypeSize(op.computeType));
        op.compute = static_cast<char*>(op.compute) + shift;
    }
    return op;
}

void check(const AdamW& op) {
    require(op.masters && (op.tensors || op.tensorCount == 0), "AdamW: masters and tensors are needed");
    require(op.castOnly || (op.moment1 && op.moment2 && op.gradients && op.state && op.parameters),
            "AdamW: an argument is missing");
    require(!op.compute || op.computeType == DType::BF16 || op.computeType == DType::F16,
            "AdamW: the compute copy must be BF16 or F16");
    for (int t = 0; t < op.tensorCount; ++t) {
        const ParameterTensor& tensor = op.tensors[t];
        require(tensor.offset >= 0 && tensor.rows > 0 && tensor.cols > 0 &&
                    tensor.offset + tensor.rows * tensor.cols <= op.n,
                "AdamW: a tensor lies outside the flat arrays");
        requireCast(tensor.cast, DType::F32);
    }
}

}  // namespace

size_t workspaceCpu(const StepBegin&, const CpuContext&) {
    return 0;
}
size_t workspaceCpu(const GradientControl&, const CpuContext&) {
    return 0;
}
size_t workspaceCpu(const SumSquares&, const CpuContext&) {
    return 0;
}
size_t workspaceCpu(const InitNormal&, const CpuContext&) {
    return 0;
}
size_t workspaceCpu(const Fill&, const CpuContext&) {
    return 0;
}

void runCpu(const StepBegin& op, const CpuContext&) {
    stepBegin(op);
}
void runCpu(const GradientControl& op, const CpuContext&) {
    gradientControl(op);
}

void runCpu(const SumSquares& op, const CpuContext& context) {
    require(op.n == 0 || (op.values && op.partials), "sum of squares: values and partials are needed");
    const OptimizerKernels& kernels = optimizerKernels(context.isa);
    overBlocks(context, op.n, [&](int64_t first, int64_t n) {
        op.partials[first / kFlatBlock] = kernels.sumSquares(op.values + first, n);
    });
}

size_t workspaceCpu(const AdamW& op, const CpuContext&) {
    WorkspaceCursor cursor(nullptr);
    AdamWLayout(op, cursor);
    return cursor.bytes();
}

void runCpu(const AdamW& op, const CpuContext& context) {
    check(op);
    if ((!op.castOnly || op.castWhenApplied) && !op.state->applied) return;
    WorkspaceCursor cursor(context.workspace);
    const AdamWLayout layout(op, cursor);
    AdamWScalars scalars = {};
    if (!op.castOnly) scalars = adamWScalars(op);
    for (int t = 0; t < op.tensorCount; ++t)
        if (op.tensors[t].cast.format != DType::None) layout.params[t] = makeCastParams(op.tensors[t].cast);
    const OptimizerKernels& kernels = optimizerKernels(context.isa);
    context.executor->run(layout.tiles, [&](int64_t tile, int) {
        const int t = layout.tensorOf(tile, op.tensorCount);
        const ParameterTensor& tensor = op.tensors[t];
        const int64_t block = tile - layout.firstTile[t], inTensor = block * kFlatBlock;
        const int64_t n = std::min(kFlatBlock, tensor.rows * tensor.cols - inTensor);
        TileCast cast;
        if (tensor.cast.format != DType::None) {
            SpanStats* stats = layout.stats + layout.firstStats[t] + block;
            resetSpanStats(stats, 1);
            cast = {&layout.params[t], tensor.cast.amaxOnly ? nullptr : tensor.cast.codes, stats, nullptr};
        }
        const AdamW placed = withCompute(op, tensor);
        kernels.adamW(placed, op.castOnly ? nullptr : &scalars, tensor.decay, tensor.offset + inTensor, n, inTensor,
                      cast);
    });
    for (int t = 0; t < op.tensorCount; ++t) {
        const CastTarget& cast = op.tensors[t].cast;
        if (cast.format == DType::None) continue;
        if (cast.slot) *cast.slot = TensorSlot{};
        mergeSpanStats(layout.stats + layout.firstStats[t], layout.firstStats[t + 1] - layout.firstStats[t], cast,
                       layout.params[t]);
    }
}

void runCpu(const InitNormal& op, const CpuContext& context) {
    const int64_t* table = normalTable();
    overBlocks(context, op.n, [&](int64_t first, int64_t n) {
        for (int64_t i = first; i < first + n; ++i) op.out[i] = normalElement(table, op.seed, op.stream, i, op.std);
    });
}

void runCpu(const Fill& op, const CpuContext& context) {
    overBlocks(context, op.n,
               [&](int64_t first, int64_t n) { std::fill(op.out + first, op.out + first + n, op.value); });
}

}  // namespace mantissa::kernels
