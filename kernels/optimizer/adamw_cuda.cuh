// The arithmetic of AdamW on the device, operation by operation as on the CPU: written with the rounding it has, so
// that the fused kernel, the stages one by one and the CPU agree on every bit.
#pragma once

#include "kernels/optimizer/optimizer.h"

namespace mantissa::kernels::cuda {

/// What is the same for every element of a tensor.
struct Factors {
    float clip, rate, beta1, beta2, oneMinusBeta1, oneMinusBeta2, inverse1, inverse2, epsilon, decay;
};

/// op: AdamW or one of its stages.
template <class Op>
__device__ __forceinline__ Factors factorsOf(const Op& op, float decay) {
    return {op.state->clipFactor,
            op.parameters->learningRate,
            op.beta1,
            op.beta2,
            static_cast<float>(1.0 - static_cast<double>(op.beta1)),
            static_cast<float>(1.0 - static_cast<double>(op.beta2)),
            static_cast<float>(1.0 / (1.0 - op.state->beta1Power)),
            static_cast<float>(1.0 / (1.0 - op.state->beta2Power)),
            op.epsilon,
            decay};
}

__device__ __forceinline__ float clipped(const Factors& f, float g) {
    return __fmul_rn(g, f.clip);
}
__device__ __forceinline__ float newMoment1(const Factors& f, float m, float g) {
    return __fmaf_rn(f.beta1, m, __fmul_rn(f.oneMinusBeta1, g));
}
__device__ __forceinline__ float squared(const Factors& f, float g) {
    return __fmul_rn(__fmul_rn(f.oneMinusBeta2, g), g);
}
__device__ __forceinline__ float newMoment2(const Factors& f, float v, float square) {
    return __fmaf_rn(f.beta2, v, square);
}
__device__ __forceinline__ float quotient(const Factors& f, float m, float denominator) {
    return __fdiv_rn(__fmul_rn(m, f.inverse1), denominator);
}
__device__ __forceinline__ float decayed(const Factors& f, float w, float step) {
    return __fmaf_rn(f.decay, w, step);
}
__device__ __forceinline__ float moved(const Factors& f, float w, float step) {
    return __fmaf_rn(-f.rate, step, w);
}

}  // namespace mantissa::kernels::cuda
