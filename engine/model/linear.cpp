#include "engine/model/linear.h"

#include "kernels/formats/block_layout.h"

namespace mantissa::engine {

using namespace kernels;

namespace {

const char* shownName(DType type) {
    return type == DType::F32 ? "fp32" : dtypeName(type);
}

}  // namespace

std::vector<EffectivePrecision> EffectiveMap::rows(const PrecisionPlan& plan) const {
    static const char* const kGemmNames[] = {"fprop", "dgrad", "wgrad"};
    std::vector<EffectivePrecision> rows;
    for (size_t i = 0; i < reports_.size(); ++i) {
        const MatmulReport& report = reports_[i];
        if (report.a == DType::None) continue;
        const LinearPlan& linear = plan.linears[i / kGemms];
        EffectivePrecision row;
        row.layer = linear.layerName;
        row.linear = linear.name;
        row.gemm = kGemmNames[i % kGemms];
        row.a = shownName(report.a);
        row.b = shownName(report.b);
        row.out = shownName(report.out);
        row.recipe = isCodeFormat(report.a) ? recipeName(linear.fp8Recipe()) : plan.tf32 ? "tf32" : shownName(report.a);
        row.native = report.native;
        row.algorithm = report.algorithm;
        rows.push_back(row);
    }
    return rows;
}

MatmulOperand Linear::operand(Gemm gemm, TensorRole role, const Operand& values, bool kContiguous, int64_t rows,
                              int64_t k) const {
    MatmulOperand operand;
    operand.kContiguous = kContiguous;
    operand.ld = kContiguous ? k : rows;
    if (linear().fp8(gemm) && linear().codesIn(gemm)) {
        const uint8_t* const copy = kContiguous ? values.codes : values.transposed;
        operand.data = copy;
        operand.type = plan_.format(index_, role);
        operand.kContiguous = true;  // each copy is stored along its blocks
        operand.ld = k;
        operand.blockScaleInv = reinterpret_cast<const float*>(copy + blockScaleOffset(rows, k));
        operand.squareBlocks = role == TensorRole::Weight && linear().squareWeight();
    } else if (linear().fp8(gemm) && linear().block()) {
        operand.data = kContiguous ? values.codes : values.transposed;
        operand.type = DType::BF16;
        operand.emulates = plan_.format(index_, role);
        operand.scaleInv = kContiguous ? values.scaleInv : values.scaleInvColumn;
    } else if (linear().fp8(gemm)) {
        operand.data = values.codes;
        operand.transposed = values.transposed;
        operand.type = plan_.format(index_, role);
        operand.scaleInv = values.scaleInv;
    } else {
        operand.data = values.plain;
        operand.type = plan_.type;
    }
    return operand;
}

void Linear::setRest(Matmul& op) const {
    op.tf32 = plan_.tf32;
    op.limited14 = plan_.accumulation == Accumulation::Limited14;
    op.fastAccumulate = plan_.accumulation == Accumulation::Mixed ? op.gemm == Gemm::Fprop
                                                                  : plan_.accumulation != Accumulation::Promoted;
    const std::string& why = linear().emulatedBecause[static_cast<int>(op.gemm)];
    op.emulatedBecause = why.empty() ? nullptr : why.c_str();
}

Matmul Linear::forwardOp(int64_t rows, const Operand& x, const Operand& w, const void* bias, void* y,
                         DType outType) const {
    Matmul op;
    op.gemm = Gemm::Fprop;
    op.m = rows;
    op.n = linear().out;
    op.k = linear().in;
    op.a = operand(op.gemm, TensorRole::Input, x, true, op.m, op.k);
    op.b = operand(op.gemm, TensorRole::Weight, w, true, op.n, op.k);
    op.out = y;
    op.outType = outType;
    op.ldOut = op.n;
    op.bias = bias;
    op.biasType = plan_.type;
    setRest(op);
    return op;
}

Matmul Linear::inputGradientOp(int64_t rows, const Operand& dy, const Operand& w, void* dx, DType outType) const {
    Matmul op;
    op.gemm = Gemm::Dgrad;
    op.m = rows;
    op.n = linear().in;
    op.k = linear().out;
    op.a = operand(op.gemm, TensorRole::GradOutput, dy, true, op.m, op.k);
    op.b = operand(op.gemm, TensorRole::Weight, w, false, op.n, op.k);
    op.out = dx;
    op.outType = outType;
    op.ldOut = op.n;
    setRest(op);
    return op;
}

Matmul Linear::weightGradientOp(int64_t rows, const Operand& dy, const Operand& x, float* dw, bool accumulate) const {
    Matmul op;
    op.gemm = Gemm::Wgrad;
    op.m = linear().out;
    op.n = linear().in;
    op.k = rows;
    op.a = operand(op.gemm, TensorRole::GradOutput, dy, false, op.m, op.k);
    op.b = operand(op.gemm, TensorRole::Input, x, false, op.n, op.k);
    op.out = dw;
    op.outType = DType::F32;
    op.ldOut = op.n;
    op.accumulate = accumulate;
    setRest(op);
    return op;
}

void Linear::forward(Backend& backend, int64_t rows, const Operand& x, const Operand& w, const void* bias, void* y,
                     DType outType) const {
    map_.note(index_, Gemm::Fprop, backend.run(forwardOp(rows, x, w, bias, y, outType)));
}

void Linear::inputGradient(Backend& backend, int64_t rows, const Operand& dy, const Operand& w, void* dx,
                           DType outType) const {
    map_.note(index_, Gemm::Dgrad, backend.run(inputGradientOp(rows, dy, w, dx, outType)));
}

void Linear::weightGradient(Backend& backend, int64_t rows, const Operand& dy, const Operand& x, float* dw,
                            bool accumulate) const {
    map_.note(index_, Gemm::Wgrad, backend.run(weightGradientOp(rows, dy, x, dw, accumulate)));
}

}  // namespace mantissa::engine
