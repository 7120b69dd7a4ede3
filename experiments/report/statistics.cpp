#include "experiments/report/statistics.h"

#include <cmath>

namespace mantissa::experiments {

namespace {

/// Regularised incomplete beta function by its continued fraction (Numerical Recipes, 6.4; Lentz's method).
double incompleteBeta(double a, double b, double x) {
    if (x <= 0) return 0;
    if (x >= 1) return 1;
    if (x > (a + 1) / (a + b + 2)) return 1 - incompleteBeta(b, a, 1 - x);
    const double front =
        std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x)) / a;
    double c = 1, d = 1 / (1 - (a + b) * x / (a + 1)), h = d;
    for (int m = 1; m <= 200; ++m) {
        const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        d = 1 / (1 + even * d);
        c = 1 + even / c;
        h *= d * c;
        const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        d = 1 / (1 + odd * d);
        c = 1 + odd / c;
        h *= d * c;
        if (std::abs(d * c - 1) < 1e-14) break;
    }
    return front * h;
}

}  // namespace

MeanSd meanSd(const std::vector<double>& values) {
    MeanSd result;
    if (values.empty()) return result;
    for (const double value : values) result.mean += value;
    result.mean /= static_cast<double>(values.size());
    double squares = 0;
    for (const double value : values) squares += (value - result.mean) * (value - result.mean);
    if (values.size() > 1) result.sd = std::sqrt(squares / static_cast<double>(values.size() - 1));
    return result;
}

double studentP(double t, double degrees) {
    if (std::isinf(t)) return 0;
    return incompleteBeta(degrees / 2, 0.5, degrees / (degrees + t * t));
}

double studentQuantile95(double degrees) {
    double low = 0, high = 1000;
    for (int i = 0; i < 100; ++i) {
        const double middle = (low + high) / 2;
        (studentP(middle, degrees) > 0.05 ? low : high) = middle;
    }
    return (low + high) / 2;
}

}  // namespace mantissa::experiments
