// Cases and data of the ops that are not products, shared by the tests of all backends: types x shapes (1, 17, odd, not
// a multiple of 16 or 64, large), with and without a cast.
#pragma once

#include <string>
#include <vector>

#include "kernels/backend.h"
#include "tests/support/op_check.h"

namespace mantissa::test {

struct RowsCase {
    int64_t rows = 1, cols = 1;
    DType type = DType::F32;
    DType cast = DType::None;
    bool accumulate = false;

    std::string name() const {
        return std::to_string(rows) + "x" + std::to_string(cols) + " " + kernels::dtypeName(type) + " cast " +
               kernels::dtypeName(cast) + (accumulate ? " accumulate" : "");
    }
};

inline std::vector<RowsCase> rowsCases() {
    struct Size {
        int64_t rows, cols;
    };
    std::vector<RowsCase> cases;
    for (const Size& s : {Size{1, 1}, Size{1, 17}, Size{17, 1}, Size{3, 16}, Size{5, 33}, Size{64, 64}, Size{65, 128},
                          Size{70, 131}, Size{200, 48}, Size{129, 768}, Size{2, 5000}})
        for (DType type : {DType::F32, DType::BF16, DType::F16})
            for (DType cast : {DType::None, DType::E4M3, DType::E5M2}) {
                if (type == DType::F16 && cast != DType::None) continue;
                cases.push_back({s.rows, s.cols, type, cast, s.rows % 2 == 1});
            }
    return cases;
}

struct NormForwardData {
    RowsCase c;
    kernels::NormKind kind;
    bool withDelta;
    Buffer residual, delta, residualOut, gain, bias, out, mean, rstd;
    CastData cast;

    NormForwardData(const RowsCase& rowsCase, kernels::NormKind normKind, bool delta_, uint64_t seed = 1)
        : c(rowsCase), kind(normKind), withDelta(delta_) {
        Numbers numbers(seed);
        const int64_t n = c.rows * c.cols;
        residual = normalBuffer(c.type, n, numbers, 1, 0.5);
        delta = normalBuffer(c.type, n, numbers, 0.3);
        residualOut = Buffer(c.type, n);
        gain = normalBuffer(c.type, c.cols, numbers, 0.2, 1);
        bias = normalBuffer(c.type, c.cols, numbers, 0.1);
        out = Buffer(c.type, n);
        mean = Buffer(DType::F32, c.rows);
        rstd = Buffer(DType::F32, c.rows);
        if (c.cast != DType::None) cast = CastData(c.cast, n, 37.5f);
    }
    kernels::NormForward op() {
        kernels::NormForward op;
        op.kind = kind, op.rows = c.rows, op.cols = c.cols, op.type = c.type;
        op.residualIn = residual.data();
        if (withDelta) op.delta = delta.data(), op.residualOut = residualOut.data();
        op.gain = gain.data(), op.bias = bias.data(), op.out = out.data(), op.cast = cast.target();
        op.mean = reinterpret_cast<float*>(mean.data()), op.rstd = reinterpret_cast<float*>(rstd.data());
        return op;
    }
    Bytes bytes() const { return Bytes().add(residualOut).add(out).add(mean).add(rstd).add(cast); }
};

struct NormBackwardData {
    RowsCase c;
    kernels::NormKind kind;
    bool withResidual = true, withAgain = false;
    Buffer dOut, residual, gain, bias, mean, rstd, dResidualIn, dResidual, dGain, dBias, dLinearBias, again;
    CastData cast;

    NormBackwardData(const RowsCase& rowsCase, kernels::NormKind normKind, uint64_t seed = 2)
        : c(rowsCase), kind(normKind) {
        NormForwardData forward({c.rows, c.cols, c.type}, kind, false, seed);
        runReference(forward.op());
        Numbers numbers(seed + 100);
        const int64_t n = c.rows * c.cols;
        residual = forward.residual, gain = forward.gain, bias = forward.bias, mean = forward.mean, rstd = forward.rstd;
        dOut = normalBuffer(c.type, n, numbers);
        dResidualIn = normalBuffer(c.type, n, numbers);
        dResidual = Buffer(c.type, n);
        again = Buffer(c.type, n);
        dGain = normalBuffer(DType::F32, c.cols, numbers);
        dBias = normalBuffer(DType::F32, c.cols, numbers);
        dLinearBias = normalBuffer(DType::F32, c.cols, numbers);
        if (c.cast != DType::None) cast = CastData(c.cast, n, 11.0f);
    }
    kernels::NormBackward op() {
        kernels::NormBackward op;
        op.kind = kind, op.rows = c.rows, op.cols = c.cols, op.type = c.type, op.accumulate = c.accumulate;
        op.dOut = dOut.data(), op.residual = residual.data(), op.gain = gain.data(), op.bias = bias.data();
        op.mean = reinterpret_cast<float*>(mean.data()), op.rstd = reinterpret_cast<float*>(rstd.data());
        if (withResidual) op.dResidualIn = dResidualIn.data();
        if (withAgain) op.outAgain = again.data();
        op.dResidual = dResidual.data(), op.cast = cast.target();
        op.dGain = reinterpret_cast<float*>(dGain.data()), op.dBias = reinterpret_cast<float*>(dBias.data());
        op.dLinearBias = reinterpret_cast<float*>(dLinearBias.data());
        return op;
    }
    Bytes bytes() const { return Bytes().add(dResidual).add(dGain).add(dBias).add(dLinearBias).add(again).add(cast); }
};

struct ActivationForwardData {
    RowsCase c;
    kernels::Activation kind;
    Buffer in, out;
    CastData cast;

