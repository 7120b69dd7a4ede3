// Element types of tensors in device memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mantissa::kernels {

enum class DType : uint8_t { None, F32, BF16, F16, E4M3, E5M2, I32 };

constexpr size_t dtypeSize(DType type) {
    switch (type) {
        case DType::F32:
        case DType::I32: return 4;
        case DType::BF16:
        case DType::F16: return 2;
        case DType::E4M3:
        case DType::E5M2: return 1;
        case DType::None: return 0;
    }
    return 0;
}

constexpr const char* dtypeName(DType type) {
    switch (type) {
        case DType::None: return "none";
        case DType::F32: return "f32";
        case DType::BF16: return "bf16";
        case DType::F16: return "fp16";
        case DType::E4M3: return "e4m3";
        case DType::E5M2: return "e5m2";
        case DType::I32: return "i32";
    }
    return "?";
}

constexpr bool isFp8(DType type) { return type == DType::E4M3 || type == DType::E5M2; }

}  // namespace mantissa::kernels
