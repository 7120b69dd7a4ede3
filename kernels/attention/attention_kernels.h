// What the host part of attention and its per-ISA code share. The products are the matrix product's own tiles, so their
// order of summation is that of kernels/matmul/matmul_kernels.h on every instruction set.
#pragma once

#include "kernels/attention/attention.h"
#include "kernels/device/row_tiles.h"
#include "kernels/matmul/matmul_kernels.h"

namespace mantissa::kernels {

/// Queries worked on at once: at most this many rows of scores exist in a worker. Sums of dK and dV are made over
/// blocks of it, so it is part of the result.
inline constexpr int64_t kAttentionRows = 64;

/// A worker's memory for one (sequence, head). Rows of scores are `scoreLd` elements apart.
struct AttentionScratch {
    int64_t scoreLd = 0;
    float* keysByWidth = nullptr;    ///< K packed for scores: panels of keys
    float* valuesByKeys = nullptr;   ///< V packed for out: panels of width
    float* valuesByWidth = nullptr;  ///< V packed for dP: panels of keys (backward)
    float* keysByKeys = nullptr;     ///< K packed for dQ: panels of width (backward)
    float* block = nullptr;          ///< a block of Q or dOut packed for dK and dV (backward)
    float* scores = nullptr;         ///< (kAttentionRows, scoreLd)
    float* dScores = nullptr;        ///< the same (backward)
    void* probabilities = nullptr;   ///< the same, of the op's type; `scores` itself for F32
    void* dScoresOut = nullptr;      ///< the same, of the op's type; `dScores` itself for F32 (backward)
    float* dKeys = nullptr;          ///< (context, headWidth) sums (backward)
    float* dValues = nullptr;
    float* delta = nullptr;    ///< (kAttentionRows) sum_d dOut out (backward)
    float* product = nullptr;  ///< scratch of the product's tiles
};

struct AttentionKernels {
    void (*forward)(const AttentionForward& op, int64_t sequence, int64_t head, const AttentionScratch& scratch);
    void (*backward)(const AttentionBackward& op, int64_t sequence, int64_t head, const AttentionScratch& scratch);
    /// Rows [firstRow, lastRow) of a (rows, cols) result: column sums (unless nullptr) and cast.
    void (*finish)(DType type, const void* values, int64_t cols, int64_t firstRow, int64_t lastRow, float* sums,
                   const TileCast& cast);
};

MANTISSA_DECLARE_ISA_TABLE(AttentionKernels, attentionKernels)

}  // namespace mantissa::kernels
