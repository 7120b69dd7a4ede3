#include "kernels/matmul/matmul_pack.h"

#include <cstring>

#include "kernels/matmul/matmul_vec.h"

namespace mantissa::kernels::MANTISSA_ISA {

namespace {

// ---- decoding of a line of elements -------------------------------------------------------------------------------

struct CodeTable {
    uint32_t bits[256];
};

constexpr CodeTable makeTable(DType format) {
    CodeTable table{};
    for (int code = 0; code < 256; ++code) table.bits[code] = floatBits(decodeFp8(static_cast<uint8_t>(code), format));
    return table;
}

constexpr CodeTable kTableE4m3 = makeTable(DType::E4M3), kTableE5m2 = makeTable(DType::E5M2);

const CodeTable& codeTable(DType format) {
    return format == DType::E4M3 ? kTableE4m3 : kTableE5m2;
}

// Codes as F32, by way of FP16. E5M2 is the upper byte of an FP16. E4M3's exponent and fraction, moved up by 7, are an
// FP16 of 2^-8 times the value, subnormal codes included; 0x7F is NaN. (As an F32 pattern times 2^120 they would be
// subnormal operands, which cost an Intel processor 150 cycles each.)
#if !defined(MANTISSA_ISA_sse)
#if defined(MANTISSA_ISA_avx512) || defined(MANTISSA_ISA_avx512bf16)
constexpr int kDecoded = 16;
using Halves = __m256i;
inline __m128i loadCodes(const uint8_t* codes) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
}
inline Halves widen(__m128i codes) {
    return _mm256_cvtepu8_epi16(codes);
}
inline void storeHalves(Halves halves, float scale, float* out) {
    _mm512_storeu_ps(out, _mm512_mul_ps(_mm512_cvtph_ps(halves), _mm512_set1_ps(scale)));
}
inline Halves halvesOfE4m3(Halves wide) {
    const Halves magnitude = _mm256_and_si256(wide, _mm256_set1_epi16(0x7F));
    const Halves sign = _mm256_and_si256(_mm256_slli_epi16(wide, 8), _mm256_set1_epi16(INT16_MIN));
    const Halves nan = _mm256_srli_epi16(_mm256_cmpeq_epi16(magnitude, _mm256_set1_epi16(0x7F)), 1);
    return _mm256_or_si256(_mm256_or_si256(_mm256_slli_epi16(magnitude, 7), sign), nan);
}
inline Halves halvesOfE5m2(Halves wide) {
    return _mm256_slli_epi16(wide, 8);
}
#else
constexpr int kDecoded = 8;
using Halves = __m128i;
inline __m128i loadCodes(const uint8_t* codes) {
    return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes));
}
inline Halves widen(__m128i codes) {
    return _mm_cvtepu8_epi16(codes);
}
inline void storeHalves(Halves halves, float scale, float* out) {
    _mm256_storeu_ps(out, _mm256_mul_ps(_mm256_cvtph_ps(halves), _mm256_set1_ps(scale)));
}
inline Halves halvesOfE4m3(Halves wide) {
    const Halves magnitude = _mm_and_si128(wide, _mm_set1_epi16(0x7F));
    const Halves sign = _mm_and_si128(_mm_slli_epi16(wide, 8), _mm_set1_epi16(INT16_MIN));
    const Halves nan = _mm_srli_epi16(_mm_cmpeq_epi16(magnitude, _mm_set1_epi16(0x7F)), 1);
    return _mm_or_si128(_mm_or_si128(_mm_slli_epi16(magnitude, 7), sign), nan);
}
inline Halves halvesOfE5m2(Halves wide) {
    return _mm_slli_epi16(wide, 8);
}
#endif
inline void decodeCodes(__m128i codes, DType format, float* out) {
    if (format == DType::E5M2)
        storeHalves(halvesOfE5m2(widen(codes)), 1, out);
    else
        storeHalves(halvesOfE4m3(widen(codes)), 256, out);
}
#endif

void decodeLine(const uint8_t* codes, DType format, int64_t n, float* out) {
    int64_t i = 0;
#if !defined(MANTISSA_ISA_sse)
    for (; i + kDecoded <= n; i += kDecoded) decodeCodes(loadCodes(codes + i), format, out + i);
#endif
    const CodeTable& table = codeTable(format);
    for (; i < n; ++i) out[i] = floatFromBits(table.bits[codes[i]]);
}

