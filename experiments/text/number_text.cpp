#include "experiments/text/number_text.h"

#include <fmt/format.h>

namespace mantissa::experiments {

std::string bytesText(uint64_t bytes) {
    const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = static_cast<double>(bytes);
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < std::size(units)) value /= 1024, ++unit;
    const int digits = unit == 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
    return fmt::format("{:.{}f} {}", value, digits, units[unit]);
}

std::string durationText(double seconds) {
    if (!(seconds >= 0)) return "–";
    if (seconds < 60) return fmt::format("{:.0f} s", seconds);
    const auto rounded = static_cast<int64_t>(seconds / 10 + 0.5) * 10;
    if (rounded < 3600) return fmt::format("{} min {} s", rounded / 60, rounded % 60);
    if (rounded < 86400) return fmt::format("{} h {} min", rounded / 3600, rounded % 3600 / 60);
    return fmt::format("{} d {} h", rounded / 86400, rounded % 86400 / 3600);
}

}  // namespace mantissa::experiments
