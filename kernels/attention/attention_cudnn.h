// cuDNN's fused attention, opened at run time where it is installed. Built in where cudnn-frontend's headers were
// found; else cudnnAttention() is nullptr and the own kernels serve.
#pragma once

#include <cstddef>
#include <string>

#include "kernels/attention/attention.h"

namespace mantissa::kernels::cuda {

struct LaunchContext;

/// One a device, never destroyed (the library keeps threads and state of its own). Plans are made once a shape, at
/// first use. Thread: those of the device's backends, one at a time.
class CudnnAttention {
  public:
    virtual ~CudnnAttention() = default;
    virtual std::string version() const = 0;  ///< "9.14.0"
    /// Whether a plan for the shape exists: BF16 and FP16, head width 64 and 128. The casts of the ops are not its
    /// business.
    virtual bool supports(const AttentionForward& op) = 0;
    virtual bool supports(const AttentionBackward& op) = 0;  ///< by the deterministic algorithm alone
    virtual size_t workspaceBytes(const AttentionForward& op) = 0;
    virtual size_t workspaceBytes(const AttentionBackward& op) = 0;
    /// Queued on the context's stream. workspace: at least workspaceBytes(op). Throws DeviceFailure.
    virtual void run(const LaunchContext& context, const AttentionForward& op, void* workspace) = 0;
    virtual void run(const LaunchContext& context, const AttentionBackward& op, void* workspace) = 0;
};

/// Why cudnnAttention() is nullptr; "" when it is not.
std::string whyNoCudnnAttention();

/// Of the current device; nullptr when cuDNN is missing, was not built in, or MANTISSA_ATTENTION=own asks for the own
/// kernels.
CudnnAttention* cudnnAttention();

}  // namespace mantissa::kernels::cuda