/// The same with the two of each pair exchanged; a zero joins a last single one.
void decodeSwapped(const uint8_t* codes, DType format, int64_t n, float* out) {
    int64_t i = 0;
#if !defined(MANTISSA_ISA_sse)
    const __m128i turned = _mm_setr_epi8(1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
    for (; i + kDecoded <= n; i += kDecoded)
        decodeCodes(_mm_shuffle_epi8(loadCodes(codes + i), turned), format, out + i);
#endif
    const CodeTable& table = codeTable(format);
    for (; i < n; i += 2) {
        out[i] = i + 1 < n ? floatFromBits(table.bits[codes[i + 1]]) : 0;
        out[i + 1] = floatFromBits(table.bits[codes[i]]);
    }
}

void halfLine(const uint16_t* in, int64_t n, float* out) {
    int64_t i = 0;
#if !defined(MANTISSA_ISA_sse)
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i))));
#endif
    for (; i < n; ++i) out[i] = decodeFp16(in[i]);
}

/// n consecutive elements as F32.
void toFloat(const PackSource& source, int64_t index, int64_t n, float* out) {
    switch (source.type) {
        case DType::BF16: {
            const uint16_t* in = static_cast<const uint16_t*>(source.data) + index;
            for (int64_t i = 0; i < n; ++i) out[i] = decodeBf16(in[i]);
            return;
        }
        case DType::F16:
            halfLine(static_cast<const uint16_t*>(source.data) + index, n, out);
            return;
        case DType::E4M3:
        case DType::E5M2:
            decodeLine(static_cast<const uint8_t*>(source.data) + index, source.type, n, out);
            return;
        default: {
            const float* in = static_cast<const float*>(source.data) + index;
            if (source.tf32)
                for (int64_t i = 0; i < n; ++i) out[i] = cutToTf32(in[i]);
            else if (n > 0)  // of nothing there may be no address
                __builtin_memcpy(out, in, static_cast<size_t>(n) * 4);
        }
    }
}

#if defined(MANTISSA_ISA_avx512bf16)

// ---- BF16 pairs ----------------------------------------------------------------------------------------------------

struct ByteTables {
    alignas(64) uint8_t low[128], high[128];
};

constexpr ByteTables makeByteTables(DType format) {
    ByteTables tables{};
    for (int code = 0; code < 128; ++code) {
        const uint32_t bits = floatBits(decodeFp8(static_cast<uint8_t>(code), format));
        tables.low[code] = static_cast<uint8_t>(bits >> 16);
        tables.high[code] = static_cast<uint8_t>(bits >> 24);
    }
    return tables;
}

constexpr ByteTables kBytesE4m3 = makeByteTables(DType::E4M3), kBytesE5m2 = makeByteTables(DType::E5M2);

/// Decodes 64 codes to BF16 by table look-up: first 32 results in `first`, others in `second`, when `codes` comes in
/// the order that the lane-wise interleaving of the two bytes undoes (kSpread).
struct Fp8Decoder {
    __m512i low0, low1, high0, high1;
    explicit Fp8Decoder(DType format) {
        const ByteTables& tables = format == DType::E4M3 ? kBytesE4m3 : kBytesE5m2;
        low0 = _mm512_load_si512(tables.low), low1 = _mm512_load_si512(tables.low + 64);
        high0 = _mm512_load_si512(tables.high), high1 = _mm512_load_si512(tables.high + 64);
    }
    void decode(__m512i codes, __m512i& first, __m512i& second) const {
        const __m512i sign = _mm512_and_si512(codes, _mm512_set1_epi8(static_cast<char>(0x80)));
        const __m512i low = _mm512_permutex2var_epi8(low0, codes, low1);
        const __m512i high = _mm512_or_si512(_mm512_permutex2var_epi8(high0, codes, high1), sign);
        first = _mm512_unpacklo_epi8(low, high);
        second = _mm512_unpackhi_epi8(low, high);
    }
};

struct ByteOrder {
    alignas(64) uint8_t index[64];
};

