// AdamW against an independent double version, step control as a state machine, initial weights, flat sums and fills.
#include <algorithm>

#include "kernels/optimizer/normal_table.h"
#include "tests/support/elementwise_cases.h"
#include "tests/support/tolerance.h"

namespace mantissa::test {
namespace {

using kernels::AdamW;
using kernels::StepParameters;
using kernels::StepState;

/// FNV-1a over the 64-bit words of the test below, recorded from the first version.
constexpr uint64_t kInitNormalHash = 13294458712496777832ull;

float* floats(Buffer& buffer) {
    return reinterpret_cast<float*>(buffer.data());
}

struct Shape {
    int64_t rows, cols;
    bool decay;
    DType cast;
};

/// Flat arrays of a few tensors: a matrix beyond one tile, a vector, one element, odd sizes.
struct AdamWData {
    std::vector<Shape> shapes = {{300, 131, true, DType::E4M3},
                                 {1, 77, false, DType::None},
                                 {1, 1, false, DType::None},
                                 {64, 64, true, DType::E4M3},
                                 {13, 17, true, DType::E5M2}};
    std::vector<kernels::ParameterTensor> tensors;
    std::vector<CastData> casts;
    Buffer masters, moment1, moment2, gradients, compute;
    DType computeType;
    StepState state;
    StepParameters parameters;
    bool castOnly = false, amaxOnly = false;
    int64_t n = 0;

