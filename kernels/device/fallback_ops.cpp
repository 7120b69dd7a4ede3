// Plain versions of ops whose families have no file of their own yet; a family's files replace its entries here.
#define MANTISSA_ISA plain

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/device/cpu_ops.h"
#include "kernels/quantize/cast_span.h"

namespace mantissa::kernels {

// Quantize and scaling.
void runReference(const Quantize& op) {
    const auto bf16 = static_cast<const uint16_t*>(op.in);
    const auto f32 = static_cast<const float*>(op.in);
    if (op.dbias)
        for (int64_t c = 0; c < op.cols; ++c) {
            double sum = op.accumulateBias ? op.dbias[c] : 0;
            for (int64_t r = 0; r < op.rows; ++r)
                sum += op.inType == DType::BF16 ? decodeBf16(bf16[r * op.cols + c]) : f32[r * op.cols + c];
            op.dbias[c] = static_cast<float>(sum);
        }
    if (op.target.format == DType::None) return;
    const CastParams params = makeCastParams(op.target);
    std::vector<SpanStats> stats(1);
    const int64_t n = op.rows * op.cols;
    if (op.inType == DType::BF16)
        plain::castSpanBf16(bf16, n, 0, params, op.target.codes, stats[0]);
    else
        plain::castSpanF32(f32, n, 0, params, op.roundToBf16, op.target.codes, stats[0]);
    mergeSpanStats(stats.data(), 1, op.target, params);
}

float delayedScale(const float* window, int length, AmaxAlgorithm algorithm, float maxFinite, int margin,
                   float oldScale) {
    float amax = window[0];
    if (algorithm == AmaxAlgorithm::Max)
        for (int i = 1; i < length; ++i) amax = std::fmax(amax, window[i]);
    if (!(amax > 0) || std::isinf(amax)) return oldScale;
    const float scale = std::ldexp(maxFinite, -margin) / amax;
    return std::isinf(scale) ? 3.4028234663852886e38f : scale;
}

bool delayedUpdate(float* window, int length, AmaxAlgorithm algorithm, float maxFinite, int margin, float& scale) {
    if (window[0] == 0) return false;
    scale = delayedScale(window, length, algorithm, maxFinite, margin, scale);
    std::rotate(window, window + 1, window + length);
    window[0] = 0;
    return true;
}

float currentScale(float amax, float maxFinite, bool powerOfTwo, float epsilon) {
    amax = std::max(amax, epsilon);
    if (!(amax > 0) || std::isinf(amax)) return 1;
    float scale = maxFinite / amax;
    if (std::isinf(scale)) scale = 3.4028234663852886e38f;
    return powerOfTwo ? floatFromBits(floatBits(scale) & 0xFF800000u) : scale;
}

void runReference(const DelayedUpdate& op) {
    for (int i = 0; i < op.count; ++i) {
        const ScalingTensor& tensor = op.tensors[i];
        if (!tensor.delayed || (tensor.isWeight && op.applied && !*op.applied)) continue;
        float* window = op.history + tensor.historyOffset;
        window[0] = std::fmax(window[0], op.slots[i].amax);
        ScaleEntry& entry = op.table[i];
        const float before = entry.scale;
        if (!delayedUpdate(window, tensor.historyLength, tensor.algorithm,
                           tensor.format == DType::E4M3 ? 448.0f : 57344.0f, tensor.margin, entry.scale))
            continue;
        entry.scaleInv = 1 / entry.scale;
        ++entry.updates;
        if (entry.scale != before) entry.lastChange = entry.updates;
    }
}

void runReference(const CurrentScale& op) {
    op.entry->scale =
        currentScale(op.slot->amax, op.format == DType::E4M3 ? 448.0f : 57344.0f, op.powerOfTwo, op.epsilon);
    op.entry->scaleInv = 1 / op.entry->scale;
}

#define MANTISSA_PLAIN(Op)                              \
    void runCpu(const Op& op, const CpuContext&) {      \
        runReference(op);                               \
    }                                                   \
    size_t workspaceCpu(const Op&, const CpuContext&) { \
        return 0;                                       \
    }
MANTISSA_PLAIN(Quantize)
MANTISSA_PLAIN(DelayedUpdate)
MANTISSA_PLAIN(CurrentScale)
// Norm, activation, embedding, loss, optimizer.
MANTISSA_PLAIN(NormForward)
MANTISSA_PLAIN(NormBackward)
MANTISSA_PLAIN(ActivationForward)
MANTISSA_PLAIN(ActivationBackward)
MANTISSA_PLAIN(EmbeddingForward)
MANTISSA_PLAIN(EmbeddingBackward)
MANTISSA_PLAIN(CrossEntropy)
MANTISSA_PLAIN(SumLosses)
MANTISSA_PLAIN(StepBegin)
MANTISSA_PLAIN(SumSquares)
MANTISSA_PLAIN(GradientControl)
MANTISSA_PLAIN(AdamW)
MANTISSA_PLAIN(InitNormal)
MANTISSA_PLAIN(Fill)
#undef MANTISSA_PLAIN

}  // namespace mantissa::kernels
