// Causal attention on the CPU against the reference and against finite differences.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "kernels/device/cpu_ops.h"
#include "tests/support/cpu_run.h"
#include "tests/support/op_cases.h"
#include "tests/support/test_executor.h"
#include "tests/support/tolerance.h"

namespace mantissa::kernels {
namespace {

using test::AttentionCase;
using test::AttentionData;
using test::Buffer;

template <class Op>
void runOn(const Op& op, Isa isa, int threads) {
    test::ShuffledExecutor executor(threads);
    CpuContext context{&executor, isa, nullptr, 0};
    test::AlignedMemory memory(workspaceCpu(op, context));
    context.workspace = memory.data(), context.workspaceBytes = memory.size();
    runCpu(op, context);
    EXPECT_TRUE(memory.guardIntact()) << "wrote beyond its workspace";
}

/// One head of one sequence in double, with what the bounds need: all (T, D) or (T, T), row-major.
struct Head {
    int64_t T, D;
    std::vector<double> q, k, v, out, dOut, p, dP, delta, pError;

    Head(const AttentionData& data, int64_t sequence, int64_t head) : T(data.c.context), D(data.c.headWidth) {
        const int64_t channels = data.c.heads * D;
        const auto part = [&](const Buffer& from, int64_t ld, int64_t offset) {
            std::vector<double> values(static_cast<size_t>(T * D));
            for (int64_t i = 0; i < T * D; ++i)
                values[static_cast<size_t>(i)] = from.at((sequence * T + i / D) * ld + offset + head * D + i % D);
            return values;
        };
        q = part(data.qkv, 3 * channels, 0), k = part(data.qkv, 3 * channels, channels);
        v = part(data.qkv, 3 * channels, 2 * channels);
        out = part(data.out, channels, 0), dOut = part(data.dOut, channels, 0);
        p.assign(static_cast<size_t>(T * T), 0), dP = p;
        delta.assign(static_cast<size_t>(T), 0), pError = delta;
        const double scale = 1 / std::sqrt(static_cast<double>(D));
        for (int64_t t = 0; t < T; ++t) {
            double largest = 0, sum = 0;
            for (int64_t j = 0; j <= t; ++j) {
                double score = 0, magnitude = 0;
                for (int64_t d = 0; d < D; ++d) {
                    score += q[t * D + d] * k[j * D + d] * scale;
                    magnitude += std::fabs(q[t * D + d] * k[j * D + d]) * scale;
                    dP[t * T + j] += dOut[t * D + d] * v[j * D + d];
                }
                largest = std::fmax(largest, magnitude);
                sum += p[t * T + j] = std::exp(score);
            }
            for (int64_t j = 0; j <= t; ++j) p[t * T + j] /= sum;
            for (int64_t d = 0; d < D; ++d) delta[t] += dOut[t * D + d] * out[t * D + d];
            pError[t] = test::probabilityError(D, T, largest);
        }
    }
};

double outBound(const Head& h, int64_t t, int64_t d, double exact, DType type) {
    double magnitude = 0;
    double values = 0;
    for (int64_t j = 0; j <= t; ++j) {
        magnitude += h.p[t * h.T + j] * std::fabs(h.v[j * h.D + d]);
        values += std::fabs(h.v[j * h.D + d]);
    }
    const double u = test::unitRoundoff(type);
    const double before = magnitude * (h.pError[t] + 2 * u + test::gammaF32(2.0 * static_cast<double>(h.T)));
    return before + u * (std::fabs(exact) + before) + test::leastRounding(type) * (1 + values);
}

class AttentionOnIsa : public testing::TestWithParam<Isa> {};

TEST_P(AttentionOnIsa, ForwardWithinTheBound) {
    for (const AttentionCase& c : test::attentionCases()) {
        AttentionData data(c);
        runOn(data.forward(), GetParam(), 2);
        for (int64_t b = 0; b < c.batch; ++b)
            for (int64_t head = 0; head < c.heads; ++head) {
                const Head h(data, b, head);
                for (int64_t t = 0; t < c.context; ++t)
                    for (int64_t d = 0; d < c.headWidth; ++d) {
                        double exact = 0;
                        for (int64_t j = 0; j <= t; ++j) exact += h.p[t * h.T + j] * h.v[j * h.D + d];
                        const double got =
                            data.out.at((b * c.context + t) * c.heads * c.headWidth + head * c.headWidth + d);
                        ASSERT_NEAR(got, exact, outBound(h, t, d, exact, c.type))
                            << c.name() << " t " << t << " d " << d;
                    }
            }
    }
}

// The bounds follow the order of the computation: P, dS = P (dP - delta) / sqrt(D) rounded to the type, then sums over
// keys or queries.
TEST_P(AttentionOnIsa, BackwardWithinTheBound) {
    for (const AttentionCase& c : test::attentionCases()) {
        AttentionData data(c);
        runReference(data.forward());
        runOn(data.backward(), GetParam(), 2);
        const double u = test::unitRoundoff(c.type), least = test::leastRounding(c.type),
                     chain = test::gammaF32(2.0 * static_cast<double>(c.context + c.headWidth) + 16);
        for (int64_t b = 0; b < c.batch; ++b)
            for (int64_t head = 0; head < c.heads; ++head) {
                const Head h(data, b, head);
                const int64_t T = h.T, D = h.D, channels = c.heads * D;
                const double scale = 1 / std::sqrt(static_cast<double>(D));
                std::vector<double> exact[3], bound[3];
                for (int part = 0; part < 3; ++part)
                    exact[part].assign(static_cast<size_t>(T * D), 0), bound[part] = exact[part];
                for (int64_t t = 0; t < T; ++t)
                    for (int64_t j = 0; j <= t; ++j) {
                        const double p = h.p[t * T + j], dS = p * (h.dP[t * T + j] - h.delta[t]) * scale;
                        double dot = 0;  // magnitudes behind dP and delta
                        for (int64_t d = 0; d < D; ++d)
                            dot += std::fabs(h.dOut[t * D + d]) *
                                   (std::fabs(h.v[j * D + d]) + std::fabs(h.out[t * D + d]));
                        // lse comes from a forward of the reference, so P's error is that of one score and one
                        // exponential
                        const double pError = p * (h.pError[t] + u) + least,
                                     dSError =
                                         std::fabs(dS) * (h.pError[t] + u + chain) + p * scale * dot * chain + least;
                        for (int64_t d = 0; d < D; ++d) {
                            exact[0][t * D + d] += dS * h.k[j * D + d];
                            exact[1][j * D + d] += dS * h.q[t * D + d];
                            exact[2][j * D + d] += p * h.dOut[t * D + d];
                            bound[0][t * D + d] += (dSError + chain * std::fabs(dS)) * std::fabs(h.k[j * D + d]);
                            bound[1][j * D + d] += (dSError + chain * std::fabs(dS)) * std::fabs(h.q[t * D + d]);
                            bound[2][j * D + d] += (pError + chain * p) * std::fabs(h.dOut[t * D + d]);
                        }
                    }
                for (int part = 0; part < 3; ++part)
                    for (int64_t i = 0; i < T * D; ++i) {
                        const double got =
                            data.dQkv.at((b * T + i / D) * 3 * channels + part * channels + head * D + i % D);
                        const double wanted = exact[part][i],
                                     allowed = bound[part][i] * (1 + u) + u * std::fabs(wanted) + least;
                        ASSERT_NEAR(got, wanted, allowed)
                            << c.name() << " part " << part << " t " << i / D << " d " << i % D;
                    }
            }
        const int64_t columns = 3 * c.heads * c.headWidth, rows = c.batch * c.context;
        for (int64_t column = 0; column < columns; ++column) {
            double sum = 0, magnitude = 0;
            for (int64_t row = 0; row < rows; ++row) {
                sum += data.dQkv.at(row * columns + column);
                magnitude += std::fabs(data.dQkv.at(row * columns + column));
            }
            ASSERT_NEAR(data.dBias[static_cast<size_t>(column)], sum,
                        test::gammaF32(static_cast<double>(rows)) * magnitude + 1e-30)
                << c.name();
        }
    }
}

TEST_P(AttentionOnIsa, BiasGradientAccumulates) {
    AttentionData once({2, 20, 2, 32, DType::F32}), twice = once;
    runReference(once.forward());
    runReference(twice.forward());
    runOn(once.backward(), GetParam(), 1);
    runOn(twice.backward(), GetParam(), 1);
    AttentionBackward again = twice.backward();
    again.accumulate = true;
    runOn(again, GetParam(), 1);
    for (size_t i = 0; i < once.dBias.size(); ++i)
        EXPECT_NEAR(twice.dBias[i], 2 * once.dBias[i], 1e-6 * std::fabs(once.dBias[i]) + 1e-30);
}

// The fused cast's codes and counters are those of the stored result, exactly.
TEST_P(AttentionOnIsa, CastsWhatItStores) {
    for (bool backward : {false, true}) {
        AttentionData data({2, 70, 2, 32, DType::BF16});
        const int64_t rows = 140, cols = backward ? 192 : 64;
        const float scale = 60;
        std::vector<uint8_t> codes(static_cast<size_t>(rows * cols)), wanted = codes;
        TensorSlot slot, wantedSlot;
        CastTarget target;
        target.format = backward ? DType::E5M2 : DType::E4M3;
        target.codes = codes.data(), target.scale = &scale, target.slot = &slot, target.dear = true;
        AttentionForward forward = data.forward();
        AttentionBackward back = data.backward();
        if (!backward) forward.cast = target;
        runOn(forward, GetParam(), 3);
        if (backward) back.cast = target, runOn(back, GetParam(), 3);
        target.codes = wanted.data(), target.slot = &wantedSlot;
        runReference(Quantize{rows, cols, DType::BF16, backward ? data.dQkv.data() : data.out.data(), target});
        EXPECT_EQ(codes, wanted);
        EXPECT_EQ(slot.amax, wantedSlot.amax);
        EXPECT_EQ(slot.scaleUsed, scale);
        EXPECT_EQ(std::memcmp(&slot.counters, &wantedSlot.counters, sizeof slot.counters), 0);
        EXPECT_NEAR(slot.dear.sumSquares, wantedSlot.dear.sumSquares, 1e-12 * wantedSlot.dear.sumSquares);
    }
}

INSTANTIATE_TEST_SUITE_P(Isas, AttentionOnIsa, testing::ValuesIn(test::supportedIsas()),
                         [](const auto& info) { return std::string(isaName(info.param)); });

// P13: one determinism class, any thread count, same bits.
TEST(Attention, SameBitsOnEveryThreadCountAndInstructionSetOfAClass) {
    for (const AttentionCase& c : test::attentionCases())
        for (const std::vector<Isa>& group : {std::vector<Isa>{Isa::Sse}, {Isa::Avx2, Isa::Avx512, Isa::Avx512Bf16}}) {
            if (!isaSupported(group[0])) continue;
            AttentionData first(c);
            runOn(first.forward(), group[0], 1);
            runOn(first.backward(), group[0], 1);
            for (Isa isa : group)
                for (int threads : {1, 2, 3, 16}) {
                    if (!isaSupported(isa)) continue;
                    AttentionData data(c);
                    runOn(data.forward(), isa, threads);
                    runOn(data.backward(), isa, threads);
                    EXPECT_EQ(data.out.bytes, first.out.bytes) << c.name() << " on " << isaName(isa);
                    EXPECT_EQ(data.dQkv.bytes, first.dQkv.bytes) << c.name() << " on " << isaName(isa);
                    EXPECT_EQ(data.lse, first.lse);
                    EXPECT_EQ(data.dBias, first.dBias);
                }
        }
}

// ---- finite differences (P08) ----

enum class Mistake { None, NoScale, NoDelta, DeltaSign, SwappedQueryAndKey, NoMask, ScoreTransposed };

constexpr int64_t kT = 7, kD = 16;

std::vector<double> scoresOf(const std::vector<double>& qkv) {
    std::vector<double> s(kT * kT, 0);
    for (int64_t t = 0; t < kT; ++t)
        for (int64_t j = 0; j < kT; ++j)
            for (int64_t d = 0; d < kD; ++d) s[t * kT + j] += qkv[t * 3 * kD + d] * qkv[j * 3 * kD + kD + d] / 4.0;
    return s;
}

/// sum of weights * attention(qkv), in double.
double lossOf(const std::vector<double>& qkv, const std::vector<double>& weights) {
    const std::vector<double> s = scoresOf(qkv);
    double loss = 0;
    for (int64_t t = 0; t < kT; ++t) {
        double sum = 0, weighted = 0;
        for (int64_t j = 0; j <= t; ++j) {
            double dot = 0;
            for (int64_t d = 0; d < kD; ++d) dot += weights[t * kD + d] * qkv[j * 3 * kD + 2 * kD + d];
            sum += std::exp(s[t * kT + j]);
            weighted += std::exp(s[t * kT + j]) * dot;
        }
        loss += weighted / sum;
    }
    return loss;
}

/// The backward pass in double, right or with one planted mistake.
std::vector<double> gradientOf(const std::vector<double>& qkv, const std::vector<double>& weights, Mistake mistake) {
    const std::vector<double> s = scoresOf(qkv);
    std::vector<double> gradient(qkv.size(), 0);
    for (int64_t t = 0; t < kT; ++t) {
        const int64_t last = mistake == Mistake::NoMask ? kT - 1 : t;
        std::vector<double> p(kT, 0), dP(kT, 0);
        double sum = 0, delta = 0;
        for (int64_t j = 0; j <= last; ++j) {
            sum += p[j] = std::exp(mistake == Mistake::ScoreTransposed ? s[j * kT + t] : s[t * kT + j]);
            for (int64_t d = 0; d < kD; ++d) dP[j] += weights[t * kD + d] * qkv[j * 3 * kD + 2 * kD + d];
        }
        for (int64_t j = 0; j <= last; ++j) delta += (p[j] /= sum) * dP[j];
        if (mistake == Mistake::NoDelta) delta = 0;
        if (mistake == Mistake::DeltaSign) delta = -delta;
        for (int64_t j = 0; j <= last; ++j) {
            const double dS = p[j] * (dP[j] - delta) * (mistake == Mistake::NoScale ? 1 : 0.25);
            for (int64_t d = 0; d < kD; ++d) {
                const int64_t query = t * 3 * kD + d, key = j * 3 * kD + kD + d;
                gradient[mistake == Mistake::SwappedQueryAndKey ? t * 3 * kD + kD + d : query] += dS * qkv[key];
                gradient[mistake == Mistake::SwappedQueryAndKey ? j * 3 * kD + d : key] += dS * qkv[query];
                gradient[j * 3 * kD + 2 * kD + d] += p[j] * weights[t * kD + d];
            }
        }
    }
    return gradient;
}

/// Largest distance from central differences, relative to the largest gradient. h = 2^-12: the third derivative's part
/// is below 1e-6.
double distanceFromDifferences(std::vector<double> qkv, const std::vector<double>& weights,
                               const std::vector<double>& gradient) {
    double worst = 0, largest = 0;
    for (size_t i = 0; i < qkv.size(); ++i) {
        const double at = qkv[i], h = 0x1p-12;
        qkv[i] = at + h;
        const double above = lossOf(qkv, weights);
        qkv[i] = at - h;
        const double difference = (above - lossOf(qkv, weights)) / (2 * h);
        qkv[i] = at;
        worst = std::fmax(worst, std::fabs(difference - gradient[i]));
        largest = std::fmax(largest, std::fabs(difference));
    }
    return worst / largest;
}

TEST(Attention, BackwardMatchesFiniteDifferencesAndPlantedMistakesDoNot) {
    constexpr double kTolerance = 1e-5;
    AttentionData data({1, kT, 1, kD, DType::F32});
    std::vector<double> qkv(kT * 3 * kD), weights(kT * kD);
    for (size_t i = 0; i < qkv.size(); ++i) qkv[i] = data.qkv.at(static_cast<int64_t>(i));
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = data.dOut.at(static_cast<int64_t>(i));
    for (Isa isa : test::supportedIsas()) {
        runOn(data.forward(), isa, 1);
        runOn(data.backward(), isa, 1);
        std::vector<double> gradient(qkv.size());
        for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = data.dQkv.at(static_cast<int64_t>(i));
        EXPECT_LT(distanceFromDifferences(qkv, weights, gradient), kTolerance) << isaName(isa);
    }
    EXPECT_LT(distanceFromDifferences(qkv, weights, gradientOf(qkv, weights, Mistake::None)), kTolerance);
    for (Mistake mistake : {Mistake::NoScale, Mistake::NoDelta, Mistake::DeltaSign, Mistake::SwappedQueryAndKey,
                            Mistake::NoMask, Mistake::ScoreTransposed})
        EXPECT_GT(distanceFromDifferences(qkv, weights, gradientOf(qkv, weights, mistake)), 100 * kTolerance)
            << static_cast<int>(mistake);
}

TEST(Attention, NanInOneQuerySpoilsItsRow) {
    for (Isa isa : test::supportedIsas()) {
        AttentionData data({1, 90, 1, 32, DType::BF16});
        data.qkv.set(70 * 96 + 3, std::nan(""));
        runOn(data.forward(), isa, 1);
        for (int64_t t = 0; t < 90; ++t) EXPECT_EQ(std::isnan(data.out.at(t * 32)), t == 70) << t;
    }
}

TEST(Attention, RefusesWhatIsOutsideItsContract) {
    AttentionData data({1, 4, 1, 16, DType::F32});
    AttentionForward op = data.forward();
    op.headWidth = 24;
    EXPECT_THROW(runOn(op, Isa::Sse, 1), Error);
    op = data.forward();
    op.type = DType::E4M3;
    EXPECT_THROW(runOn(op, Isa::Sse, 1), Error);
}

}  // namespace
}  // namespace mantissa::kernels
