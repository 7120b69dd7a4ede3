// The activations of a step: which buffers exist under a precision plan, when each one is alive, where it lies.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/config.h"
#include "engine/plan/arena.h"
#include "engine/plan/parameter_layout.h"
#include "engine/plan/precision_plan.h"

namespace mantissa::engine {

/// The step's time line. Forward of layer l takes kStride ticks from forward(l, 0), backward likewise; the head lies
/// between.
class TimeLine {
  public:
    explicit TimeLine(int layers) : layers_(layers) {}
    enum ForwardTick { Norm1, Qkv, Attention, Proj, Norm2, Fc1, Activation, Fc2 };
    enum BackwardTick {
        Fc2Input,
        ActivationBack,
        Fc2Weight,
        Fc1Input,
        Norm2Back,
        Fc1Weight,
        ProjInput,
        ProjWeight,
        AttentionBack,
        QkvInput,
        Norm1Back,
        QkvWeight
    };
    int start() const { return 0; }
    int forward(int layer, int tick) const { return 1 + layer * kStride + tick; }
    int finalNorm() const { return 1 + layers_ * kStride; }
    int head() const { return finalNorm() + 1; }
    int finalNormBack() const { return finalNorm() + 2; }
    int backward(int layer, int tick) const { return finalNorm() + 3 + (layers_ - 1 - layer) * kStride + tick; }
    int embeddingBack() const { return finalNorm() + 3 + layers_ * kStride; }
    int end() const { return embeddingBack() + 1; }

  private:
    static constexpr int kStride = 16;
    int layers_;
};

/// Whether forward writes the linear's input in plain values: a product reads them, or they are the source of a second
/// pass (current recipe, block recipes).
bool plainForward(const LinearPlan& linear);

/// A buffer of the arena; absent ones (id -1) are nullptr.
struct BufferId {
    int id = -1;
};

struct LayerBuffers {
    BufferId residual1, mean1, rstd1;  ///< (M, C) of type, (M) F32: input of ln_1 and its statistics
    BufferId qkv, lse, attention;      ///< (M, 3C), (B, H, T) F32, (M, C)
    BufferId residual2, mean2, rstd2;  ///< input of ln_2
    BufferId fc1;                      ///< (M, F), before the activation
    BufferId inputCodes[4];            ///< FP8 codes of the linears' inputs
    BufferId keptInputs[4];            ///< plain inputs of wgrads that stay from forward on; not proj's, see attention
};

/// M = batch * context rows. Names as in gpt_model.cpp.
struct GptBuffers {
    /// transposedCodes: the device's products need k contiguous (Backend::needsTransposedCodes()). Then codes of inputs
    /// live in forward only, and backward makes them again, transposed.
    /// keepInputs: inputs of wgrads that forward writes in plain values stay for them, instead of being made again. On
    /// 16 bits that is 12 C bytes of memory a token and layer, and as many that backward need not write.
    GptBuffers(const ModelConfig& model, const PrecisionPlan& plan, int batch, bool shareMemory = true,
               bool transposedCodes = false, bool keepInputs = false);

    template <class T = void>
    T* at(BufferId buffer) const {
        return buffer.id < 0 ? nullptr : reinterpret_cast<T*>(base + arena.offset(buffer.id));
    }

    Arena arena;
    char* base = nullptr;
    int64_t chunkRows = 0;  ///< rows of logits at a time
    bool transposedCodes() const { return transposed_; }
    /// Whether the linear's plain input stays for its wgrad.
    bool keepsInput(const LinearPlan& linear) const;

    std::vector<LayerBuffers> layers;
    BufferId residualFinal, meanFinal, rstdFinal;
    BufferId normOut;     ///< (M, C) output of a norm that is not kept, read at once
    BufferId delta;       ///< (M, C) output of proj or fc2, added by the next norm
    BufferId activation;  ///< (M, F) forward, where fc2 reads plain values that are not kept
    BufferId logits;      ///< (chunkRows, padded vocabulary)
    BufferId losses;      ///< (M) F32
    BufferId headInputCodes, headGradCodes;
    BufferId headInputColumn, headGradColumn;  ///< block recipes: column copies
    BufferId dResidual, dNorm;                 ///< (M, C)
    BufferId dWide;                            ///< (M, max(3C, F))
    BufferId again;                            ///< (M, max(C, F)): the input of a wgrad in plain values, made again
    BufferId gradCodes, gradCodesWide;
    BufferId gradTransposed, gradTransposedWide, againCodes;  ///< with transposedCodes, and under block recipes

  private:
    void addShared(const ModelConfig& model, const PrecisionPlan& plan, int64_t rows);  ///< of forward, not a layer's
    void addForward(const ModelConfig& model, const PrecisionPlan& plan, int batch);
    void addHead(const ModelConfig& model, const PrecisionPlan& plan, int64_t rows);
    void addBackward(const ModelConfig& model, const PrecisionPlan& plan, int64_t rows);
    BufferId add(size_t bytes, int begin, int end);
    TimeLine time_;
    bool share_, transposed_, keepInputs_;
};

/// When each part of the flat gradients is first written, for Arena::placeOver; empty when alignment gaps between the
/// parts would hold other values (sizes that are no multiple of 64).
std::vector<Arena::Part> gradientParts(const ModelConfig& model, const ParameterLayout& layout);

}  // namespace mantissa::engine
