// Cases of the looking ops, shared by the tests of both backends.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/numerics/numerics_ops.h"
#include "tests/support/op_cases.h"

namespace mantissa::test {

/// A product with its operands, an output that is off by known amounts, and a bias.
struct ShadowData {
    Buffer a, b, out, bias;
    int64_t m, n, k;
    bool aK, bK;
    std::vector<kernels::ShadowSums> sums{1};
    double wanted = 0, error = 0;  ///< by plain double loops over the sampled rows

    ShadowData(int64_t rows, int64_t columns, int64_t inner, bool aContiguous, bool bContiguous, int64_t samples)
        : a(DType::BF16, rows * inner),
          b(DType::F32, columns * inner),
          out(DType::BF16, rows * columns),
          bias(DType::BF16, columns),
          m(rows),
          n(columns),
          k(inner),
          aK(aContiguous),
          bK(bContiguous) {
        Numbers numbers(3);
        for (Buffer* buffer : {&a, &b, &bias})
            for (int64_t i = 0; i < buffer->size(); ++i) buffer->set(i, numbers.normal());
        std::vector<double> exact(static_cast<size_t>(m * n));
        for (int64_t row = 0; row < m; ++row)
            for (int64_t column = 0; column < n; ++column) {
                double sum = 0;
                for (int64_t i = 0; i < k; ++i)
                    sum += a.at(aK ? row * k + i : i * m + row) *
                           kernels::roundToBf16(static_cast<float>(b.at(bK ? column * k + i : i * n + column)));
                exact[static_cast<size_t>(row * n + column)] = sum;
                out.set(row * n + column, sum + bias.at(column) + 0.01 * numbers.normal());
            }
        const int64_t taken = std::min(samples, m);
        for (int64_t sample = 0; sample < taken; ++sample)
            for (int64_t column = 0; column < n; ++column) {
                const int64_t at = sample * m / taken * n + column;
                const double off = out.at(at) - (exact[static_cast<size_t>(at)] + bias.at(column));
                wanted += exact[static_cast<size_t>(at)] * exact[static_cast<size_t>(at)];
                error += off * off;
            }
    }
    kernels::ShadowProduct op(int64_t samples) {
        kernels::ShadowProduct op;
        op.m = m, op.n = n, op.k = k;
        op.a.data = a.data(), op.a.type = a.type, op.a.kContiguous = aK, op.a.ld = aK ? k : m;
        op.b.data = b.data(), op.b.type = b.type, op.b.kContiguous = bK, op.b.ld = bK ? k : n;
        op.roundB = true;
        op.out = out.data(), op.outType = out.type, op.ldOut = n;
        op.bias = bias.data(), op.biasType = bias.type;
        op.samples = samples, op.sums = sums.data();
        return op;
    }
};

/// Weights, their codes, and how many of them were changed.
struct CodeData {
    std::vector<float> weights, scale{37.5f};
    std::vector<uint8_t> codes;
    std::vector<uint64_t> different{99};
    static constexpr int kChanged = 7;

    CodeData() {
        Numbers numbers(9);
        for (int i = 0; i < 100003; ++i) {
            weights.push_back(static_cast<float>(numbers.normal() * 0.02));
            codes.push_back(kernels::encodeE4m3(kernels::roundToBf16(weights.back()) * scale[0]));
        }
        for (int i = 0; i < kChanged; ++i) codes[static_cast<size_t>(i * 14000 + 3)] ^= 1;
    }
    kernels::CodeCheck op() {
        kernels::CodeCheck op;
        op.n = static_cast<int64_t>(codes.size());
        op.in = weights.data(), op.codes = codes.data(), op.scale = scale.data(), op.different = different.data();
        return op;
    }
};

}  // namespace mantissa::test
