// GELU and SwiGLU: against the reference, against finite differences with planted mistakes, bit by bit across machines.
#include "tests/support/elementwise_cases.h"
#include "tests/support/tolerance.h"

namespace mantissa::test {
namespace {

using kernels::Activation;

const Activation kKinds[] = {Activation::GeluTanh, Activation::SwiGlu};
const char* kindName(Activation kind) {
    return kind == Activation::GeluTanh ? "gelu " : "swiglu ";
}

/// The logistic function's argument, its value, and the slope of the argument.
struct Logistic {
    double v, s, slope;
    Logistic(Activation kind, double x) {
        v = kind == Activation::GeluTanh ? 2 * 0.7978845608028654 * (x + 0.044715 * x * x * x) : x;
        slope = kind == Activation::GeluTanh ? 2 * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x) : 1;
        s = 1 / (1 + std::exp(-v));
    }
    double derivative(double x) const { return s + std::fabs(x) * s * (1 - s) * slope; }
};

TEST(Activation, ForwardMatchesReference) {
    for (const RowsCase& c : rowsCases())
        for (Activation kind : kKinds)
            for (kernels::Isa isa : supportedIsas()) {
                ActivationForwardData got(c, kind), expected = got;
                runOnCpu(got.op(), isa);
                runReference(expected.op());
                const std::string what = kindName(kind) + c.name() + " " + kernels::isaName(isa);
                expectWithin(what, got.out, expected.out, [&](int64_t i) {
                    const int64_t width = kind == Activation::SwiGlu ? 2 * c.cols : c.cols;
                    const Logistic f(kind, got.in.at(i / c.cols * width + i % c.cols));
                    return logisticBound(f.v, std::fabs(expected.out.at(i)), expected.out.at(i), c.type);
                });
                expectCastOf(what, got.cast, got.out, c.rows, c.cols);
            }
}

TEST(Activation, BackwardMatchesReference) {
    for (const RowsCase& c : rowsCases())
        for (Activation kind : kKinds)
            for (kernels::Isa isa : supportedIsas()) {
                ActivationBackwardData got(c, kind);
                got.withAgain = true;
                ActivationBackwardData expected = got;
                runOnCpu(got.op(), isa);
                runReference(expected.op());
                const std::string what =
                    kindName(kind) + std::string("backward ") + c.name() + " " + kernels::isaName(isa);
                const int64_t width = got.width();
                std::vector<double> columns(static_cast<size_t>(width)), bounds(static_cast<size_t>(c.rows * width));
                for (int64_t i = 0; i < c.rows * width; ++i) {
                    const int64_t row = i / width, column = i % width, inner = column % c.cols;
                    const double x = got.in.at(row * width + inner), dy = std::fabs(got.dOut.at(row * c.cols + inner));
                    const double up =
                        kind == Activation::SwiGlu ? std::fabs(got.in.at(row * width + c.cols + inner)) : 1;
                    const Logistic f(kind, x);
                    const double magnitude = column < c.cols ? dy * up * f.derivative(x) : dy * std::fabs(x) * f.s;
                    const double bound = logisticBound(f.v, magnitude, expected.dIn.at(i), c.type);
                    bounds[static_cast<size_t>(i)] = bound;
                    columns[static_cast<size_t>(column)] += bound + gammaF32(66) * std::fabs(expected.dIn.at(i));
                }
                expectWithin(what, got.dIn, expected.dIn, [&](int64_t i) { return bounds[static_cast<size_t>(i)]; });
                expectWithin(what + " dBias", got.dBias, expected.dBias, [&](int64_t i) {
                    return columns[static_cast<size_t>(i)] + 0x1p-23 * std::fabs(expected.dBias.at(i)) + 0x1p-126;
                });
                expectCastOf(what, got.cast, got.dIn, c.rows, width);
            }
}

TEST(Activation, ForwardMadeAgainHasTheSameBits) {
    for (const RowsCase& c : rowsCases())
        for (Activation kind : kKinds) {
            ActivationBackwardData backward(c, kind);
            backward.withAgain = true;
            ActivationForwardData forward(c, kind);
            forward.in = backward.in;
            runOnCpu(forward.op(), kernels::bestIsa());
            runOnCpu(backward.op(), kernels::bestIsa());
            EXPECT_EQ(backward.again.bytes, forward.out.bytes) << c.name();
        }
}

TEST(Activation, SameBitsOnAllThreadsAndInstructionSets) {
    for (const RowsCase& c : rowsCases())
        for (Activation kind : kKinds) {
            if (c.rows * c.cols > 60000) continue;
            expectSameBitsEverywhere(kindName(kind) + c.name(), ActivationForwardData(c, kind));
            expectSameBitsEverywhere(kindName(kind) + std::string("backward ") + c.name(),
                                     ActivationBackwardData(c, kind));
        }
}

TEST(Activation, InPlaceAndCodesAloneGiveTheSame) {
    ActivationBackwardData a({70, 131, DType::BF16, DType::E5M2}, Activation::GeluTanh), b = a, codesOnly = a;
    runOnCpu(a.op(), kernels::bestIsa());
    kernels::ActivationBackward op = b.op();
    op.dIn = b.dOut.data();
    runOnCpu(op, kernels::bestIsa());
    EXPECT_EQ(b.dOut.bytes, a.dIn.bytes);
    EXPECT_EQ(b.dBias.bytes, a.dBias.bytes);
    op = codesOnly.op();
    op.dIn = nullptr;
    runOnCpu(op, kernels::bestIsa());
    EXPECT_EQ(codesOnly.cast.codes.bytes, a.cast.codes.bytes);
    EXPECT_EQ(codesOnly.dBias.bytes, a.dBias.bytes);
}

TEST(Activation, GeluIsTheTanhForm) {
    ActivationForwardData data({1, 2001, DType::F32}, Activation::GeluTanh);
    for (int64_t i = 0; i < 2001; ++i) data.in.set(i, static_cast<double>(i - 1000) / 100);
    runOnCpu(data.op(), kernels::bestIsa());
    for (int64_t i = 0; i < 2001; ++i) {
        const double x = data.in.at(i);
        EXPECT_NEAR(data.out.at(i), 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))), 1e-6);
    }
}

