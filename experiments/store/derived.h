// Statistics that are made from stored ones when they are read.
#pragma once

#include <vector>

#include "engine/numerics.h"
#include "experiments/store/run_types.h"

namespace mantissa::experiments {

/// Stored statistics that `statistic` needs; itself for a stored one.
std::vector<Statistic> inputsOf(Statistic statistic);

/// Largest finite value of a format's name: 448, 57344; 0 for others.
double largestFinite(const std::string& format);

/// The value from its inputs (in the order of inputsOf), with the largest finite value M of the tensor's format and the
/// recipe's margin. share: counter ÷ elements. scale_inv: 1 ÷ scale. staleness: amax ÷ amax the scale was made from =
/// amax · scale · 2^margin ÷ M. unused_range: log2(M ÷ scale) − log2(amax), binades. dynamic_range: log2(amax) −
/// log2(smallest non-zero), binades (facts: diagnostics 3.1).
double derive(Statistic statistic, const double* inputs, double largest, int margin);

}  // namespace mantissa::experiments
