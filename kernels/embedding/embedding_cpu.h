// The per-ISA part of the embeddings.
#pragma once

#include "kernels/embedding/embedding.h"
#include "kernels/simd/dispatch.h"

namespace mantissa::kernels {

struct EmbeddingKernels {
    void (*forward)(const EmbeddingForward& op, int64_t firstRow, int64_t lastRow);
    /// Columns [firstCol, lastCol) of both tables, all rows.
    void (*backward)(const EmbeddingBackward& op, int64_t firstCol, int64_t lastCol);
};

MANTISSA_DECLARE_ISA_TABLE(EmbeddingKernels, embeddingKernels)

}  // namespace mantissa::kernels
