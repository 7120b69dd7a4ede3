// Element types of tensors in device memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mantissa::kernels {

enum class DType : uint8_t { None, F32, BF16, F16, E4M3, E5M2, I32, E2M1 };

constexpr size_t dtypeSize(DType type) {
    switch (type) {
        case DType::F32:
        case DType::I32: return 4;
        case DType::BF16:
        case DType::F16: return 2;
        case DType::E4M3:
        case DType::E5M2:
        case DType::E2M1: return 1;  // one code a byte
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
        case DType::E2M1: return "e2m1";
    }
    return "?";
}

/// What products may read as codes, or as the exact values of codes.
constexpr bool isCodeFormat(DType type) { return type == DType::E4M3 || type == DType::E5M2 || type == DType::E2M1; }
constexpr bool isFp8(DType type) { return type == DType::E4M3 || type == DType::E5M2; }

}  // namespace mantissa::kernels
