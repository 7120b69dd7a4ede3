// The CPU backend: memory, phase timers, and the dispatch of each op to its family (cpu_ops.h). An op has ended when
// run() returns.
#include <chrono>
#include <cstring>
#include <string>

#include "kernels/device/cpu_memory.h"
#include "kernels/device/cpu_ops.h"

namespace mantissa::kernels {

namespace {

/// Of a device whose ops have run when they return.
class FinishedCopy final : public HostCopy {
  public:
    FinishedCopy(Backend& backend, const void* device, size_t bytes, size_t stride, size_t count)
        : bytes_(bytes * count) {
        for (size_t i = 0; i < count; ++i)
            backend.download(bytes_.data() + i * bytes, static_cast<const char*>(device) + i * stride, bytes);
    }
    const void* wait() override { return bytes_.data(); }

  private:
    std::vector<char> bytes_;
};

}  // namespace

std::unique_ptr<HostCopy> Backend::startCopy(const void* device, size_t bytes, size_t stride, size_t count) {
    return std::make_unique<FinishedCopy>(*this, device, bytes, stride, count);
}

std::string Backend::whyNoBlockCodes(const Matmul&) const {
    return "this device has no products of codes with block scales";
}

namespace {

class ClosureRecording final : public Recording {
  public:
    explicit ClosureRecording(std::function<void()> ops) : ops_(std::move(ops)) {}
    void replay() const { ops_(); }

  private:
    std::function<void()> ops_;
};

/// What both backends of the host share: plain memory, closures as recordings.
class HostBackend : public Backend {
  public:
    const DeviceInfo& info() const override { return info_; }
    void* allocate(size_t bytes) override { return memory_.allocate(bytes); }
    void release(void* memory) noexcept override { memory_.release(memory); }
    void upload(void* device, const void* host, size_t bytes) override { std::memcpy(device, host, bytes); }
    void download(void* host, const void* device, size_t bytes) override { std::memcpy(host, device, bytes); }
    void synchronize() override {}
    bool needsTransposedCodes() const override { return false; }
    bool nativeFp8() const override { return false; }
    std::unique_ptr<Recording> record(std::function<void()> ops) override {
        return std::make_unique<ClosureRecording>(std::move(ops));
    }
    void replay(Recording& recording) override { static_cast<ClosureRecording&>(recording).replay(); }
    PhaseTimes takePhaseTimes() override { return std::exchange(times_, {}); }

  protected:
    /// Adds the time from construction to destruction to a phase.
    class PhaseTimer {
      public:
        PhaseTimer(PhaseTimes& times, Phase phase) : seconds_(times.seconds[static_cast<int>(phase)]) {}
        ~PhaseTimer() { seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
        PhaseTimer(const PhaseTimer&) = delete;
        PhaseTimer& operator=(const PhaseTimer&) = delete;

      private:
        double& seconds_;
        std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
    };

    DeviceInfo info_;
    PhaseTimes times_;

  private:
    CpuMemory memory_;
};

class CpuBackend final : public HostBackend {
  public:
    CpuBackend(Executor& executor, Isa isa) {
        info_ = probeCpu(isa);
        context_.executor = &executor;
        context_.isa = isa;
    }

    size_t workspace(const Matmul& op) const override { return workspaceCpu(op, context_); }
    MatmulReport run(const Matmul& op) override {
        checkWorkspace(op, "matmul");
        PhaseTimer timer(times_, Phase::Matmul);
        return runCpu(op, context_);
    }
#define MANTISSA_CPU_OP(Op, phase)                  \
    size_t workspace(const Op& op) const override { \
        return workspaceCpu(op, context_);          \
    }                                               \
    void run(const Op& op) override {               \
        checkWorkspace(op, #Op);                    \
        PhaseTimer timer(times_, Phase::phase);     \
        runCpu(op, context_);                       \
    }
    MANTISSA_OPS(MANTISSA_CPU_OP)
#undef MANTISSA_CPU_OP

    void bindWorkspace(void* memory, size_t bytes) override {
        context_.workspace = memory;
        context_.workspaceBytes = bytes;
    }

  private:
    template <class Op>
    void checkWorkspace(const Op& op, const char* name) const {
        const size_t needed = workspaceCpu(op, context_);
        if (needed > context_.workspaceBytes)
            throw Error(ErrorCode::ShapeMismatch, std::string(name) + ": needs " + std::to_string(needed) +
                                                      " bytes of workspace, " +
                                                      std::to_string(context_.workspaceBytes) + " are bound");
    }

    CpuContext context_;
};

class ReferenceBackend final : public HostBackend {
  public:
    ReferenceBackend() {
        info_ = probeCpu(Isa::Sse);
        info_.isa = "reference";
        info_.determinismClass = "reference";
        info_.threads = 1;
    }

    size_t workspace(const Matmul&) const override { return 0; }
    MatmulReport run(const Matmul& op) override {
        PhaseTimer timer(times_, Phase::Matmul);
        return runReference(op);
    }
#define MANTISSA_REFERENCE_OP(Op, phase)         \
    size_t workspace(const Op&) const override { \
        return 0;                                \
    }                                            \
    void run(const Op& op) override {            \
        PhaseTimer timer(times_, Phase::phase);  \
        runReference(op);                        \
    }
    MANTISSA_OPS(MANTISSA_REFERENCE_OP)
#undef MANTISSA_REFERENCE_OP

    void bindWorkspace(void*, size_t) override {}
};

}  // namespace

std::unique_ptr<Backend> createCpuBackend(Executor& executor, const std::string& isa) {
    return std::make_unique<CpuBackend>(executor, isa.empty() ? bestIsa() : parseIsa(isa));
}

std::unique_ptr<Backend> createReferenceBackend() {
    return std::make_unique<ReferenceBackend>();
}

}  // namespace mantissa::kernels
