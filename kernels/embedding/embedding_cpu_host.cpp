// Host entries of the embeddings.
#include <algorithm>

#include "kernels/device/cpu_host.h"
#include "kernels/embedding/embedding_cpu.h"

namespace mantissa::kernels {
namespace {

constexpr int64_t kStripCols = 32;  // 64 bytes of a BF16 row

void checkTokens(const int32_t* tokens, int64_t n, int64_t vocabulary) {
    for (int64_t i = 0; i < n; ++i)
        require(tokens[i] >= 0 && tokens[i] < vocabulary, "embedding: a token is outside the vocabulary");
}

}  // namespace

size_t workspaceCpu(const EmbeddingForward&, const CpuContext&) {
    return 0;
}
size_t workspaceCpu(const EmbeddingBackward&, const CpuContext&) {
    return 0;
}

void runCpu(const EmbeddingForward& op, const CpuContext& context) {
    require(op.batch >= 0 && op.context > 0 && op.cols > 0, "embedding forward: a size is not positive");
    require(isFloatType(op.type), "embedding forward: type must be F32, BF16 or F16");
    require(op.tokens && op.tokenTable && op.positionTable && op.out, "embedding forward: an argument is missing");
    const int64_t rows = op.batch * op.context;
    checkTokens(op.tokens, rows, op.vocabulary);
    const EmbeddingKernels& kernels = embeddingKernels(context.isa);
    context.executor->run(rowTiles(rows), [&](int64_t tile, int) {
        const int64_t first = tile * kTileRows;
        kernels.forward(op, first, std::min(rows, first + kTileRows));
    });
}

void runCpu(const EmbeddingBackward& op, const CpuContext& context) {
    require(op.batch >= 0 && op.context > 0 && op.cols > 0, "embedding backward: a size is not positive");
    require(isFloatType(op.type), "embedding backward: type must be F32, BF16 or F16");
    require(op.tokens && op.dOut && op.dTokenTable && op.dPositionTable, "embedding backward: an argument is missing");
    checkTokens(op.tokens, op.batch * op.context, op.vocabulary);
    const EmbeddingKernels& kernels = embeddingKernels(context.isa);
    context.executor->run((op.cols + kStripCols - 1) / kStripCols, [&](int64_t tile, int) {
        const int64_t first = tile * kStripCols;
        kernels.backward(op, first, std::min(op.cols, first + kStripCols));
    });
}

}  // namespace mantissa::kernels
