#include "experiments/format_info.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>

#include "experiments/format_codec.h"
#include "kernels/formats/fp8.h"
#include "kernels/formats/half.h"
#include "kernels/formats/micro.h"
#include "kernels/simd/philox.h"

namespace mantissa::experiments {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

const FormatFacts kFacts[] = {
    {"e4m3", "E4M3", 8, 1, 4, 3, 7, 448, 0x1p-6, 0x1p-9, false, true},
    {"e5m2", "E5M2", 8, 1, 5, 2, 15, 57344, 0x1p-14, 0x1p-16, true, true},
    {"e2m1", "E2M1", 4, 1, 2, 1, 1, 6, 1, 0.5, false, false},
    {"e8m0", "E8M0", 8, 0, 8, 0, 127, 0x1p127, 0x1p-127, 0x1p-127, false, true},
    {"bf16", "BF16", 16, 1, 8, 7, 127, 0x1.FEp127, 0x1p-126, 0x1p-133, true, true},
    {"fp16", "FP16", 16, 1, 5, 10, 15, 65504, 0x1p-14, 0x1p-24, true, true},
};

std::string bitText(uint32_t code, int first, int count) {
    std::string text;
    for (int bit = first + count - 1; bit >= first; --bit) text += (code >> bit) & 1 ? '1' : '0';
    return text;
}

uint32_t signBit(NumberFormat format) {
    const FormatFacts& facts = formatFacts(format);
    return facts.signBits ? 1u << (facts.bits - 1) : 0;
}

/// Finite codes in ascending order of value: key = magnitude, negative with the sign bit. Both zeros have key 0.
int64_t keyOf(NumberFormat format, uint32_t code) {
    const uint32_t sign = signBit(format);
    const auto magnitude = static_cast<int64_t>(code & ~sign);
    return sign && (code & sign) ? -magnitude : magnitude;
}

uint32_t codeOf(NumberFormat format, int64_t key) {
    return key < 0 ? static_cast<uint32_t>(-key) | signBit(format) : static_cast<uint32_t>(key);
}

int64_t lowestKey(NumberFormat format) {
    return signBit(format) ? -static_cast<int64_t>(largestCode(format)) : 0;
}

bool isFinite(NumberFormat format, uint32_t code) {
    return std::isfinite(decodeAs(format, code));
}

/// First finite key whose value is >= limit, or one past the last.
int64_t firstKeyFrom(NumberFormat format, double limit) {
    int64_t low = lowestKey(format), high = static_cast<int64_t>(largestCode(format)) + 1;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (decodeAs(format, codeOf(format, middle)) >= limit)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

uint32_t roundCode(NumberFormat format, float scaled, Rounding rounding, uint64_t seed) {
    if (format == NumberFormat::E8m0) return encodeAs(format, scaled, rounding != Rounding::Down);
    const uint32_t random = kernels::philoxBlock(seed, 0, 0).value[0];
    if (rounding == Rounding::Stochastic && format == NumberFormat::E4m3)
        return kernels::encodeFp8Stochastic(scaled, kernels::kE4m3, random);
    if (rounding == Rounding::Stochastic && format == NumberFormat::E5m2)
        return kernels::encodeFp8Stochastic(scaled, kernels::kE5m2, random);
    if (rounding == Rounding::Stochastic && format == NumberFormat::Bf16)
        return kernels::encodeBf16Stochastic(scaled, random);
    const uint32_t nearest = encodeAs(format, scaled);
    const double value = std::fabs(decodeAs(format, nearest)), wanted = std::fabs(scaled);
    if (rounding == Rounding::Down && value > wanted) return nearest - 1;
    if (rounding == Rounding::Up && value < wanted && (nearest & ~signBit(format)) < largestCode(format))
        return nearest + 1;
    return nearest;
}

/// Position of |scaled| between the codes around it.
double chanceAway(NumberFormat format, float scaled) {
    const double wanted = std::fabs(scaled);
    if (!std::isfinite(scaled) || wanted > formatFacts(format).largest) return 0;
    const int64_t above = firstKeyFrom(format, wanted);
    const double high = decodeAs(format, codeOf(format, above));
    if (high == wanted || above == lowestKey(format)) return 0;
    const double low = decodeAs(format, codeOf(format, above - 1));
    return (wanted - low) / (high - low);
}

}  // namespace

const std::vector<NumberFormat>& allFormats() {
    static const std::vector<NumberFormat> formats = {NumberFormat::E4m3, NumberFormat::E5m2, NumberFormat::E2m1,
                                                      NumberFormat::E8m0, NumberFormat::Bf16, NumberFormat::Fp16};
    return formats;
}

const FormatFacts& formatFacts(NumberFormat format) {
    return kFacts[static_cast<int>(format)];
}

std::optional<NumberFormat> formatByKey(const std::string& key) {
    for (NumberFormat format : allFormats())
        if (key == formatFacts(format).key) return format;
    return std::nullopt;
}

uint32_t encodeAs(NumberFormat format, float value, bool roundUp) {
    switch (format) {
        case NumberFormat::E4m3:
            return kernels::encodeE4m3(value);
        case NumberFormat::E5m2:
            return kernels::encodeE5m2(value);
        case NumberFormat::E2m1:
            return kernels::encodeE2m1(value);
        case NumberFormat::E8m0:
            return kernels::encodeE8m0(value, roundUp);
        case NumberFormat::Bf16:
            return kernels::encodeBf16(value);
        case NumberFormat::Fp16:
            return kernels::encodeFp16(value);
    }
    return 0;
}

float decodeAs(NumberFormat format, uint32_t code) {
    switch (format) {
        case NumberFormat::E4m3:
            return kernels::decodeE4m3(static_cast<uint8_t>(code));
        case NumberFormat::E5m2:
            return kernels::decodeE5m2(static_cast<uint8_t>(code));
        case NumberFormat::E2m1:
            return kernels::decodeE2m1(static_cast<uint8_t>(code));
        case NumberFormat::E8m0:
            return kernels::decodeE8m0(static_cast<uint8_t>(code));
        case NumberFormat::Bf16:
            return kernels::decodeBf16(static_cast<uint16_t>(code));
        case NumberFormat::Fp16:
            return kernels::decodeFp16(static_cast<uint16_t>(code));
    }
    return 0;
}

uint32_t largestCode(NumberFormat format) {
    constexpr uint32_t kLargest[] = {0x7E, 0x7B, 0x7, 0xFE, 0x7F7F, 0x7BFF};
    return kLargest[static_cast<int>(format)];
}

float clipThreshold(NumberFormat format) {
    switch (format) {
        case NumberFormat::E4m3:
            return std::nextafter(464.0f, 1000.0f);
        case NumberFormat::E5m2:
            return 61440;
        case NumberFormat::E2m1:
            return 7;
        case NumberFormat::E8m0:
            return std::nextafter(0x1p127f, std::numeric_limits<float>::max());
        case NumberFormat::Bf16:
            return 0x1.FFp127f;
        case NumberFormat::Fp16:
            return 65520;
    }
    return 0;
}

FormatCode describeCode(NumberFormat format, uint32_t code) {
    const FormatFacts& facts = formatFacts(format);
    FormatCode result;
    result.code = code;
    result.hex = fmt::format("0x{:0{}X}", code, (facts.bits + 3) / 4);
    result.fraction = bitText(code, 0, facts.fractionBits);
    result.exponent = bitText(code, facts.fractionBits, facts.exponentBits);
    result.sign = bitText(code, facts.bits - 1, facts.signBits);
    result.value = decodeAs(format, code);
    const double magnitude = std::fabs(result.value);
    result.kind = std::isnan(result.value)           ? NumberKind::Nan
                  : std::isinf(result.value)         ? NumberKind::Infinity
                  : magnitude == 0                   ? NumberKind::Zero
                  : magnitude < facts.smallestNormal ? NumberKind::Subnormal
                                                     : NumberKind::Normal;
    return result;
}

CodedNumber encodeNumber(NumberFormat format, double number, float scale, Rounding rounding, uint64_t seed) {
    CodedNumber result;
    const float input = static_cast<float>(number), scaled = input * scale;
    result.input = input;
    result.scaled = scaled;
    const uint32_t code = roundCode(format, scaled, rounding, seed);
    result.code = describeCode(format, code);
    result.value = decodeAs(format, code) * (1.0f / scale);
    const bool finite = std::isfinite(result.value) && std::isfinite(input);
    result.error = finite ? result.value - result.input : kNan;
    result.relativeError = finite && input != 0 ? result.error / std::fabs(result.input) : kNan;
    result.saturated = std::fabs(scaled) >= clipThreshold(format);
    result.chanceUp = chanceAway(format, scaled);
    if (!isFinite(format, code)) return result;
    const int64_t key = keyOf(format, code);
    if (key > lowestKey(format)) result.below = describeCode(format, codeOf(format, key - 1));
    if (key < static_cast<int64_t>(largestCode(format))) result.above = describeCode(format, codeOf(format, key + 1));
    return result;
}

std::vector<FormatCode> codesBetween(NumberFormat format, double low, double high, size_t limit, uint64_t& total) {
    std::vector<FormatCode> codes;
    total = 0;
    if (!(low <= high)) return codes;
    const int64_t first = firstKeyFrom(format, low);
    const int64_t end = firstKeyFrom(format, std::nextafter(high, std::numeric_limits<double>::infinity()));
    total = end > first ? static_cast<uint64_t>(end - first) : 0;
    if (total > limit) return codes;
    for (int64_t key = first; key < end; ++key) codes.push_back(describeCode(format, codeOf(format, key)));
    return codes;
}

std::optional<double> parseNumber(const std::string& text) {
    const size_t first = text.find_first_not_of(" \t\r\n"), last = text.find_last_not_of(" \t\r\n");
    if (first == std::string::npos) return std::nullopt;
    const char* begin = text.data() + first;
    const char* const end = text.data() + last + 1;
    const bool negative = *begin == '-';
    if (*begin == '-' || *begin == '+') ++begin;
    if (begin == end || *begin == '-' || *begin == '+') return std::nullopt;
    const bool hex = end - begin > 2 && begin[0] == '0' && (begin[1] == 'x' || begin[1] == 'X');
    double value = 0;  // from_chars, because strtod follows the locale that a desktop program has set
    const auto [stop, error] =
        hex ? std::from_chars(begin + 2, end, value, std::chars_format::hex) : std::from_chars(begin, end, value);
    if (error == std::errc::result_out_of_range && stop == end) {
        // Beyond a double: infinite or 0, as rounding says. The exponent's sign tells which.
        const std::string_view digits(begin, static_cast<size_t>(end - begin));
        const size_t exponent = digits.find_first_of(hex ? "pP" : "eE");
        const bool tiny = exponent != std::string_view::npos && digits.substr(exponent + 1).starts_with('-');
        value = tiny ? 0.0 : std::numeric_limits<double>::infinity();
    } else if (error != std::errc() || stop != end) {
        return std::nullopt;
    }
    return negative ? -value : value;
}

std::optional<uint32_t> parseCode(NumberFormat format, const std::string& text) {
    const size_t first = text.find_first_not_of(" \t\r\n"), last = text.find_last_not_of(" \t\r\n");
    if (first == std::string::npos) return std::nullopt;
    std::string digits = text.substr(first, last - first + 1);
    if (digits.starts_with("0x") || digits.starts_with("0X")) digits.erase(0, 2);
    if (digits.empty() || digits.size() > 8 || digits.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos)
        return std::nullopt;
    const unsigned long long code = std::stoull(digits, nullptr, 16);
    if (code >> formatFacts(format).bits) return std::nullopt;
    return static_cast<uint32_t>(code);
}

}  // namespace mantissa::experiments
