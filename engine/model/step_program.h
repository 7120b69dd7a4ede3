// Everything that a training step runs on a device: memory plan, its arrays, and the recorded sequences of ops.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "engine/config.h"
#include "engine/model/gpt_buffers.h"
#include "engine/model/gpt_model.h"
#include "engine/model/linear.h"
#include "engine/model/scaling_state.h"
#include "engine/plan/device_memory.h"
#include "engine/plan/parameter_layout.h"
#include "engine/plan/precision_plan.h"
#include "engine/trainer.h"
#include "kernels/backend.h"

namespace mantissa::engine {

/// Results of probes, on their way; nullptr: not taken in that step.
struct ProbeCopies {
    std::unique_ptr<kernels::HostCopy> finite;  ///< FiniteCount by place, in order of OpSites
    std::unique_ptr<kernels::HostCopy> shadow;  ///< ShadowSums (linears * 3)
    std::unique_ptr<kernels::HostCopy> stale;   ///< uint64_t (linears): codes that differ from a fresh cast
};

/// Sizes first (no memory), then allocate(), then the passes. Thread: the trainer's.
class StepProgram {
  public:
    /// backend: asked which forms its products read. shareMemory false: every activation has memory of its own (a test
    /// compares the bits). Throws InvalidConfig.
    StepProgram(const TrainerConfig& config, const kernels::Backend& backend, bool shareMemory = true);
    StepProgram(const StepProgram&) = delete;
    StepProgram& operator=(const StepProgram&) = delete;

    /// The ledger on this device, host memory apart from `corpusBytes` included. Allocates nothing.
    MemoryPlan memoryPlan(const kernels::Backend& backend, uint64_t corpusBytes);
    /// Memory by plan, weights from the seed, fresh FP8 state, copies and codes of the weights.
    void allocate(kernels::Backend& backend);
    void release();  ///< gives all its memory back; allocate() may follow

    /// One micro-batch. tokens, targets: (batch * context) host, copied before return. flags.first also begins the
    /// step.
    void trainPass(kernels::Backend& backend, const PassFlags& flags, const int32_t* tokens, const int32_t* targets);
    void setParameters(kernels::Backend& backend, const kernels::StepParameters& parameters);
    /// Gradient norm, control, scales, AdamW. The casts of the weights belong to the next step: `next` says whether
    /// that is probed.
    void finishStep(kernels::Backend& backend, const PassFlags& next);
    /// The same in two parts: gradient norm and control, then scales and AdamW.
    void controlStep(kernels::Backend& backend);
    void updateStep(kernels::Backend& backend, const PassFlags& next);
    void evalPass(kernels::Backend& backend, const int32_t* tokens, const int32_t* targets, int64_t rows, bool clear);
    void castWeights(kernels::Backend& backend);  ///< before evalPass: codes of weights under the current recipe
    double evalSum(kernels::Backend& backend) const;
    /// Compute copy, codes and slots of the weights from the masters as they are.
    void refreshWeights(kernels::Backend& backend, const PassFlags& next);

    /// One micro-batch outside the order of training, every tensor in plain values. Inspection memory comes and goes
    /// with it. tap: optional. Throws OutOfMemory.
    void inspectPass(kernels::Backend& backend, PassFlags flags, const int32_t* tokens, const int32_t* targets,
                     TensorTap* tap);
    /// Linears whose products run again on shadow steps (empty: all); nullptr: no shadow steps, their memory goes.
    void setShadow(kernels::Backend& backend, const std::vector<bool>* linears);
    size_t shadowBytes() const { return 2 * plainBytes(); }  ///< of the plain operands that shadow steps read
    void setPlanted(std::vector<PlantedValue> planted) { model_.setPlanted(std::move(planted)); }
    /// What a step's probes left, on its way to the host: those that `flags` asked for.
    ProbeCopies startProbes(kernels::Backend& backend, const PassFlags& flags) const;
    /// Non-finite values by place, in order of OpSites; of the last pass that looked.
    std::vector<kernels::FiniteCount> finiteCounts(kernels::Backend& backend) const;
    const std::vector<OpSite>& opSites() const { return model_.sites().all(); }
    const GptModel& model() const { return model_; }
    /// All small arrays of the step (scales, windows, slots, step state), to put them back after an inspection.
    std::vector<char> controlBytesNow(kernels::Backend& backend) const;
    void restoreControl(kernels::Backend& backend, const std::vector<char>& bytes);

