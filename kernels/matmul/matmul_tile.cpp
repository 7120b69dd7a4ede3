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

/// f(0), ..., f(kCount - 1), written out: with constant indices from the start the compiler keeps an array in registers
/// throughout; unrolled loops cost two trips through memory a tile.
template <int kIndex>
struct Index {
    constexpr operator int() const { return kIndex; }
};
template <int kCount, class F>
MANTISSA_ALWAYS_INLINE void repeat(F f) {
    if constexpr (kCount > 0) {
        repeat<kCount - 1>(f);
        f(Index<kCount - 1>{});
    }
}
/// f(row, vector) for every register of the tile.
template <class F>
MANTISSA_ALWAYS_INLINE void eachRegister(F f) {
    repeat<kMr>([&](auto r) __attribute__((always_inline)) {
        repeat<kNv>([&](auto j) __attribute__((always_inline)) { f(r, j); });
    });
}

/// What to bring into the second-level cache meanwhile: one address a unit.
struct Ahead {
    const char* address;
    int64_t unitBytes;
};

/// acc += A B over `units`.
template <PackedForm kForm, bool kPanelA>
MANTISSA_ALWAYS_INLINE void multiply(const RowsOfA& rows, const float* b, int64_t units, Ahead ahead,
                                     Accumulators& acc) {
    const int64_t rowBytes = kPanelA ? 4 : rows.rowBytes;
    constexpr int64_t kStep = kPanelA ? 4 * kMr : 4;
    const char* a0 = rows.base;
    const char* a3 = a0 + 3 * rowBytes;
    const char* a6 = a0 + 6 * rowBytes;
    for (int64_t unit = 0; unit < units; ++unit) {
        __builtin_prefetch(ahead.address, 0, 2);
        ahead.address += ahead.unitBytes;
        Vec right[kNv];
        repeat<kNv>([&](auto j) __attribute__((always_inline)) { right[j] = vecLoad(b + j * kLanes); });
        repeat<kMr>([&](auto r) __attribute__((always_inline)) {
            const char* address = (r < 3 ? a0 : r < 6 ? a3 : a6) + (r % 3) * rowBytes;
            float element;
            __builtin_memcpy(&element, address, 4);
            const Vec left = vecSet(element);
            repeat<kNv>([&](auto j) __attribute__((always_inline)) {
#if defined(MANTISSA_ISA_avx512bf16)
                if constexpr (kForm == PackedForm::Bf16Pairs)
                    acc.v[r][j] = _mm512_dpbf16_ps(acc.v[r][j], (__m512bh)left, (__m512bh)right[j]);
                else
#endif
                    acc.v[r][j] = vecFma(left, right[j], acc.v[r][j]);
            });
        });
        a0 += kStep, a3 += kStep, a6 += kStep;
        b += kNr;
    }
}

template <PackedForm kForm>
MANTISSA_ALWAYS_INLINE void multiplyAny(const RowsOfA& rows, const float* b, int64_t units, Ahead ahead,
                                        Accumulators& acc) {
    if (rows.unitBytes == 4)
        multiply<kForm, false>(rows, b, units, ahead, acc);
    else
        multiply<kForm, true>(rows, b, units, ahead, acc);
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

/// A tile at the edge of D, element by element.
void storeEdge(const MatmulJob& job, int64_t index, int64_t rows, int64_t columns, const float* values) {
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) storeOne(job, index + r * job.ldOut + c, values[r * kNr + c]);
}

/// Writes rows x columns (at most kMr x kNr) of D at (row, column of the region).
MANTISSA_ALWAYS_INLINE void storeTile(const MatmulJob& job, int64_t row, int64_t column, int64_t rows, int64_t columns,
                                      Accumulators& acc) {
    const Vec scaleA = vecSet(job.scaleInvA), scaleB = vecSet(job.scaleInvB);
    const float* bias = job.bias ? job.bias + column : nullptr;
    const int64_t index = row * job.ldOut + job.firstColumn + column;
    eachRegister([&](auto r, auto j) __attribute__((always_inline)) {
        acc.v[r][j] = finish(acc.v[r][j], scaleA, scaleB, bias ? bias + j * kLanes : bias);
    });
    if (rows < kMr || columns < kNr) {
        float values[kMr * kNr];
        eachRegister([&](auto r, auto j)
                         __attribute__((always_inline)) { vecStore(values + r * kNr + j * kLanes, acc.v[r][j]); });
        storeEdge(job, index, rows, columns, values);
    } else if (job.outType == DType::BF16) {
        uint16_t* out = static_cast<uint16_t*>(job.out) + index;
        eachRegister([&](auto r, auto j) __attribute__((always_inline)) {
            vecStoreBf16(out + r * job.ldOut + j * kLanes, acc.v[r][j]);
        });
    } else if (job.outType == DType::F16) {
        uint16_t* out = static_cast<uint16_t*>(job.out) + index;
        eachRegister([&](auto r, auto j) __attribute__((always_inline)) {
            vecStoreF16(out + r * job.ldOut + j * kLanes, acc.v[r][j]);
        });
    } else if (job.accumulate) {
        float* out = static_cast<float*>(job.out) + index;
        eachRegister([&](auto r, auto j) __attribute__((always_inline)) {
            float* at = out + r * job.ldOut + j * kLanes;
            vecStore(at, vecAdd(vecLoad(at), acc.v[r][j]));
        });
    } else {
        float* out = static_cast<float*>(job.out) + index;
        eachRegister([&](auto r, auto j)
                         __attribute__((always_inline)) { vecStore(out + r * job.ldOut + j * kLanes, acc.v[r][j]); });
    }
}

