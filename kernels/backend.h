// The seam between the engine and a device: memory, ops, recorded sequences. The CPU runs an op at once; a GPU queues
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "kernels/activation/activation.h"
#include "kernels/attention/attention.h"
#include "kernels/device/device_info.h"
#include "kernels/embedding/embedding.h"
#include "kernels/error.h"
#include "kernels/executor.h"
#include "kernels/loss/loss.h"
#include "kernels/matmul/matmul.h"
#include "kernels/norm/norm.h"
#include "kernels/norm/norm_passes.h"
#include "kernels/numerics/numerics_ops.h"
#include "kernels/optimizer/adamw_passes.h"
#include "kernels/optimizer/optimizer.h"
#include "kernels/quantize/block_quantize.h"
#include "kernels/quantize/quantize.h"
#include "kernels/scaling/scaling.h"

namespace mantissa::kernels {

/// Where a step's time goes. Gap = step time - sum of the others.
enum class Phase : uint8_t { Matmul, Attention, Elementwise, Optimizer, Count };

struct PhaseTimes {
    double seconds[static_cast<int>(Phase::Count)] = {};
};

// All ops that go through the seam; Matmul is apart because it reports what ran.
#define MANTISSA_OPS(X)                                                                                               \
    X(Quantize, Elementwise)                                                                                          \
    X(DelayedUpdate, Elementwise)                                                                                     \
    X(CurrentScale, Elementwise)                                                                                      \
    X(NormForward, Elementwise)                                                                                       \
    X(NormBackward, Elementwise)                                                                                      \
    X(ActivationForward, Elementwise) X(ActivationBackward, Elementwise) X(AttentionForward, Attention)               \
        X(AttentionBackward, Attention) X(EmbeddingForward, Elementwise) X(EmbeddingBackward, Elementwise)            \
            X(CrossEntropy, Elementwise) X(SumLosses, Elementwise) X(StepBegin, Elementwise) X(SumSquares, Optimizer) \
                X(GradientControl, Optimizer) X(AdamW, Optimizer) X(AdamWPass, Optimizer) X(NormPass, Elementwise)    \
                    X(InitNormal, Elementwise) X(Fill, Elementwise) X(BlockQuantize, Elementwise)                     \
                        X(CheckFinite, Elementwise) X(ShadowProduct, Elementwise) X(CodeCheck, Elementwise)

/// A copy of device memory to the host that may still be under way.
class HostCopy {
  public:
    virtual ~HostCopy() = default;
    /// Waits for this copy alone, not for what was queued after it. The bytes stay until the object goes.
    virtual const void* wait() = 0;
};

/// A recorded sequence of ops that can be replayed: a CUDA graph, or the closure itself on the CPU.
class Recording {
  public:
    virtual ~Recording() = default;
};

/// One device. All pointers in op arguments are memory of this device (the CPU: plain memory).
/// Thread: every call from the one thread that created it.
class Backend {
  public:
    virtual ~Backend() = default;
    virtual const DeviceInfo& info() const = 0;

    /// Zeroed, 256-byte aligned. Throws OutOfMemory with the number of bytes. Freed by release().
    virtual void* allocate(size_t bytes) = 0;
    virtual void release(void* memory) noexcept = 0;
    virtual void upload(void* device, const void* host,
                        size_t bytes) = 0;  ///< ordered with the ops; host may be reused on return
    virtual void download(void* host, const void* device, size_t bytes) = 0;  ///< waits for the ops before it
    /// Queues a copy of `count` pieces of `bytes` bytes, `stride` apart on the device, to memory of the backend, where
    /// they lie one behind the other. Waits for nothing. The copy must not outlive the backend.
    virtual std::unique_ptr<HostCopy> startCopy(const void* device, size_t bytes, size_t stride, size_t count);
    virtual void synchronize() = 0;
    /// How often a call has waited for all that was queued. None is needed between steps whose results are read one
    /// step late.
    virtual uint64_t waits() const { return 0; }

    /// Scratch bytes that an op needs beside its arguments. The engine takes the maximum over a step in its plan and
    /// binds it once.
    virtual size_t workspace(const Matmul& op) const = 0;
#define MANTISSA_DECLARE_WORKSPACE(Op, phase) virtual size_t workspace(const Op& op) const = 0;
    MANTISSA_OPS(MANTISSA_DECLARE_WORKSPACE)
#undef MANTISSA_DECLARE_WORKSPACE
    virtual void bindWorkspace(void* memory, size_t bytes) = 0;

    /// Runs (or queues) an op. Throws ShapeMismatch on arguments outside the op's contract.
    virtual MatmulReport run(const Matmul& op) = 0;
#define MANTISSA_DECLARE_RUN(Op, phase) virtual void run(const Op& op) = 0;
    MANTISSA_OPS(MANTISSA_DECLARE_RUN)
#undef MANTISSA_DECLARE_RUN

    /// True when products need k contiguous FP8 operands (compute capability < 10), so that transposed codes must
    /// exist.
    virtual bool needsTransposedCodes() const = 0;
    /// True when FP8 products run on the chip's own FP8 units; the CPU's count as emulated.
    virtual bool nativeFp8() const = 0;
    /// Why this device does not multiply FP8 codes with block scales in this product; "" when it does. op: product,
    /// sizes, output and operands as they would be run; no pointer is followed.
    virtual std::string whyNoBlockCodes(const Matmul& op) const;

    virtual std::unique_ptr<Recording> record(std::function<void()> ops) = 0;
    virtual void replay(Recording& recording) = 0;

    /// Time by phase since the last call. CPU: timers around the ops; GPU: events of the last replay that has ended.
    virtual PhaseTimes takePhaseTimes() = 0;
};

/// The CPU backend. `executor` must outlive it. isa: "" = the best supported one (or MANTISSA_ISA).
std::unique_ptr<Backend> createCpuBackend(Executor& executor, const std::string& isa = "");
/// The reference backend: plain loops, F32 storage of the same types, double sums; for tests only.
std::unique_ptr<Backend> createReferenceBackend();
/// CUDA device `index`. Throws DeviceUnavailable with the probe's sentence when it cannot be used, or in a build
/// without CUDA.
std::unique_ptr<Backend> createCudaBackend(int index = 0);

}  // namespace mantissa::kernels
