#include "kernels/scaling/scaling.h"

#include <cmath>
#include <limits>

#include "kernels/formats/float_bits.h"

namespace mantissa::kernels {

float delayedScale(const float* window, int length, AmaxAlgorithm algorithm, float maxFinite, int margin,
                   float oldScale) {
    float amax = window[0];
    if (algorithm == AmaxAlgorithm::Max)
        for (int i = 1; i < length; ++i) amax = std::fmax(amax, window[i]);  // fmax does not see NaN
    if (!(amax > 0) || std::isinf(amax)) return oldScale;
    const float scale = std::ldexp(maxFinite, -margin) / amax;
    return std::isinf(scale) ? std::numeric_limits<float>::max() : scale;
}

bool delayedUpdate(float* window, int length, AmaxAlgorithm algorithm, float maxFinite, int margin, float& scale) {
    if (window[0] == 0) return false;
    scale = delayedScale(window, length, algorithm, maxFinite, margin, scale);
    const float newest = window[0];
    for (int i = 1; i < length; ++i) window[i - 1] = window[i];
    window[length - 1] = newest;
    window[0] = 0;
    return true;
}

float currentScale(float amax, float maxFinite, bool powerOfTwo, float epsilon) {
    if (amax < epsilon) amax = epsilon;
    if (!(amax > 0) || std::isinf(amax)) return 1.0f;
    float scale = maxFinite / amax;
    if (std::isinf(scale)) scale = std::numeric_limits<float>::max();
    if (powerOfTwo) scale = floatFromBits(floatBits(scale) & kFloatInf);
    return scale;
}

}  // namespace mantissa::kernels
