// LayerNorm fused with the residual add before it and the cast after it; RMSNorm shares the contract.
#pragma once

#include <cstdint>

#include "kernels/quantize/quantize.h"

namespace mantissa::kernels {

enum class NormKind : uint8_t { LayerNorm, RmsNorm };

/// residualOut = residualIn + delta (delta may be nullptr: then residualOut is not written and may be nullptr);
/// y = (r - mean) * rstd * gain + bias over C = cols, rstd = 1 / sqrt(var + eps), biased variance (arXiv:1607.06450).
/// All of `type` (F32, BF16, F16): residualIn, delta, residualOut, gain (C), bias (C), out (rows, C). residualOut may be residualIn.
/// The sum is rounded to `type` before it is normalised. mean, rstd: (rows) F32, out, for backward.
/// out may be nullptr when only the cast is wanted. Cast: of the value rounded to BF16. Two-pass mean / variance in F32.
struct NormForward {
    NormKind kind = NormKind::LayerNorm;
    int64_t rows = 0, cols = 0;
    DType type = DType::F32;
    const void* residualIn = nullptr;
    const void* delta = nullptr;
    void* residualOut = nullptr;
    const void* gain = nullptr;
    const void* bias = nullptr;
    float eps = 1e-5f;
    void* out = nullptr;
    CastTarget cast;
    float* mean = nullptr;
    float* rstd = nullptr;
    bool castFromF32 = false;  ///< test only: cast the F32 value, as Transformer Engine's LayerNorm does
};

/// dResidual (rows, C) of `type`: out = dResidualIn (or 0 when nullptr) + d(norm)/dr of dOut. dResidualIn may be dResidual.
/// residual: the normalised input of forward (rows, C). dGain, dBias: (C) F32, += when accumulate; from fixed blocks of rows.
/// cast: of dResidual, as grad_output of the linear before (with dLinearBias (C) F32: its column sums, after rounding to `type`).
/// again: transposed codes of forward's y, made again with the recorded scale and without counting (GPU; format None elsewhere).
struct NormBackward {
    NormKind kind = NormKind::LayerNorm;
    int64_t rows = 0, cols = 0;
    DType type = DType::F32;
    const void* dOut = nullptr;
    const void* residual = nullptr;
    const void* gain = nullptr;
    const void* bias = nullptr;  ///< only for `again` and outAgain
    const float* mean = nullptr;
    const float* rstd = nullptr;
    const void* dResidualIn = nullptr;
    void* dResidual = nullptr;
    float* dGain = nullptr;
    float* dBias = nullptr;
    CastTarget cast;
    float* dLinearBias = nullptr;
    bool accumulate = false;
    CastTarget again;
    void* outAgain = nullptr;  ///< forward's y (rows, C) of `type`, made again where the plan does not keep it; nullptr: not wanted
};

}  // namespace mantissa::kernels