/// unpacklo / unpackhi work in 16-byte lanes: result i of 64 comes from byte lane(i). straight: code i first; else
/// codes of two rows of 32 are interleaved on the way.
constexpr ByteOrder makeOrder(bool interleave) {
    ByteOrder order{};
    for (int i = 0; i < 64; ++i) {
        const int half = i / 32, within = i % 32;
        const int position = (within / 8) * 16 + half * 8 + within % 8;
        order.index[position] = static_cast<uint8_t>(interleave ? (i & 1) * 32 + i / 2 : i);
    }
    return order;
}

constexpr ByteOrder kStraight = makeOrder(false), kInterleave = makeOrder(true);

/// n consecutive elements as BF16, followed by one zero when n is odd.
void toBf16(const PackSource& source, int64_t index, int64_t n, uint16_t* out) {
    if (n == 0) return;  // of nothing there may be no address
    if (n % 2) out[n] = 0;
    if (source.type == DType::BF16) {
        __builtin_memcpy(out, static_cast<const uint16_t*>(source.data) + index, static_cast<size_t>(n) * 2);
        return;
    }
    const uint8_t* codes = static_cast<const uint8_t*>(source.data) + index;
    const Fp8Decoder decoder(source.type);
    const __m512i order = _mm512_load_si512(kStraight.index);
    for (int64_t i = 0; i < n; i += 64) {
        const int64_t left = n - i;
        const __mmask64 mask = left >= 64 ? ~0ull : (1ull << left) - 1;
        __m512i first, second;
        decoder.decode(_mm512_permutexvar_epi8(order, _mm512_maskz_loadu_epi8(mask, codes + i)), first, second);
        _mm512_mask_storeu_epi16(out + i, static_cast<__mmask32>(mask), first);
        if (left > 32) _mm512_mask_storeu_epi16(out + i + 32, static_cast<__mmask32>(mask >> 32), second);
    }
}

/// Two k lines of 32 columns -> 32 units, columns 0..15 in `first`.
struct PairLoader {
    PackSource source;
    Fp8Decoder decoder;
    __m512i order, first16, second16;
    explicit PairLoader(const PackSource& s) : source(s), decoder(s.type == DType::E5M2 ? DType::E5M2 : DType::E4M3) {
        order = _mm512_load_si512(kInterleave.index);
        alignas(64) uint16_t index[64];
        for (int i = 0; i < 64; ++i) index[i] = static_cast<uint16_t>(i / 2 + (i & 1) * 32);
        first16 = _mm512_load_si512(index), second16 = _mm512_load_si512(index + 32);
    }
    /// columns: valid ones of the 32; odd: whether the second line exists.
    void load(int64_t index, int64_t columns, bool odd, __m512i& first, __m512i& second) const {
        const __mmask32 mask = columns >= 32 ? ~0u : (1u << columns) - 1;
        const __mmask32 oddMask = odd ? mask : 0;
        if (source.type == DType::BF16) {
            const uint16_t* in = static_cast<const uint16_t*>(source.data) + index;
            const __m512i even = _mm512_maskz_loadu_epi16(mask, in);
            const __m512i next = _mm512_maskz_loadu_epi16(oddMask, in + (odd ? source.ld : 0));
            first = _mm512_permutex2var_epi16(even, first16, next);
            second = _mm512_permutex2var_epi16(even, second16, next);
            return;
        }
        const uint8_t* in = static_cast<const uint8_t*>(source.data) + index;
        const __m256i even = _mm256_maskz_loadu_epi8(mask, in);
        const __m256i next = _mm256_maskz_loadu_epi8(oddMask, in + (odd ? source.ld : 0));
        const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(even), next, 1);
        decoder.decode(_mm512_permutexvar_epi8(order, both), first, second);
    }
};

void packPairLines(const PackSource& source, int width, int64_t firstRow, int64_t rows, int64_t firstUnit,
                   int64_t lastUnit, float* out, int64_t panelStride) {
    const PairLoader loader(source);
    const int64_t paddedRows = (rows + width - 1) / width * width;
    for (int64_t unit = firstUnit; unit < lastUnit; ++unit) {
        const bool odd = 2 * unit + 1 < source.k;
        for (int64_t row = 0; row < rows; row += 32) {
            __m512i first, second;
            loader.load(2 * unit * source.ld + firstRow + row, rows - row, odd, first, second);
            float* line = out + row / width * panelStride + (unit - firstUnit) * width;
            if (width == kNr) {
                _mm512_storeu_si512(line, first);
                _mm512_storeu_si512(line + 16, second);
                continue;
            }
            const __m256i quarters[4] = {_mm512_castsi512_si256(first), _mm512_extracti64x4_epi64(first, 1),
                                         _mm512_castsi512_si256(second), _mm512_extracti64x4_epi64(second, 1)};
            for (int q = 0; q < 4 && row + q * kMr < paddedRows; ++q)
                _mm256_storeu_si256(reinterpret_cast<__m256i*>(line + q * panelStride), quarters[q]);
        }
    }
}
#endif