    /// What a step leaves for the host, on its way: the state, and the slots (their dear part too, when `dear`).
    std::unique_ptr<kernels::HostCopy> startState(kernels::Backend& backend) const;
    std::unique_ptr<kernels::HostCopy> startSlots(kernels::Backend& backend, bool dear) const;
    std::vector<kernels::TensorSlot> slotsOf(kernels::HostCopy& copy, bool dear) const;
    kernels::StepState state(kernels::Backend& backend) const;
    void setState(kernels::Backend& backend, const kernels::StepState& state);
    /// dear false: the amaxes and counters alone, the dear sets stay zero.
    std::vector<kernels::TensorSlot> slots(kernels::Backend& backend, bool dear = true) const;

    const PrecisionPlan& precision() const { return plan_; }
    const ParameterLayout& layout() const { return layout_; }
    const ParameterMemory& parameters() const { return parameters_; }
    ScalingState& scaling() { return scaling_; }
    const ScalingState& scaling() const { return scaling_; }
    const EffectiveMap& effective() const { return map_; }
    const GptBuffers& buffers() const { return buffers_; }
    int64_t rows() const { return rows_; }

  private:
    struct Control;  // small arrays of the step, in one block
    void bind(char* weights, char* moments, char* gradients, char* activations, char* control, char* plain);
    void bindPlain(char* plain);
    void runEverything(kernels::Backend& backend);
    void queueTrainPass(kernels::Backend& backend);
    void queueFinish(kernels::Backend& backend);
    void queueControl(kernels::Backend& backend);
    void queueUpdate(kernels::Backend& backend);
    void clear(kernels::Backend& backend, void* memory, size_t bytes) const;
    void queueAdam(kernels::Backend& backend, const PassFlags& next, bool castOnly);
    void initialiseWeights(kernels::Backend& backend);
    void replay(kernels::Backend& backend, int key, void (StepProgram::*queue)(kernels::Backend&));
    size_t plainBytes() const;
    void placeComputeCopies();
    bool keepsTransposes() const;  ///< of weight codes, beside the codes
    size_t weightBytes() const;
    size_t controlBytes() const;
    size_t unfusedBytes() const;

    TrainerConfig config_;
    PrecisionPlan plan_;
    ParameterLayout layout_;
    GptBuffers buffers_;
    ScalingState scaling_;
    EffectiveMap map_;
    GptModel model_;
    int64_t rows_ = 0;
    bool transposedCodes_ = false;
    bool gradientsShared_ = false;
    size_t gradientOffset_ = 0;  ///< in the arena, when shared
    int64_t codeBytes_ = 0;
    int64_t computeElements_ = 0;
    ParameterMemory parameters_;

    kernels::StepParameters* stepParameters_ = nullptr;
    kernels::StepState* state_ = nullptr;
    double *evalSum_ = nullptr, *partials_ = nullptr;
    int32_t *tokens_ = nullptr, *targets_ = nullptr;
    float* unfusedScratch_ = nullptr;  ///< of ops that are written out; nullptr when all are fused
    PassMemory passMemory_;
    bool shadows_ = false;
    size_t controlState_ = 0;  ///< bytes of control_ that an inspection puts back

    size_t workspaceBytes_ = 0;
    DeviceMemory weights_, moments_, gradients_, activations_, control_, workspace_, plain_;
    PassFlags flags_, next_;  ///< of the pass being queued; recordings read them
    std::map<int, std::unique_ptr<kernels::Recording>> recordings_;
};

}  // namespace mantissa::engine
