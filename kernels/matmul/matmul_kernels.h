// What the host part of the matrix product and its per-ISA code share: packed forms, one job, the table of functions.
//
// Order of summation, the same on every instruction set of a determinism class, and independent of tile shapes, blocks
// and threads: one chain over k for each element of D, in F32, starting at 0.
//   F32, F16 (as F32):  acc = fma(a[k], b[k], acc), k = 0, 1, 2, ...
//   BF16, FP8 (as BF16): pairs of k; acc = fma(a[1], b[1], acc), acc = fma(a[0], b[0], acc), subnormal inputs and
//                        results counting as zero. That is vdpbf16ps bit for bit (24 million random cases compared on
//                        an Intel processor, 12 million on an AMD one); BF16 products are exact in F32.
// Without FMA (sse) each step is a product and a sum, both rounded.
#pragma once

#include <cstdint>

#include "kernels/formats/float_bits.h"
#include "kernels/matmul/matmul.h"
#include "kernels/simd/dispatch.h"

namespace mantissa::kernels {

struct CpuContext;

/// Partial sums of limited precision, for codes and their values (Matmul::limited14):
/// kernels/matmul/matmul_limited.cpp.
inline bool runsLimited(const Matmul& op) {
    return op.limited14 && (isFp8(op.a.type) || op.a.emulates != DType::None);
}
size_t workspaceLimited(const Matmul& op, const CpuContext& context);
MatmulReport runLimited(const Matmul& op, const CpuContext& context);

/// What lies in a packed buffer. All forms consist of 4-byte units, one a k step (or pair of them).
enum class PackedForm : uint8_t {
    F32,       ///< one k a unit
    F32Pairs,  ///< BF16 values as F32, within a pair the odd k first; k padded to even with zeros
    Bf16Pairs  ///< two BF16 values a unit, even k in the low half; k padded to even with zeros
};

/// Drops the 13 low bits of the fraction (TF32 keeps 10); Inf and NaN stay what they are.
MANTISSA_ALWAYS_INLINE constexpr float cutToTf32(float value) {
    return value != value ? value : floatFromBits(floatBits(value) & 0xFFFFE000u);
}

/// An operand as packing reads it: rows x k, see MatmulOperand.
struct PackSource {
    const void* data = nullptr;
    DType type = DType::F32;
    bool kContiguous = true;
    bool tf32 = false;
    int64_t ld = 0;
    int64_t rows = 0;
    int64_t k = 0;
};

inline PackedForm packedFormOf(DType operand, bool bf16Instruction) {
    if (operand == DType::F32 || operand == DType::F16) return PackedForm::F32;
    return bf16Instruction ? PackedForm::Bf16Pairs : PackedForm::F32Pairs;
}
inline int64_t unitsOf(PackedForm form, int64_t k) {
    return form == PackedForm::F32 ? k : form == PackedForm::F32Pairs ? (k + 1) / 2 * 2 : (k + 1) / 2;
}

/// One region's product: all rows of A with the columns [firstColumn, firstColumn + columns) of D.
struct MatmulJob {
    PackSource a, b;
    PackedForm form = PackedForm::F32;
    int64_t units = 0;         ///< of the whole k
    int64_t panelUnits = 0;    ///< units between the panels of packedB, at least `units`
    float* packedB = nullptr;  ///< panels of `nr` columns: (panel, unit, nr) units; or nullptr: tiles pack their own
    float* packedA =
        nullptr;  ///< all rows of a k-strided A: panels of `mr` rows, or nullptr: tiles pack their own rows
    int64_t firstColumn = 0;
    int64_t columns = 0;
    const float* bias = nullptr;  ///< F32, of the columns of this region, or nullptr
    float scaleInvA = 1, scaleInvB = 1;
    void* out = nullptr;  ///< D's first element
    DType outType = DType::F32;
    int64_t ldOut = 0;
    bool accumulate = false;
};

struct MatmulKernels {
    int mr = 0, nr = 0;  ///< register tile: rows, columns
    bool (
        *usesBf16)();  ///< BF16 is multiplied by vdpbf16ps (Bf16Pairs), else as F32 (F32Pairs): same bits, other speed
    /// Packs units [firstUnit, lastUnit) of B's panels [firstPanel, lastPanel) of the region (panel 0: firstColumn).
    void (*packB)(const MatmulJob& job, int64_t firstPanel, int64_t lastPanel, int64_t firstUnit, int64_t lastUnit);
    /// Packs units [firstUnit, lastUnit) of all rows of A into packedA.
    void (*packA)(const MatmulJob& job, int64_t firstUnit, int64_t lastUnit);
    /// Rows [firstRow, firstRow + rows), columns [firstColumn, lastColumn) of the region; firstColumn a multiple of nr.
    /// scratch: this worker's own, 64-byte aligned (matmulScratchFloats).
    void (*tile)(const MatmulJob& job, int64_t firstRow, int64_t rows, int64_t firstColumn, int64_t lastColumn,
                 float* scratch);
};

inline constexpr int64_t kUnitsBlock = 192;  ///< units of A and B that are worked on at once; no effect on results

/// Floats between the panels of packedA. A line more than they need: a power of two between panels would put all of one
/// k in one set of the cache.
MANTISSA_ALWAYS_INLINE constexpr int64_t panelStrideA(int64_t units, int mr) {
    return units * mr + 16;
}

/// Floats of scratch that a worker needs for tiles of rows x columns: packed A, sums kept between blocks, and with ownB
/// packed B.
inline int64_t matmulScratchFloats(const MatmulKernels& kernels, int64_t rows, int64_t columns, int64_t units,
                                   bool ownB = false) {
    const int64_t paddedRows = (rows + kernels.mr - 1) / kernels.mr * kernels.mr;
    const int64_t paddedColumns = (columns + kernels.nr - 1) / kernels.nr * kernels.nr;
    return paddedRows * kUnitsBlock + paddedRows / kernels.mr * 16 +
           (units > kUnitsBlock ? paddedRows * paddedColumns : 0) + (ownB ? paddedColumns * kUnitsBlock : 0);
}

MANTISSA_DECLARE_ISA_TABLE(MatmulKernels, matmulKernels)

}  // namespace mantissa::kernels
