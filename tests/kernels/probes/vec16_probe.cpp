#include "tests/kernels/probes/vec16_probe.h"

#include "kernels/simd/math16.h"
#include "kernels/simd/vec16.h"

namespace mantissa::kernels::MANTISSA_ISA {
namespace {

template <class T>
const T* as(const uint16_t* data) {
    return reinterpret_cast<const T*>(data);
}
template <class T>
T* as(uint16_t* data) {
    return reinterpret_cast<T*>(data);
}

void expArray(const float* in, float* out, int64_t n) {
    for (int64_t i = 0; i < n; i += 16) store16(out + i, expFlush16(load16(in + i)));
}
void sigmoidArray(const float* in, float* out, int64_t n) {
    for (int64_t i = 0; i < n; i += 16) store16(out + i, sigmoid16(load16(in + i)));
}
void toBf16(const float* in, uint16_t* out, int64_t n) {
    for (int64_t i = 0; i < n; i += 16) store16(as<Bf16>(out + i), load16(in + i));
}
void fromBf16(const uint16_t* in, float* out, int64_t n) {
    for (int64_t i = 0; i < n; i += 16) store16(out + i, load16(as<Bf16>(in + i)));
}
void toF16(const float* in, uint16_t* out, int64_t n) {
    for (int64_t i = 0; i < n; i += 16) store16(as<F16>(out + i), load16(in + i));
}
void fromF16(const uint16_t* in, float* out, int64_t n) {
    for (int64_t i = 0; i < n; i += 16) store16(out + i, load16(as<F16>(in + i)));
}
float sumOf16(const float* in) {
    return sumLanes(load16(in));
}
float maxOf16(const float* in) {
    return maxLanes(load16(in));
}
float sumOfRow(const float* in, int64_t n) {
    return sumRow(
        n, [&](V16 sum, int64_t c, auto part) __attribute__((always_inline)) { return sum + load(in + c, part); });
}
void copyPart(const uint16_t* in, uint16_t* out, int64_t n) {
    store(as<Bf16>(out), load(as<Bf16>(in), Part{n}), Part{n});
}

}  // namespace

const Vec16Probe vec16Probe = {expArray, sigmoidArray, toBf16,  fromBf16, toF16,
                               fromF16,  sumOf16,      maxOf16, sumOfRow, copyPart};

}  // namespace mantissa::kernels::MANTISSA_ISA
