// The CUDA backend: one device, one stream, ops queued in order, sequences replayed as CUDA graphs.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/device/cuda/cuda_launch.h"
#include "kernels/matmul/matmul_cuda.h"

namespace mantissa::kernels::cuda {

/// The events of a timed graph: events[i] starts a stretch of phases[i], the last event ends the sequence.
struct GraphTiming {
    std::vector<cudaEvent_t> events;
    std::vector<Phase> phases;
    bool ran = false;  ///< the timed graph was replayed at least once
    GraphTiming() = default;
    GraphTiming(const GraphTiming&) = delete;
    GraphTiming& operator=(const GraphTiming&) = delete;
    ~GraphTiming();
    /// Adds the times of the newest timed replay; nothing when it has not ended yet.
    void addTo(PhaseTimes& out) const;
};

/// A captured sequence: the graph with an event at every change of phase, and the same graph without them. The timed
/// one is replayed now and then only, so that the events cost nothing on the other steps.
class GraphRecording final : public Recording {
  public:
    /// Takes `captured` over.
    /// stream: where both graphs are uploaded, so that no replay is the first to do it.
    GraphRecording(cudaGraph_t captured, std::shared_ptr<GraphTiming> timing, cudaStream_t stream);
    ~GraphRecording() override;
    void launch(cudaStream_t stream);
    const std::shared_ptr<GraphTiming>& timing() const { return timing_; }

  private:
    cudaGraphExec_t timed_ = nullptr, plain_ = nullptr;
    std::shared_ptr<GraphTiming> timing_;
    uint64_t replays_ = 0;
};

/// Pinned buffers with an event each, used again and again by copies to the host.
class PinnedPool {
  public:
    struct Buffer {
        char* memory = nullptr;
        size_t bytes = 0;
        cudaEvent_t ready = nullptr;
    };
    PinnedPool() = default;
    PinnedPool(const PinnedPool&) = delete;
    PinnedPool& operator=(const PinnedPool&) = delete;
    ~PinnedPool();
    Buffer take(size_t bytes);
    void giveBack(const Buffer& buffer) { free_.push_back(buffer); }

  private:
    std::vector<Buffer> free_;
};

/// Thread: every call from the one that created it.
class CudaBackend final : public Backend, private DeviceTables {
  public:
    CudaBackend(int index, DeviceInfo info);
    ~CudaBackend() override;

    const DeviceInfo& info() const override { return info_; }
    void* allocate(size_t bytes) override;
    void release(void* memory) noexcept override;
    void upload(void* device, const void* host, size_t bytes) override;
    void download(void* host, const void* device, size_t bytes) override;
    std::unique_ptr<HostCopy> startCopy(const void* device, size_t bytes, size_t stride, size_t count) override;
    void synchronize() override;
    uint64_t waits() const override { return waits_; }

    size_t workspace(const Matmul& op) const override;
    MatmulReport run(const Matmul& op) override;
#define MANTISSA_OVERRIDE_OP(Op, phase)            \
    size_t workspace(const Op& op) const override; \
    void run(const Op& op) override;
    MANTISSA_OPS(MANTISSA_OVERRIDE_OP)
#undef MANTISSA_OVERRIDE_OP
    void bindWorkspace(void* memory, size_t bytes) override;

    bool needsTransposedCodes() const override {
        return capability_ < 100;
    }
    bool nativeFp8() const override {
        return capability_ >= 89;
    }
    std::string whyNoBlockCodes(const Matmul& op) const override {
        return matmul_->whyNoBlockCodes(op);
    }

    std::unique_ptr<Recording> record(std::function<void()> ops) override;
    void replay(Recording& recording) override;
    PhaseTimes takePhaseTimes() override;

  private:
    const void* table(const void* host, size_t bytes) const override;
    void enterPhase(Phase phase);
    void* stage(const void* host, size_t bytes);
    char* landing(size_t bytes);
    void waitForStream();

    DeviceInfo info_;
    int capability_ = 0;
    LaunchContext context_;
    std::unique_ptr<MatmulLibrary> matmul_;
    mutable std::map<std::string, void*> tables_;
    cudaStream_t sideStream_ = nullptr;

    // Pinned memory for uploads: a ring of kStagingHalves halves, each guarded by an event.
    static constexpr size_t kStagingHalf = size_t{4} << 20;
    char* staging_ = nullptr;
    size_t stagingUsed_ = 0;
    int stagingHalf_ = 0;
    cudaEvent_t stagingFree_[2] = {};
    uint64_t waits_ = 0;
    std::shared_ptr<PinnedPool> copies_ = std::make_shared<PinnedPool>();
    char* landing_ = nullptr;  ///< pinned memory for downloads, grown as needed up to kStagingHalf
    size_t landingBytes_ = 0;

    std::shared_ptr<GraphTiming> recording_;              ///< of the recording in progress
    std::vector<std::shared_ptr<GraphTiming>> replayed_;  ///< since the last takePhaseTimes()
};

}  // namespace mantissa::kernels::cuda