// ---- lines and panels ----------------------------------------------------------------------------------------------

/// BF16 to F32 with the two of each pair exchanged: a pair of 16-bit values turned around, then widened.
void swappedPairs(const uint16_t* in, int64_t n, float* out) {
    int64_t i = 0;
#if defined(MANTISSA_ISA_avx512) || defined(MANTISSA_ISA_avx512bf16)
    for (; i + 16 <= n; i += 16) {
        const __m256i turned = _mm256_rol_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + i)), 16);
        _mm512_storeu_si512(out + i, _mm512_slli_epi32(_mm512_cvtepu16_epi32(turned), 16));
    }
#elif defined(MANTISSA_ISA_avx2)
    const __m128i order = _mm_setr_epi8(2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    for (; i + 8 <= n; i += 8) {
        const __m128i turned = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i)), order);
        const __m256i wide = _mm256_slli_epi32(_mm256_cvtepu16_epi32(turned), 16);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), wide);
    }
#endif
    for (; i < n; i += 2) {
        out[i] = i + 1 < n ? decodeBf16(in[i + 1]) : 0;
        out[i + 1] = decodeBf16(in[i]);
    }
}

/// One row's units [firstUnit, lastUnit) of a k-contiguous source, zeros beyond k.
void unitLine(const PackSource& source, PackedForm form, int64_t row, int64_t firstUnit, int64_t lastUnit, float* out) {
    const int64_t perUnit = form == PackedForm::Bf16Pairs ? 2 : 1;
    const int64_t first = firstUnit * perUnit, last = lastUnit * perUnit < source.k ? lastUnit * perUnit : source.k;
    const int64_t index = row * source.ld + first, n = last - first;
#if defined(MANTISSA_ISA_avx512bf16)
    if (form == PackedForm::Bf16Pairs) return toBf16(source, index, n, reinterpret_cast<uint16_t*>(out));
#endif
    if (form == PackedForm::F32)
        toFloat(source, index, n, out);
    else if (source.type == DType::BF16)
        swappedPairs(static_cast<const uint16_t*>(source.data) + index, n, out);
    else
        decodeSwapped(static_cast<const uint8_t*>(source.data) + index, source.type, n, out);
}

/// Columns [0, 4) of four lines -> 4 units of 4 rows each, at a distance of `width`.
inline void transpose4(const float* lines, int64_t stride, float* out, int width) {
    __m128 r0 = _mm_loadu_ps(lines), r1 = _mm_loadu_ps(lines + stride);
    __m128 r2 = _mm_loadu_ps(lines + 2 * stride), r3 = _mm_loadu_ps(lines + 3 * stride);
    _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
    _mm_storeu_ps(out, r0);
    _mm_storeu_ps(out + width, r1);
    _mm_storeu_ps(out + 2 * width, r2);
    _mm_storeu_ps(out + 3 * width, r3);
}

constexpr int64_t kLineUnits = 64;
constexpr int kMaxWidth = 32;

/// Units [0, n) of `width` lines -> out[unit][width].
void transposeLines(const float* lines, int64_t stride, int64_t n, int width, float* out) {
    int64_t u = 0;
    if (width % 4 == 0)
        for (; u + 4 <= n; u += 4)
            for (int r = 0; r < width; r += 4) transpose4(lines + r * stride + u, stride, out + u * width + r, width);
    for (; u < n; ++u)
        for (int r = 0; r < width; ++r) out[u * width + r] = lines[r * stride + u];
}

