// Student's t for comparisons over a few seeds.
#pragma once

#include <vector>

namespace mantissa::experiments {

struct MeanSd {
    double mean = 0, sd = 0;  ///< sd: sample, n − 1; 0 for n < 2
};
MeanSd meanSd(const std::vector<double>& values);
/// Two-sided p of |t| or more with `degrees` degrees of freedom.
double studentP(double t, double degrees);
/// t with two-sided p = 0.05.
double studentQuantile95(double degrees);

}  // namespace mantissa::experiments