    ActivationForwardData(const RowsCase& rowsCase, kernels::Activation activation, uint64_t seed = 3)
        : c(rowsCase), kind(activation) {
        Numbers numbers(seed);
        const int64_t n = c.rows * c.cols;
        in = normalBuffer(c.type, kind == kernels::Activation::SwiGlu ? 2 * n : n, numbers, 2);
        out = Buffer(c.type, n);
        if (c.cast != DType::None) cast = CastData(c.cast, n, 20.0f);
    }
    kernels::ActivationForward op() { return {kind, c.rows, c.cols, c.type, in.data(), out.data(), cast.target()}; }
    Bytes bytes() const { return Bytes().add(out).add(cast); }
};

struct ActivationBackwardData {
    RowsCase c;
    kernels::Activation kind;
    Buffer in, dOut, dIn, dBias, again;
    CastData cast;
    bool withAgain = false;

    int64_t width() const { return kind == kernels::Activation::SwiGlu ? 2 * c.cols : c.cols; }
    ActivationBackwardData(const RowsCase& rowsCase, kernels::Activation activation, uint64_t seed = 4)
        : c(rowsCase), kind(activation) {
        Numbers numbers(seed);
        in = normalBuffer(c.type, c.rows * width(), numbers, 2);
        dOut = normalBuffer(c.type, c.rows * c.cols, numbers);
        dIn = Buffer(c.type, c.rows * width());
        dBias = normalBuffer(DType::F32, width(), numbers);
        again = Buffer(c.type, c.rows * c.cols);
        if (c.cast != DType::None) cast = CastData(c.cast, c.rows * width(), 9.0f);
    }
    kernels::ActivationBackward op() {
        kernels::ActivationBackward op;
        op.kind = kind, op.rows = c.rows, op.cols = c.cols, op.type = c.type, op.accumulate = c.accumulate;
        op.in = in.data(), op.dOut = dOut.data(), op.dIn = dIn.data(), op.cast = cast.target();
        op.dBias = reinterpret_cast<float*>(dBias.data());
        if (withAgain) op.outAgain = again.data();
        return op;
    }
    Bytes bytes() const { return Bytes().add(dIn).add(dBias).add(again).add(cast); }
};

struct CrossEntropyData {
    RowsCase c;  ///< cols: the padded vocabulary
    int64_t vocabulary;
    bool backward = true;
    Buffer logits, losses;
    std::vector<int32_t> targets;
    float gradientScale = 0.25f;
    CastData cast;

    CrossEntropyData(const RowsCase& rowsCase, int64_t words, uint64_t seed = 5) : c(rowsCase), vocabulary(words) {
        Numbers numbers(seed);
        logits = normalBuffer(c.type, c.rows * c.cols, numbers, 3);
        losses = Buffer(DType::F32, c.rows);
        for (int64_t row = 0; row < c.rows; ++row)
            targets.push_back(static_cast<int32_t>(numbers.integer(0, vocabulary - 1)));
        if (c.cast != DType::None) cast = CastData(c.cast, c.rows * c.cols, 900.0f);
    }
    kernels::CrossEntropy op() {
        kernels::CrossEntropy op;
        op.rows = c.rows, op.vocabulary = vocabulary, op.vocabularyPadded = c.cols, op.type = c.type,
        op.backward = backward;
        op.logits = logits.data(), op.targets = targets.data(), op.losses = reinterpret_cast<float*>(losses.data());
        op.gradientScale = &gradientScale, op.cast = cast.target();
        return op;
    }
    Bytes bytes() const { return Bytes().add(logits).add(losses).add(cast); }
};

struct EmbeddingData {
    int64_t batch, context, cols, vocabulary;
    DType type;
    bool accumulate = false;
    std::vector<int32_t> tokens;
    Buffer tokenTable, positionTable, out, dOut, dTokenTable, dPositionTable;

    EmbeddingData(int64_t b, int64_t t, int64_t width, int64_t words, DType elements, uint64_t seed = 6)
        : batch(b), context(t), cols(width), vocabulary(words), type(elements) {
        Numbers numbers(seed);
        for (int64_t i = 0; i < batch * context; ++i)
            tokens.push_back(static_cast<int32_t>(numbers.integer(0, vocabulary - 1)));
        tokenTable = normalBuffer(type, vocabulary * cols, numbers);
        positionTable = normalBuffer(type, context * cols, numbers);
        out = Buffer(type, batch * context * cols);
        dOut = normalBuffer(type, batch * context * cols, numbers);
        dTokenTable = normalBuffer(DType::F32, vocabulary * cols, numbers);
        dPositionTable = normalBuffer(DType::F32, context * cols, numbers);
    }
    std::string name() const {
        return std::to_string(batch) + "x" + std::to_string(context) + "x" + std::to_string(cols) + " " +
               kernels::dtypeName(type);
    }
    kernels::EmbeddingForward forward() {
        return {batch,     context, cols, vocabulary, type, tokens.data(), tokenTable.data(), positionTable.data(),
                out.data()};
    }
    kernels::EmbeddingBackward backward() {
        return {batch,
                context,
                cols,
                vocabulary,
                type,
                tokens.data(),
                dOut.data(),
                reinterpret_cast<float*>(dTokenTable.data()),
                reinterpret_cast<float*>(dPositionTable.data()),
                accumulate};
    }
};

inline std::vector<EmbeddingData> embeddingCases() {
    std::vector<EmbeddingData> cases;
    for (DType type : {DType::F32, DType::BF16, DType::F16}) {
        cases.emplace_back(1, 1, 1, 1, type);
        cases.emplace_back(2, 17, 33, 5, type);
        cases.emplace_back(3, 50, 128, 96, type);
        cases.emplace_back(5, 13, 131, 1000, type);
    }
    return cases;
}

}  // namespace mantissa::test
