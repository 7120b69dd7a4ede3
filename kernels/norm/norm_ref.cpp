// LayerNorm and RMSNorm in plain loops with double sums: what the fast versions are compared with.
#include <cmath>
#include <vector>

#include "kernels/device/reference_access.h"

namespace mantissa::kernels {
namespace {

using reference::load;
using reference::store;

struct RowStatistics {
    double mean = 0, rstd = 0;
};

template <class At>
RowStatistics rowStatistics(NormKind kind, int64_t cols, double eps, At at) {
    double mean = 0, squares = 0;
    if (kind == NormKind::LayerNorm) {
        for (int64_t c = 0; c < cols; ++c) mean += at(c);
        mean /= static_cast<double>(cols);
    }
    for (int64_t c = 0; c < cols; ++c) squares += (at(c) - mean) * (at(c) - mean);
    return {mean, 1 / std::sqrt(squares / static_cast<double>(cols) + eps)};
}

/// Column sums in double, written as F32.
void writeColumns(const std::vector<double>& sums, float* out, bool accumulate) {
    if (!out) return;
    for (size_t c = 0; c < sums.size(); ++c) out[c] = static_cast<float>((accumulate ? out[c] : 0.0) + sums[c]);
}

}  // namespace

void runReference(const NormForward& op) {
    std::vector<float> y(static_cast<size_t>(op.rows * op.cols));
    for (int64_t row = 0; row < op.rows; ++row) {
        const int64_t first = row * op.cols;
        const void* residual = op.delta ? op.residualOut : op.residualIn;
        if (op.delta)
            for (int64_t i = first; i < first + op.cols; ++i)
                store(op.type, op.residualOut, i, load(op.type, op.residualIn, i) + load(op.type, op.delta, i));
        const RowStatistics s =
            rowStatistics(op.kind, op.cols, op.eps, [&](int64_t c) { return load(op.type, residual, first + c); });
        if (op.mean) op.mean[row] = static_cast<float>(s.mean);
        if (op.rstd) op.rstd[row] = static_cast<float>(s.rstd);
        for (int64_t c = 0; c < op.cols; ++c) {
            const double bias = op.bias ? load(op.type, op.bias, c) : 0;
            const double value =
                (load(op.type, residual, first + c) - s.mean) * s.rstd * load(op.type, op.gain, c) + bias;
            if (op.out) store(op.type, op.out, first + c, value);
            y[static_cast<size_t>(first + c)] =
                static_cast<float>(op.castFromF32 ? value : reference::rounded(op.type, value));
        }
    }
    if (op.cast.format == DType::None) return;
    Quantize quantize;
    quantize.rows = op.rows, quantize.cols = op.cols, quantize.inType = DType::F32, quantize.in = y.data();
    quantize.target = op.cast, quantize.roundToBf16 = !op.castFromF32;
    runReference(quantize);
}

void runReference(const NormBackward& op) {
    const size_t cols = static_cast<size_t>(op.cols);
    std::vector<double> gainSum(cols), biasSum(cols), linearSum(cols);
    for (int64_t row = 0; row < op.rows; ++row) {
        const int64_t first = row * op.cols;
        const double mean = op.kind == NormKind::LayerNorm ? op.mean[row] : 0.0, rstd = op.rstd[row];
        const auto normalised = [&](int64_t c) { return (load(op.type, op.residual, first + c) - mean) * rstd; };
        const auto scaled = [&](int64_t c) { return load(op.type, op.dOut, first + c) * load(op.type, op.gain, c); };
        double sum = 0, dot = 0;
        for (int64_t c = 0; c < op.cols; ++c) {
            sum += scaled(c);
            dot += scaled(c) * normalised(c);
        }
        sum = op.kind == NormKind::LayerNorm ? sum / static_cast<double>(op.cols) : 0;
        dot /= static_cast<double>(op.cols);
        for (int64_t c = 0; c < op.cols; ++c) {
            const size_t column = static_cast<size_t>(c);
            const double dOut = load(op.type, op.dOut, first + c);
            gainSum[column] += dOut * normalised(c);
            biasSum[column] += dOut;
            if (op.outAgain)
                store(op.type, op.outAgain, first + c,
                      normalised(c) * load(op.type, op.gain, c) + (op.bias ? load(op.type, op.bias, c) : 0));
            const double in = op.dResidualIn ? load(op.type, op.dResidualIn, first + c) : 0;
            const double value = in + rstd * (scaled(c) - sum - normalised(c) * dot);
            store(op.type, op.dResidual, first + c, value);
            linearSum[column] += load(op.type, op.dResidual, first + c);
        }
    }
    writeColumns(gainSum, op.dGain, op.accumulate);
    writeColumns(biasSum, op.dBias, op.accumulate);
    writeColumns(linearSum, op.dLinearBias, op.accumulate);
    reference::cast(op.type, op.dResidual, op.rows, op.cols, op.cast);
}

}  // namespace mantissa::kernels
