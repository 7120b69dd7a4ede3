// Backward of the GPT model. The gradient of the residual stream (dResidual) is at once the grad_output of the linear
// that was added to it; wgrads come after the op that makes their input again where forward did not keep it.
#include "engine/model/gpt_model.h"
#include "engine/model/unfused_ops.h"

namespace mantissa::engine {

using namespace kernels;

void GptModel::backward(Backend& backend, const PassFlags& flags) {
    const int last = plan_.linear(model_.layers - 1, LinearKind::Fc2);
    normBackward(backend, flags, buffers_.at(buffers_.residualFinal), layout_.finalGain,
                 buffers_.at<float>(buffers_.meanFinal), buffers_.at<float>(buffers_.rstdFinal), nullptr,
                 plan_.headIndex(), last, layout_.layers[static_cast<size_t>(model_.layers) - 1].bias[3]);
    for (int layer = model_.layers - 1; layer >= 0; --layer) {
        backwardMlp(backend, layer, flags);
        backwardAttention(backend, layer, flags);
    }
    embeddingBackward(backend, flags);
}

void GptModel::normBackward(Backend& backend, const PassFlags& flags, const void* residual, int gain, const float* mean,
                            const float* rstd, const void* dResidualIn, int reader, int before, int bias) {
    NormBackward op;
    op.rows = rows_;
    op.cols = model_.width;
    op.type = plan_.type;
    op.dOut = buffers_.at(buffers_.dNorm);
    op.residual = residual;
    op.gain = parameter(gain);
    op.bias = parameter(gain + 1);
    op.mean = mean;
    op.rstd = rstd;
    op.dResidualIn = dResidualIn;
    op.dResidual = buffers_.at(buffers_.dResidual);
    op.dGain = gradient(gain);
    op.dBias = gradient(gain + 1);
    op.accumulate = !flags.first;
    if (reader != plan_.headIndex()) op.outAgain = againOut(reader, flags);
    if (reader != plan_.headIndex())
        op.again = scaling_.againCast(plan_.slot(reader, TensorRole::Input), againCodes(reader), flags);
    if (before < 0) {
        runNorm(backend, op, pass_.normScratch);
        lookAt(backend, flags, normLayer(reader), normName(reader).c_str(), true, "grad_input", op.dResidual, rows_,
               op.cols);
        return;
    }
    const int slot = plan_.slot(before, TensorRole::GradOutput);
    op.dLinearBias = gradient(bias);
    op.cast = scaling_.producerCast(slot, gradCodes(before), flags);
    runNorm(backend, op, pass_.normScratch);
    lookAt(backend, flags, normLayer(reader), normName(reader).c_str(), true, "grad_input", op.dResidual, rows_,
           op.cols);
    scaling_.finishCast(backend, slot, op.dResidual, rows_, op.cols, gradCodes(before), flags);
    tapTensor(backend, slot, op.dResidual, rows_, op.cols);
}

void GptModel::backwardMlp(Backend& backend, int layer, const PassFlags& flags) {
    const LayerBuffers& b = buffers_.layers[static_cast<size_t>(layer)];
    const LayerParameters& p = layout_.layers[static_cast<size_t>(layer)];
    const int proj = plan_.linear(layer, LinearKind::Proj), fc1 = proj + 1, fc2 = proj + 2;
    void* dResidual = buffers_.at(buffers_.dResidual);
    void* dWide = buffers_.at(buffers_.dWide);
    const std::string& name = linearPlan(fc1).layerName;
    const Operand dFc2 = operand(fc2, TensorRole::GradOutput, dResidual, gradCodes(fc2), flags);
    dgrad(backend, flags, fc2, rows_, dFc2, dWide);

    const int slot = plan_.slot(fc1, TensorRole::GradOutput);
    const LinearPlan& plan1 = linearPlan(fc1);
    const bool plain = plan1.readsPlain(TensorRole::GradOutput) || plan1.fp8Recipe() == RecipeKind::Current ||
                       plan1.block() || flags.plain || flags.shadow;
    ActivationBackward activation;
    activation.rows = rows_;
    activation.cols = model_.ffn;
    activation.type = plan_.type;
    activation.in = buffers_.at(b.fc1);
    activation.dOut = dWide;
    activation.dIn = plain ? dWide : nullptr;
    activation.cast = scaling_.producerCast(slot, gradCodes(fc1), flags);
    activation.dBias = gradient(p.bias[2]);
    activation.accumulate = !flags.first;
    activation.outAgain = againOut(fc2, flags);
    activation.again = scaling_.againCast(plan_.slot(fc2, TensorRole::Input), againCodes(fc2), flags);
    backend.run(activation);
    lookAt(backend, flags, name, "gelu", true, "grad_input", activation.dIn, rows_, model_.ffn, slot);
    scaling_.finishCast(backend, slot, dWide, rows_, model_.ffn, gradCodes(fc1), flags);
    tapTensor(backend, slot, dWide, rows_, model_.ffn);
    wgrad(backend, flags, fc2, rows_, dFc2, wgradInput(backend, fc2, againOut(fc2, flags), flags), !flags.first);

    const Operand dFc1 = operand(fc1, TensorRole::GradOutput, dWide, gradCodes(fc1), flags);
    dgrad(backend, flags, fc1, rows_, dFc1, buffers_.at(buffers_.dNorm));
    normBackward(backend, flags, buffers_.at(b.residual2), p.norm2Gain, buffers_.at<float>(b.mean2),
                 buffers_.at<float>(b.rstd2), dResidual, fc1, proj, p.bias[1]);
    wgrad(backend, flags, fc1, rows_, dFc1, wgradInput(backend, fc1, againOut(fc1, flags), flags), !flags.first);
}

void GptModel::backwardAttention(Backend& backend, int layer, const PassFlags& flags) {
    const LayerBuffers& b = buffers_.layers[static_cast<size_t>(layer)];
    const LayerParameters& p = layout_.layers[static_cast<size_t>(layer)];
    const int qkv = plan_.linear(layer, LinearKind::Qkv), proj = qkv + 1;
    void* dResidual = buffers_.at(buffers_.dResidual);
    void* dWide = buffers_.at(buffers_.dWide);
    const Operand dProj = operand(proj, TensorRole::GradOutput, dResidual, gradCodes(proj), flags);
    dgrad(backend, flags, proj, rows_, dProj, buffers_.at(buffers_.dNorm));
    const auto projWeightGradient = [&] {
        wgrad(backend, flags, proj, rows_, dProj, wgradInput(backend, proj, buffers_.at(b.attention), flags),
              !flags.first);
    };
    // Where attention's backward makes the codes of its output again, the product waits for it.
    const bool waits = againCodes(proj) && !linearPlan(proj).block();
    if (!waits) projWeightGradient();

    const int slot = plan_.slot(qkv, TensorRole::GradOutput);
    AttentionBackward attention;
    attention.batch = batch_;
    attention.context = model_.context;
    attention.heads = model_.heads;
    attention.headWidth = model_.width / model_.heads;
    attention.type = plan_.type;
    attention.qkv = buffers_.at(b.qkv);
    attention.out = buffers_.at(b.attention);
    attention.lse = buffers_.at<float>(b.lse);
    attention.dOut = buffers_.at(buffers_.dNorm);
    attention.dQkv = dWide;
    attention.cast = scaling_.producerCast(slot, gradCodes(qkv), flags);
    attention.dBias = gradient(p.bias[0]);
    attention.accumulate = !flags.first;
    attention.again = scaling_.againCast(plan_.slot(proj, TensorRole::Input), againCodes(proj), flags);
    backend.run(attention);
    lookAt(backend, flags, linearPlan(qkv).layerName, "attention", true, "grad_input", dWide, rows_, 3 * model_.width);
    if (waits) projWeightGradient();
    scaling_.finishCast(backend, slot, dWide, rows_, 3 * model_.width, gradCodes(qkv), flags);
    tapTensor(backend, slot, dWide, rows_, 3 * model_.width);

    const Operand dQkv = operand(qkv, TensorRole::GradOutput, dWide, gradCodes(qkv), flags);
    dgrad(backend, flags, qkv, rows_, dQkv, buffers_.at(buffers_.dNorm));
    const int before = layer > 0 ? plan_.linear(layer - 1, LinearKind::Fc2) : -1;
    normBackward(backend, flags, buffers_.at(b.residual1), p.norm1Gain, buffers_.at<float>(b.mean1),
                 buffers_.at<float>(b.rstd1), dResidual, qkv, before,
                 layer > 0 ? layout_.layers[static_cast<size_t>(layer) - 1].bias[3] : -1);
    wgrad(backend, flags, qkv, rows_, dQkv, wgradInput(backend, qkv, againOut(qkv, flags), flags), !flags.first);
}

void GptModel::embeddingBackward(Backend& backend, const PassFlags& flags) {
    if (flags.first && layout_.head != layout_.tokenTable) {
        Fill clear;
        clear.n = layout_.tensors[static_cast<size_t>(layout_.tokenTable)].count();
        clear.out = gradient(layout_.tokenTable);
        backend.run(clear);
    }
    EmbeddingBackward op;
    op.batch = batch_;
    op.context = model_.context;
    op.cols = model_.width;
    op.vocabulary = model_.vocabulary;
    op.type = plan_.type;
    op.tokens = pass_.tokens;
    op.dOut = buffers_.at(buffers_.dResidual);
    op.dTokenTable = gradient(layout_.tokenTable);
    op.dPositionTable = gradient(layout_.positionTable);
    op.accumulate = !flags.first;
    backend.run(op);
}

}  // namespace mantissa::engine
