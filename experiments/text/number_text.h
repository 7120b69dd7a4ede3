// Numbers as text in files and messages: C locale, shortest digits that read back to the same number, words for
// non-finite ones.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>

namespace mantissa::experiments {

template <typename Real>
std::string numberText(Real value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    char buffer[64];
    return std::string(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
}

/// "1.49 GiB", "312 MiB", "96 KiB", "12 B"; three significant digits.
std::string bytesText(uint64_t bytes);
/// "17 min 50 s", "2 h 39 min", "45 s"; two units, rounded to 10 s above a minute.
std::string durationText(double seconds);

}  // namespace mantissa::experiments
