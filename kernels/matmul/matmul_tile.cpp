// The product's register tile and the loop over it. Compiled once per instruction set.
//
// A tile of D is kMr rows by kNr columns, held in registers over a block of units. B is packed into panels (packB); A
// is read where it lies when its k is contiguous and needs no decoding, else it is packed by the worker that uses it.
#include "kernels/matmul/matmul_pack.h"
#include "kernels/matmul/matmul_vec.h"

namespace mantissa::kernels::MANTISSA_ISA {

namespace {

/// A's register rows: row r at base + r * rowBytes, the next unit unitBytes further.
struct RowsOfA {
    const char* base;
    int64_t rowBytes, unitBytes;
};

struct Accumulators {
    Vec v[kMr][kNv];
};

/// acc += A B over `units`. Flushing subnormals (F32Pairs only) is what vdpbf16ps does.
template <PackedForm kForm, bool kPanelA>
inline void multiply(const RowsOfA& rows, const float* b, int64_t units, Accumulators& acc) {
    const int64_t rowBytes = kPanelA ? 4 : rows.rowBytes;
    constexpr int64_t kStep = kPanelA ? 4 * kMr : 4;
    const char* a0 = rows.base;
    const char* a3 = a0 + 3 * rowBytes;
    const char* a6 = a0 + 6 * rowBytes;
    for (int64_t unit = 0; unit < units; ++unit) {
        Vec right[kNv];
#pragma GCC unroll 4
        for (int j = 0; j < kNv; ++j) right[j] = vecLoad(b + j * kLanes);
#pragma GCC unroll 8
        for (int r = 0; r < kMr; ++r) {
            const char* address = (r < 3 ? a0 : r < 6 ? a3 : a6) + (r % 3) * rowBytes;
            float element;
            __builtin_memcpy(&element, address, 4);
            const Vec left = vecSet(element);
#pragma GCC unroll 4
            for (int j = 0; j < kNv; ++j) {
#if defined(MANTISSA_ISA_avx512bf16)
                if constexpr (kForm == PackedForm::Bf16Pairs)
                    acc.v[r][j] = _mm512_dpbf16_ps(acc.v[r][j], (__m512bh)left, (__m512bh)right[j]);
                else
#endif
                    acc.v[r][j] = vecFma(left, right[j], acc.v[r][j]);
            }
        }
        a0 += kStep, a3 += kStep, a6 += kStep;
        b += kNr;
    }
}

template <PackedForm kForm>
inline void multiplyAny(const RowsOfA& rows, const float* b, int64_t units, Accumulators& acc) {
    if (rows.unitBytes == 4)
        multiply<kForm, false>(rows, b, units, acc);
    else
        multiply<kForm, true>(rows, b, units, acc);
}

constexpr unsigned kFlushSubnormals = 0x8040;  // MXCSR: flush to zero, denormals are zero

/// (acc * scaleInvA) * scaleInvB + bias.
inline Vec finish(Vec acc, Vec scaleA, Vec scaleB, const float* bias) {
    const Vec value = vecMul(vecMul(acc, scaleA), scaleB);
    return bias ? vecAdd(value, vecLoad(bias)) : value;
}

inline void storeOne(const MatmulJob& job, int64_t index, float value) {
    if (job.outType == DType::BF16)
        static_cast<uint16_t*>(job.out)[index] = encodeBf16(value);
    else if (job.outType == DType::F16)
        static_cast<uint16_t*>(job.out)[index] = encodeFp16(value);
    else if (job.accumulate)
        static_cast<float*>(job.out)[index] = static_cast<float*>(job.out)[index] + value;
    else
        static_cast<float*>(job.out)[index] = value;
}

/// Writes rows x columns (at most kMr x kNr) of D at (row, column of the region).
inline void storeTile(const MatmulJob& job, int64_t row, int64_t column, int64_t rows, int64_t columns,
                      const Accumulators& acc) {
    const Vec scaleA = vecSet(job.scaleInvA), scaleB = vecSet(job.scaleInvB);
    const float* bias = job.bias ? job.bias + column : nullptr;
    const int64_t index = row * job.ldOut + job.firstColumn + column;
    if (rows < kMr || columns < kNr) {
        float values[kMr * kNr];
        for (int r = 0; r < kMr; ++r)
            for (int j = 0; j < kNv; ++j)
                vecStore(values + r * kNr + j * kLanes,
                         finish(acc.v[r][j], scaleA, scaleB, bias ? bias + j * kLanes : bias));
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = 0; c < columns; ++c) storeOne(job, index + r * job.ldOut + c, values[r * kNr + c]);
        return;
    }
#pragma GCC unroll 8
    for (int r = 0; r < kMr; ++r) {
#pragma GCC unroll 4
        for (int j = 0; j < kNv; ++j) {
            const int64_t at = index + r * job.ldOut + j * kLanes;
            Vec value = finish(acc.v[r][j], scaleA, scaleB, bias ? bias + j * kLanes : bias);
            if (job.outType == DType::BF16) {
                vecStoreBf16(static_cast<uint16_t*>(job.out) + at, value);
            } else if (job.outType == DType::F16) {
                vecStoreF16(static_cast<uint16_t*>(job.out) + at, value);
            } else {
                float* out = static_cast<float*>(job.out) + at;
                if (job.accumulate) value = vecAdd(vecLoad(out), value);
                vecStore(out, value);
            }
        }
    }
}

/// One register tile over one block of units. partial: this tile's sums between blocks (kMr x kNr).
template <PackedForm kForm>
inline void registerTile(const MatmulJob& job, const RowsOfA& a, const float* b, int64_t units, bool first, bool last,
                         float* partial, int64_t row, int64_t column, int64_t rows, int64_t columns) {
    Accumulators acc;
#pragma GCC unroll 8
    for (int r = 0; r < kMr; ++r)
#pragma GCC unroll 4
        for (int j = 0; j < kNv; ++j) acc.v[r][j] = first ? vecZero() : vecLoad(partial + r * kNr + j * kLanes);
    if constexpr (kForm == PackedForm::F32Pairs) {
        // Pinned on both sides, so that exactly the chain runs with subnormals flushed.
        const unsigned control = _mm_getcsr();
        _mm_setcsr(control | kFlushSubnormals);
#pragma GCC unroll 8
        for (int r = 0; r < kMr; ++r)
#pragma GCC unroll 4
            for (int j = 0; j < kNv; ++j) vecPin(acc.v[r][j]);
        multiplyAny<kForm>(a, b, units, acc);
#pragma GCC unroll 8
        for (int r = 0; r < kMr; ++r)
#pragma GCC unroll 4
            for (int j = 0; j < kNv; ++j) vecPin(acc.v[r][j]);
        _mm_setcsr(control);
#pragma GCC unroll 8
        for (int r = 0; r < kMr; ++r)
#pragma GCC unroll 4
            for (int j = 0; j < kNv; ++j) vecPin(acc.v[r][j]);
    } else {
        multiplyAny<kForm>(a, b, units, acc);
    }
    if (last) return storeTile(job, row, column, rows, columns, acc);
#pragma GCC unroll 8
    for (int r = 0; r < kMr; ++r)
#pragma GCC unroll 4
        for (int j = 0; j < kNv; ++j) vecStore(partial + r * kNr + j * kLanes, acc.v[r][j]);
}

inline int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/// Whether A's rows can be multiplied where they lie: k contiguous, no decoding, whole units.
bool readsInPlace(const PackSource& a, PackedForm form) {
    if (!a.kContiguous) return false;
    if (form == PackedForm::F32) return a.type == DType::F32 && !a.tf32;
    return form == PackedForm::Bf16Pairs && a.type == DType::BF16 && a.k % 2 == 0;
}

/// A's rows [firstRow, ...) over units [firstUnit, lastUnit): packed where they have to be.
struct BlockOfA {
    const MatmulJob& job;
    int64_t firstRow, rows, firstUnit, lastUnit;
    float* buffer;
    int64_t inPlaceRows = 0;

