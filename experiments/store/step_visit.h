// Walks over a step blob without building a record, for readers that want a few of its numbers.
#pragma once

#include "engine/numerics.h"
#include "experiments/store/bytes.h"
#include "experiments/store/database.h"
#include "experiments/store/metrics.h"

namespace mantissa::experiments {

constexpr uint8_t kStepVersion = 1;
constexpr uint8_t kStepCast = 1, kStepDear = 2, kStepAmaxOnly = 4;  ///< flags of a tensor in a step blob
constexpr uint64_t kMaxStepTensors = 1 << 20;

/// header(probed, tensors): called once. scalar(metric, value). tensor(index, numerics): returns false to stop early; a
/// tensor that was not recorded is skipped. False: the blob is damaged or of a later version (what was called before
/// then counts for nothing).
template <typename Header, typename Scalar, typename Tensor>
bool visitStep(BlobView blob, Header header, Scalar scalar, Tensor tensor) {
    ByteReader in(blob.data, blob.size);
    if (in.u8() != kStepVersion) return false;
    const bool probed = (in.u8() & 1) != 0;
    const int scalars = in.u8();
    for (int i = 0; i < scalars && in.ok(); ++i) {
        const auto metric = static_cast<Metric>(in.u8());
        const double value = in.f64();
        if (in.ok()) scalar(metric, value);
    }
    const uint64_t tensors = in.varint();
    if (!in.ok() || tensors > kMaxStepTensors || tensors > in.left()) return false;
    header(probed, tensors);
    engine::TensorNumerics numerics;
    for (uint64_t i = 0; i < tensors; ++i) {
        const uint8_t flags = in.u8();
        if ((flags & (kStepCast | kStepAmaxOnly)) == 0) {
            if (!in.ok()) return false;
            continue;
        }
        const bool cast = (flags & kStepCast) != 0;
        numerics.amax = in.f32();
        numerics.scale = cast ? in.f32() : 1;
        for (uint64_t& counter : numerics.counters) counter = cast ? in.varint() : 0;
        numerics.dear = cast && (flags & kStepDear) != 0;
        if (numerics.dear)
            for (float* value : {&numerics.minNonZero, &numerics.mse, &numerics.sqnrDb, &numerics.kurtosis})
                *value = in.f32();
        if (!in.ok()) return false;
        if (!tensor(i, static_cast<const engine::TensorNumerics&>(numerics))) return true;
    }
    return true;
}

}  // namespace mantissa::experiments
