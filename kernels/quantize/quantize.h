// Casts to FP8: what a cast writes, what it counts, and the stand-alone quantize op.
//
// stored = value * scale, rounded to nearest even, saturated to the largest finite code; Inf saturates, NaN stays NaN
// (0x7F). The cast sees the BF16-rounded value in every op and on both backends.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.h"

namespace mantissa::kernels {

/// The cheap set: exact integers, counted in every step. amax skips NaN (all NaN: 0) and shows Inf.
struct CastCounters {
    uint64_t elements = 0;
    uint64_t zeros = 0;      ///< exact zeros before the cast
    uint64_t underflow = 0;  ///< non-zero before the cast, code +-0
    uint64_t subnormal = 0;  ///< 0 < |code value| < smallest normal
    uint64_t overRange =
        0;  ///< fl32(|x| * scale) above the next float after the largest finite value; Inf counts, NaN does not
    uint64_t clipped =
        0;  ///< rounds above the largest finite value: > 464 (E4M3), >= 61440 (E5M2); Inf counts, NaN does not
    uint64_t inf = 0;
    uint64_t nan = 0;
};

/// Exponent histogram: bin i counts finite non-zero |x| with floor(log2 |x|) == i - 150; i in [1, 277].
inline constexpr int kExponentBins = 280;
inline constexpr int kExponentBias = 150;

/// The dear set, on probed steps. Sums in double, in a fixed order of blocks.
struct DearStats {
    float minNonZero = 0;  ///< smallest non-zero finite |x|; 0 when there is none
    float reserved = 0;
    double sumSquares = 0;       ///< sum of x^2 over finite x
    double sumSquaredError = 0;  ///< sum of (dequantised - x)^2 over finite x
    double sumFourth = 0;        ///< sum of x^4 over finite x
    uint64_t exponents[kExponentBins] = {};
};

/// Everything one cast reports in one step; lives in device memory, one a quantized tensor. A second cast of the same
/// tensor in the same step (a micro-batch, a chunk) merges: counters add, amax and minNonZero by maximum / minimum.
struct TensorSlot {
    float amax = 0;
    float scaleUsed = 0;  ///< the scale of this step's cast
    CastCounters counters;
    DearStats dear;
};

/// One FP8 copy that an op writes beside (or instead of) its BF16 value. format None: no copy.
struct CastTarget {
    DType format = DType::None;  ///< None, E4M3 or E5M2
    uint8_t* codes = nullptr;    ///< (rows, cols) row-major; nullptr: no row copy
    uint8_t* codesTransposed =
        nullptr;                   ///< (cols, rows) row-major, where the chip's products need it (never on the CPU)
    const float* scale = nullptr;  ///< device memory: stored = value * scale
    TensorSlot* slot = nullptr;    ///< merged into; nullptr: nothing is counted
    bool count = true;             ///< false: slot takes amax and scaleUsed alone, no counters (probes.counters false)
    bool amaxOnly = false;         ///< current scaling, first pass: only slot->amax is taken, no codes are written
    bool dear = false;             ///< also the dear set
    bool exponents = false;        ///< with dear: also the histogram
    bool stochastic = false;       ///< stochastic rounding with Philox(seed; element index) instead of nearest even
    uint64_t seed = 0;
};

/// Casts a tensor. in: (rows, cols) BF16 or F32 (rounded to BF16 first unless `roundToBf16` is false), row-major,
/// dense. Writes target.codes and / or target.codesTransposed and merges the counters. Exact on every backend.
/// target.format None: only dbias is made. dbias (optional): (cols) F32, out: column sums of `in` in F32 from fixed
/// blocks of rows; += when accumulateBias.
struct Quantize {
    int64_t rows = 0, cols = 0;
    DType inType = DType::BF16;
    const void* in = nullptr;
    CastTarget target;
    bool roundToBf16 = true;
    float* dbias = nullptr;
    bool accumulateBias = false;
};

}  // namespace mantissa::kernels