    explicit AdamWData(DType type, uint64_t seed = 8) : computeType(type) {
        for (const Shape& s : shapes) {
            tensors.push_back({n, s.rows, s.cols, s.decay, {}});
            casts.push_back(s.cast == DType::None ? CastData() : CastData(s.cast, s.rows * s.cols, 300.0f));
            n += (s.rows * s.cols + 63) / 64 * 64;
        }
        Numbers numbers(seed);
        masters = normalBuffer(DType::F32, n, numbers, 0.05);
        gradients = normalBuffer(DType::F32, n, numbers, 0.01);
        moment1 = normalBuffer(DType::F32, n, numbers, 0.01);
        moment2 = normalBuffer(DType::F32, n, numbers, 0.01);
        for (int64_t i = 0; i < n; ++i) moment2.set(i, moment2.at(i) * moment2.at(i));
        compute = Buffer(type == DType::None ? DType::BF16 : type, n);
        state.beta1Power = 0.9 * 0.9 * 0.9, state.beta2Power = 0.95 * 0.95 * 0.95, state.updates = 3;
        state.clipFactor = 0.25f;
        parameters.learningRate = 0.003f;
    }
    AdamW op() {
        for (size_t t = 0; t < tensors.size(); ++t) {
            tensors[t].cast = casts[t].target();
            tensors[t].cast.amaxOnly = amaxOnly;
        }
        AdamW op;
        op.n = n, op.tensorCount = static_cast<int>(tensors.size()), op.tensors = tensors.data();
        op.masters = floats(masters), op.moment1 = floats(moment1), op.moment2 = floats(moment2),
        op.gradients = floats(gradients);
        if (computeType != DType::None) op.compute = compute.data(), op.computeType = computeType;
        op.state = &state, op.parameters = &parameters, op.castOnly = castOnly;
        return op;
    }
    Bytes bytes() const {
        Bytes all;
        all.add(masters).add(moment1).add(moment2).add(compute);
        for (const CastData& cast : casts) all.add(cast);
        return all;
    }
};

/// One element by the formula of the contract (arXiv:1711.05101), in double, written apart from the kernels.
struct Element {
    double w, m, v, step;
    Element(const AdamWData& d, int64_t i, bool decay) {
        const double g = d.gradients.at(i) * d.state.clipFactor, b1 = 0.9f, b2 = 0.95f;
        m = b1 * d.moment1.at(i) + (1 - b1) * g;
        v = b2 * d.moment2.at(i) + (1 - b2) * g * g;
        step = m / (1 - d.state.beta1Power) / (std::sqrt(v / (1 - d.state.beta2Power)) + 1e-8f);
        w = d.masters.at(i) - d.parameters.learningRate * (step + (decay ? 0.1f * d.masters.at(i) : 0));
    }
};

TEST(AdamW, MatchesAnIndependentDoubleVersion) {
    for (DType type : {DType::None, DType::BF16, DType::F16})
        for (int isaIndex = -1; isaIndex < static_cast<int>(supportedIsas().size()); ++isaIndex) {
            const AdamWData before(type);
            AdamWData got = before;
            if (isaIndex < 0)
                runReference(got.op());
            else
                runOnCpu(got.op(), supportedIsas()[static_cast<size_t>(isaIndex)]);
            for (size_t t = 0; t < got.tensors.size(); ++t) {
                const auto& tensor = got.tensors[t];
                for (int64_t i = tensor.offset; i < tensor.offset + tensor.rows * tensor.cols; ++i) {
                    const Element e(before, i, tensor.decay);
                    const double g = std::fabs(before.gradients.at(i) * before.state.clipFactor);
                    const double mError = 4 * 0x1p-24 * (std::fabs(before.moment1.at(i)) + g);
                    const double perM = std::fabs(1 / (std::sqrt(e.v / (1 - before.state.beta2Power)) + 1e-8) /
                                                  (1 - before.state.beta1Power));
                    ASSERT_NEAR(got.moment1.at(i), e.m, mError) << i;
                    ASSERT_NEAR(got.moment2.at(i), e.v, 5 * 0x1p-24 * e.v + 0x1p-149) << i;
                    const double stepError = 12 * 0x1p-24 * std::fabs(e.step) + mError * perM;
                    ASSERT_NEAR(got.masters.at(i), e.w,
                                0.003f * (stepError + 0x1p-23 * std::fabs(0.1 * e.w)) + 0x1p-24 * std::fabs(e.w))
                        << i;
                    if (type != DType::None) {
                        Buffer one(type, 1);
                        one.set(0, got.masters.at(i));
                        ASSERT_EQ(got.compute.at(i), one.at(0));
                    }
                }
                Buffer stored(type == DType::BF16 ? DType::BF16 : DType::F32, tensor.rows * tensor.cols);
                for (int64_t i = 0; i < stored.size(); ++i) stored.set(i, got.masters.at(tensor.offset + i));
                expectCastOf("AdamW", got.casts[t], stored, tensor.rows, tensor.cols);
            }
        }
}

TEST(AdamW, SkippedUpdateTouchesNothing) {
    AdamWData data(DType::BF16);
    runOnCpu(data.op(), kernels::bestIsa());
    data.state.applied = 0;
    const Bytes before = data.bytes();
    runOnCpu(data.op(), kernels::bestIsa());
    EXPECT_TRUE(data.bytes() == before);
}

TEST(AdamW, CastOnlyKeepsMastersAndMomentsAndOverwritesSlots) {
    AdamWData data(DType::BF16);
    data.state.applied = 0;
    data.castOnly = true;
    for (CastData& cast : data.casts) cast.slot.counters.elements = 999, cast.slot.amax = 1e9f;
    const AdamWData before = data;
    kernels::AdamW op = data.op();
    op.state = nullptr, op.parameters = nullptr, op.moment1 = nullptr, op.moment2 = nullptr, op.gradients = nullptr;
    runOnCpu(op, kernels::bestIsa());
    EXPECT_EQ(data.masters.bytes, before.masters.bytes);
    EXPECT_EQ(data.moment1.bytes, before.moment1.bytes);
    for (size_t t = 0; t < data.tensors.size(); ++t) {
        const auto& tensor = data.tensors[t];
        Buffer stored(DType::BF16, tensor.rows * tensor.cols);
        for (int64_t i = 0; i < stored.size(); ++i) stored.set(i, data.masters.at(tensor.offset + i));
        expectCastOf("castOnly", data.casts[t], stored, tensor.rows, tensor.cols);
    }
}

TEST(AdamW, AmaxOnlyTakesTheAmaxAndWritesNoCodes) {
    AdamWData data(DType::BF16), full(DType::BF16);
    data.amaxOnly = true;
    runOnCpu(data.op(), kernels::bestIsa());
    runOnCpu(full.op(), kernels::bestIsa());
    EXPECT_EQ(data.casts[0].slot.amax, full.casts[0].slot.amax);
    EXPECT_GT(data.casts[0].slot.amax, 0);
    EXPECT_TRUE(std::all_of(data.casts[0].codes.bytes.begin(), data.casts[0].codes.bytes.end(),
                            [](uint8_t c) { return c == 0; }));
}

TEST(AdamW, SameBitsOnAllThreadsAndInstructionSets) {
    for (DType type : {DType::None, DType::BF16, DType::F16}) expectSameBitsEverywhere("AdamW", AdamWData(type));
}

TEST(AdamW, PlantedMistakesAreSeen) {
    const AdamWData before(DType::None);
    const auto worst = [&](auto plant) {
        AdamWData data = before;
        AdamW op = data.op();
        plant(data, op);
        runOnCpu(op, kernels::bestIsa());
        double error = 0;
        for (const auto& tensor : before.tensors)
            for (int64_t i = tensor.offset; i < tensor.offset + tensor.rows * tensor.cols; ++i) {
                const Element e(before, i, tensor.decay);
                error = std::max(error, std::fabs(data.masters.at(i) - e.w) / (std::fabs(e.w) + 0.003));
            }
        return error;
    };
    constexpr double kTolerance = 1e-5;
    EXPECT_LT(worst([](auto&, auto&) {}), kTolerance);
    Buffer minus = negated(before.gradients);
    EXPECT_GT(worst([&](auto&, auto& op) { op.gradients = floats(minus); }), kTolerance) << "wrong sign";
    EXPECT_GT(worst([](auto& d, auto&) { d.state.clipFactor = 0.26f; }), kTolerance) << "wrong clip factor";
    EXPECT_GT(worst([](auto&, auto& op) { op.weightDecay = 0; }), kTolerance) << "missing decay";
    EXPECT_GT(worst([](auto& d, auto&) { d.state.beta1Power = 0; }), kTolerance) << "missing bias correction";
    EXPECT_GT(worst([](auto& d, auto&) { d.state.beta2Power = 0; }), kTolerance) << "missing bias correction";
    EXPECT_GT(worst([](auto&, auto& op) { std::swap(op.moment1, op.moment2); }), kTolerance) << "swapped moments";
    EXPECT_GT(worst([](auto&, auto& op) { op.epsilon = 1e-3f; }), kTolerance) << "wrong epsilon";
}

struct Control {
    StepState state;
    StepParameters parameters;
    std::vector<double> partials = {9, 16};
    kernels::GradientControl op;
    Control() { state.lossSum = 1, parameters.tokens = 64; }
    void run() {
        op.partialCount = static_cast<int64_t>(partials.size()), op.partials = partials.data();
        op.state = &state, op.parameters = &parameters;
        runOnCpu(op, kernels::bestIsa());
    }
};

TEST(GradientControl, ClipsByTheNorm) {
    Control c;
    c.op.clip = 1;
    c.run();
    EXPECT_EQ(c.state.gradientNorm, 5);
    EXPECT_EQ(c.state.clipFactor, 0.2f);
    EXPECT_EQ(c.state.applied, 1u);
    EXPECT_EQ(c.state.updates, 1u);
    EXPECT_EQ(c.state.beta1Power, static_cast<double>(0.9f));
    c.op.clip = 10;
    c.run();
    EXPECT_EQ(c.state.clipFactor, 1);
    c.op.clip = 0;
    c.run();
    EXPECT_EQ(c.state.clipFactor, 1);
    EXPECT_EQ(c.state.updates, 3u);
}

TEST(GradientControl, SkipsNonFiniteSteps) {
    const double infinity = HUGE_VAL;
    for (int kind = 0; kind < 3; ++kind) {
        Control c;
        if (kind == 0) c.partials[1] = infinity;
        if (kind == 1) c.partials[0] = std::nan("");
        if (kind == 2) c.state.lossSum = std::nan("");
        c.run();
        EXPECT_EQ(c.state.applied, 0u);
        EXPECT_EQ(c.state.updates, 0u);
        EXPECT_EQ(c.state.beta1Power, 1);
        EXPECT_EQ(c.state.skippedRunning, 1u);
        c.run();
        EXPECT_EQ(c.state.skippedRunning, 2u);
        c.op.skipNonFinite = false;
        c.run();
        EXPECT_EQ(c.state.applied, 1u);
        EXPECT_EQ(c.state.skippedRunning, 0u);
    }
    Control stopped;
    stopped.parameters.stop = 1;
    stopped.run();
    EXPECT_EQ(stopped.state.applied, 0u);
}

TEST(GradientControl, DynamicLossScaleIsAStateMachine) {
    Control c;
    c.op.dynamicLossScale = true, c.op.growthInterval = 3;
    c.state.lossScale = 65536;
    c.run();
    EXPECT_EQ(c.state.gradientNorm, 5.0f / 65536);
    EXPECT_EQ(c.state.clipFactor, 1.0f / 65536);
    c.run();
    EXPECT_EQ(c.state.lossScale, 65536);
    EXPECT_EQ(c.state.goodSteps, 2u);
    c.run();
    EXPECT_EQ(c.state.lossScale, 131072);
    EXPECT_EQ(c.state.goodSteps, 0u);
    c.run();
    c.partials[0] = HUGE_VAL;
    c.run();
    EXPECT_EQ(c.state.lossScale, 65536);
    EXPECT_EQ(c.state.goodSteps, 0u);
    for (int i = 0; i < 30; ++i) c.run();
    EXPECT_EQ(c.state.lossScale, 1);
    c.partials[0] = 9;
    for (int i = 0; i < 3 * 30; ++i) c.run();
    EXPECT_EQ(c.state.lossScale, 16777216);
}

TEST(StepBegin, ClearsTheStepAndSetsTheGradientScale) {
    StepState state;
    StepParameters parameters;
    state.lossScale = 1024, state.lossSum = 3, parameters.tokens = 512;
    std::vector<kernels::TensorSlot> slots(3);
    for (auto& slot : slots) slot.amax = 2, slot.counters.nan = 5, slot.dear.exponents[7] = 1;
    runOnCpu(kernels::StepBegin{&parameters, &state, slots.data(), 2}, kernels::bestIsa());
    EXPECT_EQ(parameters.gradientScale, 2);
    EXPECT_EQ(state.lossSum, 0);
    const kernels::TensorSlot empty;
    EXPECT_EQ(std::memcmp(&slots[1], &empty, sizeof empty), 0);
    EXPECT_EQ(slots[2].amax, 2);
}

TEST(SumSquares, IsExactToDoubleRoundingAndTheSameEverywhere) {
    for (int64_t n : {1, 17, 32768, 32769, 100003}) {
        Numbers numbers(40);
        Buffer values = normalBuffer(DType::F32, n, numbers);
        if (n == 17) values.set(3, 1e30);  // its square does not fit in F32
        const size_t blocks = static_cast<size_t>((n + 32767) / 32768);
        std::vector<double> expected(blocks), first;
        runReference(kernels::SumSquares{n, floats(values), expected.data()});
        for (kernels::Isa isa : supportedIsas())
            for (int threads : {1, 3}) {
                ThreadExecutor executor(threads);
                std::vector<double> got(blocks);
                runOnCpu(kernels::SumSquares{n, floats(values), got.data()}, isa, executor);
                for (size_t b = 0; b < blocks; ++b) EXPECT_NEAR(got[b], expected[b], 1e-11 * expected[b]);
                if (first.empty()) first = got;
                EXPECT_EQ(got, first);
            }
    }
}

TEST(InitNormal, SameBitsOnEveryBackendAndPlace) {
    const int64_t n = 70001;
    std::vector<float> reference(n), got(n);
    runReference(kernels::InitNormal{n, reference.data(), 0.02f, 7, 3});
    for (kernels::Isa isa : supportedIsas()) {
        ThreadExecutor executor(3);
        runOnCpu(kernels::InitNormal{n, got.data(), 0.02f, 7, 3}, isa, executor);
        EXPECT_EQ(got, reference);
    }
    const uint64_t* words = reinterpret_cast<const uint64_t*>(reference.data());
    uint64_t hash = 14695981039346656037ull;
    for (int64_t i = 0; i < n / 2; ++i) hash = (hash ^ words[i]) * 1099511628211ull;
    EXPECT_EQ(hash, kInitNormalHash) << "initial weights changed: every stored run starts from other weights";
    std::vector<float> other(n);
    runReference(kernels::InitNormal{n, other.data(), 0.02f, 7, 4});
    EXPECT_NE(other, reference);
    runReference(kernels::InitNormal{n, other.data(), 0.02f, 8, 3});
    EXPECT_NE(other, reference);
}

TEST(InitNormal, IsNormal) {
    const int64_t n = 2000000;
    std::vector<float> x(n);
    ThreadExecutor executor(2);
    runOnCpu(kernels::InitNormal{n, x.data(), 1.0f, 1, 1}, kernels::bestIsa(), executor);
    std::sort(x.begin(), x.end());
    double sum = 0, squares = 0, fourth = 0, distance = 0;
    for (int64_t i = 0; i < n; ++i) {
        const double v = x[static_cast<size_t>(i)];
        sum += v, squares += v * v, fourth += v * v * v * v;
        const double rank = (static_cast<double>(i) + 0.5) / static_cast<double>(n);
        distance = std::max(distance, std::fabs(0.5 * std::erfc(-v / std::sqrt(2.0)) - rank));
    }
    const double count = static_cast<double>(n);
    EXPECT_NEAR(sum / count, 0, 5 / std::sqrt(count));
    EXPECT_NEAR(squares / count, 1, 5 * std::sqrt(2 / count));
    EXPECT_NEAR(fourth / count, 3, 5 * std::sqrt(96 / count));
    EXPECT_LT(distance, 2.2 / std::sqrt(count));  // Kolmogorov-Smirnov: passed by chance with probability above 0.9998
}

TEST(InitNormal, TableIsTheInverseOfTheTail) {
    const int64_t* table = kernels::normalTable();
    EXPECT_EQ(table[0], 0);
    for (int i = 1; i < kernels::kNormalTableSize; ++i) {
        const int octave = (i - 1) / kernels::kNormalSegments, segment = i - octave * kernels::kNormalSegments;
        const double p = std::ldexp(1 - segment / 128.0, -octave), z = static_cast<double>(table[i]) * 0x1p-32;
        EXPECT_NEAR(std::erfc(z / std::sqrt(2.0)) / p, 1, 1e-8) << i;
        EXPECT_GT(table[i], table[i - 1]);
    }
    EXPECT_EQ(kernels::normalDeviate(table, 0x7FFFFFFFFFFFFFFFull), 0);
    EXPECT_EQ(kernels::normalDeviate(table, 0), table[kernels::kNormalTableSize - 1]);
    EXPECT_EQ(kernels::normalDeviate(table, 1ull << 63), -table[kernels::kNormalTableSize - 1]);
}

TEST(Fill, FillsExactlyItsRange) {
    std::vector<float> values(100001, 1.0f);
    ThreadExecutor executor(3);
    runOnCpu(kernels::Fill{100000, values.data(), 2.5f}, kernels::bestIsa(), executor);
    EXPECT_TRUE(std::all_of(values.begin(), values.end() - 1, [](float v) { return v == 2.5f; }));
    EXPECT_EQ(values.back(), 1.0f);
}

}  // namespace
}  // namespace mantissa::test
