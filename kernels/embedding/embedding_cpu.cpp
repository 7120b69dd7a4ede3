// Embeddings: forward over a tile of rows, backward over a strip of columns, so that no two tiles write the same number
// and rows add up in ascending order.
#include "kernels/embedding/embedding_cpu.h"

#include "kernels/simd/vec16.h"

namespace mantissa::kernels::MANTISSA_ISA {
namespace {

template <class T>
void forwardTile(const EmbeddingForward& op, int64_t firstRow, int64_t lastRow) {
    const int64_t cols = op.cols;
    for (int64_t row = firstRow; row < lastRow; ++row) {
        const T* token = static_cast<const T*>(op.tokenTable) + op.tokens[row] * cols;
        const T* position = static_cast<const T*>(op.positionTable) + row % op.context * cols;
        T* out = static_cast<T*>(op.out) + row * cols;
        forEach16(
            cols, [&](int64_t c, auto part) __attribute__((always_inline)) {
                store(out + c, load(token + c, part) + load(position + c, part), part);
            });
    }
}

template <class T>
void backwardStrip(const EmbeddingBackward& op, int64_t firstCol, int64_t lastCol) {
    const int64_t cols = op.cols, n = lastCol - firstCol;
    if (!op.accumulate)
        for (int64_t t = 0; t < op.context; ++t)
            __builtin_memset(op.dPositionTable + t * cols + firstCol, 0, static_cast<size_t>(n) * sizeof(float));
    for (int64_t row = 0; row < op.batch * op.context; ++row) {
        const T* d = static_cast<const T*>(op.dOut) + row * cols + firstCol;
        float* token = op.dTokenTable + op.tokens[row] * cols + firstCol;
        float* position = op.dPositionTable + row % op.context * cols + firstCol;
        forEach16(
            n, [&](int64_t c, auto part) __attribute__((always_inline)) {
                const V16 value = load(d + c, part);
                store(token + c, load(token + c, part) + value, part);
                store(position + c, load(position + c, part) + value, part);
            });
    }
}

void forward(const EmbeddingForward& op, int64_t firstRow, int64_t lastRow) {
    switch (op.type) {
        case DType::BF16:
            return forwardTile<Bf16>(op, firstRow, lastRow);
        case DType::F16:
            return forwardTile<F16>(op, firstRow, lastRow);
        default:
            return forwardTile<float>(op, firstRow, lastRow);
    }
}

void backward(const EmbeddingBackward& op, int64_t firstCol, int64_t lastCol) {
    switch (op.type) {
        case DType::BF16:
            return backwardStrip<Bf16>(op, firstCol, lastCol);
        case DType::F16:
            return backwardStrip<F16>(op, firstCol, lastCol);
        default:
            return backwardStrip<float>(op, firstCol, lastCol);
    }
}

}  // namespace

const EmbeddingKernels embeddingKernels = {forward, backward};

}  // namespace mantissa::kernels::MANTISSA_ISA
