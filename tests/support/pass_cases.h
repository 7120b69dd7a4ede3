// Cases and data of the ops that a fused op is written out into, shared by the tests of all backends.
#pragma once

#include <string>
#include <vector>

#include "tests/support/elementwise_cases.h"
#include "tests/support/tolerance.h"

namespace mantissa::test {

/// One stage of the norm with every operand there.
struct NormPassData {
    kernels::NormStage stage;
    RowsCase c;
    bool withIn = true;  ///< ScaleAdd without a residual; GainBias without a bias
    Buffer in, in2, out, work, work2, workOut, gain, bias, rowIn, rowOut, columnOut;

    NormPassData(kernels::NormStage passStage, const RowsCase& rowsCase, uint64_t seed = 21)
        : stage(passStage), c(rowsCase), withIn(rowsCase.rows % 2 == 1) {
        Numbers numbers(seed);
        const int64_t n = c.rows * c.cols;
        in = normalBuffer(c.type, n, numbers, 1, 0.25), in2 = normalBuffer(c.type, n, numbers, 0.3);
        out = Buffer(c.type, n);
        work = normalBuffer(DType::F32, n, numbers), work2 = normalBuffer(DType::F32, n, numbers);
        workOut = Buffer(DType::F32, n);
        gain = normalBuffer(c.type, c.cols, numbers, 0.2, 1), bias = normalBuffer(c.type, c.cols, numbers, 0.1);
        rowIn = normalBuffer(DType::F32, c.rows, numbers), rowOut = Buffer(DType::F32, c.rows);
        columnOut = normalBuffer(DType::F32, c.cols, numbers);
    }
    std::vector<Buffer*> buffers() {
        return {&in, &in2, &out, &work, &work2, &workOut, &gain, &bias, &rowIn, &rowOut, &columnOut};
    }
    kernels::NormPass op() {
        const auto floats = [](Buffer& b) { return reinterpret_cast<float*>(b.data()); };
        const bool optionalIn = stage == kernels::NormStage::ScaleAdd;
        kernels::NormPass op;
        op.stage = stage, op.accumulate = c.accumulate, op.rows = c.rows, op.cols = c.cols, op.type = c.type;
        op.in = optionalIn && !withIn ? nullptr : in.data();
        op.in2 = in2.data(), op.out = out.data(), op.work = floats(work), op.work2 = floats(work2);
        op.workOut = floats(workOut), op.gain = gain.data(), op.bias = withIn ? bias.data() : nullptr;
        op.rowIn = floats(rowIn), op.rowOut = floats(rowOut), op.columnOut = floats(columnOut);
        return op;
    }
    Bytes bytes() const { return Bytes().add(out).add(workOut).add(rowOut).add(columnOut); }
    std::string name() const { return "norm stage " + std::to_string(static_cast<int>(stage)) + " " + c.name(); }
};

/// `got` against the reference's results. Operands are normal numbers, below 6 but once in 10^9: a term is at most
/// 6 * 6 + 6 < 64. Chains: 4 roundings for an element; a row sum's; stretches of at most 128 rows for a column's.
inline void expectNormPass(const NormPassData& got, const NormPassData& expected) {
    const std::string what = got.name();
    const auto element = [&](const Buffer& values) {
        return [&values](int64_t i) { return roundedTwice(gammaF32(4) * 64, values.at(i), values.type); };
    };
    expectWithin(what + " out", got.out, expected.out, element(expected.out));
    expectWithin(what + " work", got.workOut, expected.workOut, element(expected.workOut));
    const double row = gammaF32(rowChain(got.c.cols));
    expectWithin(what + " rows", got.rowOut, expected.rowOut, [&](int64_t i) {
        return got.stage == kernels::NormStage::Rstd ? (row + gammaF32(8)) * expected.rowOut.at(i) : row * 64;
    });
    expectWithin(what + " columns", got.columnOut, expected.columnOut,
                 [&](int64_t) { return gammaF32(140) * (64 * static_cast<double>(got.c.rows) + 6); });
}

/// One stage of AdamW over the parameters of one tensor.
struct AdamWPassData {
    kernels::AdamWStage stage;
    int64_t n;
    Buffer masters, moment1, moment2, gradients, a, b;
    std::vector<kernels::StepState> state{1};
    std::vector<kernels::StepParameters> parameters{1};

    AdamWPassData(kernels::AdamWStage passStage, int64_t count, uint64_t seed = 22) : stage(passStage), n(count) {
        Numbers numbers(seed);
        masters = normalBuffer(DType::F32, n, numbers, 0.05), gradients = normalBuffer(DType::F32, n, numbers, 0.01);
        moment1 = normalBuffer(DType::F32, n, numbers, 0.01), a = normalBuffer(DType::F32, n, numbers, 0.01);
        moment2 = normalBuffer(DType::F32, n, numbers, 0.01), b = normalBuffer(DType::F32, n, numbers, 0.01);
        for (int64_t i = 0; i < n; ++i) {
            moment2.set(i, moment2.at(i) * moment2.at(i));
            b.set(i, std::fabs(b.at(i)) + 1e-6);
        }
        state[0].beta1Power = 0.9 * 0.9 * 0.9, state[0].beta2Power = 0.95 * 0.95 * 0.95, state[0].updates = 3;
        state[0].clipFactor = 0.3f;
        parameters[0].learningRate = 0.003f;
    }
    std::vector<Buffer*> buffers() { return {&masters, &moment1, &moment2, &gradients, &a, &b}; }
    kernels::AdamWPass op() {
        const auto floats = [](Buffer& buffer) { return reinterpret_cast<float*>(buffer.data()); };
        kernels::AdamWPass op;
        op.stage = stage, op.n = n;
        op.masters = floats(masters), op.moment1 = floats(moment1), op.moment2 = floats(moment2);
        op.gradients = floats(gradients), op.a = floats(a), op.b = floats(b);
        op.state = state.data(), op.parameters = parameters.data(), op.weightDecay = 0.1f;
        return op;
    }
    Bytes bytes() const { return Bytes().add(masters).add(moment1).add(moment2).add(a).add(b); }
    std::string name() const {
        return "AdamW stage " + std::to_string(static_cast<int>(stage)) + ", " + std::to_string(n);
    }
};

/// At most 6 roundings in each version; sums may cancel, so the bound is on their terms: no more than the old value and
/// a tenth of a.
inline void expectAdamWPass(AdamWPassData got, AdamWPassData expected, const AdamWPassData& before) {
    const auto buffers = got.buffers(), wanted = expected.buffers();
    for (size_t k = 0; k < buffers.size(); ++k) {
        AdamWPassData copy = before;
        const Buffer& was = *copy.buffers()[k];
        expectWithin(got.name() + " buffer " + std::to_string(k), *buffers[k], *wanted[k], [&](int64_t i) {
            return gammaF32(6) * (std::fabs(wanted[k]->at(i)) + std::fabs(was.at(i)) + 0.1 * std::fabs(copy.a.at(i)));
        });
    }
}

}  // namespace mantissa::test
