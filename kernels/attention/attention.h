// Causal self-attention, tiled: no T x T matrix is kept (arXiv:2205.14135).
#pragma once

#include <cstdint>

#include "kernels/quantize/quantize.h"

namespace mantissa::kernels {

/// qkv: (batch * T, 3 C) of `type`, rows [Q all heads, K all heads, V all heads], C = heads * headWidth.
/// out: (batch * T, C) of `type`; out = softmax(Q K^T / sqrt(headWidth), causal) V. lse: (batch, heads, T) F32, out,
/// for backward. cast: of out (may be format None). headWidth 32, 64 or 128 (and 16 on the CPU for tests). Products in
/// the type's own arithmetic (BF16: BF16 products, F32 sums), softmax in F32.
struct AttentionForward {
    int64_t batch = 0, context = 0, heads = 0, headWidth = 0;
    DType type = DType::F32;
    const void* qkv = nullptr;
    void* out = nullptr;
    float* lse = nullptr;
    CastTarget cast;
};

/// dQkv (batch * T, 3 C) of `type`. dBias: (3 C) F32 column sums of dQkv after rounding, += when accumulate. cast: of
/// dQkv. again: transposed codes of forward's out (GPU).
struct AttentionBackward {
    int64_t batch = 0, context = 0, heads = 0, headWidth = 0;
    DType type = DType::F32;
    const void* qkv = nullptr;
    const void* out = nullptr;
    const float* lse = nullptr;
    const void* dOut = nullptr;
    void* dQkv = nullptr;
    CastTarget cast;
    float* dBias = nullptr;
    bool accumulate = false;
    CastTarget again;
};

/// Throw ShapeMismatch unless sizes and type fit the contract above.
void checkAttention(const AttentionForward& op);
void checkAttention(const AttentionBackward& op);

}  // namespace mantissa::kernels
