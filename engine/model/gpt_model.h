// GPT-2-style decoder, forward and backward written by hand on the seam (design: pre-norm LayerNorm, GELU tanh, biases,
// tied head).
#pragma once

#include <cstdint>

#include "engine/model/gpt_buffers.h"
#include "engine/model/linear.h"
#include "engine/model/op_sites.h"
#include "engine/model/scaling_state.h"
#include "engine/plan/parameter_layout.h"
#include "kernels/backend.h"

namespace mantissa::engine {

/// Flat parameter arrays in device memory.
struct ParameterMemory {
    float* masters = nullptr;  ///< (layout.size) F32
    float* moment1 = nullptr;
    float* moment2 = nullptr;
    float* gradients = nullptr;
    char* compute = nullptr;             ///< copies of the plan's type; the masters themselves in F32 modes
    std::vector<int64_t> computeOffset;  ///< first element of each tensor in `compute`; kNoCompute: it has no copy
    uint8_t* codes = nullptr;            ///< FP8 codes of the weights that have them, at codeOffset[linear]
    uint8_t* codesTransposed = nullptr;  ///< likewise, transposed, where the chip's products need it
    std::vector<int64_t> codeOffset;     ///< -1: none
};

/// One quantized tensor of a pass in plain values, copied to the host as it appears.
struct TensorTap {
    int slot = -1;
    std::vector<char> bytes;  ///< of the plan's type, row-major
};

/// A value that a planted fault writes into what a product gave (fprop, dgrad).
struct PlantedValue {
    int linear = 0;
    kernels::Gemm gemm = kernels::Gemm::Fprop;
    int64_t element = 0;
    float value = 0;
};

/// What a pass reads and writes beside activations, in device memory.
struct PassMemory {
    const int32_t* tokens = nullptr;   ///< (M) inputs
    const int32_t* targets = nullptr;  ///< (M)
    kernels::StepParameters* parameters = nullptr;
    kernels::StepState* state = nullptr;
    double* evalSum = nullptr;   ///< sum of the losses of an evaluation
    void* plain = nullptr;       ///< (M, max(C, F)): outputs of norm and GELU that the plan keeps as codes alone
    void* plainAgain = nullptr;  ///< likewise, made again in backward
    kernels::FiniteCount* finite = nullptr;  ///< one a place
    kernels::ShadowSums* shadow = nullptr;   ///< (linears * 3)
    uint64_t* staleCodes = nullptr;          ///< (linears)
    float* normScratch = nullptr;            ///< where the norm's stages keep their values; nullptr: the norm is fused
};

/// Queues the ops of one pass; owns no memory. Thread: the trainer's.
class GptModel {
  public:
    GptModel(const ModelConfig& model, const PrecisionPlan& plan, const ParameterLayout& layout,
             const GptBuffers& buffers, const ScalingState& scaling, EffectiveMap& map, int batch);
    void bind(const ParameterMemory& parameters, const PassMemory& pass) { parameters_ = parameters, pass_ = pass; }

    /// Forward, loss and backward of one micro-batch; gradients are set (flags.first) or added to, the loss sum is
    /// added to.
    void trainPass(kernels::Backend& backend, const PassFlags& flags);
    /// Forward and loss; *evalSum += losses of the first `rows` rows (set when `clear`).
    void evalPass(kernels::Backend& backend, int64_t rows, bool clear);
    /// Codes of the weights under the current recipe, from the compute copy; once a step and before an evaluation.
    void castWeights(kernels::Backend& backend, const PassFlags& flags);
    /// Passes from here on copy this tensor of theirs (not a weight); nullptr: none. Not for recorded passes.
    void setTap(TensorTap* tap) { tap_ = tap; }
    void setPlanted(std::vector<PlantedValue> planted) { planted_ = std::move(planted); }
    /// Linears whose products are run again on shadow steps; empty: all.
    void setShadowed(std::vector<bool> linears) { shadowed_ = std::move(linears); }
    const OpSites& sites() const { return sites_; }
    /// Probed steps: codes in use that a fresh cast of the master weights would not give (delayed and fixed recipe).
    void checkCodes(kernels::Backend& backend, const PassFlags& flags) const;
    CodePair weightCodes(int index) const;  ///< where the linear's weight has its codes; none: nullptr

