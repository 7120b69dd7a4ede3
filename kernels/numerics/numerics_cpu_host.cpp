// The looking ops on the CPU: tiles in parallel, partial results merged in tile order.
#include <algorithm>
#include <bit>

#include "kernels/device/cpu_host.h"
#include "kernels/formats/fp8.h"
#include "kernels/formats/half.h"
#include "kernels/numerics/numerics_ops.h"

namespace mantissa::kernels {

namespace {

constexpr int64_t kTile = 1 << 16;

int64_t tileCount(int64_t n) {
    return (n + kTile - 1) / kTile;
}

template <class Word>
void checkSpan(const Word* values, int64_t first, int64_t last, Word infinity, Word magnitude, FiniteCount& out) {
    int64_t nonFinite = 0;
    for (int64_t i = first; i < last; ++i) nonFinite += (values[i] & infinity) == infinity;
    if (!nonFinite) return;
    for (int64_t i = first; i < last; ++i) {
        if ((values[i] & infinity) != infinity) continue;
        if (!out.firstInverted) out.firstInverted = ~static_cast<uint64_t>(i);
        (values[i] & magnitude) == infinity ? ++out.inf : ++out.nan;
    }
}

void checkTile(const CheckFinite& op, int64_t first, int64_t last, FiniteCount& out) {
    if (op.type == DType::F32)
        checkSpan(static_cast<const uint32_t*>(op.in), first, last, 0x7F800000u, 0x7FFFFFFFu, out);
    else if (op.type == DType::BF16)
        checkSpan(static_cast<const uint16_t*>(op.in), first, last, uint16_t{0x7F80}, uint16_t{0x7FFF}, out);
    else
        checkSpan(static_cast<const uint16_t*>(op.in), first, last, uint16_t{0x7C00}, uint16_t{0x7FFF}, out);
}

void merge(const CheckFinite& op, const FiniteCount& part) {
    op.out->nan += part.nan;
    op.out->inf += part.inf;
    if (!part.firstInverted) return;
    op.out->firstInverted = std::max(op.out->firstInverted, ~(~part.firstInverted + static_cast<uint64_t>(op.offset)));
}

float valueAt(DType type, const void* data, int64_t i) {
    if (type == DType::BF16) return decodeBf16(static_cast<const uint16_t*>(data)[i]);
    if (type == DType::F16) return decodeFp16(static_cast<const uint16_t*>(data)[i]);
    return static_cast<const float*>(data)[i];
}

void checkShadow(const ShadowProduct& op) {
    require(op.sums && op.out, "shadow: nothing to compare");
    require(isFloatType(op.a.type) && isFloatType(op.b.type), "shadow: operands are not plain values");
    require(op.samples >= 1, "shadow: no rows to compare");
}

int64_t sampleCount(const ShadowProduct& op) {
    return std::min(op.samples, op.m);
}

struct LoadF32 {
    const float* values;
    float operator()(int64_t i) const { return values[i]; }
};
struct LoadRounded {
    const float* values;
    float operator()(int64_t i) const { return roundToBf16(values[i]); }
};
struct LoadBf16 {
    const uint16_t* values;
    float operator()(int64_t i) const { return decodeBf16(values[i]); }
};
struct LoadF16 {
    const uint16_t* values;
    float operator()(int64_t i) const { return decodeFp16(values[i]); }
};

/// wanted (n) = a (k) times b. Four sums side by side where k is contiguous: one would wait for itself.
template <class B>
void multiplyRow(const ShadowProduct& op, const double* a, B b, double* wanted) {
    if (!op.b.kContiguous) {
        std::fill(wanted, wanted + op.n, 0.0);
        for (int64_t i = 0; i < op.k; ++i)
            for (int64_t column = 0; column < op.n; ++column)
                wanted[column] += a[i] * static_cast<double>(b(i * op.b.ld + column));
        return;
    }
    for (int64_t column = 0; column < op.n; ++column) {
        const int64_t first = column * op.b.ld;
        double sums[4] = {};
        int64_t i = 0;
        for (; i + 4 <= op.k; i += 4)
            for (int64_t lane = 0; lane < 4; ++lane)
                sums[lane] += a[i + lane] * static_cast<double>(b(first + i + lane));
        for (; i < op.k; ++i) sums[0] += a[i] * static_cast<double>(b(first + i));
        wanted[column] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
}

int64_t shadowScratch(const ShadowProduct& op) {
    return op.n + op.k;
}

/// Sums of sampled row number `sample`; scratch: shadowScratch(op) doubles.
ShadowSums shadowRow(const ShadowProduct& op, int64_t sample, double* scratch) {
    const int64_t row = sample * op.m / sampleCount(op);
    double* const wanted = scratch;
    double* const a = scratch + op.n;
    for (int64_t i = 0; i < op.k; ++i)
        a[i] = valueAt(op.a.type, op.a.data, op.a.kContiguous ? row * op.a.ld + i : i * op.a.ld + row);
    if (op.b.type == DType::BF16)
        multiplyRow(op, a, LoadBf16{static_cast<const uint16_t*>(op.b.data)}, wanted);
    else if (op.b.type == DType::F16)
        multiplyRow(op, a, LoadF16{static_cast<const uint16_t*>(op.b.data)}, wanted);
    else if (op.roundB)
        multiplyRow(op, a, LoadRounded{static_cast<const float*>(op.b.data)}, wanted);
    else
        multiplyRow(op, a, LoadF32{static_cast<const float*>(op.b.data)}, wanted);
    ShadowSums sums;
    sums.rows = 1;
    for (int64_t column = 0; column < op.n; ++column) {
        const double bias = op.bias ? valueAt(op.biasType, op.bias, column) : 0.0;
        const double error = valueAt(op.outType, op.out, row * op.ldOut + column) - (wanted[column] + bias);
        sums.wanted += wanted[column] * wanted[column];
        sums.error += error * error;
    }
    return sums;
}

uint64_t differentCodes(const CodeCheck& op, int64_t first, int64_t last) {
    const Fp8Traits format = fp8Traits(op.format);
    const float scale = *op.scale;
    uint64_t different = 0;
    for (int64_t i = first; i < last; ++i)
        different += encodeFp8(roundToBf16(valueAt(op.inType, op.in, i)) * scale, format) != op.codes[i];
    return different;
}

}  // namespace

size_t workspaceCpu(const CheckFinite& op, const CpuContext&) {
    return static_cast<size_t>(tileCount(op.n)) * sizeof(FiniteCount);
}

void runCpu(const CheckFinite& op, const CpuContext& context) {
    require(isFloatType(op.type), "check: the type is not f32, bf16 or fp16");
    auto* parts = static_cast<FiniteCount*>(context.workspace);
    context.executor->run(tileCount(op.n), [&](int64_t tile, int) {
        parts[tile] = {};
        checkTile(op, tile * kTile, std::min(op.n, (tile + 1) * kTile), parts[tile]);
    });
    for (int64_t tile = 0; tile < tileCount(op.n); ++tile) merge(op, parts[tile]);
}

void runReference(const CheckFinite& op) {
    FiniteCount count;
    checkTile(op, 0, op.n, count);
    merge(op, count);
}

size_t workspaceCpu(const ShadowProduct& op, const CpuContext& context) {
    return static_cast<size_t>(sampleCount(op)) * sizeof(ShadowSums) +
           static_cast<size_t>(shadowScratch(op) * context.executor->threadCount()) * sizeof(double);
}

void runCpu(const ShadowProduct& op, const CpuContext& context) {
    checkShadow(op);
    auto* rows = static_cast<ShadowSums*>(context.workspace);
    auto* scratch = reinterpret_cast<double*>(rows + sampleCount(op));
    context.executor->run(sampleCount(op), [&](int64_t row, int worker) {
        rows[row] = shadowRow(op, row, scratch + worker * shadowScratch(op));
    });
    *op.sums = {};
    for (int64_t row = 0; row < sampleCount(op); ++row) {
        op.sums->wanted += rows[row].wanted;
        op.sums->error += rows[row].error;
        op.sums->rows += rows[row].rows;
    }
}

void runReference(const ShadowProduct& op) {
    checkShadow(op);
    std::vector<double> scratch(static_cast<size_t>(shadowScratch(op)));
    *op.sums = {};
    for (int64_t row = 0; row < sampleCount(op); ++row) {
        const ShadowSums one = shadowRow(op, row, scratch.data());
        op.sums->wanted += one.wanted;
        op.sums->error += one.error;
        op.sums->rows += one.rows;
    }
}

size_t workspaceCpu(const CodeCheck& op, const CpuContext&) {
    return static_cast<size_t>(tileCount(op.n)) * sizeof(uint64_t);
}

void runCpu(const CodeCheck& op, const CpuContext& context) {
    require(isFp8(op.format) && op.scale && op.different, "code check: no FP8 codes");
    auto* parts = static_cast<uint64_t*>(context.workspace);
    context.executor->run(tileCount(op.n), [&](int64_t tile, int) {
        parts[tile] = differentCodes(op, tile * kTile, std::min(op.n, (tile + 1) * kTile));
    });
    *op.different = 0;
    for (int64_t tile = 0; tile < tileCount(op.n); ++tile) *op.different += parts[tile];
}

void runReference(const CodeCheck& op) {
    *op.different = differentCodes(op, 0, op.n);
}

}  // namespace mantissa::kernels
