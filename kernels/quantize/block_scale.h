// Scales of blocks: the rules of the block recipes, for one block at a time, on host and device.
//
// block128  scale = M / amax, power of two where asked; sources: Transformer Engine 2.20 (tests/data/te, section d)
// mxfp8     scale_inv = E8M0 of amax / M, rounded up; source: cuBLAS documentation 3.1.4.4.1, arXiv 2506.08027
// nvfp4     one FP32 scale a tensor, S = 448 * 6 / amax; a block's E4M3 scale s = RN(amax_block * (S / 6)); stored =
// value
//           / (s / S), value = code * s / S; source: core_nvfp4.cuh of Transformer Engine
#pragma once

#include <cstdint>

#include "kernels/dtype.h"
#include "kernels/formats/fp8.h"
#include "kernels/formats/micro.h"

namespace mantissa::kernels {

enum class BlockKind : uint8_t { Block128, Mxfp8, Nvfp4 };

inline constexpr float kLargestBf16 = 0x1.FEp127f;

struct BlockRule {
    BlockKind kind = BlockKind::Block128;
    DType format = DType::E4M3;         ///< E4M3, E5M2; Nvfp4: E2M1
    bool powerOfTwo = true;             ///< Block128
    float epsilon = 0;                  ///< Block128: least amax
    float largestScale = kLargestBf16;  ///< Block128: instead of an infinite scale; the largest of the input's type
};

/// stored = value * scale; value = decode(stored) * scaleInv (Nvfp4: and * the tensor's scaleInv).
struct BlockScale {
    float scale = 1, scaleInv = 1;
    uint8_t code = 0;  ///< Mxfp8: E8M0, Nvfp4: E4M3
};

/// Nvfp4, S; amax skips NaN. 1 when there is no amax or it is infinite.
MANTISSA_ALWAYS_INLINE constexpr float nvfp4TensorScale(float amax) {
    if (!(amax > 0) || floatBits(amax) >= kFloatInf) return 1.0f;
    const float scale = 2688.0f / amax;
    return floatBits(scale) >= kFloatInf ? floatFromBits(kFloatMaxFinite) : scale;
}

MANTISSA_ALWAYS_INLINE constexpr BlockScale blockScaleOf(const BlockRule& rule, float amax, float tensorScale) {
    BlockScale block;
    if (rule.kind == BlockKind::Mxfp8) {
        block.code = encodeE8m0(amax / floatFromBits(fp8Traits(rule.format).maxFinite), true);
        block.scaleInv = decodeE8m0(block.code);
        block.scale = 1.0f / block.scaleInv;
        return block;
    }
    if (rule.kind == BlockKind::Nvfp4) {
        const float wanted = amax * (tensorScale * (1.0f / 6.0f));
        block.code = encodeE4m3(wanted);
        block.scaleInv = decodeE4m3(block.code);
        const float step = block.scaleInv * (1.0f / tensorScale);
        block.scale = step > 0 ? 1.0f / step : floatFromBits(kFloatMaxFinite);
        if (floatBits(block.scale) >= kFloatInf) block.scale = floatFromBits(kFloatMaxFinite);
        return block;
    }
    const float least = amax > rule.epsilon ? amax : rule.epsilon;
    if (least > 0 && floatBits(least) < kFloatInf) {
        block.scale = floatFromBits(fp8Traits(rule.format).maxFinite) / least;
        if (floatBits(block.scale) >= kFloatInf) block.scale = rule.largestScale;
        if (rule.powerOfTwo) block.scale = floatFromBits(floatBits(block.scale) & kFloatInf);
    }
    block.scaleInv = 1.0f / block.scale;
    return block;
}

/// The code of an already scaled value; E2M1 with its sign at bit 7 and NaN as +6, as the hardware does.
MANTISSA_ALWAYS_INLINE constexpr uint8_t encodeScaled(float scaled, DType format) {
    if (format == DType::E2M1 && (floatBits(scaled) & kFloatAbs) > kFloatInf) return 0x07;
    return encodeFp8(scaled, fp8Traits(format));
}

/// Signs of the 16-value Hadamard turn: y = (sign * x) H16 / 4 (Sylvester's order), the constant of Transformer Engine.
inline constexpr uint16_t kHadamardNegative = 0xD7E8;  ///< bit i: value i is negated first

/// In place; the result is rounded to BF16 by the caller. The same additions in the same order on every device.
MANTISSA_ALWAYS_INLINE constexpr void hadamard16(float (&x)[16]) {
    for (int i = 0; i < 16; ++i)
        if (kHadamardNegative >> i & 1) x[i] = -x[i];
    for (int half = 1; half < 16; half *= 2)
        for (int i = 0; i < 16; ++i)
            if (!(i & half)) {
                const float a = x[i], b = x[i + half];
                x[i] = a + b;
                x[i + half] = a - b;
            }
    for (int i = 0; i < 16; ++i) x[i] *= 0.25f;
}

}  // namespace mantissa::kernels
