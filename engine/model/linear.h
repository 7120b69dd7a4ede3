// The three products of one linear on the seam: picks codes or plain values by the plan and notes what ran.
#pragma once

#include <string>
#include <vector>

#include "engine/numerics.h"
#include "engine/plan/precision_plan.h"
#include "kernels/backend.h"

namespace mantissa::engine {

/// One operand in both forms; the plan says which one a product reads.
struct Operand {
    const void* plain = nullptr;          ///< of the plan's type
    const uint8_t* codes = nullptr;       ///< FP8
    const uint8_t* transposed = nullptr;  ///< the same codes stored the other way round, where the chip needs them
    const float* scaleInv = nullptr;      ///< device memory, of the codes
    /// Block recipes: codes and transposed are the row and the column copy, each in BF16 values (rows, cols) or, by
    /// LinearPlan::blockCodes, in codes with scales; this is the column copy's scaleInv. Both are nullptr but for
    /// nvfp4.
    const float* scaleInvColumn = nullptr;
};

/// What ran, by linear and product. Filled by Linear's calls alone.
class EffectiveMap {
  public:
    explicit EffectiveMap(const PrecisionPlan& plan) : reports_(static_cast<size_t>(plan.linearCount() * kGemms)) {}
    void note(int linear, kernels::Gemm gemm, const kernels::MatmulReport& report) {
        reports_[static_cast<size_t>(linear * kGemms + static_cast<int>(gemm))] = report;
    }
    /// Rows of the calls that have run, in the order of linears.
    std::vector<EffectivePrecision> rows(const PrecisionPlan& plan) const;

  private:
    std::vector<kernels::MatmulReport> reports_;
};

/// x (rows, in), w (out, in), dy (rows, out), bias (out); plain values of `type`.
class Linear {
  public:
    Linear(const PrecisionPlan& plan, int index, EffectiveMap& map) : plan_(plan), index_(index), map_(map) {}

    // The products as ops, for the calls below and for questions about them.
    kernels::Matmul forwardOp(int64_t rows, const Operand& x, const Operand& w, const void* bias, void* y,
                              kernels::DType outType) const;
    kernels::Matmul inputGradientOp(int64_t rows, const Operand& dy, const Operand& w, void* dx,
                                    kernels::DType outType) const;
    kernels::Matmul weightGradientOp(int64_t rows, const Operand& dy, const Operand& x, float* dw,
                                     bool accumulate) const;

    /// y (rows, out) of outType = x w^T + bias.
    void forward(kernels::Backend& backend, int64_t rows, const Operand& x, const Operand& w, const void* bias, void* y,
                 kernels::DType outType) const;
    /// dx (rows, in) of outType = dy w.
    void inputGradient(kernels::Backend& backend, int64_t rows, const Operand& dy, const Operand& w, void* dx,
                       kernels::DType outType) const;
    /// dw (out, in) F32 = (or +=) dy^T x.
    void weightGradient(kernels::Backend& backend, int64_t rows, const Operand& dy, const Operand& x, float* dw,
                        bool accumulate) const;

  private:
    const LinearPlan& linear() const { return plan_.linears[static_cast<size_t>(index_)]; }
    /// The operand as (rows, k); kContiguous: the product contracts over the tensor's columns.
    kernels::MatmulOperand operand(kernels::Gemm gemm, TensorRole role, const Operand& values, bool kContiguous,
                                   int64_t rows, int64_t k) const;
    void setRest(kernels::Matmul& op) const;
    const PrecisionPlan& plan_;
    int index_;
    EffectiveMap& map_;
};

}  // namespace mantissa::engine
