// The quantize op in plain loops, independent of the vector code: thresholds are not precomputed, every product is
// looked at.
#include <cmath>
#include <vector>

#include "kernels/device/cpu_ops.h"
#include "kernels/formats/fp8.h"
#include "kernels/formats/half.h"
#include "kernels/simd/philox.h"

namespace mantissa::kernels {
namespace {

float inputValue(const Quantize& op, int64_t i) {
    if (op.inType == DType::BF16) return decodeBf16(static_cast<const uint16_t*>(op.in)[i]);
    const float value = static_cast<const float*>(op.in)[i];
    return op.roundToBf16 ? roundToBf16(value) : value;
}

uint8_t castValue(const CastTarget& target, float scaled, int64_t i) {
    if (!target.stochastic) return encodeFp8(scaled, target.format);
    const Philox4 random = philoxBlock(target.seed, static_cast<uint64_t>(i) / 4, 0);
    return encodeFp8Stochastic(scaled, fp8Traits(target.format), random.value[i % 4]);
}

void count(CastCounters& counters, DType format, float x, float scaled, uint8_t code) {
    const float largest = maxFinite(format);
    const float clipFrom = format == DType::E4M3 ? std::nextafter(464.0f, INFINITY) : 61440.0f;
    const float value = std::fabs(decodeFp8(code, format));
    ++counters.elements;
    counters.zeros += x == 0;
    counters.underflow += x != 0 && value == 0;
    counters.subnormal += value > 0 && value < floatFromBits(fp8Traits(format).minNormal);
    counters.overRange += std::fabs(scaled) > std::nextafter(largest, INFINITY);
    counters.clipped += std::fabs(scaled) >= clipFrom;
    counters.inf += std::isinf(x);
    counters.nan += std::isnan(x);
}

void countDear(DearStats& dear, const CastTarget& target, float x, float dequantized) {
    if (!std::isfinite(x)) return;
    const double value = x, error = static_cast<double>(dequantized) - value;
    if (x != 0 && (dear.minNonZero == 0 || std::fabs(x) < dear.minNonZero)) dear.minNonZero = std::fabs(x);
    dear.sumSquares += value * value;
    dear.sumSquaredError += error * error;
    dear.sumFourth += value * value * value * value;
    if (target.exponents && x != 0) ++dear.exponents[std::ilogb(x) + kExponentBias];
}

}  // namespace

void runReference(const Quantize& op) {
    const CastTarget& target = op.target;
    const float scale = target.scale && !target.amaxOnly ? *target.scale : 1.0f;
    const float scaleInv = 1.0f / scale;
    if (target.slot && !target.amaxOnly) target.slot->scaleUsed = scale;
    for (int64_t i = 0; i < op.rows * op.cols && target.format != DType::None; ++i) {
        const float x = inputValue(op, i);
        if (target.slot && std::fabs(x) > target.slot->amax) target.slot->amax = std::fabs(x);
        if (target.amaxOnly) continue;
        const float scaled = x * scale;
        const uint8_t code = castValue(target, scaled, i);
        if (target.codes) target.codes[i] = code;
        if (target.codesTransposed) target.codesTransposed[(i % op.cols) * op.rows + i / op.cols] = code;
        if (!target.slot || !target.count) continue;
        count(target.slot->counters, target.format, x, scaled, code);
        if (target.dear) countDear(target.slot->dear, target, x, decodeFp8(code, target.format) * scaleInv);
    }
    if (!op.dbias) return;
    for (int64_t col = 0; col < op.cols; ++col) {
        double sum = op.accumulateBias ? op.dbias[col] : 0.0;
        for (int64_t row = 0; row < op.rows; ++row) {
            const int64_t i = row * op.cols + col;
            sum += op.inType == DType::BF16 ? decodeBf16(static_cast<const uint16_t*>(op.in)[i])
                                            : static_cast<const float*>(op.in)[i];
        }
        op.dbias[col] = static_cast<float>(sum);
    }
}

}  // namespace mantissa::kernels