/// Panel of a k-contiguous source: lines of 64 units are decoded, then transposed; F32 from where it lies.
void packTransposed(const PackSource& source, PackedForm form, int width, int64_t firstRow, int64_t rows,
                    int64_t firstUnit, int64_t lastUnit, float* out) {
    if (source.type == DType::F32 && !source.tf32 && rows == width) {
        const float* lines = static_cast<const float*>(source.data) + firstRow * source.ld + firstUnit;
        return transposeLines(lines, source.ld, lastUnit - firstUnit, width, out);
    }
    float lines[kMaxWidth * kLineUnits];
    for (int64_t i = rows * kLineUnits; i < width * kLineUnits; ++i) lines[i] = 0;
    for (int64_t unit = firstUnit; unit < lastUnit; unit += kLineUnits) {
        const int64_t last = unit + kLineUnits < lastUnit ? unit + kLineUnits : lastUnit;
        for (int64_t row = 0; row < rows; ++row)
            unitLine(source, form, firstRow + row, unit, last, lines + row * kLineUnits);
        transposeLines(lines, kLineUnits, last - unit, width, out + (unit - firstUnit) * width);
    }
}

/// Copies a line of `n` row elements into panels of kWidth, at `out` of the first one; zeros behind the last element.
template <int kWidth>
inline void scatterLine(const float* line, int64_t n, float* out, int64_t panelStride) {
    int64_t row = 0;
    for (; row + kWidth <= n; row += kWidth, out += panelStride) __builtin_memcpy(out, line + row, kWidth * 4);
    if (row == n) return;
    for (int i = 0; i < kWidth; ++i) out[i] = row + i < n ? line[row + i] : 0.0f;
}

/// Panels of a source stored [k][row], F32 forms: one line of k at a time.
template <int kWidth>
void packLines(const PackSource& source, PackedForm form, int64_t firstRow, int64_t rows, int64_t firstUnit,
               int64_t lastUnit, float* out, int64_t panelStride) {
    constexpr int64_t kChunk = 64 * kWidth;
    float line[kChunk];
    const bool direct = source.type == DType::F32 && !source.tf32;
    for (int64_t unit = firstUnit; unit < lastUnit; ++unit) {
        const int64_t k = form == PackedForm::F32Pairs ? unit ^ 1 : unit;
        for (int64_t row = 0; row < rows; row += kChunk) {
            const int64_t n = rows - row < kChunk ? rows - row : kChunk;
            const int64_t index = k * source.ld + firstRow + row;
            const float* from = line;
            if (k >= source.k)
                __builtin_memset(line, 0, sizeof line);
            else if (direct)
                from = static_cast<const float*>(source.data) + index;
            else
                toFloat(source, index, n, line);
            scatterLine<kWidth>(from, n, out + row / kWidth * panelStride + (unit - firstUnit) * kWidth, panelStride);
        }
    }
}

}  // namespace

void packPanels(const PackSource& source, PackedForm form, int width, int64_t firstRow, int64_t rows, int64_t firstUnit,
                int64_t lastUnit, float* out, int64_t panelStride) {
    if (source.kContiguous) {
        for (int64_t row = 0; row < rows; row += width) {
            const int64_t n = rows - row < width ? rows - row : width;
            packTransposed(source, form, width, firstRow + row, n, firstUnit, lastUnit,
                           out + row / width * panelStride);
        }
        return;
    }
#if defined(MANTISSA_ISA_avx512bf16)
    if (form == PackedForm::Bf16Pairs)
        return packPairLines(source, width, firstRow, rows, firstUnit, lastUnit, out, panelStride);
#endif
    if (width == kNr)
        packLines<kNr>(source, form, firstRow, rows, firstUnit, lastUnit, out, panelStride);
    else
        packLines<kMr>(source, form, firstRow, rows, firstUnit, lastUnit, out, panelStride);
}

void packRows(const PackSource& source, PackedForm form, int64_t firstRow, int64_t rows, int64_t paddedRows,
              int64_t firstUnit, int64_t lastUnit, float* out, int64_t rowStride) {
    for (int64_t row = 0; row < rows; ++row)
        unitLine(source, form, firstRow + row, firstUnit, lastUnit, out + row * rowStride);
    for (int64_t row = rows; row < paddedRows; ++row)
        __builtin_memset(out + row * rowStride, 0, static_cast<size_t>(lastUnit - firstUnit) * 4);
}

}  // namespace mantissa::kernels::MANTISSA_ISA