/// One register tile over one block of units. partial: this tile's sums between blocks (kMr x kNr).
/// noinline: one body for each form, its registers its own.
template <PackedForm kForm>
[[gnu::noinline]] void registerTile(const MatmulJob& job, const RowsOfA& a, const float* b, int64_t units, Ahead ahead,
                                    bool first, bool last, float* partial, int64_t row, int64_t column, int64_t rows,
                                    int64_t columns) {
    Accumulators acc;
    eachRegister([&](auto r, auto j) __attribute__((always_inline)) { acc.v[r][j] = vecZero(); });
    if (!first)
        eachRegister([&](auto r, auto j)
                         __attribute__((always_inline)) { acc.v[r][j] = vecLoad(partial + r * kNr + j * kLanes); });
    if constexpr (kForm == PackedForm::F32Pairs) {
        // Pinned on both sides, so that exactly the chain runs with subnormals flushed, as vdpbf16ps does.
        const unsigned control = _mm_getcsr();
        _mm_setcsr(control | kFlushSubnormals);
        eachRegister([&](auto r, auto j) __attribute__((always_inline)) { vecPin(acc.v[r][j]); });
        multiplyAny<kForm>(a, b, units, ahead, acc);
        eachRegister([&](auto r, auto j) __attribute__((always_inline)) { vecPin(acc.v[r][j]); });
        _mm_setcsr(control);
        eachRegister([&](auto r, auto j) __attribute__((always_inline)) { vecPin(acc.v[r][j]); });
    } else {
        multiplyAny<kForm>(a, b, units, ahead, acc);
    }
    if (last) return storeTile(job, row, column, rows, columns, acc);
    eachRegister([&](auto r, auto j)
                     __attribute__((always_inline)) { vecStore(partial + r * kNr + j * kLanes, acc.v[r][j]); });
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

/// A's rows [firstRow, firstRow + rows) over units [firstUnit, lastUnit): where they lie, and packed where they have to
/// be.
class BlockOfA {
  public:
    BlockOfA(const MatmulJob& job, int64_t firstRow, int64_t rows, int64_t firstUnit, int64_t lastUnit, float* buffer)
        : job_(job), firstRow_(firstRow), firstUnit_(firstUnit), units_(lastUnit - firstUnit), buffer_(buffer) {
        if (job.packedA) return;
        if (readsInPlace(job.a, job.form)) inPlaceRows_ = rows / kMr * kMr;
        const int64_t left = rows - inPlaceRows_;
        if (left == 0) return;
        if (job.a.kContiguous) {
            const int64_t padded = (left + kMr - 1) / kMr * kMr;
            packRows(job.a, job.form, firstRow + inPlaceRows_, left, padded, firstUnit, lastUnit, buffer, units_);
        } else {
            packPanels(job.a, job.form, kMr, firstRow, rows, firstUnit, lastUnit, buffer, panelStrideA(units_, kMr));
        }
    }
    RowsOfA at(int64_t row) const {
        if (job_.packedA) {
            const int64_t panel = (firstRow_ + row) / kMr;
            return panelAt(job_.packedA + panel * panelStrideA(job_.units, kMr) + firstUnit_ * kMr);
        }
        if (row < inPlaceRows_) {
            const int64_t rowBytes = job_.a.ld * (job_.form == PackedForm::F32 ? 4 : 2);
            return {static_cast<const char*>(job_.a.data) + (firstRow_ + row) * rowBytes + firstUnit_ * 4, rowBytes, 4};
        }
        if (!job_.a.kContiguous) return panelAt(buffer_ + row / kMr * panelStrideA(units_, kMr));
        return {reinterpret_cast<const char*>(buffer_ + (row - inPlaceRows_) * units_), units_ * 4, 4};
    }

  private:
    static RowsOfA panelAt(const float* panel) { return {reinterpret_cast<const char*>(panel), 4, 4 * kMr}; }

    const MatmulJob& job_;
    int64_t firstRow_, firstUnit_, units_;
    const float* buffer_;
    int64_t inPlaceRows_ = 0;
};

template <PackedForm kForm>
void tileOfForm(const MatmulJob& job, int64_t firstRow, int64_t rows, int64_t firstColumn, int64_t lastColumn,
                float* scratch) {
    const int64_t rowPanels = (rows + kMr - 1) / kMr;
    float* const partials = scratch + rowPanels * panelStrideA(kUnitsBlock, kMr);
    const int64_t columnPanels = (lastColumn - firstColumn + kNr - 1) / kNr;
    float* const ownB = partials + (job.units > kUnitsBlock ? rowPanels * kMr * columnPanels * kNr : 0);
    for (int64_t unit = 0; unit == 0 || unit < job.units; unit += kUnitsBlock) {
        const int64_t lastUnit = smaller(unit + kUnitsBlock, job.units);
        const BlockOfA block(job, firstRow, rows, unit, lastUnit, scratch);
        const bool first = unit == 0, last = lastUnit == job.units;
        const float* panels = job.packedB + firstColumn * job.panelUnits + unit * kNr;
        int64_t panelUnits = job.panelUnits;
        if (!job.packedB) {
            panels = ownB, panelUnits = lastUnit - unit;
            packPanels(job.b, job.form, kNr, job.firstColumn + firstColumn, lastColumn - firstColumn, unit, lastUnit,
                       ownB, panelUnits * kNr);
        }
        float* partial = partials;
        for (int64_t column = firstColumn; column < lastColumn; column += kNr) {
            const float* b = panels + (column - firstColumn) * panelUnits;
            // The next panel of B comes in while this one is used: from the last-level cache it would take a third of
            // the time (measured).
            const int64_t step = 4 * kNr / rowPanels;
            Ahead ahead{reinterpret_cast<const char*>(b + panelUnits * kNr), step};
            if (column + kNr >= lastColumn) ahead = {reinterpret_cast<const char*>(b), 0};
            for (int64_t row = 0; row < rows;
                 row += kMr, partial += kMr * kNr, ahead.address += ahead.unitBytes * (lastUnit - unit))
                registerTile<kForm>(job, block.at(row), b, lastUnit - unit, ahead, first, last, partial, firstRow + row,
                                    column, smaller(rows - row, kMr), smaller(lastColumn - column, kNr));
        }
    }
}

void tile(const MatmulJob& job, int64_t firstRow, int64_t rows, int64_t firstColumn, int64_t lastColumn,
          float* scratch) {
    if (job.form == PackedForm::F32)
        return tileOfForm<PackedForm::F32>(job, firstRow, rows, firstColumn, lastColumn, scratch);
#if defined(MANTISSA_ISA_avx512bf16)
    if (job.form == PackedForm::Bf16Pairs)
        return tileOfForm<PackedForm::Bf16Pairs>(job, firstRow, rows, firstColumn, lastColumn, scratch);
#endif
    tileOfForm<PackedForm::F32Pairs>(job, firstRow, rows, firstColumn, lastColumn, scratch);
}

void packA(const MatmulJob& job, int64_t firstUnit, int64_t lastUnit) {
    packPanels(job.a, job.form, kMr, 0, job.a.rows, firstUnit, lastUnit, job.packedA + firstUnit * kMr,
               panelStrideA(job.units, kMr));
}

void packB(const MatmulJob& job, int64_t firstPanel, int64_t lastPanel, int64_t firstUnit, int64_t lastUnit) {
    const int64_t first = firstPanel * kNr, rows = smaller(lastPanel * kNr, job.columns) - first;
    packPanels(job.b, job.form, kNr, job.firstColumn + first, rows, firstUnit, lastUnit,
               job.packedB + first * job.panelUnits + firstUnit * kNr, job.panelUnits * kNr);
}

}  // namespace

namespace {

/// vdpbf16ps does 64 multiply-adds a cycle on AMD's Zen 4, twice the FP32 rate, but half the FP32 rate on the Intel
/// server processor measured (89 against 178 GFLOP/s a thread). The choice follows the maker, not a timing, so that a
/// report always says the same on one machine.
bool usesBf16() {
#if defined(MANTISSA_ISA_avx512bf16)
    __builtin_cpu_init();
    return __builtin_cpu_is("amd");
#else
    return false;
#endif
}

}  // namespace

extern const MatmulKernels matmulKernels;
const MatmulKernels matmulKernels = {kMr, kNr, usesBf16, packB, packA, tile};

}  // namespace mantissa::kernels::MANTISSA_ISA
