// One model being trained on one device. Everything a step needs is planned and allocated before step 0.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/config.h"
#include "engine/data/token_source.h"
#include "engine/numerics.h"

namespace mantissa::engine {

/// Bytes by category at the moment of the peak. activations include what gradients share when accumulation is 1.
struct MemoryPlan {
    uint64_t weights = 0;    ///< FP32 masters and low-precision copies, FP8 codes
    uint64_t gradients = 0;  ///< apart from activations only with accumulation > 1 (else 0 and `note` says so)
    uint64_t moments = 0;
    uint64_t activations = 0;
    uint64_t workspace = 0;  ///< op scratch, logits chunk, statistics, data rings
    uint64_t host = 0;       ///< corpus in memory, token rings and the program's own buffers, CPU runs only
    std::string note;
    uint64_t total() const { return weights + gradients + moments + activations + workspace + host; }
};

/// What the board itself reports (NVML), GPUs only. Values it does not report stay 0.
struct DeviceReading {
    double watts = 0;   ///< mean of about the last second
    double joules = 0;  ///< by the board's energy counter since the trainer was made; take differences over >= 10 s
    uint64_t memoryUsed = 0;  ///< bytes in use on the device by all processes
    uint32_t smMHz = 0, memoryMHz = 0, celsius = 0;
};

/// One training step, all numbers measured or computed in that step.
struct StepMetrics {
    int64_t step = 0;         ///< 1-based
    double loss = 0;          ///< mean over the step's tokens, nats/token; NaN when non-finite
    double gradientNorm = 0;  ///< before clipping
    double learningRate = 0;
    int64_t tokens = 0;           ///< of this step
    double seconds = 0;           ///< end to end
    double phaseSeconds[4] = {};  ///< matmul, attention, elementwise, optimizer
    bool finite = true;
    bool applied = true;   ///< the optimizer ran
    double lossScale = 1;  ///< FP16
    std::shared_ptr<const NumericsRecord> numerics;
    std::optional<DeviceReading> device;           ///< the newest one, not older than 0.1 s or a step
    std::shared_ptr<const TroubleReport> trouble;  ///< of a non-finite step that follows finite ones; else nullptr
};

struct EvalResult {
    double loss = 0;
    int64_t tokens = 0;
    double seconds = 0;
};

struct DeviceChoice {
    std::string device = "auto";  ///< auto, cpu, cuda, cuda:N
    int threads = 0;              ///< CPU workers; 0: all usable hardware threads
    std::string isa;              ///< "", or sse / avx2 / avx512 / avx512bf16 (CPU)
};

/// What loading a checkpoint found; text is a sentence for an event.
struct LoadNote {
    bool fp8StateMissing = false;
    bool otherClass = false;
    std::string text;
};

class Trainer {
  public:
    /// The plan alone, without allocating: exact for CPU and GPU. Throws InvalidConfig.
    static MemoryPlan plan(const TrainerConfig& config, const DeviceChoice& device, uint64_t corpusBytes);
    static int64_t parameterCount(const ModelConfig& model);  ///< unpadded vocabulary
    static double flopsPerToken(
        const ModelConfig& model);  ///< peers' form 6 (L (4 C^2 + 2 C F) + V C) + 6 L C T, V padded

    /// Allocates by plan and initialises weights from the seed. Throws OutOfMemory before allocating when the plan does
    /// not fit, DeviceUnavailable, InvalidConfig. data: must outlive the trainer. Thread: create, use and destroy on
    /// one thread.
    Trainer(const TrainerConfig& config, const DeviceChoice& device, std::shared_ptr<const TokenSource> data);
    ~Trainer();
    Trainer(const Trainer&) = delete;
    Trainer& operator=(const Trainer&) = delete;

    /// another: the caller's next call is step() again. Then a GPU starts on that step's passes before this one's
    /// results are read, and the host never makes it wait; until then calls that need the state between two steps throw
    /// InvalidConfig. Its update is queued only when this step is seen to be finite; else its passes are dropped,
    /// stepAhead() is false and the state is the one that this step left.
    StepMetrics step(bool another = false);
    bool stepAhead() const;  ///< a step is under way whose results have not been read
    /// Mean loss over the fixed validation windows; every bit of training state stays as it is.
    EvalResult evaluate();

    int64_t stepIndex() const;  ///< last finished step; 0 before the first
    int64_t tokensSeen() const;
    const TrainerConfig& config() const;
    const MemoryPlan& memoryPlan() const;
    const std::vector<CatalogueEntry>& catalogue() const;
    /// Filled by the calls that ran; empty before the first step.
    std::vector<EffectivePrecision> effectivePrecision() const;
    WindowState window(int tensor) const;
    std::string deviceId() const;  ///< "cpu", "cuda:0"
    std::string deviceName() const;
    std::string determinismClass() const;
    std::string isa() const;
    int threads() const;

    /// Applied between two steps.
    void setLearningRateFactor(double factor);  ///< multiplies the scheduled rate
    void setProbes(const ProbeConfig& probes);
    /// Another recipe, plan or window length from the next step on. Masters, moments, step state and progress stay bit
    /// for bit. A tensor with the same recipe and format keeps scale, window and updates (another window length keeps
    /// the newest entries); any other starts fresh. Returns sentences for events. Throws InvalidConfig, OutOfMemory;
    /// then nothing has changed. The mode's types (fp8 and bf16 against fp16 and fp32) may change too.
    std::vector<std::string> setPrecision(const PrecisionConfig& precision);
    /// The tensor as step stepIndex() + 1 will cast it: its value before the cast (rounded to the mode's type),
    /// row-major, of that step's first micro-batch. Runs that step's passes ahead and puts everything back; training
    /// state stays bit for bit. Valid at step 0 and after loadCheckpoint. Throws OutOfMemory.
    std::vector<float> captureTensor(int catalogueIndex);
    /// Block scales of the tensor that captureTensor gives, under its recipe in force.
    BlockScales blockScales(int catalogueIndex);

    /// Writes DIR/weights.safetensors (FP32, names h.0.attn.qkv.weight ...) and DIR/state.mantissa (all else: moments,
    /// scales, windows, step state, data position, config, class, versioned), atomically: into DIR.tmp, synced, then
    /// renamed. Throws Io.
    void saveCheckpoint(const std::string& directory) const;
    /// Throws InvalidFile with the reason; on failure the trainer is unchanged. allowOtherClass: else a checkpoint of
    /// another determinism class is refused.
    LoadNote loadCheckpoint(const std::string& directory, bool allowOtherClass);

    /// FNV-1a-64 over masters, moments, scales, windows and step state: equal states have equal hashes.
    uint64_t stateHash() const;
    /// FP32 master values by safetensors name; for tests and the inspector.
    std::vector<float> weight(const std::string& name) const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// Shapes, step and config text of a checkpoint without loading it. Throws InvalidFile.
struct CheckpointInfo {
    int64_t step = 0;
    std::string determinismClass, precision;
    bool hasFp8State = false;
    uint64_t bytes = 0;
};
CheckpointInfo readCheckpointInfo(const std::string& directory);

}  // namespace mantissa::engine
