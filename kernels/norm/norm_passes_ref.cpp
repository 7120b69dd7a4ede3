// The norm's stages in plain loops with double sums.
#include <cmath>
#include <vector>

#include "kernels/device/reference_access.h"

namespace mantissa::kernels {
namespace {

using reference::load;
using reference::store;

double element(const NormPass& op, int64_t i, int64_t column, double row) {
    switch (op.stage) {
        case NormStage::AddResidual:
            return load(op.type, op.in, i) + load(op.type, op.in2, i);
        case NormStage::Center:
            return load(op.type, op.in, i) - row;
        case NormStage::Scale:
            return op.work[i] * row;
        case NormStage::GainBias:
            return op.work[i] * load(op.type, op.gain, column) + (op.bias ? load(op.type, op.bias, column) : 0);
        case NormStage::TimesGain:
            return load(op.type, op.in, i) * load(op.type, op.gain, column);
        case NormStage::Shift:
            return op.work[i] - row;
        case NormStage::SubtractDot:
            return op.work[i] - op.work2[i] * row;
        default:
            return op.work[i] * row + (op.in ? load(op.type, op.in, i) : 0);
    }
}

double rowTerm(const NormPass& op, int64_t i) {
    switch (op.stage) {
        case NormStage::Mean:
            return load(op.type, op.in, i);
        case NormStage::Rstd:
            return static_cast<double>(op.work[i]) * op.work[i];
        case NormStage::WorkDot:
            return static_cast<double>(op.work[i]) * op.work2[i];
        default:
            return op.work[i];
    }
}

void sumColumns(const NormPass& op) {
    for (int64_t c = 0; c < op.cols; ++c) {
        double sum = op.accumulate ? op.columnOut[c] : 0.0;
        for (int64_t i = c; i < op.rows * op.cols; i += op.cols)
            sum += load(op.type, op.in, i) * (op.stage == NormStage::ColumnDot ? op.work[i] : 1.0);
        op.columnOut[c] = static_cast<float>(sum);
    }
}

}  // namespace

void runReference(const NormPass& op) {
    if (sumsColumns(op.stage)) return sumColumns(op);
    const bool sums = op.stage == NormStage::Mean || op.stage == NormStage::Rstd || op.stage == NormStage::WorkMean ||
                      op.stage == NormStage::WorkDot;
    for (int64_t row = 0; row < op.rows; ++row) {
        const int64_t first = row * op.cols;
        if (sums) {
            double sum = 0;
            for (int64_t c = 0; c < op.cols; ++c) sum += rowTerm(op, first + c);
            const double mean = sum / static_cast<double>(op.cols);
            op.rowOut[row] = static_cast<float>(op.stage == NormStage::Rstd ? 1 / std::sqrt(mean + op.eps) : mean);
            continue;
        }
        const double value = op.rowIn ? op.rowIn[row] : 0.0;
        for (int64_t c = 0; c < op.cols; ++c) {
            const double y = element(op, first + c, c, value);
            if (op.stage == NormStage::AddResidual || op.stage == NormStage::GainBias ||
                op.stage == NormStage::ScaleAdd)
                store(op.type, op.out, first + c, y);
            else
                op.workOut[first + c] = static_cast<float>(y);
        }
    }
}

}  // namespace mantissa::kernels
