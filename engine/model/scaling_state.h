// FP8 scales, amax windows and statistics of all quantized tensors, in device memory, and the protocol of a cast under
// each recipe.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/plan/precision_plan.h"
#include "kernels/backend.h"

namespace mantissa::engine {

/// What a pass over the model does beside computing.
struct PassFlags {
    bool training = true;    ///< false: evaluation; scales in force, nothing is recorded
    bool first = true;       ///< first micro-batch of the step: gradients are overwritten, not added to
    bool dear = false;       ///< dear statistics
    bool exponents = false;  ///< with dear: exponent histograms
    bool count = true;       ///< the cheap counters
    int micro = 0;           ///< number of the micro-batch
    uint64_t step = 0;       ///< 1-based, for the seed of stochastic rounding
    bool ops = false;        ///< non-finite values of every op's output are counted
    bool shadow = false;     ///< products again in higher precision
    bool planted = false;    ///< a planted fault puts values into this pass; it is not recorded
    bool plain = false;      ///< every tensor also in plain values, in the inspection's memory where the plan has none
};

/// A window of another length: slot 0 stays, then the newest closed entries; missing older ones are 0.
void carryWindow(const float* from, int fromLength, float* to, int toLength);

/// Where a cast's codes go, and where a product finds them. On chips whose products need k contiguous a tensor also has
/// its codes transposed; elsewhere `transposed` is nullptr. Block recipes: the row and the column copy, each in BF16
/// values or in codes with scales (LinearPlan::blockCodes).
struct CodePair {
    uint8_t* rows = nullptr;
    uint8_t* transposed = nullptr;
};

/// Delayed: the producer casts with the table's scale, its amax goes to the slot. Current: the producer takes the amax
/// alone (scratch slot), finishCast sets the scale and casts in a second pass. Fixed: as delayed, the scale never
/// moves. Weights: AdamW casts (delayed, fixed) or takes the amax (current); castCurrentWeights makes the codes at the
/// start of a pass. Block recipes: finishCast and castCurrentWeight quantize block by block, in one pass; they keep no
/// state. Evaluation writes current scales to a scratch table, so that training state stays.
class ScalingState {
  public:
    ScalingState(const PrecisionPlan& plan, const PrecisionConfig& config, uint64_t seed);

    size_t bytes() const;     ///< device memory wanted by bind
    void bind(void* memory);  ///< zeroed, 256-byte aligned
    void initialise(
        kernels::Backend& backend);  ///< fresh state: scale 1 (or the fixed one), empty windows, static descriptions

    /// Target of the op that produces the tensor. codes: where its codes go.
    kernels::CastTarget producerCast(int slot, CodePair codes, const PassFlags& flags) const;
    /// Completes the cast under the current recipe (nothing else to do otherwise). in: (rows, cols) BF16.
    void finishCast(kernels::Backend& backend, int slot, const void* in, int64_t rows, int64_t cols, CodePair codes,
                    const PassFlags& flags) const;
    /// Target of an op of backward that makes a tensor of forward again: transposed codes alone, with the scale that
    /// forward used, nothing counted. No cast when `transposed` is nullptr.
    kernels::CastTarget againCast(int slot, uint8_t* transposed, const PassFlags& flags) const;
    /// Target of a weight in AdamW.
    kernels::CastTarget weightCast(int linear, CodePair codes, bool dear, bool exponents, bool count) const;
    /// weight: (out, in) of linear i, BF16 or F32 (rounded to BF16 first: the same codes); codes likewise.
    void castCurrentWeight(kernels::Backend& backend, int linear, const void* weight, kernels::DType type,
                           CodePair codes, const PassFlags& flags) const;
    /// Start of a micro-batch: clears the scratch amax of the current recipe.
    void beginPass(kernels::Backend& backend) const;
    void updateDelayed(kernels::Backend& backend, const kernels::StepState* state) const;
    /// Planted faults: a value as the newest closed entry of a window (slot 0 of a window of one); no more delayed
    /// updates.
    void putInWindow(kernels::Backend& backend, int slot, float value) const;
    void stopUpdates(kernels::Backend& backend, int slot);
    /// Where a product reads scale_inv of the tensor; block recipes: nvfp4's alone, else nullptr.
    const float* scaleInv(int slot, const PassFlags& flags) const;
    const float* scaleInvColumn(int slot) const;
    const float* scale(int slot, const PassFlags& flags) const { return &entry(slot, flags)->scale; }
    /// Block recipes, backward: the column copy of an input from its plain values (rows, cols) BF16, made again. out:
    /// BF16. Nothing to do under other recipes.
    void castColumnCopy(kernels::Backend& backend, int slot, const void* in, int64_t rows, int64_t cols, void* out,
                        const PassFlags& flags) const;

    // Device arrays, for StepBegin, records and checkpoints.
    int count() const { return count_; }
    kernels::ScaleEntry* table() const { return table_; }
    float* history() const { return history_; }
    int64_t historyEntries() const { return historyEntries_; }
    const std::vector<kernels::ScalingTensor>& descriptions() const { return host_; }
    /// Slots: weights, inputs, grad_outputs (by slot number), then the second passes of weights under the current
    /// recipe.
    kernels::TensorSlot* slots() const { return slots_; }
    int slotCount() const { return count_ + linears_; }
    int firstStepSlot() const { return linears_; }  ///< slots from here on are cleared by StepBegin
    bool usesCurrent() const { return usesCurrent_; }

  private:
    kernels::ScaleEntry* entry(int slot, const PassFlags& flags) const;
    kernels::ScaleEntry* blockEntry(int slot, bool column) const;
    void castBlocks(kernels::Backend& backend, int slot, const void* in, kernels::DType type, int64_t rows,
                    int64_t cols, CodePair codes, bool counted, const PassFlags& flags) const;
    kernels::CastTarget fullCast(int slot, CodePair codes, const kernels::ScaleEntry* entry,
                                 kernels::TensorSlot* statistics, const PassFlags& flags) const;
    uint64_t roundingSeed(int slot, const PassFlags& flags) const;

    PrecisionPlan plan_;
    PrecisionConfig config_;
    uint64_t seed_;
    int count_, linears_;
    int64_t historyEntries_ = 0;
    bool usesCurrent_ = false;
    std::vector<kernels::ScalingTensor> host_;

    kernels::ScaleEntry *table_ = nullptr, *evalTable_ = nullptr;
    kernels::ScaleEntry* blockEntries_ = nullptr;  ///< nvfp4: row and column copy's tensor scale of each slot; no state
    kernels::TensorSlot *slots_ = nullptr, *scratch_ = nullptr;
    kernels::ScalingTensor* device_ = nullptr;
    float* history_ = nullptr;
};

}  // namespace mantissa::engine
