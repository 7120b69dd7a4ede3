#include "engine/plan/parameter_layout.h"

#include <cmath>

#include "engine/plan/precision_plan.h"

namespace mantissa::engine {

namespace {

constexpr float kInitStd = 0.02f;
constexpr int64_t kAlignment = 64;  // elements; a tensor of a flat F32 array starts at 256 bytes

class Builder {
  public:
    explicit Builder(ParameterLayout& layout) : layout_(layout) {}

    int matrix(const std::string& name, int64_t rows, int64_t cols, float std, int linear, int64_t fileRows = 0) {
        ParameterInfo info;
        info.name = name;
        info.rows = rows;
        info.cols = cols;
        info.fileRows = fileRows ? fileRows : rows;
        info.decay = true;
        info.std = std;
        info.linear = linear;
        return add(info);
    }
    int vector(const std::string& name, int64_t cols, float value) {
        ParameterInfo info;
        info.name = name;
        info.rows = info.fileRows = 1;
        info.cols = cols;
        info.value = value;
        return add(info);
    }

  private:
    int add(ParameterInfo& info) {
        info.offset = layout_.size;
        layout_.size += (info.count() + kAlignment - 1) / kAlignment * kAlignment;
        layout_.trueCount += info.fileRows * info.cols;
        layout_.tensors.push_back(info);
        return static_cast<int>(layout_.tensors.size()) - 1;
    }
    ParameterLayout& layout_;
};

LayerParameters addLayer(Builder& builder, const ModelConfig& model, int layer) {
    const std::string prefix = "h." + std::to_string(layer) + ".";
    const float residualStd = kInitStd / std::sqrt(2.0f * static_cast<float>(model.layers));
    const int64_t width = model.width, ffn = model.ffn;
    const int first = layer * kLinearsPerLayer;
    LayerParameters p{};
    p.norm1Gain = builder.vector(prefix + "ln_1.weight", width, 1);
    p.norm1Bias = builder.vector(prefix + "ln_1.bias", width, 0);
    const auto linear = [&](int index, const char* name, int64_t out, int64_t in, float std) {
        p.weight[index] = builder.matrix(prefix + name + ".weight", out, in, std, first + index);
        p.bias[index] = builder.vector(prefix + name + ".bias", out, 0);
    };
    linear(0, "attn.qkv", 3 * width, width, kInitStd);
    linear(1, "attn.proj", width, width, residualStd);
    p.norm2Gain = builder.vector(prefix + "ln_2.weight", width, 1);
    p.norm2Bias = builder.vector(prefix + "ln_2.bias", width, 0);
    linear(2, "mlp.fc1", ffn, width, kInitStd);
    linear(3, "mlp.fc2", width, ffn, residualStd);
    return p;
}

}  // namespace

ParameterLayout makeParameterLayout(const ModelConfig& model) {
    ParameterLayout layout;
    Builder builder(layout);
    const int64_t padded = paddedVocabulary(model);
    const int headLinear = model.layers * kLinearsPerLayer;
    for (int layer = 0; layer < model.layers; ++layer) layout.layers.push_back(addLayer(builder, model, layer));
    layout.finalGain = builder.vector("ln_f.weight", model.width, 1);
    layout.finalBias = builder.vector("ln_f.bias", model.width, 0);
    layout.positionTable = builder.matrix("wpe.weight", model.context, model.width, kInitStd, -1);
    layout.tokenTable =
        builder.matrix("wte.weight", padded, model.width, kInitStd, model.tiedHead ? headLinear : -1, model.vocabulary);
    layout.head = layout.tokenTable;
    if (!model.tiedHead)
        layout.head = builder.matrix("lm_head.weight", padded, model.width, kInitStd, headLinear, model.vocabulary);
    return layout;
}

}  // namespace mantissa::engine
