// FP8 scales: the table, the delayed update of all tensors in one launch, the current scale from an amax.
#pragma once

#include <cstdint>

#include "kernels/dtype.h"
#include "kernels/quantize/quantize.h"

namespace mantissa::kernels {

/// One a quantized tensor, in device memory, 16-byte stride (cuBLASLt refuses scale pointers of 4-byte alignment).
struct alignas(16) ScaleEntry {
    float scaleInv =
        1;  ///< RN(1 / scale), also as a subnormal; first, because cuBLASLt reads it through a 16-byte aligned pointer
    float scale = 1;          ///< stored = value * scale
    uint32_t updates = 0;     ///< updates of this tensor that rolled its window; 0: never updated
    uint32_t lastChange = 0;  ///< value of `updates` at which the scale last changed
};

enum class AmaxAlgorithm : uint8_t { Max, MostRecent };

/// Static description of a quantized tensor for the update.
struct ScalingTensor {
    DType format = DType::E4M3;  ///< sets the largest finite value M: 448 or 57344
    uint8_t isWeight = 0;        ///< left alone when the optimizer is skipped (`applied` == 0)
    uint8_t delayed = 1;         ///< 0: the delayed update leaves this tensor alone (current or fixed scaling, BF16)
    uint8_t reserved = 0;
    int32_t margin = 0;
    int32_t historyLength = 0;  ///< entries of its window
    int32_t historyOffset = 0;  ///< first entry in `history`
    AmaxAlgorithm algorithm = AmaxAlgorithm::Max;
};

/// Delayed update of all tensors, Transformer Engine's fused update (amax of this step is merged into slot 0 first):
/// slot 0 == 0: did not run, nothing changes. Else amax = max of the window (NaN is not seen; NaN alone: keep) or slot
/// 0; scale = RN((M * 2^-margin) / amax), FLT_MAX if that is infinite, the old scale when amax is 0, Inf or NaN; then
/// the window rolls (slots shift towards 0's new value: slot 1 is the oldest closed entry, the last slot the newest
/// closed one, slot 0 becomes 0). Sources: delayed_scaling.cu of Transformer Engine 2.20; recorded values in
/// tests/data/te.
struct DelayedUpdate {
    int count = 0;
    const ScalingTensor* tensors = nullptr;  ///< (count)
    const TensorSlot* slots = nullptr;       ///< (count) amax of this step
    float* history = nullptr;                ///< windows, slot 0 first, at historyOffset
    ScaleEntry* table = nullptr;             ///< (count)
    const uint32_t* applied = nullptr;       ///< device flag; nullptr counts as 1
};

/// Current scale of tensors [first, first + count) of the table from slots[i].amax:
/// scale = M / max(amax, epsilon); amax 0, Inf or NaN -> 1 (after epsilon: 0 with epsilon > 0 gives M / epsilon); an
/// infinite result
/// -> FLT_MAX; powerOfTwo clears the fraction. Source: recipe_common.cuh of Transformer Engine; tests/data/te (section
/// c).
struct CurrentScale {
    DType format = DType::E4M3;
    const TensorSlot* slot = nullptr;
    ScaleEntry* entry = nullptr;
    bool powerOfTwo = false;
    float epsilon = 0;
};

/// Host versions, exact, used by the CPU backend, the tensor bench and the tests.
/// delayedUpdate: window has `length` entries, slot 0 first, this step's amax already merged into slot 0. Returns false
/// when nothing changed because the tensor did not run.
bool delayedUpdate(float* window, int length, AmaxAlgorithm algorithm, float maxFinite, int margin, float& scale);
float delayedScale(const float* window, int length, AmaxAlgorithm algorithm, float maxFinite, int margin,
                   float oldScale);
float currentScale(float amax, float maxFinite, bool powerOfTwo, float epsilon);

}  // namespace mantissa::kernels
