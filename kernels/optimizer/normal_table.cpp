#include "kernels/optimizer/normal_table.h"

#include <array>
#include <cmath>

namespace mantissa::kernels {
namespace {

constexpr double kInvSqrtTwoPi = 0.3989422804014326779;

/// exp(-x) for x in [0, 40]: Taylor series of x / 4096, squared twelve times. Relative error below 1e-12.
double expNegative(double x) {
    const double t = x / 4096;
    double value = 1;
    for (int term = 8; term >= 1; --term) value = 1 - value * t / term;
    for (int i = 0; i < 12; ++i) value *= value;
    return value;
}

double density(double z) {
    return kInvSqrtTwoPi * expNegative(z * z / 2);
}

/// P(|N(0,1)| > z). Below 2: 1 - 2 phi(z) (z + z^3/3 + z^5/15 + ...) (Abramowitz and Stegun 26.2.11); above: the
/// continued fraction 2 phi(z) / (z + 1/(z + 2/(z + 3/...))) (26.2.14).
double tail(double z) {
    if (z < 2) {
        double term = z, sum = z;
        for (int k = 1; k <= 40; ++k) {
            term *= z * z / (2 * k + 1);
            sum += term;
        }
        return 1 - 2 * density(z) * sum;
    }
    double fraction = z;
    for (int k = 200; k >= 1; --k) fraction = z + k / fraction;
    return 2 * density(z) / fraction;
}

/// z with tail(z) = p, by bisection in [low, 7].
double inverseTail(double p, double low) {
    double high = 7;
    for (int i = 0; i < 60; ++i) {
        const double middle = (low + high) / 2;
        (tail(middle) > p ? low : high) = middle;
    }
    return (low + high) / 2;
}

std::array<int64_t, kNormalTableSize> makeTable() {
    std::array<int64_t, kNormalTableSize> table{};
    double z = 0, octaveTop = 1;
    for (int e = 0; e < kNormalOctaves; ++e, octaveTop /= 2)
        for (int j = 0; j <= kNormalSegments; ++j) {
            const double p = octaveTop * (1 - static_cast<double>(j) / (2 * kNormalSegments));
            z = p == 1 ? 0 : inverseTail(p, z > 0.001 ? z - 0.001 : 0);
            table[static_cast<size_t>(e * kNormalSegments + j)] = static_cast<int64_t>(z * 0x1p32 + 0.5);
        }
    return table;
}

}  // namespace

const int64_t* normalTable() {
    static const std::array<int64_t, kNormalTableSize> table = makeTable();
    return table.data();
}

}  // namespace mantissa::kernels
