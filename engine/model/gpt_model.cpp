#include "engine/model/gpt_model.h"

#include "engine/model/unfused_ops.h"

#include <algorithm>

namespace mantissa::engine {

using namespace kernels;

GptModel::GptModel(const ModelConfig& model, const PrecisionPlan& plan, const ParameterLayout& layout,
                   const GptBuffers& buffers, const ScalingState& scaling, EffectiveMap& map, int batch)
    : model_(model),
      plan_(plan),
      layout_(layout),
      buffers_(buffers),
      scaling_(scaling),
      map_(map),
      batch_(batch),
      rows_(static_cast<int64_t>(batch) * model.context) {}

const void* GptModel::parameter(int tensor) const {
    const int64_t offset = parameters_.computeOffset[static_cast<size_t>(tensor)];
    if (offset == kNoCompute) return nullptr;
    return parameters_.compute + offset * static_cast<int64_t>(dtypeSize(plan_.type));
}

float* GptModel::gradient(int tensor) const {
    return parameters_.gradients + layout_.tensors[static_cast<size_t>(tensor)].offset;
}

int GptModel::weightTensor(int index) const {
    if (index == plan_.headIndex()) return layout_.head;
    return layout_.layers[static_cast<size_t>(index / kLinearsPerLayer)].weight[index % kLinearsPerLayer];
}

Operand GptModel::weight(int index, const PassFlags& flags) const {
    return operand(index, TensorRole::Weight, parameter(weightTensor(index)), weightCodes(index), flags);
}

CodePair GptModel::weightCodes(int index) const {
    const int64_t offset = parameters_.codeOffset[static_cast<size_t>(index)];
    if (offset < 0) return {};
    uint8_t* const rows = parameters_.codes + offset;
    if (linearPlan(index).sharesWeightCopy()) return {rows, rows};
    const bool second = parameters_.codesTransposed && (buffers_.transposedCodes() || linearPlan(index).block());
    return {rows, second ? parameters_.codesTransposed + offset : nullptr};
}

Operand GptModel::operand(int index, TensorRole role, const void* plain, CodePair codes, const PassFlags& flags) const {
    const int slot = plan_.slot(index, role);
    return {plain, codes.rows, codes.transposed, scaling_.scaleInv(slot, flags), scaling_.scaleInvColumn(slot)};
}

CodePair GptModel::inputCodes(int index) const {
    if (index == plan_.headIndex())
        return {buffers_.at<uint8_t>(buffers_.headInputCodes), buffers_.at<uint8_t>(buffers_.headInputColumn)};
    return {buffers_.at<uint8_t>(
                buffers_.layers[static_cast<size_t>(index / kLinearsPerLayer)].inputCodes[index % kLinearsPerLayer]),
            nullptr};
}

uint8_t* GptModel::againCodes(int index) const {
    const bool wanted = linearPlan(index).fp8(Gemm::Wgrad) && (buffers_.transposedCodes() || linearPlan(index).block());
    return wanted ? buffers_.at<uint8_t>(buffers_.againCodes) : nullptr;
}

BufferId GptModel::keptInput(int index, BufferId other) const {
    if (index == plan_.headIndex()) return other;
    const BufferId kept =
        buffers_.layers[static_cast<size_t>(index / kLinearsPerLayer)].keptInputs[index % kLinearsPerLayer];
    return kept.id < 0 ? other : kept;
}

void* GptModel::againOut(int index, const PassFlags& flags) const {
    if (keptInput(index).id >= 0) return nullptr;
    if (!linearPlan(index).fp8(Gemm::Wgrad) || linearPlan(index).block()) return buffers_.at(buffers_.again);
    return flags.plain || flags.shadow ? pass_.plainAgain : nullptr;
}

Operand GptModel::wgradInput(Backend& backend, int index, const void* again, const PassFlags& flags) const {
    const BufferId kept = keptInput(index);
    const void* plain = kept.id < 0 ? again : buffers_.at(kept);
    uint8_t* codes = againCodes(index);
    scaling_.castColumnCopy(backend, plan_.slot(index, TensorRole::Input), plain, rows_, linearPlan(index).in, codes,
                            flags);
    // Row codes are gone by now where transposed ones were made again; the product reads those alone.
    return operand(index, TensorRole::Input, plain, codes ? CodePair{codes, codes} : inputCodes(index), flags);
}

CodePair GptModel::gradCodes(int index) const {
    const LinearKind kind = linearPlan(index).kind;
    if (!linearPlan(index).readsCodes(TensorRole::GradOutput)) return {};
    const bool wide = kind == LinearKind::Qkv || kind == LinearKind::Fc1;
    const bool second = buffers_.transposedCodes() || linearPlan(index).block();
    return {buffers_.at<uint8_t>(wide ? buffers_.gradCodesWide : buffers_.gradCodes),
            second ? buffers_.at<uint8_t>(wide ? buffers_.gradTransposedWide : buffers_.gradTransposed) : nullptr};
}

void* GptModel::plainOut(bool wanted, BufferId buffer, const PassFlags& flags) const {
    if (wanted) return buffers_.at(buffer);
    return flags.plain || flags.shadow ? pass_.plain : nullptr;
}

void GptModel::tapTensor(Backend& backend, int slot, const void* in, int64_t rows, int64_t cols) const {
    if (!tap_ || tap_->slot != slot) return;
    const size_t done = tap_->bytes.size();
    tap_->bytes.resize(done + static_cast<size_t>(rows * cols) * dtypeSize(plan_.type));
    backend.download(tap_->bytes.data() + done, in, tap_->bytes.size() - done);
}

void GptModel::trainPass(Backend& backend, const PassFlags& flags) {
    scaling_.beginPass(backend);
    forward(backend, flags);
    head(backend, flags);
    SumLosses sum;
    sum.rows = rows_;
    sum.losses = buffers_.at<float>(buffers_.losses);
    sum.sum = &pass_.state->lossSum;
    sum.accumulate = true;
    backend.run(sum);
    if (flags.ops) {
        OpSite site;
        site.check.layer = "lm_head";
        site.check.op = "loss";
        site.tensor = "lm_head.loss/output";
        site.cols = 1;
        look(backend, flags, site, sum.losses, DType::F32, rows_, 0);
    }
    backward(backend, flags);
}

void GptModel::evalPass(Backend& backend, int64_t rows, bool clear) {
    PassFlags flags;
    flags.training = false;
    flags.count = false;
    scaling_.beginPass(backend);
    forward(backend, flags);
    head(backend, flags);
    SumLosses sum;
    sum.rows = rows;
    sum.losses = buffers_.at<float>(buffers_.losses);
    sum.sum = pass_.evalSum;
    sum.accumulate = !clear;
    backend.run(sum);
}

void GptModel::castWeights(Backend& backend, const PassFlags& flags) {
    for (int index = 0; index < plan_.linearCount(); ++index) {
        const CodePair codes = weightCodes(index);
        if (!codes.rows) continue;
        const int tensor = weightTensor(index);
        if (const void* plain = parameter(tensor))
            scaling_.castCurrentWeight(backend, index, plain, plan_.type, codes, flags);
        else
            scaling_.castCurrentWeight(backend, index,
                                       parameters_.masters + layout_.tensors[static_cast<size_t>(tensor)].offset,
                                       DType::F32, codes, flags);
    }
}

void GptModel::checkCodes(Backend& backend, const PassFlags& flags) const {
    for (int index = 0; index < plan_.linearCount(); ++index) {
        const RecipeKind recipe = plan_.tensorRecipe(plan_.slot(index, TensorRole::Weight));
        if (recipe != RecipeKind::Delayed && recipe != RecipeKind::Fixed) continue;
        const ParameterInfo& weight = layout_.tensors[static_cast<size_t>(weightTensor(index))];
        CodeCheck check;
        check.n = weight.count();
        check.in = parameters_.masters + weight.offset;
        check.codes = weightCodes(index).rows;
        check.format = plan_.format(index, TensorRole::Weight);
        check.scale = scaling_.scale(plan_.slot(index, TensorRole::Weight), flags);
        check.different = pass_.staleCodes + index;
        backend.run(check);
    }
}

std::string GptModel::normName(int reader) const {
    if (reader == plan_.headIndex()) return "";
    return linearPlan(reader).kind == LinearKind::Qkv ? "norm1" : "norm2";
}

const char* GptModel::sumName(int reader) const {
    if (reader == plan_.headIndex()) return "sum";
    return linearPlan(reader).kind == LinearKind::Qkv ? "sum1" : "sum2";
}

std::string GptModel::normLayer(int reader) const {
    return reader == plan_.headIndex() ? "norm" : linearPlan(reader).layerName;
}

void GptModel::normForward(Backend& backend, const PassFlags& flags, const void* residualIn, const void* delta,
                           void* residualOut, int gain, float* mean, float* rstd, int reader, CodePair codes) {
    const LinearPlan& linear = linearPlan(reader);
    const int slot = plan_.slot(reader, TensorRole::Input);
    const bool head = reader == plan_.headIndex();
    NormForward op;
    op.rows = rows_;
    op.cols = model_.width;
    op.type = plan_.type;
    op.residualIn = residualIn;
    op.delta = delta;
    op.residualOut = delta ? residualOut : nullptr;
    op.gain = parameter(gain);
    op.bias = parameter(gain + 1);
    const bool plain = !linear.fp8(Gemm::Fprop) || linear.fp8Recipe() == RecipeKind::Current || linear.block() ||
                       (head && !linear.fp8(Gemm::Wgrad));
    op.out = plainOut(plain, keptInput(reader, buffers_.normOut), flags);
    op.cast = scaling_.producerCast(slot, codes, flags);
    op.mean = mean;
    op.rstd = rstd;
    lookAtParameter(backend, flags, normLayer(reader), normName(reader), "weight", gain);
    lookAtParameter(backend, flags, normLayer(reader), normName(reader), "bias", gain + 1);
    runNorm(backend, op, pass_.normScratch);
    if (op.residualOut)
        lookAt(backend, flags, normLayer(reader), sumName(reader), false, "output", op.residualOut, rows_, op.cols);
    lookAt(backend, flags, normLayer(reader), normName(reader).c_str(), false, "output", op.out, rows_, op.cols, slot);
    scaling_.finishCast(backend, slot, op.out, rows_, op.cols, codes, flags);
    tapTensor(backend, slot, op.out, rows_, op.cols);
}

void GptModel::forward(Backend& backend, const PassFlags& flags) {
    EmbeddingForward embedding;
    embedding.batch = batch_;
    embedding.context = model_.context;
    embedding.cols = model_.width;
    embedding.vocabulary = model_.vocabulary;
    embedding.type = plan_.type;
    embedding.tokens = pass_.tokens;
    embedding.tokenTable = parameter(layout_.tokenTable);
    embedding.positionTable = parameter(layout_.positionTable);
    embedding.out = buffers_.at(buffers_.layers[0].residual1);
    lookAtParameter(backend, flags, "embedding", "", "weight", layout_.tokenTable);
    lookAtParameter(backend, flags, "embedding", "position", "weight", layout_.positionTable);
    backend.run(embedding);
    lookAt(backend, flags, "embedding", "", false, "output", embedding.out, rows_, model_.width);
    for (int layer = 0; layer < model_.layers; ++layer) forwardLayer(backend, layer, flags);
    normForward(backend, flags, buffers_.at(buffers_.layers.back().residual2), buffers_.at(buffers_.delta),
                buffers_.at(buffers_.residualFinal), layout_.finalGain, buffers_.at<float>(buffers_.meanFinal),
                buffers_.at<float>(buffers_.rstdFinal), plan_.headIndex(), inputCodes(plan_.headIndex()));
}

void GptModel::forwardLayer(Backend& backend, int layer, const PassFlags& flags) {
    const LayerBuffers& b = buffers_.layers[static_cast<size_t>(layer)];
    const LayerParameters& p = layout_.layers[static_cast<size_t>(layer)];
    const int qkv = plan_.linear(layer, LinearKind::Qkv), proj = qkv + 1, fc1 = qkv + 2, fc2 = qkv + 3;
    const auto product = [&](int index, const void* plain, void* out) {
        fprop(backend, flags, index, rows_, operand(index, TensorRole::Input, plain, inputCodes(index), flags),
              p.bias[index - qkv], out);
    };
    // Where a norm's output lies in plain values, if it does.
    const auto plainNorm = [&](int index) {
        const bool planned = !linearPlan(index).fp8(Gemm::Fprop) || plainForward(linearPlan(index));
        return plainOut(planned, keptInput(index, buffers_.normOut), flags);
    };
    const std::string& name = linearPlan(qkv).layerName;
    const void* residualIn =
        buffers_.at(layer == 0 ? b.residual1 : buffers_.layers[static_cast<size_t>(layer) - 1].residual2);
    normForward(backend, flags, residualIn, layer == 0 ? nullptr : buffers_.at(buffers_.delta),
                buffers_.at(b.residual1), p.norm1Gain, buffers_.at<float>(b.mean1), buffers_.at<float>(b.rstd1), qkv,
                inputCodes(qkv));
    product(qkv, plainNorm(qkv), buffers_.at(b.qkv));

    const int projInput = plan_.slot(proj, TensorRole::Input);
    AttentionForward attention;
    attention.batch = batch_;
    attention.context = model_.context;
    attention.heads = model_.heads;
    attention.headWidth = model_.width / model_.heads;
    attention.type = plan_.type;
    attention.qkv = buffers_.at(b.qkv);
    attention.out = buffers_.at(b.attention);
    attention.lse = buffers_.at<float>(b.lse);
    attention.cast = scaling_.producerCast(projInput, inputCodes(proj), flags);
    backend.run(attention);
    lookAt(backend, flags, name, "attention", false, "output", attention.out, rows_, model_.width);
    scaling_.finishCast(backend, projInput, attention.out, rows_, model_.width, inputCodes(proj), flags);
    tapTensor(backend, projInput, attention.out, rows_, model_.width);
    product(proj, attention.out, buffers_.at(buffers_.delta));

    normForward(backend, flags, buffers_.at(b.residual1), buffers_.at(buffers_.delta), buffers_.at(b.residual2),
                p.norm2Gain, buffers_.at<float>(b.mean2), buffers_.at<float>(b.rstd2), fc1, inputCodes(fc1));
    product(fc1, plainNorm(fc1), buffers_.at(b.fc1));

    const int fc2Input = plan_.slot(fc2, TensorRole::Input);
    const bool plain = plainForward(linearPlan(fc2));
    ActivationForward activation;
    activation.rows = rows_;
    activation.cols = model_.ffn;
    activation.type = plan_.type;
    activation.in = buffers_.at(b.fc1);
    activation.out = plainOut(plain, keptInput(fc2, buffers_.activation), flags);
    activation.cast = scaling_.producerCast(fc2Input, inputCodes(fc2), flags);
    backend.run(activation);
    lookAt(backend, flags, name, "gelu", false, "output", activation.out, rows_, model_.ffn, fc2Input);
    scaling_.finishCast(backend, fc2Input, activation.out, rows_, model_.ffn, inputCodes(fc2), flags);
    tapTensor(backend, fc2Input, activation.out, rows_, model_.ffn);
    product(fc2, activation.out, buffers_.at(buffers_.delta));
}

void GptModel::head(Backend& backend, const PassFlags& flags) {
    for (int64_t row = 0; row < rows_; row += buffers_.chunkRows)
        headChunk(backend, flags, row, std::min(buffers_.chunkRows, rows_ - row));
}

void GptModel::headChunk(Backend& backend, const PassFlags& flags, int64_t row, int64_t rows) {
    const int index = plan_.headIndex();
    const int gradSlot = plan_.slot(index, TensorRole::GradOutput);
    const int64_t width = model_.width, size = static_cast<int64_t>(dtypeSize(plan_.type));
    const bool planned = plainForward(linearPlan(index)) || !linearPlan(index).fp8(Gemm::Wgrad);
    const auto* normOut = static_cast<const char*>(plainOut(planned, buffers_.normOut, flags));
    const CodePair codes = inputCodes(index);  // block recipes have one chunk
    const Operand x = operand(index, TensorRole::Input, normOut ? normOut + row * width * size : nullptr,
                              {codes.rows ? codes.rows + row * width : nullptr, codes.transposed}, flags);
    void* logits = buffers_.at(buffers_.logits);
    fprop(backend, flags, index, rows, x, -1, logits, row);

    const CodePair gradCodes{buffers_.at<uint8_t>(buffers_.headGradCodes),
                             buffers_.at<uint8_t>(buffers_.headGradColumn)};
    CrossEntropy loss;
    loss.rows = rows;
    loss.vocabulary = model_.vocabulary;
    loss.vocabularyPadded = paddedVocabulary(model_);
    loss.type = plan_.type;
    loss.logits = logits;
    loss.targets = pass_.targets + row;
    loss.losses = buffers_.at<float>(buffers_.losses) + row;
    loss.gradientScale = &pass_.parameters->gradientScale;
    loss.backward = flags.training;
    if (flags.training) loss.cast = scaling_.producerCast(gradSlot, gradCodes, flags);
    backend.run(loss);
    if (!flags.training) return;
    scaling_.finishCast(backend, gradSlot, logits, rows, loss.vocabularyPadded, gradCodes, flags);
    tapTensor(backend, gradSlot, logits, rows, loss.vocabularyPadded);

    if (flags.ops) {
        OpSite site;
        site.check.layer = "lm_head";
        site.check.op = "loss";
        site.check.backward = true;
        site.tensor = "lm_head.loss/grad_logits";
        site.cols = loss.vocabularyPadded;
        look(backend, flags, site, logits, plan_.type, rows, row);
    }
    const Operand dy = operand(index, TensorRole::GradOutput, logits, gradCodes, flags);
    dgrad(backend, flags, index, rows, dy, buffers_.at<char>(buffers_.dNorm) + row * width * size, row);
    wgrad(backend, flags, index, rows, dy, x, !flags.first || row > 0);
}

}  // namespace mantissa::engine
