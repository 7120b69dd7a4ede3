// How the tests of fused ops compare: with the reference within a bound, with themselves bit by bit, with finite
// differences.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/cpu_run.h"
#include "tests/support/op_cases.h"
#include "tests/support/thread_executor.h"

namespace mantissa::test {

/// got and expected of the same size; |got - expected| <= bound(i) for each element, NaN only where expected is NaN.
inline void expectWithin(const std::string& what, const Buffer& got, const Buffer& expected,
                         const std::function<double(int64_t)>& bound) {
    ASSERT_EQ(got.size(), expected.size()) << what;
    for (int64_t i = 0; i < got.size(); ++i) {
        const double g = got.at(i), e = expected.at(i);
        if (std::isnan(e) && std::isnan(g)) continue;
        if (g == e) continue;
        ASSERT_LE(std::fabs(g - e), bound(i)) << what << ", element " << i << ": got " << g << ", expected " << e;
    }
}

/// A cast's results: format None when the case has no cast.
struct CastData {
    DType format = DType::None;
    Buffer codes;
    float scale = 1;
    kernels::TensorSlot slot;
    bool dear = false;

    CastData() = default;
    CastData(DType castFormat, int64_t n, float castScale)
        : format(castFormat), codes(DType::E4M3, n), scale(castScale), dear(true) {}
    kernels::CastTarget target() {
        kernels::CastTarget t;
        if (format == DType::None) return t;
        t.format = format, t.codes = codes.bytes.data(), t.scale = &scale, t.slot = &slot;
        t.dear = dear, t.exponents = dear;
        return t;
    }
};

/// The op's codes, amax and counters are exactly those of a plain cast of the values that it stored.
inline void expectCastOf(const std::string& what, const CastData& cast, const Buffer& stored, int64_t rows,
                         int64_t cols) {
    if (cast.format == DType::None) return;
    CastData plain(cast.format, rows * cols, cast.scale);
    plain.dear = cast.dear;
    kernels::Quantize op;
    op.rows = rows, op.cols = cols, op.inType = stored.type, op.in = stored.data(), op.target = plain.target();
    runReference(op);
    EXPECT_EQ(cast.codes.bytes, plain.codes.bytes) << what << ": codes";
    EXPECT_EQ(cast.slot.amax, plain.slot.amax) << what << ": amax";
    EXPECT_EQ(cast.slot.scaleUsed, cast.scale) << what << ": scale used";
    EXPECT_EQ(std::memcmp(&cast.slot.counters, &plain.slot.counters, sizeof plain.slot.counters), 0)
        << what << ": counters";
    if (!cast.dear) return;
    EXPECT_EQ(cast.slot.dear.minNonZero, plain.slot.dear.minNonZero) << what << ": smallest non-zero";
    EXPECT_NEAR(cast.slot.dear.sumSquares, plain.slot.dear.sumSquares, 1e-12 * plain.slot.dear.sumSquares) << what;
    EXPECT_NEAR(cast.slot.dear.sumSquaredError, plain.slot.dear.sumSquaredError,
                1e-12 * plain.slot.dear.sumSquaredError)
        << what;
}

/// Everything an op wrote, as bytes.
class Bytes {
  public:
    Bytes& add(const Buffer& buffer) {
        all_.insert(all_.end(), buffer.bytes.begin(), buffer.bytes.end());
        return *this;
    }
    Bytes& add(const CastData& cast) {
        add(cast.codes);
        const auto* slot = reinterpret_cast<const uint8_t*>(&cast.slot);
        all_.insert(all_.end(), slot, slot + sizeof cast.slot);
        return *this;
    }
    bool operator==(const Bytes& other) const { return all_ == other.all_; }

  private:
    std::vector<uint8_t> all_;
};

/// Runs copies of `data` (Data has op() and bytes()) on every instruction set with 1, 2, 3 and 16 threads. All of AVX2
/// and above give the same bits; each instruction set gives the same bits on any number of threads.
template <class Data>
void expectSameBitsEverywhere(const std::string& what, const Data& data) {
    std::vector<Bytes> fma;
    for (kernels::Isa isa : supportedIsas()) {
        std::vector<Bytes> results;
        for (int threads : {1, 2, 3, 16}) {
            ThreadExecutor executor(threads);
            Data copy = data;
            runOnCpu(copy.op(), isa, executor);
            results.push_back(copy.bytes());
            EXPECT_TRUE(results.back() == results.front())
                << what << ", " << kernels::isaName(isa) << ", " << threads << " threads";
        }
        if (isa != kernels::Isa::Sse) fma.push_back(results.front());
    }
    for (const Bytes& bytes : fma) EXPECT_TRUE(bytes == fma.front()) << what << ": instruction sets differ";
}

/// Largest difference between an analytic gradient and central differences of `loss` over `values` (F32), relative to
/// the largest difference quotient. The step 2^-6 leaves about 1e-4 of F32 noise and curvature for functions of
/// order 1.
inline double gradientError(Buffer& values, const Buffer& gradient, const std::function<double()>& loss) {
    const double step = 0x1p-6;
    double largest = 0, worst = 0;
    for (int64_t i = 0; i < values.size(); ++i) {
        const double value = values.at(i);
        values.set(i, value + step);
        const double up = loss();
        values.set(i, value - step);
        const double down = loss();
        values.set(i, value);
        const double quotient = (up - down) / (2 * step);
        largest = std::max(largest, std::fabs(quotient));
        worst = std::max(worst, std::fabs(quotient - gradient.at(i)));
    }
    return worst / largest;
}
/// What a right gradient stays below and every planted mistake must exceed.
inline constexpr double kGradientTolerance = 3e-3;

inline Buffer normalBuffer(DType type, int64_t n, Numbers& numbers, double scale = 1, double offset = 0) {
    Buffer buffer(type, n);
    for (int64_t i = 0; i < n; ++i) buffer.set(i, offset + scale * numbers.normal());
    return buffer;
}
inline Buffer negated(const Buffer& in, double factor = -1) {
    Buffer out = in;
    for (int64_t i = 0; i < in.size(); ++i) out.set(i, factor * in.at(i));
    return out;
}
/// (rows, cols) read as (cols, rows) transposed: the operand a kernel would see that mixes up its axes.
inline Buffer transposed(const Buffer& in, int64_t rows, int64_t cols) {
    Buffer out = in;
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; ++c) out.set(c * rows + r, in.at(r * cols + c));
    return out;
}
inline double weightedSum(const Buffer& weights, const Buffer& values) {
    double sum = 0;
    for (int64_t i = 0; i < weights.size(); ++i) sum += weights.at(i) * values.at(i);
    return sum;
}

}  // namespace mantissa::test
