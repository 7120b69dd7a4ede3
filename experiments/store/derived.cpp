#include "experiments/store/derived.h"

#include <cmath>

#include "experiments/store/metrics.h"

namespace mantissa::experiments {

std::vector<Statistic> inputsOf(Statistic statistic) {
    switch (statistic) {
        case Statistic::ZerosShare:
            return {Statistic::Zeros, Statistic::Elements};
        case Statistic::UnderflowShare:
            return {Statistic::Underflow, Statistic::Elements};
        case Statistic::SubnormalShare:
            return {Statistic::Subnormal, Statistic::Elements};
        case Statistic::OverRangeShare:
            return {Statistic::OverRange, Statistic::Elements};
        case Statistic::ClippedShare:
            return {Statistic::Clipped, Statistic::Elements};
        case Statistic::InfShare:
            return {Statistic::Inf, Statistic::Elements};
        case Statistic::NanShare:
            return {Statistic::Nan, Statistic::Elements};
        case Statistic::ScaleInv:
            return {Statistic::Scale};
        case Statistic::Staleness:
        case Statistic::UnusedRange:
            return {Statistic::Amax, Statistic::Scale};
        case Statistic::DynamicRange:
            return {Statistic::Amax, Statistic::MinNonZero};
        default:
            return {statistic};
    }
}

double largestFinite(const std::string& format) {
    return format == "e4m3" ? 448 : format == "e5m2" ? 57344 : format == "e2m1" ? 6 : 0;
}

double derive(Statistic statistic, const double* inputs, double largest, int margin) {
    switch (statistic) {
        case Statistic::ScaleInv:
            return 1 / inputs[0];
        case Statistic::Staleness:
            return inputs[0] * inputs[1] * std::ldexp(1.0, margin) / largest;
        case Statistic::UnusedRange:
            return std::log2(largest / inputs[1]) - std::log2(inputs[0]);
        case Statistic::DynamicRange:
            return inputs[0] > 0 ? std::log2(inputs[0]) - std::log2(inputs[1]) : std::nan("");
        default:
            return isStored(statistic) ? inputs[0] : inputs[1] > 0 ? inputs[0] / inputs[1] : 0;
    }
}

}  // namespace mantissa::experiments
