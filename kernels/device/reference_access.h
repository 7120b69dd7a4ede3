// Element access for the reference ops: any storage type as double, rounded to nearest even when stored.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/device/cpu_ops.h"
#include "kernels/dtype.h"
#include "kernels/formats/half.h"

namespace mantissa::kernels::reference {

inline double load(DType type, const void* data, int64_t index) {
    switch (type) {
        case DType::BF16:
            return decodeBf16(static_cast<const uint16_t*>(data)[index]);
        case DType::F16:
            return decodeFp16(static_cast<const uint16_t*>(data)[index]);
        default:
            return static_cast<const float*>(data)[index];
    }
}

inline void store(DType type, void* data, int64_t index, double value) {
    const float rounded = static_cast<float>(value);
    switch (type) {
        case DType::BF16:
            static_cast<uint16_t*>(data)[index] = encodeBf16(rounded);
            break;
        case DType::F16:
            static_cast<uint16_t*>(data)[index] = encodeFp16(rounded);
            break;
        default:
            static_cast<float*>(data)[index] = rounded;
            break;
    }
}

/// value as it reads after a store to `type`.
inline double rounded(DType type, double value) {
    float memory = 0;
    store(type, &memory, 0, value);
    return load(type, &memory, 0);
}

/// The cast that ends a fused op: `values` (rows, cols) of `type`, as stored by the op.
inline void cast(DType type, const void* values, int64_t rows, int64_t cols, const CastTarget& target) {
    if (target.format == DType::None) return;
    std::vector<float> copy(static_cast<size_t>(rows * cols));
    for (int64_t i = 0; i < rows * cols; ++i) copy[static_cast<size_t>(i)] = static_cast<float>(load(type, values, i));
    Quantize op;
    op.rows = rows, op.cols = cols, op.inType = DType::F32, op.in = copy.data(), op.target = target;
    runReference(op);
}

}  // namespace mantissa::kernels::reference
