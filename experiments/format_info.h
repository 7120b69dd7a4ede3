// Number formats as plain values, for the Formats page: what a number becomes in each format, its bits, its neighbours.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mantissa::experiments {

enum class NumberFormat : uint8_t { E4m3, E5m2, E2m1, E8m0, Bf16, Fp16 };
/// In the order the page shows them: E4M3, E5M2, E2M1, E8M0, BF16, FP16.
const std::vector<NumberFormat>& allFormats();

struct FormatFacts {
    const char* key;   ///< "e4m3", as in specs and on the command line
    const char* name;  ///< "E4M3"
    int bits, signBits, exponentBits, fractionBits, bias;
    double largest, smallestNormal, smallest;  ///< finite; smallest: subnormal where the format has them
    bool hasInfinity, hasNan;
};
const FormatFacts& formatFacts(NumberFormat format);
std::optional<NumberFormat> formatByKey(const std::string& key);

enum class NumberKind : uint8_t { Zero, Subnormal, Normal, Infinity, Nan };

/// One code of a format.
struct FormatCode {
    uint32_t code = 0;
    std::string hex;                       ///< "0x1D", as many digits as the format's bits need
    std::string sign, exponent, fraction;  ///< the bit fields as '0' and '1'; sign is empty for E8M0
    NumberKind kind = NumberKind::Zero;
    double value = 0;  ///< exact
};
FormatCode describeCode(NumberFormat format, uint32_t code);

enum class Rounding : uint8_t { NearestEven, Stochastic, Down, Up };  ///< E8M0: Down, or Up for every other choice

/// What a number becomes: stored = fl32(number * scale), encoded; value = decoded / scale (times RN(1 / scale), as the
/// engine does).
struct CodedNumber {
    double input = 0;   ///< the number, rounded to FP32
    double scaled = 0;  ///< fl32(input * scale), what the number line shows
    FormatCode code;
    double value = 0;                        ///< dequantised
    double error = 0;                        ///< value - input; NaN when either is not finite
    double relativeError = 0;                ///< error / |input|; NaN for 0
    bool saturated = false;                  ///< the scaled number rounds above the largest finite value
    std::optional<FormatCode> below, above;  ///< neighbours of the code by value; none at the ends and for NaN
    /// Chance that stochastic rounding picks the neighbour away from zero; 0 where the number is exact.
    double chanceUp = 0;
};
/// seed chooses the draw of stochastic rounding (FP8 and BF16; other formats round to nearest).
/// Down and Up: towards zero and away from zero.
CodedNumber encodeNumber(NumberFormat format, double number, float scale = 1, Rounding rounding = Rounding::NearestEven,
                         uint64_t seed = 0);

/// All finite codes with low <= value <= high in ascending order of value; `total` tells how many there are, the list
/// is empty when they are more than `limit` (a line then draws them as a band).
std::vector<FormatCode> codesBetween(NumberFormat format, double low, double high, size_t limit, uint64_t& total);

/// A decimal number, "inf", "-inf", "nan", or a hexadecimal float ("0x1p-9"); surrounding spaces allowed. Nothing else.
std::optional<double> parseNumber(const std::string& text);
/// "1D", "0x1D": digits of a code that fits the format.
std::optional<uint32_t> parseCode(NumberFormat format, const std::string& text);

}  // namespace mantissa::experiments