TEST(Activation, ExtremeValues) {
    ActivationBackwardData data({1, 8, DType::F32}, Activation::GeluTanh);
    const double values[] = {1e20, -1e20, 100, -100, 1e-30, -0.0, std::nan(""), 15};
    for (int64_t i = 0; i < 8; ++i) data.in.set(i, values[i]), data.dOut.set(i, 1);
    data.withAgain = true;
    runOnCpu(data.op(), kernels::bestIsa());
    const double slopes[] = {1, 0, 1, 0, 0.5, 0.5, std::nan(""), 1},
                 outputs[] = {1e20, 0, 100, 0, 5e-31, 0, std::nan(""), 15};
    for (int64_t i = 0; i < 8; ++i) {
        EXPECT_EQ(std::isnan(data.dIn.at(i)), i == 6);
        if (i == 6) continue;
        EXPECT_NEAR(data.dIn.at(i), slopes[i], 1e-6) << i;
        EXPECT_NEAR(data.again.at(i), outputs[i], 1e-6 * std::fabs(outputs[i])) << i;
    }
}

TEST(Activation, BackwardMatchesFiniteDifferencesAndPlantedMistakesDoNot) {
    for (Activation kind : kKinds) {
        ActivationForwardData forward({5, 12, DType::F32}, kind);
        Numbers numbers(12);
        const Buffer w = normalBuffer(DType::F32, 60, numbers);
        const auto loss = [&] {
            runReference(forward.op());
            return weightedSum(w, forward.out);
        };
        const auto error = [&](auto plant) {
            ActivationBackwardData data({5, 12, DType::F32}, kind);
            data.in = forward.in, data.dOut = w;
            kernels::ActivationBackward op = data.op();
            plant(data, op);
            runOnCpu(op, kernels::bestIsa());
            return gradientError(forward.in, data.dIn, loss);
        };
        EXPECT_LT(error([](auto&, auto&) {}), kGradientTolerance);
        const auto withOut = [&](const Buffer& wrong) {
            return error([&](auto&, auto& op) { op.dOut = wrong.data(); });
        };
        EXPECT_GT(withOut(negated(w)), kGradientTolerance) << "wrong sign";
        EXPECT_GT(withOut(negated(w, 1.02)), kGradientTolerance) << "wrong factor";
        EXPECT_GT(withOut(transposed(w, 5, 12)), kGradientTolerance) << "transposed operand";
        const Buffer ones = [&] {
            Buffer b = w;
            for (int64_t i = 0; i < 60; ++i) b.set(i, 1);
            return b;
        }();
        EXPECT_GT(withOut(ones), kGradientTolerance) << "missing dOut";
        EXPECT_GT(error([&](auto& data, auto& op) {
                      data.in = negated(data.in);
                      op.in = data.in.data();
                  }),
                  kGradientTolerance)
            << "wrong operand";
    }
}

TEST(Activation, BiasGradientIsTheColumnSum) {
    ActivationBackwardData data({150, 20, DType::F32}, Activation::GeluTanh);
    data.c.accumulate = true;
    const Buffer before = data.dBias;
    runOnCpu(data.op(), kernels::bestIsa());
    for (int64_t c = 0; c < 20; ++c) {
        double sum = before.at(c);
        for (int64_t r = 0; r < 150; ++r) sum += data.dIn.at(r * 20 + c);
        EXPECT_NEAR(data.dBias.at(c), sum, 1e-4);
    }
}

}  // namespace
}  // namespace mantissa::test
