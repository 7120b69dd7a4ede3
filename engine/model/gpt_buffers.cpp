#include "engine/model/gpt_buffers.h"

#include <algorithm>

namespace mantissa::engine {

using kernels::dtypeSize;
using kernels::Gemm;

namespace {

/// Logits at a time. CPU: 16 MiB keep the chunk near the last cache; fewer than 256 rows starve the products. GPU: 1
/// GiB, for each chunk reads and writes the whole FP32 gradient of the head once more.
constexpr int64_t kLogitBytes = 16 << 20, kLogitBytesGpu = 1 << 30;
constexpr int64_t kMinChunkRows = 256;

int64_t chunkRowsFor(int64_t rows, int64_t rowBytes, bool gpu) {
    const int64_t fitting = (gpu ? kLogitBytesGpu : kLogitBytes) / rowBytes / 64 * 64;
    if (!gpu || fitting >= rows) return std::min(rows, std::max(kMinChunkRows, fitting));
    const int64_t chunks = (rows + fitting - 1) / fitting;  // of equal size
    return ((rows + chunks - 1) / chunks + 63) / 64 * 64;
}

}  // namespace

bool plainForward(const LinearPlan& linear) {
    return !linear.fp8(Gemm::Fprop) || linear.fp8Recipe() == RecipeKind::Current || linear.block();
}

GptBuffers::GptBuffers(const ModelConfig& model, const PrecisionPlan& plan, int batch, bool shareMemory,
                       bool transposedCodes, bool keepInputs)
    : time_(model.layers), share_(shareMemory), transposed_(transposedCodes), keepInputs_(keepInputs) {
    // What backward uses to its end lies below the layers' buffers, so that gradients can lie over layers that backward
    // has left: those of layer l over layers l and up.
    const int64_t rows = static_cast<int64_t>(batch) * model.context;
    addBackward(model, plan, rows);
    addHead(model, plan, rows);
    addShared(model, plan, rows);
    addForward(model, plan, batch);
}

bool GptBuffers::keepsInput(const LinearPlan& linear) const {
    const bool ofAttention = linear.kind == LinearKind::Proj, ofLayer = linear.kind != LinearKind::Head;
    return keepInputs_ && ofLayer && !ofAttention && !linear.fp8(Gemm::Wgrad) && !linear.block() &&
           plainForward(linear);
}

BufferId GptBuffers::add(size_t bytes, int begin, int end) {
    return {share_ ? arena.add(bytes, begin, end) : arena.add(bytes, time_.start(), time_.end())};
}

void GptBuffers::addShared(const ModelConfig& model, const PrecisionPlan& plan, int64_t rows) {
    const size_t m = static_cast<size_t>(rows), size = dtypeSize(plan.type);
    const size_t plain = m * static_cast<size_t>(model.width) * size, statistics = m * sizeof(float);
    bool anyPlainNorm = plainForward(plan.linears.back()), anyActivation = false;
    const auto readAtOnce = [&](int layer, LinearKind kind) {
        const LinearPlan& linear = plan.linears[static_cast<size_t>(plan.linear(layer, kind))];
        return plainForward(linear) && !keepsInput(linear);
    };
    for (int layer = 0; layer < model.layers; ++layer) {
        anyPlainNorm = anyPlainNorm || readAtOnce(layer, LinearKind::Qkv) || readAtOnce(layer, LinearKind::Fc1);
        anyActivation = anyActivation || readAtOnce(layer, LinearKind::Fc2);
    }
    residualFinal = add(plain, time_.finalNorm(), time_.finalNormBack());
    meanFinal = add(statistics, time_.finalNorm(), time_.finalNormBack());
    rstdFinal = add(statistics, time_.finalNorm(), time_.finalNormBack());
    delta = add(plain, time_.forward(0, TimeLine::Proj), time_.finalNorm());
    if (anyPlainNorm || !plan.linears.back().fp8(Gemm::Wgrad))
        normOut = add(plain, time_.forward(0, TimeLine::Norm1), time_.head());
    if (anyActivation)
        activation = add(m * static_cast<size_t>(model.ffn) * size, time_.forward(0, TimeLine::Activation),
                         time_.forward(model.layers - 1, TimeLine::Fc2));
}

void GptBuffers::addForward(const ModelConfig& model, const PrecisionPlan& plan, int batch) {
    const size_t rows = static_cast<size_t>(batch) * model.context, width = model.width, ffn = model.ffn;
    const size_t plain = rows * width * dtypeSize(plan.type), statistics = rows * sizeof(float);
    for (int layer = 0; layer < model.layers; ++layer) {
        LayerBuffers b;
        const auto alive = [&](size_t bytes, int from, int to) {
            return add(bytes, time_.forward(layer, from), time_.backward(layer, to));
        };
        const int residualBegin = layer == 0 ? time_.start() : time_.forward(layer, TimeLine::Norm1);
        b.residual1 = add(plain, residualBegin, time_.backward(layer, TimeLine::Norm1Back));
        b.mean1 = alive(statistics, TimeLine::Norm1, TimeLine::Norm1Back);
        b.rstd1 = alive(statistics, TimeLine::Norm1, TimeLine::Norm1Back);
        b.qkv = alive(3 * plain, TimeLine::Qkv, TimeLine::AttentionBack);
        b.lse = alive(rows * static_cast<size_t>(model.heads) * sizeof(float), TimeLine::Attention,
                      TimeLine::AttentionBack);
        b.attention = alive(plain, TimeLine::Attention, TimeLine::AttentionBack);
        b.residual2 = alive(plain, TimeLine::Norm2, TimeLine::Norm2Back);
        b.mean2 = alive(statistics, TimeLine::Norm2, TimeLine::Norm2Back);
        b.rstd2 = alive(statistics, TimeLine::Norm2, TimeLine::Norm2Back);
        b.fc1 = alive(rows * ffn * dtypeSize(plan.type), TimeLine::Fc1, TimeLine::ActivationBack);
        static constexpr int kMade[] = {TimeLine::Norm1, TimeLine::Attention, TimeLine::Norm2, TimeLine::Activation};
        static constexpr int kRead[] = {TimeLine::Qkv, TimeLine::Proj, TimeLine::Fc1, TimeLine::Fc2};
        static constexpr int kLast[] = {TimeLine::QkvWeight, TimeLine::ProjWeight, TimeLine::Fc1Weight,
                                        TimeLine::Fc2Weight};
        for (int kind = 0; kind < kLinearsPerLayer; ++kind) {
            const LinearPlan& linear =
                plan.linears[static_cast<size_t>(plan.linear(layer, static_cast<LinearKind>(kind)))];
            if (keepsInput(linear))
                b.keptInputs[kind] =
                    alive(rows * static_cast<size_t>(linear.in) * dtypeSize(plan.type), kMade[kind], kLast[kind]);
            if (!linear.readsCodes(TensorRole::Input)) continue;
            const bool kept = linear.fp8(Gemm::Wgrad) && !transposed_ && !linear.block();
            const int end = kept ? time_.backward(layer, kLast[kind]) : time_.forward(layer, kRead[kind]);
            b.inputCodes[kind] = add(linear.rowCopyBytes(TensorRole::Input, static_cast<int64_t>(rows)),
                                     time_.forward(layer, kMade[kind]), end);
        }
        layers.push_back(b);
    }
}

void GptBuffers::addHead(const ModelConfig& model, const PrecisionPlan& plan, int64_t rows) {
    const LinearPlan& head = plan.linears.back();
    const int64_t rowBytes = paddedVocabulary(model) * static_cast<int64_t>(dtypeSize(plan.type));
    const bool codes = head.readsCodes(TensorRole::GradOutput);
    // A current scale needs the amax of the whole tensor, so all its rows are there at once.
    // Blocks of the column copy go along the rows.
    const bool whole = codes && (head.fp8Recipe() == RecipeKind::Current || head.block());
    chunkRows = whole ? rows : chunkRowsFor(rows, rowBytes, transposed_);
    logits = add(static_cast<size_t>(chunkRows * rowBytes), time_.head(), time_.head());
    losses = add(static_cast<size_t>(rows) * sizeof(float), time_.head(), time_.head());
    if (head.readsCodes(TensorRole::Input))
        headInputCodes = add(head.rowCopyBytes(TensorRole::Input, rows), time_.finalNorm(), time_.head());
    if (codes) headGradCodes = add(head.rowCopyBytes(TensorRole::GradOutput, chunkRows), time_.head(), time_.head());
    if (head.block() && head.fp8(Gemm::Wgrad)) {
        headInputColumn = add(head.columnCopyBytes(TensorRole::Input, rows), time_.finalNorm(), time_.head());
        headGradColumn = add(head.columnCopyBytes(TensorRole::GradOutput, rows), time_.head(), time_.head());
    }
    dNorm = add(static_cast<size_t>(rows) * model.width * dtypeSize(plan.type), time_.head(), time_.embeddingBack());
}

void GptBuffers::addBackward(const ModelConfig& model, const PrecisionPlan& plan, int64_t rows) {
    const size_t size = dtypeSize(plan.type), m = static_cast<size_t>(rows);
    const size_t width = static_cast<size_t>(model.width), ffn = static_cast<size_t>(model.ffn);
    const size_t wide = std::max(3 * width, ffn);
    const int begin = time_.backward(model.layers - 1, TimeLine::Fc2Input),
              end = time_.backward(0, TimeLine::QkvWeight);
    size_t againCols = 0, againBytes = 0;
    struct {
        size_t row = 0, column = 0;
    } narrow, broad;  // grad_output of proj and fc2, of qkv and fc1
    for (const LinearPlan& linear : plan.linears) {
        if (linear.kind == LinearKind::Head) continue;
        const bool isWide = linear.kind == LinearKind::Qkv || linear.kind == LinearKind::Fc1;
        const bool columns = transposed_ || linear.block();
        auto& codes = isWide ? broad : narrow;
        if (linear.readsCodes(TensorRole::GradOutput)) {
            codes.row = std::max(codes.row, linear.rowCopyBytes(TensorRole::GradOutput, rows));
            if (columns) codes.column = std::max(codes.column, linear.columnCopyBytes(TensorRole::GradOutput, rows));
        }
        if (columns && linear.fp8(Gemm::Wgrad))
            againBytes = std::max(againBytes, linear.columnCopyBytes(TensorRole::Input, rows));
        if ((!linear.fp8(Gemm::Wgrad) || linear.block()) && linear.kind != LinearKind::Proj && !keepsInput(linear))
            againCols = std::max(againCols, static_cast<size_t>(linear.in));
    }
    dResidual = add(m * width * size, time_.finalNormBack(), time_.embeddingBack());
    dWide = add(m * wide * size, begin, end);
    if (againCols > 0) again = add(m * againCols * size, begin, end);
    if (narrow.row > 0) gradCodes = add(narrow.row, time_.finalNormBack(), end);
    if (broad.row > 0) gradCodesWide = add(broad.row, begin, end);
    if (narrow.column > 0) gradTransposed = add(narrow.column, time_.finalNormBack(), end);
    if (broad.column > 0) gradTransposedWide = add(broad.column, begin, end);
    if (againBytes > 0) againCodes = add(againBytes, begin, end);
}

std::vector<Arena::Part> gradientParts(const ModelConfig& model, const ParameterLayout& layout) {
    const TimeLine time(model.layers);
    std::vector<int> begin(layout.tensors.size(), time.embeddingBack());
    const auto set = [&begin](int tensor, int tick) { begin[static_cast<size_t>(tensor)] = tick; };
    set(layout.head, time.head());
    set(layout.finalGain, time.finalNormBack());
    set(layout.finalBias, time.finalNormBack());
    for (int layer = 0; layer < model.layers; ++layer) {
        const LayerParameters& p = layout.layers[static_cast<size_t>(layer)];
        const auto back = [&](int tick) { return time.backward(layer, tick); };
        set(p.weight[0], back(TimeLine::QkvWeight)), set(p.bias[0], back(TimeLine::AttentionBack));
        set(p.weight[1], back(TimeLine::ProjWeight)), set(p.bias[1], back(TimeLine::Norm2Back));
        set(p.weight[2], back(TimeLine::Fc1Weight)), set(p.bias[2], back(TimeLine::ActivationBack));
        set(p.weight[3], back(TimeLine::Fc2Weight));
        set(p.bias[3],
            layer + 1 == model.layers ? time.finalNormBack() : time.backward(layer + 1, TimeLine::Norm1Back));
        set(p.norm1Gain, back(TimeLine::Norm1Back)), set(p.norm1Bias, back(TimeLine::Norm1Back));
        set(p.norm2Gain, back(TimeLine::Norm2Back)), set(p.norm2Bias, back(TimeLine::Norm2Back));
    }
    std::vector<Arena::Part> parts;
    for (size_t i = 0; i < layout.tensors.size(); ++i) {
        const ParameterInfo& tensor = layout.tensors[i];
        if (tensor.count() % 64 != 0) return {};
        parts.push_back({static_cast<size_t>(tensor.offset) * sizeof(float),
                         static_cast<size_t>(tensor.count()) * sizeof(float), begin[i]});
    }
    return parts;
}

}  // namespace mantissa::engine
