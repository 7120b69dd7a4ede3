// GELU (tanh form) and SwiGLU in plain loops and double arithmetic.
#include <cmath>
#include <vector>

#include "kernels/device/reference_access.h"

namespace mantissa::kernels {
namespace {

using reference::load;
using reference::store;

constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
constexpr double kCubic = 0.044715;

double sigmoid(double x) {
    return 1 / (1 + std::exp(-x));
}

/// (1 + tanh u) / 2 = sigmoid(2u), without the cancellation of the left side for negative u.
double gelu(double x) {
    return x * sigmoid(2 * kSqrtTwoOverPi * (x + kCubic * x * x * x));
}

double geluDerivative(double x) {
    const double s = sigmoid(2 * kSqrtTwoOverPi * (x + kCubic * x * x * x));
    if (s == 0 || s == 1) return s;  // far out, where x * 0 * Inf would be NaN
    return s + 2 * x * s * (1 - s) * kSqrtTwoOverPi * (1 + 3 * kCubic * x * x);
}

}  // namespace

void runReference(const ActivationForward& op) {
    std::vector<float> y(static_cast<size_t>(op.rows * op.cols));
    for (int64_t row = 0; row < op.rows; ++row)
        for (int64_t c = 0; c < op.cols; ++c) {
            const int64_t i = row * op.cols + c;
            double value;
            if (op.kind == Activation::GeluTanh) {
                value = gelu(load(op.type, op.in, i));
            } else {
                const double gate = load(op.type, op.in, 2 * row * op.cols + c);
                value = gate * sigmoid(gate) * load(op.type, op.in, (2 * row + 1) * op.cols + c);
            }
            if (op.out) store(op.type, op.out, i, value);
            y[static_cast<size_t>(i)] = static_cast<float>(reference::rounded(op.type, value));
        }
    reference::cast(DType::F32, y.data(), op.rows, op.cols, op.cast);
}

void runReference(const ActivationBackward& op) {
    const bool isGelu = op.kind == Activation::GeluTanh;
    const int64_t width = isGelu ? op.cols : 2 * op.cols;
    std::vector<float> dIn(static_cast<size_t>(op.rows * width));
    std::vector<double> sums(static_cast<size_t>(width));
    const auto put = [&](int64_t row, int64_t column, double value) {
        const double rounded = reference::rounded(op.type, value);
        dIn[static_cast<size_t>(row * width + column)] = static_cast<float>(rounded);
        sums[static_cast<size_t>(column)] += rounded;
    };
    for (int64_t row = 0; row < op.rows; ++row)
        for (int64_t c = 0; c < op.cols; ++c) {
            const double dOut = load(op.type, op.dOut, row * op.cols + c);
            const double x = load(op.type, op.in, row * width + c);
            double again;
            if (isGelu) {
                put(row, c, dOut * geluDerivative(x));
                again = gelu(x);
            } else {
                const double up = load(op.type, op.in, row * width + op.cols + c), s = sigmoid(x);
                put(row, c, dOut * up * (s + x * s * (1 - s)));
                put(row, op.cols + c, dOut * x * s);
                again = x * s * up;
            }
            if (op.outAgain) store(op.type, op.outAgain, row * op.cols + c, again);
        }
    if (op.dIn)
        for (int64_t i = 0; i < op.rows * width; ++i) store(op.type, op.dIn, i, dIn[static_cast<size_t>(i)]);
    if (op.dBias)
        for (int64_t c = 0; c < width; ++c)
            op.dBias[c] = static_cast<float>((op.accumulate ? op.dBias[c] : 0.0) + sums[static_cast<size_t>(c)]);
    reference::cast(DType::F32, dIn.data(), op.rows, width, op.cast);
}

}  // namespace mantissa::kernels
