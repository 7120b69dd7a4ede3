// Token and position embeddings.
#pragma once

#include <cstdint>

#include "kernels/dtype.h"

namespace mantissa::kernels {

/// out (batch * T, C) = tokenTable[token] + positionTable[position]; all of `type`. tokens: (batch * T) I32 in [0, vocabulary).
struct EmbeddingForward {
    int64_t batch = 0, context = 0, cols = 0, vocabulary = 0;
    DType type = DType::F32;
    const int32_t* tokens = nullptr;
    const void* tokenTable = nullptr;
    const void* positionTable = nullptr;
    void* out = nullptr;
};

/// dTokenTable (vocabulary, C), dPositionTable (T, C): F32. The token table is always added to (the tied head wrote it first, or the
/// engine cleared it); the position table is added to when accumulate, else overwritten. Order of sums: rows ascending.
struct EmbeddingBackward {
    int64_t batch = 0, context = 0, cols = 0, vocabulary = 0;
    DType type = DType::F32;
    const int32_t* tokens = nullptr;
    const void* dOut = nullptr;  ///< (batch * T, C) of `type`
    float* dTokenTable = nullptr;
    float* dPositionTable = nullptr;
    bool accumulate = false;
};

}  // namespace mantissa::kernels