    void prepare() {
        if (readsInPlace(job.a, job.form)) inPlaceRows = rows / kMr * kMr;
        const int64_t left = rows - inPlaceRows;
        if (left == 0) return;
        const int64_t units = lastUnit - firstUnit;
        if (job.a.kContiguous) {
            const int64_t padded = (left + kMr - 1) / kMr * kMr;
            packRows(job.a, job.form, firstRow + inPlaceRows, left, padded, firstUnit, lastUnit, buffer, units);
        } else {
            packPanels(job.a, job.form, kMr, firstRow, rows, firstUnit, lastUnit, buffer, units * kMr);
        }
    }
    RowsOfA at(int64_t row) const {
        const int64_t units = lastUnit - firstUnit;
        if (row < inPlaceRows) {
            const int64_t rowBytes = job.a.ld * (job.form == PackedForm::F32 ? 4 : 2);
            return {static_cast<const char*>(job.a.data) + (firstRow + row) * rowBytes + firstUnit * 4, rowBytes, 4};
        }
        const float* packed = buffer + (row - inPlaceRows) * units;
        if (job.a.kContiguous) return {reinterpret_cast<const char*>(packed), units * 4, 4};
        return {reinterpret_cast<const char*>(packed), 4, 4 * kMr};
    }
};

template <PackedForm kForm>
void tileOfForm(const MatmulJob& job, int64_t firstRow, int64_t rows, float* scratch) {
    const int64_t rowPanels = (rows + kMr - 1) / kMr;
    float* partials = scratch + rowPanels * kMr * kUnitsBlock;
    for (int64_t unit = 0; unit == 0 || unit < job.units; unit += kUnitsBlock) {
        const int64_t lastUnit = smaller(unit + kUnitsBlock, job.units);
        BlockOfA block{job, firstRow, rows, unit, lastUnit, scratch};
        block.prepare();
        const bool first = unit == 0, last = lastUnit == job.units;
        for (int64_t column = 0; column < job.columns; column += kNr) {
            const float* b = job.packedB + column * job.panelUnits + unit * kNr;
            for (int64_t panel = 0; panel < rowPanels; ++panel) {
                const int64_t row = panel * kMr;
                registerTile<kForm>(job, block.at(row), b, lastUnit - unit, first, last,
                                    partials + (column / kNr * rowPanels + panel) * (kMr * kNr), firstRow + row, column,
                                    smaller(rows - row, kMr), smaller(job.columns - column, kNr));
            }
        }
    }
}

void tile(const MatmulJob& job, int64_t firstRow, int64_t rows, void* scratch) {
    float* memory = static_cast<float*>(scratch);
    if (job.form == PackedForm::F32) return tileOfForm<PackedForm::F32>(job, firstRow, rows, memory);
#if defined(MANTISSA_ISA_avx512bf16)
    if (job.form == PackedForm::Bf16Pairs) return tileOfForm<PackedForm::Bf16Pairs>(job, firstRow, rows, memory);
#endif
    tileOfForm<PackedForm::F32Pairs>(job, firstRow, rows, memory);
}

void packB(const MatmulJob& job, int64_t firstPanel, int64_t lastPanel, int64_t firstUnit, int64_t lastUnit) {
    const int64_t first = firstPanel * kNr, rows = smaller(lastPanel * kNr, job.columns) - first;
    packPanels(job.b, job.form, kNr, job.firstColumn + first, rows, firstUnit, lastUnit,
               job.packedB + first * job.panelUnits + firstUnit * kNr, job.panelUnits * kNr);
}

}  // namespace

#if defined(MANTISSA_ISA_avx512bf16)
constexpr bool kHasBf16 = true;
#else
constexpr bool kHasBf16 = false;
#endif

extern const MatmulKernels matmulKernels;
const MatmulKernels matmulKernels = {kMr, kNr, kHasBf16, packB, tile};

}  // namespace mantissa::kernels::MANTISSA_ISA