  private:
    void forward(kernels::Backend& backend, const PassFlags& flags);
    void forwardLayer(kernels::Backend& backend, int layer, const PassFlags& flags);
    void normForward(kernels::Backend& backend, const PassFlags& flags, const void* residualIn, const void* delta,
                     void* residualOut, int gain, float* mean, float* rstd, int reader, CodePair codes);
    std::string normName(int reader) const;   ///< "norm1", "norm2"; of the last one ""
    const char* sumName(int reader) const;    ///< of the residual addition before it
    std::string normLayer(int reader) const;  ///< "h.3"; of the last one "norm"
    void head(kernels::Backend& backend, const PassFlags& flags);
    void headChunk(kernels::Backend& backend, const PassFlags& flags, int64_t row, int64_t rows);
    void backward(kernels::Backend& backend, const PassFlags& flags);
    void backwardMlp(kernels::Backend& backend, int layer, const PassFlags& flags);
    void backwardAttention(kernels::Backend& backend, int layer, const PassFlags& flags);
    /// dResidual += d(norm) and its cast as grad_output of linear `before` (-1: none), whose bias gradient goes to
    /// parameter `bias`.
    void normBackward(kernels::Backend& backend, const PassFlags& flags, const void* residual, int gain,
                      const float* mean, const float* rstd, const void* dResidualIn, int reader, int before, int bias);
    void embeddingBackward(kernels::Backend& backend, const PassFlags& flags);

    // Products and what probes see of them (gpt_products.cpp). plain operands may be nullptr.
    void fprop(kernels::Backend& backend, const PassFlags& flags, int index, int64_t rows, const Operand& x, int bias,
               void* y, int64_t firstRow = 0);
    void dgrad(kernels::Backend& backend, const PassFlags& flags, int index, int64_t rows, const Operand& dy, void* dx,
               int64_t firstRow = 0);
    void wgrad(kernels::Backend& backend, const PassFlags& flags, int index, int64_t rows, const Operand& dy,
               const Operand& x, bool accumulate);
    void look(kernels::Backend& backend, const PassFlags& flags, const OpSite& site, const void* in,
              kernels::DType type, int64_t rows, int64_t firstRow);
    void lookAt(kernels::Backend& backend, const PassFlags& flags, const std::string& layer, const char* op,
                bool backward, const char* tensor, const void* in, int64_t rows, int64_t cols, int castSlot = -1);
    void lookAtParameter(kernels::Backend& backend, const PassFlags& flags, const std::string& layer,
                         const std::string& op, const char* what, int tensor);
    void lookAtProduct(kernels::Backend& backend, const PassFlags& flags, int index, kernels::Gemm gemm,
                       const void* out, int64_t rows, int64_t firstRow);
    void plant(kernels::Backend& backend, const PassFlags& flags, int index, kernels::Gemm gemm, void* out,
               int64_t elements) const;
    void shadow(kernels::Backend& backend, const PassFlags& flags, int index, kernels::ShadowProduct op,
                kernels::Gemm gemm) const;
    kernels::MatmulOperand plainWeight(int index, bool kContiguous, bool& rounded) const;
    /// The buffer that keeps the linear's plain input for its wgrad; `other` where none does.
    BufferId keptInput(int index, BufferId other = {}) const;
    /// Where backward makes the plain input of the linear's wgrad again; nullptr: nobody reads it, or it was kept.
    void* againOut(int index, const PassFlags& flags) const;

    /// in: rows [row, row + rows) of the tensor, plain values in device memory.
    void tapTensor(kernels::Backend& backend, int slot, const void* in, int64_t rows, int64_t cols) const;
    /// Where the plain value of a tensor goes that only codes are made of: nowhere but in an inspection.
    void* plainOut(bool wanted, BufferId buffer, const PassFlags& flags) const;
    const void* parameter(int tensor) const;
    float* gradient(int tensor) const;
    Linear linear(int index) const { return Linear(plan_, index, map_); }
    const LinearPlan& linearPlan(int index) const { return plan_.linears[static_cast<size_t>(index)]; }
    Operand weight(int index, const PassFlags& flags) const;
    Operand operand(int index, TensorRole role, const void* plain, CodePair codes, const PassFlags& flags) const;
    CodePair inputCodes(int index) const;
    CodePair gradCodes(int index) const;
    /// Transposed codes of the linear's input for its wgrad, made again in backward; nullptr where row codes serve.
    uint8_t* againCodes(int index) const;
    /// The input of the linear's wgrad: row codes, or plain values that forward kept, where they serve; else what
    /// backward made `again`. Block recipes: its column copy is made of the plain values first.
    Operand wgradInput(kernels::Backend& backend, int index, const void* again, const PassFlags& flags) const;
    int weightTensor(int index) const;

    ModelConfig model_;
    const PrecisionPlan& plan_;
    const ParameterLayout& layout_;
    const GptBuffers& buffers_;
    const ScalingState& scaling_;
    EffectiveMap& map_;
    int64_t batch_, rows_;
    ParameterMemory parameters_;
    PassMemory pass_;
    TensorTap* tap_ = nullptr;
    std::vector<PlantedValue> planted_;
    std::vector<bool> shadowed_;
    OpSites sites_;
};

}  // namespace mantissa::engine
