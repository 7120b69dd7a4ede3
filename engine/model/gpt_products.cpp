// The three products of a linear as the model runs them, and what probes see of them: planted values, non-finite
// counts, the same product in higher precision.
#include <algorithm>

#include "engine/model/gpt_model.h"
#include "kernels/formats/half.h"

namespace mantissa::engine {

using namespace kernels;

namespace {

constexpr int64_t kShadowRows = 64;

}  // namespace

void GptModel::look(Backend& backend, const PassFlags& flags, const OpSite& site, const void* in, DType type,
                    int64_t rows, int64_t firstRow) {
    if (!flags.ops || !flags.training) return;
    const int number = sites_.number(site);
    if (!in) return;
    CheckFinite check;
    check.n = rows * site.cols;
    check.type = type;
    check.in = in;
    check.offset = firstRow * site.cols;
    check.out = pass_.finite + number;
    backend.run(check);
}

void GptModel::lookAt(Backend& backend, const PassFlags& flags, const std::string& layer, const char* op, bool backward,
                      const char* tensor, const void* in, int64_t rows, int64_t cols, int castSlot) {
    if (!flags.ops || !flags.training) return;
    OpSite site;
    site.check.layer = layer;
    site.check.op = op;
    site.check.backward = backward;
    site.tensor = layer + (*op ? std::string(".") + op : "") + "/" + tensor;
    site.cols = cols;
    site.castSlot = castSlot;
    look(backend, flags, site, in, plan_.type, rows, 0);
}

void GptModel::lookAtParameter(Backend& backend, const PassFlags& flags, const std::string& layer,
                               const std::string& op, const char* what, int tensor) {
    if (!flags.ops || !flags.plain || !flags.training) return;
    const ParameterInfo& info = layout_.tensors[static_cast<size_t>(tensor)];
    OpSite site;
    site.check.layer = layer;
    site.check.op = op.empty() ? what : op + "." + what;
    site.tensor = layer + (op.empty() ? "" : "." + op) + "/" + what;
    site.cols = info.cols;
    site.parameter = true;
    look(backend, flags, site, parameters_.masters + info.offset, DType::F32, info.rows, 0);
}

void GptModel::lookAtProduct(Backend& backend, const PassFlags& flags, int index, Gemm gemm, const void* out,
                             int64_t rows, int64_t firstRow) {
    if (!flags.ops || !flags.training) return;
    static const char* const kTensors[] = {"/output", "/grad_input", "/grad_weight"};
    const LinearPlan& one = linearPlan(index);
    const bool weight = gemm == Gemm::Wgrad;
    OpSite site;
    site.check.layer = one.layerName;
    site.check.op = !weight ? one.name : one.name.empty() ? "weight" : one.name + ".weight";
    site.check.backward = gemm != Gemm::Fprop;
    site.tensor = one.fullName() + kTensors[static_cast<int>(gemm)];
    site.cols = gemm == Gemm::Fprop ? one.out : one.in;
    look(backend, flags, site, out, weight ? DType::F32 : plan_.type, rows, firstRow);
}

void GptModel::plant(Backend& backend, const PassFlags& flags, int index, Gemm gemm, void* out,
                     int64_t elements) const {
    if (!flags.planted) return;
    for (const PlantedValue& one : planted_) {
        if (one.linear != index || one.gemm != gemm || one.element >= elements) continue;
        const uint16_t half = plan_.type == DType::F16 ? encodeFp16(one.value) : encodeBf16(one.value);
        const size_t size = dtypeSize(plan_.type);
        backend.upload(static_cast<char*>(out) + static_cast<size_t>(one.element) * size,
                       size == 2 ? static_cast<const void*>(&half) : &one.value, size);
    }
}

MatmulOperand GptModel::plainWeight(int index, bool kContiguous, bool& rounded) const {
    const int tensor = weightTensor(index);
    MatmulOperand operand;
    operand.data = parameter(tensor);
    operand.type = plan_.type;
    if (!operand.data) {
        operand.data = parameters_.masters + layout_.tensors[static_cast<size_t>(tensor)].offset;
        operand.type = DType::F32;
        rounded = true;
    }
    operand.kContiguous = kContiguous;
    operand.ld = linearPlan(index).in;
    return operand;
}

void GptModel::shadow(Backend& backend, const PassFlags& flags, int index, ShadowProduct op, Gemm gemm) const {
    if (!flags.shadow || !flags.training || !flags.first || !op.a.data || !op.b.data) return;
    if (!shadowed_.empty() && !shadowed_[static_cast<size_t>(index)]) return;
    op.samples = kShadowRows;
    op.sums = pass_.shadow + index * kGemms + static_cast<int>(gemm);
    backend.run(op);
}

void GptModel::fprop(Backend& backend, const PassFlags& flags, int index, int64_t rows, const Operand& x, int bias,
                     void* y, int64_t firstRow) {
    const LinearPlan& one = linearPlan(index);
    if (firstRow == 0) {
        lookAtParameter(backend, flags, one.layerName, one.name, "weight", weightTensor(index));
        if (bias >= 0) lookAtParameter(backend, flags, one.layerName, one.name, "bias", bias);
    }
    const void* biasValues = bias >= 0 ? parameter(bias) : nullptr;
    linear(index).forward(backend, rows, x, weight(index, flags), biasValues, y, plan_.type);
    if (firstRow == 0) plant(backend, flags, index, Gemm::Fprop, y, rows * one.out);
    lookAtProduct(backend, flags, index, Gemm::Fprop, y, rows, firstRow);
    if (!flags.shadow || firstRow > 0) return;
    ShadowProduct product;
    product.m = rows, product.n = one.out, product.k = one.in;
    product.a.data = x.plain, product.a.type = plan_.type, product.a.ld = one.in;
    product.b = plainWeight(index, true, product.roundB);
    product.out = y, product.outType = plan_.type, product.ldOut = one.out;
    product.bias = biasValues, product.biasType = plan_.type;
    shadow(backend, flags, index, product, Gemm::Fprop);
}

void GptModel::dgrad(Backend& backend, const PassFlags& flags, int index, int64_t rows, const Operand& dy, void* dx,
                     int64_t firstRow) {
    const LinearPlan& one = linearPlan(index);
    linear(index).inputGradient(backend, rows, dy, weight(index, flags), dx, plan_.type);
    if (firstRow == 0) plant(backend, flags, index, Gemm::Dgrad, dx, rows * one.in);
    lookAtProduct(backend, flags, index, Gemm::Dgrad, dx, rows, firstRow);
    if (!flags.shadow || firstRow > 0) return;
    ShadowProduct product;
    product.m = rows, product.n = one.in, product.k = one.out;
    product.a.data = dy.plain, product.a.type = plan_.type, product.a.ld = one.out;
    product.b = plainWeight(index, false, product.roundB);
    product.out = dx, product.outType = plan_.type, product.ldOut = one.in;
    shadow(backend, flags, index, product, Gemm::Dgrad);
}

void GptModel::wgrad(Backend& backend, const PassFlags& flags, int index, int64_t rows, const Operand& dy,
                     const Operand& x, bool accumulate) {
    const LinearPlan& one = linearPlan(index);
    float* const dw = gradient(weightTensor(index));
    linear(index).weightGradient(backend, rows, dy, x, dw, accumulate);
    lookAtProduct(backend, flags, index, Gemm::Wgrad, dw, one.out, 0);
    if (!flags.shadow || accumulate) return;
    ShadowProduct product;
    product.m = one.out, product.n = one.in, product.k = rows;
    product.a.data = dy.plain, product.a.type = plan_.type, product.a.ld = one.out, product.a.kContiguous = false;
    product.b.data = x.plain, product.b.type = plan_.type, product.b.ld = one.in, product.b.kContiguous = false;
    product.out = dw, product.ldOut = one.in;
    shadow(backend, flags, index, product, Gemm::Wgrad);
}

}  // namespace mantissa::engine
