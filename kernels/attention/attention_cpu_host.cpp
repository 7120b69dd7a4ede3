// Causal attention on the CPU, host part: one tile a (sequence, head), then one pass over rows for cast and bias sums.
#include <algorithm>

#include "kernels/attention/attention_kernels.h"
#include "kernels/device/cpu_host.h"

namespace mantissa::kernels {
namespace {

int64_t roundUp(int64_t a, int64_t b) {
    return (a + b - 1) / b * b;
}

/// A worker's pieces of the workspace; from a counting cursor only their size.
template <class Op>
AttentionScratch carve(const Op& op, const MatmulKernels& kernels, bool backward, WorkspaceCursor& cursor) {
    const int64_t context = roundUp(op.context, 2), width = op.headWidth;
    const int64_t byWidth = roundUp(op.context, kernels.nr) * width, byKeys = roundUp(width, kernels.nr) * context;
    AttentionScratch s;
    s.scoreLd = roundUp(op.context, 16);
    const int64_t scores = kAttentionRows * s.scoreLd;
    const bool narrow = op.type != DType::F32;
    s.keysByWidth = cursor.take<float>(byWidth);
    s.scores = cursor.take<float>(scores);
    s.probabilities = narrow ? static_cast<void*>(cursor.take<uint16_t>(scores)) : s.scores;
    s.product = cursor.take<float>(matmulScratchFloats(kernels, kAttentionRows, width, context));
    if (!backward) {
        s.valuesByKeys = cursor.take<float>(byKeys);
        return s;
    }
    s.valuesByWidth = cursor.take<float>(byWidth);
    s.keysByKeys = cursor.take<float>(byKeys);
    s.block = cursor.take<float>(roundUp(width, kernels.nr) * kAttentionRows);
    s.dScores = cursor.take<float>(scores);
    s.dScoresOut = narrow ? static_cast<void*>(cursor.take<uint16_t>(scores)) : s.dScores;
    s.dKeys = cursor.take<float>(op.context * width);
    s.dValues = cursor.take<float>(op.context * width);
    s.delta = cursor.take<float>(kAttentionRows);
    return s;
}

/// Bytes from one worker's pieces to the next worker's.
template <class Op>
size_t workerBytes(const Op& op, const MatmulKernels& kernels, bool backward) {
    WorkspaceCursor counter(nullptr);
    carve(op, kernels, backward, counter);
    return counter.bytes();
}

/// Runs `head(sequence, head, scratch)` for every head of every sequence.
template <class Op, class Head>
void eachHead(const Op& op, const CpuContext& context, bool backward, WorkspaceCursor& cursor, Head head) {
    const MatmulKernels& kernels = matmulKernels(context.isa);
    const size_t bytes = workerBytes(op, kernels, backward);
    char* const memory = cursor.take<char>(static_cast<int64_t>(bytes) * context.executor->threadCount());
    context.executor->run(op.context == 0 ? 0 : op.batch * op.heads, [&](int64_t tile, int worker) {
        WorkspaceCursor own(memory + static_cast<size_t>(worker) * bytes);
        head(tile / op.heads, tile % op.heads, carve(op, kernels, backward, own));
    });
}

/// Workspace of the pass over rows, and the pass: the cast of `values` (rows, cols), and column sums into dBias.
struct RowPass {
    int64_t rows, cols;
    DType type;
    bool wanted, withSums;
    RowCast cast;
    float* sums;

    RowPass(int64_t rowCount, int64_t colCount, DType t, const CastTarget& target, bool bias, int workers,
            WorkspaceCursor& cursor)
        : rows(rowCount),
          cols(colCount),
          type(t),
          wanted(bias || target.format != DType::None),
          withSums(bias),
          cast(target, rows, cols, workers, cursor),
          sums(bias ? cursor.take<float>(rowTiles(rows) * cols) : nullptr) {}

    void run(const void* values, float* dBias, bool accumulate, const CpuContext& context) {
        if (!wanted) return;
        const AttentionKernels& kernels = attentionKernels(context.isa);
        context.executor->run(rowTiles(rows), [&](int64_t tile, int worker) {
            kernels.finish(type, values, cols, tile * kTileRows, std::min(rows, (tile + 1) * kTileRows),
                           withSums ? sums + tile * cols : nullptr, cast.tile(tile, worker));
        });
        cast.finish();
        if (withSums) sumColumnBlocks(context, sums, rowTiles(rows), cols, &dBias, 1, accumulate);
    }
};

RowPass rowPass(const AttentionForward& op, const CpuContext& context, WorkspaceCursor& cursor) {
    return RowPass(op.batch * op.context, op.heads * op.headWidth, op.type, op.cast, false,
                   context.executor->threadCount(), cursor);
}
RowPass rowPass(const AttentionBackward& op, const CpuContext& context, WorkspaceCursor& cursor) {
    return RowPass(op.batch * op.context, 3 * op.heads * op.headWidth, op.type, op.cast, op.dBias != nullptr,
                   context.executor->threadCount(), cursor);
}

template <class Op>
size_t workspaceOf(const Op& op, const CpuContext& context, bool backward) {
    WorkspaceCursor counter(nullptr);
    rowPass(op, context, counter);
    return counter.bytes() +
           workerBytes(op, matmulKernels(context.isa), backward) * static_cast<size_t>(context.executor->threadCount());
}

}  // namespace

size_t workspaceCpu(const AttentionForward& op, const CpuContext& context) {
    return workspaceOf(op, context, false);
}
size_t workspaceCpu(const AttentionBackward& op, const CpuContext& context) {
    return workspaceOf(op, context, true);
}

void runCpu(const AttentionForward& op, const CpuContext& context) {
    checkAttention(op);
    requireCast(op.cast, op.type);
    WorkspaceCursor cursor(context.workspace);
    RowPass pass = rowPass(op, context, cursor);
    const AttentionKernels& kernels = attentionKernels(context.isa);
    eachHead(op, context, false, cursor, [&](int64_t sequence, int64_t head, const AttentionScratch& scratch) {
        kernels.forward(op, sequence, head, scratch);
    });
    pass.run(op.out, nullptr, false, context);
}

void runCpu(const AttentionBackward& op, const CpuContext& context) {
    checkAttention(op);
    requireCast(op.cast, op.type);
    WorkspaceCursor cursor(context.workspace);
    RowPass pass = rowPass(op, context, cursor);
    const AttentionKernels& kernels = attentionKernels(context.isa);
    eachHead(op, context, true, cursor, [&](int64_t sequence, int64_t head, const AttentionScratch& scratch) {
        kernels.backward(op, sequence, head, scratch);
    });
    pass.run(op.dQkv, op.dBias, op.accumulate, context);
}

}  // namespace mantissa::kernels
