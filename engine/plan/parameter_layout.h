// Where each parameter lies in the flat arrays (masters, moments, gradients, compute copy), its name and its start
// values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config.h"

namespace mantissa::engine {

struct ParameterInfo {
    std::string name;            ///< as in safetensors: "h.0.attn.qkv.weight"
    int64_t offset = 0;          ///< first element, a multiple of 64
    int64_t rows = 0, cols = 0;  ///< a vector: rows 1
    int64_t fileRows = 0;        ///< rows written to files: without the padding of the vocabulary
    bool decay = false;          ///< matrices take weight decay
    float std = 0;               ///< start values: N(0, std); 0: `value` everywhere
    float value = 0;
    int linear = -1;  ///< the weight of this linear of the precision plan, or -1
    int64_t count() const { return rows * cols; }
};

/// Numbers into ParameterLayout::tensors of one layer.
struct LayerParameters {
    int norm1Gain, norm1Bias, weight[4], bias[4], norm2Gain, norm2Bias;  ///< weight, bias: qkv, proj, fc1, fc2
};

struct ParameterLayout {
    std::vector<ParameterInfo> tensors;
    int64_t size = 0;       ///< elements of a flat array
    int64_t trueCount = 0;  ///< parameters without padding
    int tokenTable = 0, positionTable = 0, finalGain = 0, finalBias = 0;
    int head = 0;  ///< the token table when tied
    std::vector<LayerParameters> layers;
};

/// Order: h.0 ... h.(L-1), ln_f, wpe, wte (, lm_head). The gradients of the head come first and those of the layers
/// last to first, so that with one micro-batch the flat gradients can lie over the activations of layers that backward
/// has left.
ParameterLayout makeParameterLayout(const ModelConfig& model);

}  // namespace mantissa::engine
