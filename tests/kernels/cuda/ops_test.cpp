// The fused ops on the GPU against the reference: values within a derived bound; the codes, counters and transposes of
// a fused cast exact given the op's own value before the cast.
#include <cmath>
#include <cstring>

#include "kernels/device/cpu_ops.h"
#include "tests/support/cuda_twin.h"
#include "tests/support/op_cases.h"
#include "tests/support/tolerance.h"

namespace mantissa::kernels {
namespace {

using test::Buffer;
using test::Numbers;
using NormOnGpu = test::CudaTest;
using ActivationOnGpu = test::CudaTest;
using AttentionOnGpu = test::CudaTest;
using EmbeddingOnGpu = test::CudaTest;
using LossOnGpu = test::CudaTest;
using OptimizerOnGpu = test::CudaTest;

constexpr DType kTypes[] = {DType::F32, DType::BF16, DType::F16};

Buffer normals(DType type, int64_t n, uint64_t seed, double scale = 1, double shift = 0) {
    Numbers numbers(seed);
    Buffer buffer(type, n);
    for (int64_t i = 0; i < n; ++i) buffer.set(i, numbers.normal() * scale + shift);
    return buffer;
}

std::vector<float> floats(const Buffer& buffer) {
    std::vector<float> values(static_cast<size_t>(buffer.size()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(buffer.at(static_cast<int64_t>(i)));
    return values;
}

/// |got - wanted| <= relative * |wanted| + absolute, element by element.
void expectNear(const std::vector<float>& got, const std::vector<float>& wanted, double relative, double absolute,
                const std::string& what) {
    ASSERT_EQ(got.size(), wanted.size()) << what;
    int failures = 0;
    double worst = 0;
    for (size_t i = 0; i < got.size(); ++i) {
        const double bound = relative * std::fabs(static_cast<double>(wanted[i])) + absolute;
        const double error = std::fabs(static_cast<double>(got[i]) - wanted[i]);
        worst = std::max(worst, error / bound);
        if (error <= bound) continue;
        if (++failures <= 3)
            ADD_FAILURE() << what << " at " << i << ": " << got[i] << ", wanted " << wanted[i] << " +- " << bound;
    }
    if (failures)
        ADD_FAILURE() << what << ": " << failures << " of " << got.size() << " off, worst " << worst << " bounds";
}

/// A value computed in F32 and stored in `type`, against a double: one rounding each way and a few of F32.
void expectStored(const Buffer& got, const Buffer& wanted, double magnitude, const std::string& what) {
    expectNear(floats(got), floats(wanted), 2 * test::unitRoundoff(got.type), magnitude * 0x1p-19, what);
}

/// Memory of one fused cast.
struct Cast {
    std::vector<uint8_t> codes, transposed;
    std::vector<float> scale{13.7f};
    std::vector<TensorSlot> slot{1};
    DType format = DType::None;
    int64_t rows = 0, cols = 0;
    bool dear = false;  ///< with it the kernels of probed steps run, without it those of all other steps

    Cast(DType f, int64_t r, int64_t c) : format(f), rows(r), cols(c) {
        static int casts = 0;
        dear = ++casts / 3 % 2;
        if (f == DType::None) return;
        codes.assign(static_cast<size_t>(r * c), 0xAA);
        transposed = codes;
    }
    CastTarget target() {
        CastTarget target;
        if (format == DType::None) return target;
        target.format = format, target.codes = codes.data(), target.codesTransposed = transposed.data();
        target.scale = scale.data(), target.slot = slot.data(), target.dear = dear, target.exponents = dear;
        return target;
    }
    void add(test::Twins& twins) { twins.add(codes), twins.add(transposed), twins.add(scale), twins.add(slot); }
    /// `value`: what the op stored, rows x cols; the cast saw its BF16 rounding.
    void expectExact(const test::Twins& twins, const Buffer& value, const std::string& what, bool counted = true) {
        if (format == DType::None) return;
        const std::vector<float> in = floats(value);
        Quantize op;
        op.rows = rows, op.cols = cols, op.inType = DType::F32, op.in = in.data();
        std::vector<uint8_t> wanted(codes.size());
        TensorSlot slotWanted;
        op.target = target();
        op.target.codes = wanted.data(), op.target.codesTransposed = nullptr, op.target.slot = &slotWanted;
        runReference(op);
        const auto gotTransposed = twins.get(transposed);
        EXPECT_EQ(twins.get(codes), wanted) << what;
        size_t wrong = 0;
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = 0; c < cols; ++c) wrong += gotTransposed[c * rows + r] != wanted[r * cols + c];
        EXPECT_EQ(wrong, 0u) << what << " transposed";
        const TensorSlot got = twins.get(slot)[0];
        if (!counted) {
            EXPECT_EQ(got.counters.elements, 0u) << what;
            return;
        }
        EXPECT_EQ(std::memcmp(&got.counters, &slotWanted.counters, sizeof(CastCounters)), 0) << what;
        EXPECT_EQ(floatBits(got.amax), floatBits(slotWanted.amax)) << what;
        if (!dear) return;
        EXPECT_EQ(got.dear.minNonZero, slotWanted.dear.minNonZero) << what;
        EXPECT_EQ(std::memcmp(got.dear.exponents, slotWanted.dear.exponents, sizeof got.dear.exponents), 0) << what;
        // The reference adds one by one: as many roundings of a double as there are elements.
        const double sumBound = 0x1p-52 * static_cast<double>(rows * cols) * slotWanted.dear.sumSquaredError;
        EXPECT_NEAR(got.dear.sumSquaredError, slotWanted.dear.sumSquaredError, sumBound) << what;
    }
};

struct Shape {
    int64_t rows, cols;
};
constexpr Shape kNormShapes[] = {{1, 8},      {3, 17},    {33, 64},   {64, 768},  {96, 768}, {130, 1600}, {64, 1600},
                                 {128, 1600}, {40, 4096}, {32, 4096}, {64, 4096}, {7, 129},  {1100, 96},  {1024, 96}};

std::string nameOf(DType type, const Shape& shape) {
    return std::string(dtypeName(type)) + " " + std::to_string(shape.rows) + "x" + std::to_string(shape.cols);
}

TEST_F(NormOnGpu, ForwardAsTheReference) {
    int variant = 0;
    for (DType type : kTypes)
        for (const Shape& shape : kNormShapes)
            for (NormKind kind : {NormKind::LayerNorm, NormKind::RmsNorm}) {
                const bool withDelta = ++variant % 2;
                const DType format = variant % 3 == 0 ? DType::None : variant % 3 == 1 ? DType::E4M3 : DType::E5M2;
                const int64_t n = shape.rows * shape.cols;
                Buffer in = normals(type, n, 1, 1, 0.3), delta = normals(type, n, 2), residual(type, n), out(type, n);
                Buffer gain = normals(type, shape.cols, 3, 0.1, 1), bias = normals(type, shape.cols, 4, 0.1);
                std::vector<float> mean(shape.rows), rstd(shape.rows);
                Cast cast(format, shape.rows, shape.cols);
                NormForward op;
                op.kind = kind, op.rows = shape.rows, op.cols = shape.cols, op.type = type;
                op.residualIn = in.data(), op.gain = gain.data(),
                op.bias = kind == NormKind::LayerNorm ? bias.data() : nullptr;
                if (withDelta) op.delta = delta.data(), op.residualOut = residual.data();
                op.out = out.data(), op.mean = mean.data(), op.rstd = rstd.data(), op.cast = cast.target();
                test::Twins twins(*gpu_);
                twins.add(in.bytes), twins.add(delta.bytes), twins.add(residual.bytes), twins.add(out.bytes);
                twins.add(gain.bytes), twins.add(bias.bytes), twins.add(mean), twins.add(rstd);
                cast.add(twins);
                twins.run(op);
                op.cast = {};
                runReference(op);
                const std::string what = nameOf(type, shape) + (kind == NormKind::LayerNorm ? " layer" : " rms");
                Buffer got = out;
                got.bytes = twins.get(out.bytes);
                expectStored(got, out, 8, what);
                if (withDelta) {
                    EXPECT_EQ(twins.get(residual.bytes), residual.bytes) << what;
                }
                expectNear(twins.get(rstd), rstd, 1e-5, 0, what + " rstd");
                if (kind == NormKind::LayerNorm) expectNear(twins.get(mean), mean, 0, 1e-6, what + " mean");
                cast.expectExact(twins, got, what);
            }
}

TEST_F(NormOnGpu, BackwardAsTheReference) {
    int variant = 0;
    for (DType type : kTypes)
        for (const Shape& shape : kNormShapes)
            for (NormKind kind : {NormKind::LayerNorm, NormKind::RmsNorm}) {
                ++variant;
                const DType format = variant % 3 == 0 ? DType::None : variant % 3 == 1 ? DType::E5M2 : DType::E4M3;
                const DType againFormat = variant % 2 ? DType::E4M3 : DType::None;
                const int64_t n = shape.rows * shape.cols;
                Buffer dOut = normals(type, n, 1), residual = normals(type, n, 2, 1, 0.3), dIn = normals(type, n, 3);
                Buffer gain = normals(type, shape.cols, 4, 0.1, 1), bias = normals(type, shape.cols, 5, 0.1);
                Buffer again(type, n), scratch(type, n);
                std::vector<float> mean(shape.rows), rstd(shape.rows), dGain(shape.cols, 0.25f),
                    dBias(shape.cols, 0.5f);
                std::vector<float> dLinear(shape.cols, 0.75f);
                NormForward forward;
                forward.kind = kind, forward.rows = shape.rows, forward.cols = shape.cols, forward.type = type;
                forward.residualIn = residual.data(), forward.gain = gain.data(), forward.bias = bias.data();
                forward.out = scratch.data(), forward.mean = mean.data(), forward.rstd = rstd.data();
                runReference(forward);
                Cast cast(format, shape.rows, shape.cols), castAgain(againFormat, shape.rows, shape.cols);
                NormBackward op;
                op.kind = kind, op.rows = shape.rows, op.cols = shape.cols, op.type = type;
                op.dOut = dOut.data(), op.residual = residual.data(), op.gain = gain.data(), op.bias = bias.data();
                op.mean = mean.data(), op.rstd = rstd.data(), op.dResidualIn = variant % 5 ? dIn.data() : nullptr;
                op.dResidual = dIn.data();
                op.dGain = dGain.data(), op.dBias = dBias.data(), op.dLinearBias = dLinear.data(),
                op.accumulate = variant % 2;
                op.cast = cast.target(), op.again = castAgain.target(), op.outAgain = again.data();
                const std::string what =
                    nameOf(type, shape) + (kind == NormKind::LayerNorm ? " layer" : " rms") + " backward";
                test::Twins twins(*gpu_);
                twins.add(dOut.bytes), twins.add(residual.bytes), twins.add(gain.bytes), twins.add(bias.bytes);
                twins.add(mean), twins.add(rstd), twins.add(dIn.bytes), twins.add(dGain), twins.add(dBias),
                    twins.add(dLinear);
                twins.add(again.bytes);
                cast.add(twins), castAgain.add(twins);
                twins.run(op);
                op.cast = op.again = {};
                runReference(op);
                Buffer got = dIn, gotAgain = again;
                got.bytes = twins.get(dIn.bytes), gotAgain.bytes = twins.get(again.bytes);
                expectStored(got, dIn, 64, what);
                expectStored(gotAgain, again, 8, what + " again");
                const double rows = static_cast<double>(shape.rows);
                expectNear(twins.get(dGain), dGain, 1e-5, 2e-6 * rows + 1e-5, what + " dGain");
                expectNear(twins.get(dBias), dBias, 1e-5, 2e-6 * rows + 1e-5, what + " dBias");
                // Each term may be one unit of its type off.
                expectNear(twins.get(dLinear), dLinear, 1e-5, (8 * test::unitRoundoff(type) + 2e-6) * rows + 1e-5,
                           what + " dLinear");
                cast.expectExact(twins, got, what);
                castAgain.expectExact(twins, gotAgain, what + " again", false);
            }
}

constexpr Shape kActivationShapes[] = {{1, 8},     {3, 17},    {33, 64},   {64, 3072}, {96, 3072},
                                       {32, 1600}, {70, 1032}, {96, 1032}, {1100, 24}, {1024, 24}};

TEST_F(ActivationOnGpu, ForwardAndBackwardAsTheReference) {
    int variant = 0;
    for (DType type : kTypes)
        for (const Shape& shape : kActivationShapes)
            for (Activation kind : {Activation::GeluTanh, Activation::SwiGlu}) {
                ++variant;
                const DType format = variant % 3 == 0 ? DType::None : variant % 3 == 1 ? DType::E4M3 : DType::E5M2;
                const int64_t n = shape.rows * shape.cols, width = kind == Activation::GeluTanh ? 1 : 2;
                Buffer in = normals(type, n * width, 1, 2), dOut = normals(type, n, 2), out(type, n), again(type, n);
                if (kind == Activation::GeluTanh && n > 100)
                    in.set(3, 60), in.set(5, -60), in.set(7, 0), in.set(9, -11);
                Buffer dIn(type, n * width);
                std::vector<float> dBias(shape.cols * width, 0.5f);
                Cast cast(format, shape.rows, shape.cols), castBack(format, shape.rows, shape.cols * width);
                Cast castAgain(format, shape.rows, shape.cols);
                ActivationForward op;
                op.kind = kind, op.rows = shape.rows, op.cols = shape.cols, op.type = type;
                op.in = in.data(), op.out = out.data(), op.cast = cast.target();
                ActivationBackward back;
                back.kind = kind, back.rows = shape.rows, back.cols = shape.cols, back.type = type;
                back.in = in.data(), back.dOut = dOut.data(), back.dIn = dIn.data(), back.cast = castBack.target();
                back.dBias = dBias.data(), back.accumulate = variant % 2;
                back.again = castAgain.target(), back.outAgain = again.data();
                test::Twins twins(*gpu_);
                twins.add(in.bytes), twins.add(dOut.bytes), twins.add(out.bytes), twins.add(again.bytes),
                    twins.add(dIn.bytes);
                twins.add(dBias);
                cast.add(twins), castBack.add(twins), castAgain.add(twins);
                twins.run(op);
                twins.run(back);
                op.cast = back.cast = back.again = {};
                runReference(op);
                runReference(back);
                const std::string what = nameOf(type, shape) + (kind == Activation::GeluTanh ? " gelu" : " swiglu");
                Buffer got = out, gotBack = dIn, gotAgain = again;
                got.bytes = twins.get(out.bytes), gotBack.bytes = twins.get(dIn.bytes),
                gotAgain.bytes = twins.get(again.bytes);
                expectStored(got, out, 4, what);
                expectStored(gotBack, dIn, 8, what + " backward");
                EXPECT_EQ(gotAgain.bytes, got.bytes) << what << ": forward's output made again differs";
                const double rows = static_cast<double>(shape.rows);
                expectNear(twins.get(dBias), dBias, 1e-5, (8 * test::unitRoundoff(type) + 4e-6) * rows,
                           what + " dBias");
                cast.expectExact(twins, got, what);
                castBack.expectExact(twins, gotBack, what + " backward");
                castAgain.expectExact(twins, gotAgain, what + " again", false);
            }
}

struct AttentionCase {
    int64_t batch, context, heads, width;
};

TEST_F(AttentionOnGpu, ForwardAndBackwardAsTheReference) {
    const AttentionCase cases[] = {{1, 1, 1, 32},   {2, 17, 3, 32},  {1, 64, 2, 64},   {2, 65, 1, 64},
                                   {1, 128, 2, 64}, {1, 200, 2, 64}, {2, 100, 2, 128}, {1, 257, 1, 128},
                                   {1, 300, 1, 32}, {3, 64, 4, 32}};
    for (DType type : kTypes)
        for (const AttentionCase& c : cases) {
            const int64_t rows = c.batch * c.context, width = c.heads * c.width;
            Buffer qkv = normals(type, rows * 3 * width, 1), dOut = normals(type, rows * width, 2);
            Buffer out(type, rows * width), dQkv(type, rows * 3 * width);
            std::vector<float> lse(c.batch * c.heads * c.context), dBias(3 * width, 0.5f);
            const DType format = type == DType::BF16 ? DType::E4M3 : DType::None;
            Cast cast(format, rows, width), castBack(format, rows, 3 * width), castAgain(format, rows, width);
            AttentionForward op;
            op.batch = c.batch, op.context = c.context, op.heads = c.heads, op.headWidth = c.width, op.type = type;
            op.qkv = qkv.data(), op.out = out.data(), op.lse = lse.data(), op.cast = cast.target();
            const std::string what = std::string(dtypeName(type)) + " B" + std::to_string(c.batch) + " T" +
                                     std::to_string(c.context) + " H" + std::to_string(c.heads) + " D" +
                                     std::to_string(c.width);
            Buffer gotOut = out;
            {
                test::Twins twins(*gpu_);
                twins.add(qkv.bytes), twins.add(out.bytes), twins.add(lse);
                cast.add(twins);
                twins.run(op);
                op.cast = {};
                runReference(op);
                gotOut.bytes = twins.get(out.bytes);
                // Probabilities are rounded to the type before they meet V: u on top of the output's rounding.
                const double u = test::unitRoundoff(type);
                expectNear(floats(gotOut), floats(out), 2 * u, 6 * u + 2e-6, what + " out");
                expectNear(twins.get(lse), lse, 1e-5, 1e-5 + 2 * u, what + " lse");
                cast.expectExact(twins, gotOut, what);
            }
            AttentionBackward back;
            back.batch = c.batch, back.context = c.context, back.heads = c.heads, back.headWidth = c.width,
            back.type = type;
            back.qkv = qkv.data(), back.out = out.data(), back.lse = lse.data(), back.dOut = dOut.data();
            back.dQkv = dQkv.data(), back.dBias = dBias.data(), back.accumulate = true;
            back.cast = castBack.target(), back.again = castAgain.target();
            Buffer first = dQkv;
            for (int run = 0; run < 2; ++run) {
                test::Twins twins(*gpu_);
                twins.add(qkv.bytes), twins.add(out.bytes), twins.add(lse), twins.add(dOut.bytes),
                    twins.add(dQkv.bytes);
                twins.add(dBias);
                castBack.add(twins), castAgain.add(twins);
                twins.run(back);
                Buffer got = dQkv;
                got.bytes = twins.get(dQkv.bytes);
                if (run == 0) {
                    first = got;
                    castBack.expectExact(twins, got, what + " backward");
                    castAgain.expectExact(twins, out, what + " again", false);
                    AttentionBackward reference = back;
                    Buffer wanted(type, rows * 3 * width);
                    std::vector<float> wantedBias = dBias;
                    reference.dQkv = wanted.data(), reference.dBias = wantedBias.data();
                    reference.cast = reference.again = {};
                    runReference(reference);
                    const double u = test::unitRoundoff(type);
                    // dS and P are rounded to the type; sums over up to T positions of terms of size about one.
                    const double absolute = u * 4 * std::sqrt(static_cast<double>(c.context)) + 1e-5;
                    expectNear(floats(got), floats(wanted), 4 * u, absolute, what + " dQkv");
                    const double r = static_cast<double>(rows);
                    expectNear(twins.get(dBias), wantedBias, 1e-4, absolute * r, what + " dBias");
                } else {
                    EXPECT_EQ(first.bytes, got.bytes) << what << ": backward differs between two runs";
                }
            }
        }
}

TEST_F(EmbeddingOnGpu, ForwardAndBackwardAsTheReference) {
    struct Case {
        int64_t batch, context, cols, vocabulary;
    };
    for (DType type : kTypes)
        for (const Case& c : {Case{1, 1, 8, 1}, Case{2, 17, 33, 5}, Case{4, 64, 64, 96}, Case{3, 333, 40, 2},
                              Case{8, 128, 96, 50304}}) {
            const int64_t rows = c.batch * c.context;
            Numbers numbers(7);
            std::vector<int32_t> tokens(static_cast<size_t>(rows));
            // Skewed, as text is: half of the tokens are one and the same.
            for (int32_t& token : tokens)
                token = static_cast<int32_t>(numbers.integer(0, 1) ? numbers.integer(0, c.vocabulary - 1)
                                                                   : c.vocabulary / 2);
            Buffer table = normals(type, c.vocabulary * c.cols, 1), positions = normals(type, c.context * c.cols, 2);
            Buffer out(type, rows * c.cols), dOut = normals(type, rows * c.cols, 3);
            std::vector<float> dTable(static_cast<size_t>(c.vocabulary * c.cols), 0.5f),
                dPositions(static_cast<size_t>(c.context * c.cols), 0.25f);
            EmbeddingForward op{c.batch,       c.context,    c.cols,           c.vocabulary, type,
                                tokens.data(), table.data(), positions.data(), out.data()};
            EmbeddingBackward back{c.batch,       c.context,   c.cols,        c.vocabulary,      type,
                                   tokens.data(), dOut.data(), dTable.data(), dPositions.data(), true};
            test::Twins twins(*gpu_);
            twins.add(tokens), twins.add(table.bytes), twins.add(positions.bytes), twins.add(out.bytes),
                twins.add(dOut.bytes);
            twins.add(dTable), twins.add(dPositions);
            twins.run(op);
            twins.run(back);
            runReference(op);
            runReference(back);
            const std::string what = std::string(dtypeName(type)) + " V" + std::to_string(c.vocabulary);
            EXPECT_EQ(twins.get(out.bytes), out.bytes) << what;
            const double r = static_cast<double>(rows);
            expectNear(twins.get(dTable), dTable, 1e-6, 4 * r * 0x1p-24 * 4, what + " tokens");
            expectNear(twins.get(dPositions), dPositions, 1e-6, 4 * r * 0x1p-24, what + " positions");
        }
}

TEST_F(LossOnGpu, CrossEntropyAsTheReference) {
    struct Case {
        int64_t rows, vocabulary, padded;
    };
    for (DType type : kTypes)
        for (const Case& c : {Case{1, 1, 64}, Case{37, 96, 96}, Case{5, 100, 128}, Case{9, 1000, 1024},
                              Case{6, 50257, 50304}, Case{3, 1500, 1501}})
            for (bool backward : {true, false}) {
                Buffer logits = normals(type, c.rows * c.padded, 1, 3);
                Numbers numbers(8);
                std::vector<int32_t> targets(static_cast<size_t>(c.rows));
                for (int32_t& target : targets) target = static_cast<int32_t>(numbers.integer(0, c.vocabulary - 1));
                std::vector<float> losses(static_cast<size_t>(c.rows)), scale{2.5f};
                std::vector<double> sum{1.5};
                const DType format = type == DType::BF16 && backward ? DType::E5M2 : DType::None;
                Cast cast(format, c.rows, c.padded);
                CrossEntropy op;
                op.rows = c.rows, op.vocabulary = c.vocabulary, op.vocabularyPadded = c.padded, op.type = type;
                op.logits = logits.data(), op.targets = targets.data(), op.losses = losses.data(),
                op.gradientScale = scale.data();
                op.backward = backward, op.cast = cast.target();
                SumLosses total{c.rows, losses.data(), sum.data(), true};
                test::Twins twins(*gpu_);
                twins.add(logits.bytes), twins.add(targets), twins.add(losses), twins.add(scale), twins.add(sum);
                cast.add(twins);
                twins.run(op);
                twins.run(total);
                op.cast = {};
                runReference(op);
                runReference(total);
                const std::string what = std::string(dtypeName(type)) + " V" + std::to_string(c.vocabulary);
                expectNear(twins.get(losses), losses, 4e-6, 4e-6, what + " losses");
                EXPECT_NEAR(twins.get(sum)[0], sum[0], 1e-5 * static_cast<double>(c.rows)) << what;
                Buffer got = logits;
                got.bytes = twins.get(logits.bytes);
                // Below F16's normal range the spacing is 2^-24.
                expectNear(floats(got), floats(logits), 2 * test::unitRoundoff(type) + 1e-5,
                           type == DType::F16 ? 0x1p-24 : 1e-9, what);
                cast.expectExact(twins, got, what);
            }
}

TEST_F(OptimizerOnGpu, InitNormalHasTheSameBits) {
    for (int64_t n : {1, 2, 7, 100001}) {
        std::vector<float> out(static_cast<size_t>(n));
        InitNormal op{n, out.data(), 0.0123f, 42, 9};
        test::Twins twins(*gpu_);
        twins.add(out);
        twins.run(op);
        runReference(op);
        EXPECT_EQ(twins.get(out), out);
    }
}

TEST_F(OptimizerOnGpu, ControlAsTheReference) {
    Numbers numbers(3);
    std::vector<float> values(100000);
    for (float& value : values) value = static_cast<float>(numbers.normal());
    for (int variant = 0; variant < 8; ++variant) {
        if (variant == 3) values[77777] = std::nanf("");
        std::vector<double> partials((values.size() + 32767) / 32768);
        std::vector<StepState> state(1);
        std::vector<StepParameters> parameters(1);
        std::vector<TensorSlot> slots(3);
        slots[1].amax = 5, slots[2].dear.exponents[7] = 9;
        state[0].lossScale = variant & 1 ? 1024.0f : 1.0f, state[0].lossSum = 3, state[0].goodSteps = 1999;
        parameters[0].tokens = 640, parameters[0].stop = variant == 6;
        StepBegin begin{parameters.data(), state.data(), slots.data(), 3};
        SumSquares squares{static_cast<int64_t>(values.size()), values.data(), partials.data()};
        GradientControl control;
        control.partialCount = static_cast<int64_t>(partials.size()), control.partials = partials.data();
        control.state = state.data(), control.parameters = parameters.data();
        control.clip = variant & 2 ? 1.0f : 0.0f, control.dynamicLossScale = variant & 1,
        control.skipNonFinite = variant != 5;
        test::Twins twins(*gpu_);
        twins.add(values), twins.add(partials), twins.add(state), twins.add(parameters), twins.add(slots);
        twins.run(begin), twins.run(squares), twins.run(control);
        runReference(begin), runReference(squares), runReference(control);
        const StepState got = twins.get(state)[0], wanted = state[0];
        EXPECT_EQ(twins.get(parameters)[0].gradientScale, parameters[0].gradientScale);
        const auto gotSlots = twins.get(slots);
        EXPECT_EQ(std::memcmp(gotSlots.data(), slots.data(), slots.size() * sizeof(TensorSlot)), 0);
        EXPECT_EQ(got.applied, wanted.applied) << variant;
        EXPECT_EQ(got.updates, wanted.updates) << variant;
        EXPECT_EQ(got.lossScale, wanted.lossScale) << variant;
        EXPECT_EQ(got.goodSteps, wanted.goodSteps) << variant;
        EXPECT_EQ(got.skippedRunning, wanted.skippedRunning) << variant;
        EXPECT_EQ(got.beta1Power, wanted.beta1Power) << variant;
        EXPECT_EQ(got.beta2Power, wanted.beta2Power) << variant;
        if (std::isnan(wanted.gradientNorm)) {
            EXPECT_TRUE(std::isnan(got.gradientNorm));
        } else {
            EXPECT_NEAR(got.gradientNorm, wanted.gradientNorm, 1e-6f * wanted.gradientNorm) << variant;
            EXPECT_NEAR(got.clipFactor, wanted.clipFactor, 1e-6f * wanted.clipFactor) << variant;
        }
    }
}

TEST_F(OptimizerOnGpu, AdamWAsTheReference) {
    const Shape shapes[] = {{1, 33}, {64, 128}, {40, 1032}, {1, 70000}, {17, 24}};
    for (DType computeType : {DType::BF16, DType::F16, DType::F32})
        for (int variant = 0; variant < 4; ++variant) {
            const bool castOnly = variant == 2;
            const uint32_t applied = variant != 3;
            std::vector<ParameterTensor> tensors;
            std::vector<std::unique_ptr<Cast>> casts;
            int64_t n = 0;
            for (const Shape& shape : shapes) {
                ParameterTensor tensor;
                tensor.offset = n, tensor.rows = shape.rows, tensor.cols = shape.cols, tensor.decay = shape.rows > 1;
                const DType format = computeType == DType::BF16 && shape.rows > 1
                                         ? (shape.rows == 17 ? DType::E5M2 : DType::E4M3)
                                         : DType::None;
                casts.push_back(std::make_unique<Cast>(format, shape.rows, shape.cols));
                casts.back()->slot[0].amax = 1e20f;  // overwritten when the update is applied
                tensor.cast = casts.back()->target();
                if (variant == 1) tensor.computeOffset = shape.rows == 64 ? kNoCompute : n + 64;
                tensors.push_back(tensor);
                n += (shape.rows * shape.cols + 63) / 64 * 64;
            }
            std::vector<float> masters = floats(normals(DType::F32, n, 1)), m = floats(normals(DType::F32, n, 2, 0.1));
            std::vector<float> v = floats(normals(DType::F32, n, 3, 0.1)), g = floats(normals(DType::F32, n, 4));
            for (float& value : v) value = value * value;
            Buffer compute(computeType, n + 64);
            std::vector<StepState> state(1);
            state[0].beta1Power = 0.9, state[0].beta2Power = 0.95, state[0].applied = applied,
            state[0].clipFactor = 0.5f;
            std::vector<StepParameters> parameters(1);
            parameters[0].learningRate = 0.01f;
            AdamW op;
            op.n = n, op.tensorCount = static_cast<int>(tensors.size()), op.tensors = tensors.data();
            op.masters = masters.data(), op.moment1 = m.data(), op.moment2 = v.data(), op.gradients = g.data();
            if (computeType != DType::F32) op.compute = compute.data(), op.computeType = computeType;
            op.state = state.data(), op.parameters = parameters.data(), op.castOnly = castOnly;
            test::Twins twins(*gpu_);
            twins.add(masters), twins.add(m), twins.add(v), twins.add(g), twins.add(compute.bytes), twins.add(state),
                twins.add(parameters);
            for (auto& cast : casts) cast->add(twins);
            std::vector<ParameterTensor> onGpu = tensors;
            for (ParameterTensor& tensor : onGpu) tensor = twins.translated(tensor);
            AdamW gpuOp = op;
            gpuOp.tensors = onGpu.data();
            twins.run(gpuOp);
            AdamW reference = op;
            for (ParameterTensor& tensor : tensors) tensor.cast = {};
            runReference(reference);
            const std::string what = std::string(dtypeName(computeType)) + " variant " + std::to_string(variant);
            expectNear(twins.get(masters), masters, 4e-6, 2e-7, what + " masters");
            expectNear(twins.get(m), m, 1e-6, 1e-7, what + " m");
            expectNear(twins.get(v), v, 1e-6, 1e-7, what + " v");
            Buffer got = compute;
            got.bytes = twins.get(compute.bytes);
            if (computeType != DType::F32)
                expectNear(floats(got), floats(compute), 2 * test::unitRoundoff(computeType), 1e-6, what + " compute");
            for (size_t t = 0; t < tensors.size(); ++t) {
                if (casts[t]->format == DType::None) continue;
                if (!applied && !castOnly) {
                    EXPECT_EQ(twins.get(casts[t]->slot)[0].amax, 1e20f) << what;
                    EXPECT_EQ(twins.get(casts[t]->codes), casts[t]->codes) << what;
                    continue;
                }
                Buffer part(computeType, tensors[t].rows * tensors[t].cols);
                const auto gotMasters = twins.get(masters);
                for (int64_t i = 0; i < part.size(); ++i)
                    part.set(i, gotMasters[static_cast<size_t>(tensors[t].offset + i)]);
                casts[t]->expectExact(twins, part, what + " tensor " + std::to_string(t));
            }
        }
}

TEST_F(OptimizerOnGpu, FillWritesItsValue) {
    for (float value : {0.0f, -0.0f, 1.5f}) {
        std::vector<float> out(1001, 3.0f);
        Fill op{1000, out.data(), value};
        test::Twins twins(*gpu_);
        twins.add(out);
        twins.run(op);
        runReference(op);
        EXPECT_EQ(std::memcmp(twins.get(out).data(), out.data(), out.size() * 4), 0);
    }
}

}  // namespace
}  // namespace mantissa::kernels
