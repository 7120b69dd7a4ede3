// Activations of the feed-forward block, fused with the cast after them and, backward, with the bias gradient.
#pragma once

#include <cstdint>

#include "kernels/quantize/quantize.h"

namespace mantissa::kernels {

enum class Activation : uint8_t { GeluTanh, SwiGlu };

/// GeluTanh: y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) (arXiv:1606.08415); in (rows, cols), out (rows, cols).
/// SwiGlu: in (rows, 2 cols) = [gate, up], out = gate * sigmoid(gate) * up (arXiv:2002.05202).
/// in, out of `type`; out may be nullptr when only the cast is wanted.
struct ActivationForward {
    Activation kind = Activation::GeluTanh;
    int64_t rows = 0, cols = 0;
    DType type = DType::F32;
    const void* in = nullptr;
    void* out = nullptr;
    CastTarget cast;
};

/// dIn = dOut * y'(in); dIn may be nullptr when only the cast is wanted, and may be dOut (GeluTanh).
/// dBias: column sums of dIn after rounding to `type`, (cols or 2 cols) F32, += when accumulate. cast: of dIn.
/// again: transposed codes of forward's out, made again (GPU). outAgain: forward's out made again, of `type`; nullptr: not wanted.
struct ActivationBackward {
    Activation kind = Activation::GeluTanh;
    int64_t rows = 0, cols = 0;
    DType type = DType::F32;
    const void* in = nullptr;
    const void* dOut = nullptr;
    void* dIn = nullptr;
    CastTarget cast;
    float* dBias = nullptr;
    bool accumulate = false;
    CastTarget again;
    void* outAgain = nullptr;
};

}  // namespace mantissa::kernels
