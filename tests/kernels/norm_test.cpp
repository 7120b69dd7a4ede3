// LayerNorm and RMSNorm: against the reference, against finite differences with planted mistakes, bit by bit across
// machines.
#include "tests/support/elementwise_cases.h"
#include "tests/support/tolerance.h"

namespace mantissa::test {
namespace {

using kernels::NormKind;

/// What a row's bounds are made of, in double, from the values that the op reads.
struct RowFacts {
    double mean = 0, rstd = 0, meanAbs = 0;
    RowFacts(NormKind kind, const Buffer& values, int64_t row, int64_t cols) {
        double sum = 0, squares = 0;
        for (int64_t c = 0; c < cols; ++c)
            sum += values.at(row * cols + c), meanAbs += std::fabs(values.at(row * cols + c));
        meanAbs /= static_cast<double>(cols);
        if (kind == NormKind::LayerNorm) mean = sum / static_cast<double>(cols);
        for (int64_t c = 0; c < cols; ++c) squares += std::pow(values.at(row * cols + c) - mean, 2);
        rstd = 1 / std::sqrt(squares / static_cast<double>(cols) + 1e-5);
    }
    double normalised(double value) const { return std::fabs(value - mean) * rstd; }
};

const NormKind kKinds[] = {NormKind::LayerNorm, NormKind::RmsNorm};

TEST(Norm, ForwardMatchesReference) {
    for (const RowsCase& c : rowsCases())
        for (NormKind kind : kKinds)
            for (bool delta : {false, true})
                for (kernels::Isa isa : supportedIsas()) {
                    NormForwardData got(c, kind, delta), expected = got;
                    runOnCpu(got.op(), isa);
                    runReference(expected.op());
                    const std::string what = "norm forward " + c.name() + " " + kernels::isaName(isa);
                    EXPECT_EQ(got.residualOut.bytes, expected.residualOut.bytes) << what;
                    const Buffer& in = delta ? got.residualOut : got.residual;
                    std::vector<RowFacts> rows;
                    for (int64_t r = 0; r < c.rows; ++r) rows.emplace_back(kind, in, r, c.cols);
                    expectWithin(what, got.out, expected.out, [&](int64_t i) {
                        const RowFacts& row = rows[static_cast<size_t>(i / c.cols)];
                        const double gain = got.gain.at(i % c.cols), bias = got.bias.at(i % c.cols);
                        return normForwardBound(c.cols, in.at(i), row.mean, row.rstd, row.meanAbs, gain, bias, c.type);
                    });
                    expectWithin(what + " rstd", got.rstd, expected.rstd, [&](int64_t i) {
                        const RowFacts& row = rows[static_cast<size_t>(i)];
                        return row.rstd * normRstdBound(c.cols, row.meanAbs, row.rstd);
                    });
                    expectCastOf(what, got.cast, got.out, c.rows, c.cols);
                }
}

TEST(Norm, BackwardMatchesReference) {
    for (const RowsCase& c : rowsCases())
        for (NormKind kind : kKinds)
            for (kernels::Isa isa : supportedIsas()) {
                NormBackwardData got(c, kind);
                got.withResidual = c.cols % 2 == 1;
                NormBackwardData expected = got;
                runOnCpu(got.op(), isa);
                runReference(expected.op());
                const std::string what = "norm backward " + c.name() + " " + kernels::isaName(isa);
                std::vector<double> bounds(static_cast<size_t>(c.rows * c.cols)), gain(static_cast<size_t>(c.cols)),
                    bias(gain.size()), linear(gain.size());
                for (int64_t r = 0; r < c.rows; ++r) {
                    const RowFacts row(kind, got.residual, r, c.cols);
                    double plain = 0, dot = 0;
                    const auto x = [&](int64_t i) {
                        return row.normalised(got.residual.at(i)) + row.meanAbs * row.rstd;
                    };
                    const auto dyGain = [&](int64_t i) { return std::fabs(got.dOut.at(i) * got.gain.at(i % c.cols)); };
                    for (int64_t i = r * c.cols; i < (r + 1) * c.cols; ++i)
                        plain += dyGain(i) / static_cast<double>(c.cols),
                            dot += dyGain(i) * x(i) / static_cast<double>(c.cols);
                    for (int64_t i = r * c.cols; i < (r + 1) * c.cols; ++i) {
                        const size_t column = static_cast<size_t>(i % c.cols);
                        const double in = got.withResidual ? std::fabs(got.dResidualIn.at(i)) : 0;
                        const double magnitude = in + row.rstd * (dyGain(i) + plain + x(i) * dot);
                        bounds[static_cast<size_t>(i)] =
                            rowOpBound(c.cols, magnitude, expected.dResidual.at(i), c.type);
                        gain[column] += std::fabs(got.dOut.at(i)) * x(i);
                        bias[column] += std::fabs(got.dOut.at(i));
                        linear[column] +=
                            bounds[static_cast<size_t>(i)] + gammaF32(66) * std::fabs(expected.dResidual.at(i));
                    }
                }
                expectWithin(what, got.dResidual, expected.dResidual,
                             [&](int64_t i) { return bounds[static_cast<size_t>(i)]; });
                const auto column = [&](const Buffer& sums, const std::vector<double>& magnitude, double factor) {
                    return [&sums, &magnitude, factor](int64_t i) {
                        return factor * magnitude[static_cast<size_t>(i)] + 0x1p-23 * std::fabs(sums.at(i)) + 0x1p-126;
                    };
                };
                expectWithin(what + " dGain", got.dGain, expected.dGain, column(expected.dGain, gain, gammaF32(80)));
                expectWithin(what + " dBias", got.dBias, expected.dBias, column(expected.dBias, bias, gammaF32(66)));
                expectWithin(what + " dLinearBias", got.dLinearBias, expected.dLinearBias,
                             column(expected.dLinearBias, linear, 1));
                expectCastOf(what, got.cast, got.dResidual, c.rows, c.cols);
            }
}

TEST(Norm, ForwardMadeAgainHasTheSameBits) {
    for (const RowsCase& c : rowsCases()) {
        NormForwardData forward(c, NormKind::LayerNorm, false);
        runOnCpu(forward.op(), kernels::bestIsa());
        NormBackwardData backward(c, NormKind::LayerNorm);
        backward.residual = forward.residual, backward.gain = forward.gain, backward.bias = forward.bias;
        backward.mean = forward.mean, backward.rstd = forward.rstd, backward.withAgain = true;
        runOnCpu(backward.op(), kernels::bestIsa());
        EXPECT_EQ(backward.again.bytes, forward.out.bytes) << c.name();
    }
}

TEST(Norm, SameBitsOnAllThreadsAndInstructionSets) {
    for (const RowsCase& c : rowsCases()) {
        if (c.rows * c.cols > 60000) continue;
        expectSameBitsEverywhere("norm forward " + c.name(), NormForwardData(c, NormKind::LayerNorm, true));
        expectSameBitsEverywhere("norm backward " + c.name(), NormBackwardData(c, NormKind::LayerNorm));
    }
}

TEST(Norm, ResultsDoNotDependOnTheCast) {
    for (DType type : {DType::F32, DType::BF16}) {
        const RowsCase with{70, 131, type, DType::E4M3}, without{70, 131, type, DType::None};
        NormForwardData a(with, NormKind::LayerNorm, true), b(without, NormKind::LayerNorm, true), codesOnly = a;
        for (auto* data : {&a, &b}) runOnCpu(data->op(), kernels::bestIsa());
        EXPECT_EQ(a.out.bytes, b.out.bytes);
        kernels::NormForward op = codesOnly.op();
        op.out = nullptr;
        runOnCpu(op, kernels::bestIsa());
        EXPECT_EQ(codesOnly.cast.codes.bytes, a.cast.codes.bytes);
        EXPECT_EQ(codesOnly.cast.slot.dear.sumSquares, a.cast.slot.dear.sumSquares);
        NormForwardData plain = NormForwardData(with, NormKind::LayerNorm, true);
        plain.cast.dear = false;
        runOnCpu(plain.op(), kernels::bestIsa());
        EXPECT_EQ(plain.cast.codes.bytes, a.cast.codes.bytes);
    }
}

TEST(Norm, CastFromF32RoundsOnce) {
    NormForwardData data({20, 96, DType::BF16, DType::E4M3}, NormKind::LayerNorm, false), reference = data, bf16 = data;
    kernels::NormForward op = data.op();
    op.castFromF32 = true;
    runOnCpu(op, kernels::bestIsa());
    op = reference.op();
    op.castFromF32 = true;
    runReference(op);
    runOnCpu(bf16.op(), kernels::bestIsa());
    int fromReference = 0, fromBf16 = 0;
    for (size_t i = 0; i < data.cast.codes.bytes.size(); ++i) {
        fromReference += data.cast.codes.bytes[i] != reference.cast.codes.bytes[i];
        fromBf16 += data.cast.codes.bytes[i] != bf16.cast.codes.bytes[i];
    }
    EXPECT_LE(fromReference, 2);
    EXPECT_GT(fromBf16, 10);
}

TEST(Norm, NanStaysInItsRow) {
    NormForwardData data({4, 40, DType::BF16, DType::E4M3}, NormKind::LayerNorm, false);
    data.residual.set(40 + 7, std::nan(""));
    runOnCpu(data.op(), kernels::bestIsa());
    for (int64_t i = 0; i < 160; ++i) EXPECT_EQ(std::isnan(data.out.at(i)), i / 40 == 1) << i;
    EXPECT_EQ(data.cast.slot.counters.nan, 40u);
}

/// The gradients of L = sum w y (+ sum u r through the residual) by the real op, with its arguments changed by `plant`.
struct Gradients {
    Buffer dResidual, dGain, dBias;
};
template <class Plant>
Gradients gradients(const NormForwardData& forward, const Buffer& w, const Buffer& u, Plant plant) {
    const RowsCase c{forward.c.rows, forward.c.cols, DType::F32};
    NormBackwardData data(c, forward.kind);
    data.dOut = w, data.residual = forward.residual, data.gain = forward.gain, data.bias = forward.bias;
    data.mean = forward.mean, data.rstd = forward.rstd, data.dResidualIn = u;
    kernels::NormBackward op = data.op();
    plant(data, op);
    runOnCpu(op, kernels::bestIsa());
    return {data.dResidual, data.dGain, data.dBias};
}

TEST(Norm, BackwardMatchesFiniteDifferencesAndPlantedMistakesDoNot) {
    using kernels::NormBackward;
    for (NormKind kind : kKinds) {
        NormForwardData forward({6, 20, DType::F32}, kind, false);
        Numbers numbers(9);
        const Buffer w = normalBuffer(DType::F32, 120, numbers), u = normalBuffer(DType::F32, 120, numbers);
        const auto loss = [&] {
            runReference(forward.op());
            return weightedSum(w, forward.out) + weightedSum(u, forward.residual);
        };
        loss();
        const auto errors = [&](auto plant) {
            const Gradients g = gradients(forward, w, u, plant);
            const double x = gradientError(forward.residual, g.dResidual, loss),
                         gain = gradientError(forward.gain, g.dGain, loss);
            const double bias = gradientError(forward.bias, g.dBias, loss);
            loss();
            return std::vector<double>{x, gain, bias};
        };
        const std::vector<double> right = errors([](NormBackwardData&, NormBackward&) {});
        for (double error : right) EXPECT_LT(error, kGradientTolerance);
        const Buffer minus = negated(w), scaled = negated(w, 1.05), turned = transposed(w, 6, 20);
        const Buffer wrongRstd = negated(forward.rstd, 1.03);
        const std::vector<float> ones(20, 1.0f);
        EXPECT_GT(errors([&](auto&, NormBackward& op) { op.dOut = minus.data(); })[0], kGradientTolerance)
            << "wrong sign";
        for (double error : errors([&](auto&, NormBackward& op) { op.dOut = scaled.data(); }))
            EXPECT_GT(error, kGradientTolerance) << "wrong factor";
        for (double error : errors([&](auto&, NormBackward& op) { op.dOut = turned.data(); }))
            EXPECT_GT(error, kGradientTolerance) << "transposed operand";
        EXPECT_GT(errors([&](auto&, NormBackward& op) { op.dResidualIn = nullptr; })[0], kGradientTolerance)
            << "missing residual";
        EXPECT_GT(errors([&](auto&, NormBackward& op) { op.gain = ones.data(); })[0], kGradientTolerance)
            << "missing gain";
        EXPECT_GT(
            errors([&](auto&, NormBackward& op) { op.rstd = reinterpret_cast<const float*>(wrongRstd.data()); })[1],
            kGradientTolerance)
            << "wrong rstd";
        if (kind == NormKind::RmsNorm) continue;
        const double meanMissing = errors([&](auto&, NormBackward& op) { op.kind = NormKind::RmsNorm; })[0];
        EXPECT_GT(meanMissing, kGradientTolerance) << "missing mean term";
    }
}

TEST(Norm, RefusesArgumentsOutsideItsContract) {
    NormForwardData data({2, 8, DType::F16}, NormKind::LayerNorm, false);
    kernels::NormForward op = data.op();
    op.gain = nullptr;
    EXPECT_THROW(runOnCpu(op, kernels::bestIsa()), Error);
    op = data.op();
    op.cast.format = DType::E4M3;
    EXPECT_THROW(runOnCpu(op, kernels::bestIsa()), Error);
    op = data.op();
    op.delta = data.delta.data();
    EXPECT_THROW(runOnCpu(op, kernels::bestIsa()), Error);
}

}  // namespace
}  // namespace mantissa::test
