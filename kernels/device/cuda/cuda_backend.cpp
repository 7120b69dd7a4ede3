#include "kernels/device/cuda/cuda_backend.h"

#include <cstring>

#include "kernels/device/cuda/cublaslt_cuda_api.h"
#include "kernels/device/cuda/cuda_check.h"
#include "kernels/device/cuda/cuda_probe.h"

namespace mantissa::kernels {

std::unique_ptr<Backend> createCudaBackend(int index) {
    const std::vector<DeviceInfo> devices = probeCuda();
    if (devices.size() == 1 && !devices[0].usable) throw Error(ErrorCode::DeviceUnavailable, devices[0].reason);
    if (index < 0 || index >= static_cast<int>(devices.size())) {
        throw Error(ErrorCode::DeviceUnavailable,
                    "cuda:" + std::to_string(index) + " does not exist: this machine has " +
                        std::to_string(devices.size()) + " CUDA device(s), numbered from 0.");
    }
    if (!devices[index].usable) throw Error(ErrorCode::DeviceUnavailable, devices[index].reason);
    return std::make_unique<cuda::CudaBackend>(index, devices[index]);
}

namespace cuda {

void* LaunchContext::scratch(size_t bytes, const char* op) const {
    if (bytes > workspaceBytes) {
        throw Error(ErrorCode::ShapeMismatch, std::string(op) + ": needs " + std::to_string(bytes) +
                                                  " bytes of workspace, bound are " + std::to_string(workspaceBytes));
    }
    return workspace;
}

void require(bool ok, const char* op, const char* what) {
    if (!ok) throw Error(ErrorCode::ShapeMismatch, std::string(op) + ": " + what);
}

CudaBackend::CudaBackend(int index, DeviceInfo info) : info_(std::move(info)) {
    MANTISSA_CUDA_CHECK(cudaSetDevice(index));
    cudaDeviceProp properties{};
    MANTISSA_CUDA_CHECK(cudaGetDeviceProperties(&properties, index));
    capability_ = properties.major * 10 + properties.minor;
    context_.multiprocessors = properties.multiProcessorCount;
    context_.sharedMemoryPerBlock = static_cast<int>(properties.sharedMemPerBlockOptin);
    context_.tables = this;
    MANTISSA_CUDA_CHECK(cudaStreamCreateWithFlags(&context_.stream, cudaStreamNonBlocking));
    MANTISSA_CUDA_CHECK(cudaStreamCreateWithFlags(&sideStream_, cudaStreamNonBlocking));
    MANTISSA_CUDA_CHECK(cudaHostAlloc(reinterpret_cast<void**>(&staging_), 2 * kStagingHalf, cudaHostAllocDefault));
    for (cudaEvent_t& event : stagingFree_) {
        MANTISSA_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    }
    std::string reason;
    const CublasLtApi* api = cublasLt(reason);
    if (!api) throw Error(ErrorCode::DeviceUnavailable, reason);
    matmul_ = std::make_unique<MatmulLibrary>(*api, capability_);
}

CudaBackend::~CudaBackend() {
    cudaStreamSynchronize(context_.stream);
    matmul_.reset();
    for (const auto& [content, memory] : tables_) cudaFree(memory);
    for (cudaEvent_t event : stagingFree_) cudaEventDestroy(event);
    cudaFreeHost(staging_);
    cudaFreeHost(landing_);
    cudaStreamDestroy(sideStream_);
    cudaStreamDestroy(context_.stream);
}

void* CudaBackend::allocate(size_t bytes) {
    void* memory = nullptr;
    const cudaError_t code = cudaMalloc(&memory, bytes ? bytes : 1);
    if (code == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        size_t free = 0, total = 0;
        cudaMemGetInfo(&free, &total);
        throw Error(ErrorCode::OutOfMemory, info_.name + ": an allocation of " + std::to_string(bytes) +
                                                " bytes failed; " + std::to_string(free) + " bytes are free.");
    }
    MANTISSA_CUDA_CHECK(code);
    MANTISSA_CUDA_CHECK(cudaMemsetAsync(memory, 0, bytes, context_.stream));
    return memory;
}

void CudaBackend::release(void* memory) noexcept {
    if (!memory) return;
    cudaStreamSynchronize(context_.stream);
    cudaFree(memory);
}

void* CudaBackend::stage(const void* host, size_t bytes) {
    if (stagingUsed_ + bytes > kStagingHalf) {
        MANTISSA_CUDA_CHECK(cudaEventRecord(stagingFree_[stagingHalf_], context_.stream));
        stagingHalf_ ^= 1;
        stagingUsed_ = 0;
        MANTISSA_CUDA_CHECK(cudaEventSynchronize(stagingFree_[stagingHalf_]));
    }
    char* place = staging_ + stagingHalf_ * kStagingHalf + stagingUsed_;
    stagingUsed_ += (bytes + 255) / 256 * 256;
    std::memcpy(place, host, bytes);
    return place;
}

void CudaBackend::upload(void* device, const void* host, size_t bytes) {
    if (bytes == 0) return;
    if (bytes <= kStagingHalf / 4) {
        MANTISSA_CUDA_CHECK(
            cudaMemcpyAsync(device, stage(host, bytes), bytes, cudaMemcpyHostToDevice, context_.stream));
        return;
    }
    MANTISSA_CUDA_CHECK(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, context_.stream));
    waitForStream();
}

char* CudaBackend::landing(size_t bytes) {
    if (bytes > landingBytes_) {
        if (landing_) MANTISSA_CUDA_CHECK(cudaFreeHost(landing_));
        landing_ = nullptr;
        landingBytes_ = 0;
        MANTISSA_CUDA_CHECK(cudaHostAlloc(reinterpret_cast<void**>(&landing_), bytes, cudaHostAllocDefault));
        landingBytes_ = bytes;
    }
    return landing_;
}

void CudaBackend::download(void* host, const void* device, size_t bytes) {
    if (bytes == 0) return;
    if (bytes <= kStagingHalf) {
        char* pinned = landing(bytes);
        MANTISSA_CUDA_CHECK(cudaMemcpyAsync(pinned, device, bytes, cudaMemcpyDeviceToHost, context_.stream));
        waitForStream();
        std::memcpy(host, pinned, bytes);
        return;
    }
    MANTISSA_CUDA_CHECK(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, context_.stream));
    waitForStream();
}

void CudaBackend::synchronize() {
    waitForStream();
}

void CudaBackend::waitForStream() {
    ++waits_;
    MANTISSA_CUDA_CHECK(cudaStreamSynchronize(context_.stream));
}

PinnedPool::~PinnedPool() {
    for (const Buffer& buffer : free_) {
        cudaEventDestroy(buffer.ready);
        cudaFreeHost(buffer.memory);
    }
}

PinnedPool::Buffer PinnedPool::take(size_t bytes) {
    for (size_t i = 0; i < free_.size(); ++i) {
        if (free_[i].bytes < bytes) continue;
        const Buffer buffer = free_[i];
        free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(i));
        return buffer;
    }
    Buffer buffer;
    buffer.bytes = bytes;
    MANTISSA_CUDA_CHECK(cudaHostAlloc(reinterpret_cast<void**>(&buffer.memory), bytes, cudaHostAllocDefault));
    MANTISSA_CUDA_CHECK(cudaEventCreateWithFlags(&buffer.ready, cudaEventDisableTiming));
    return buffer;
}

namespace {

class PinnedCopy final : public HostCopy {
  public:
    PinnedCopy(std::shared_ptr<PinnedPool> pool, size_t bytes) : pool_(std::move(pool)), buffer_(pool_->take(bytes)) {}
    ~PinnedCopy() override {
        cudaEventSynchronize(buffer_.ready);
        pool_->giveBack(buffer_);
    }
    const PinnedPool::Buffer& buffer() const { return buffer_; }
    const void* wait() override {
        MANTISSA_CUDA_CHECK(cudaEventSynchronize(buffer_.ready));
        return buffer_.memory;
    }

  private:
    std::shared_ptr<PinnedPool> pool_;
    PinnedPool::Buffer buffer_;
};

}  // namespace

std::unique_ptr<HostCopy> CudaBackend::startCopy(const void* device, size_t bytes, size_t stride, size_t count) {
    auto copy = std::make_unique<PinnedCopy>(copies_, bytes * count);
    if (stride == bytes || count == 1) {
        MANTISSA_CUDA_CHECK(
            cudaMemcpyAsync(copy->buffer().memory, device, bytes * count, cudaMemcpyDeviceToHost, context_.stream));
    } else {
        MANTISSA_CUDA_CHECK(cudaMemcpy2DAsync(copy->buffer().memory, bytes, device, stride, bytes, count,
                                              cudaMemcpyDeviceToHost, context_.stream));
    }
    MANTISSA_CUDA_CHECK(cudaEventRecord(copy->buffer().ready, context_.stream));
    return copy;
}

void CudaBackend::bindWorkspace(void* memory, size_t bytes) {
    context_.workspace = memory;
    context_.workspaceBytes = bytes;
}

const void* CudaBackend::table(const void* host, size_t bytes) const {
    std::string content(static_cast<const char*>(host), bytes);
    const auto found = tables_.find(content);
    if (found != tables_.end()) return found->second;
    void* memory = nullptr;
    MANTISSA_CUDA_CHECK(cudaMalloc(&memory, bytes));
    MANTISSA_CUDA_CHECK(cudaMemcpyAsync(memory, host, bytes, cudaMemcpyHostToDevice, sideStream_));
    MANTISSA_CUDA_CHECK(cudaStreamSynchronize(sideStream_));
    tables_.emplace(std::move(content), memory);
    return memory;
}

size_t CudaBackend::workspace(const Matmul& op) const {
    return matmul_->workspaceBytes(op);
}

MatmulReport CudaBackend::run(const Matmul& op) {
    enterPhase(Phase::Matmul);
    return matmul_->run(context_, op);
}

#define MANTISSA_DEFINE_OP(Op, phase)                   \
    size_t CudaBackend::workspace(const Op& op) const { \
        return workspaceBytes(op);                      \
    }                                                   \
    void CudaBackend::run(const Op& op) {               \
        enterPhase(Phase::phase);                       \
        launch(context_, op);                           \
    }
MANTISSA_OPS(MANTISSA_DEFINE_OP)
#undef MANTISSA_DEFINE_OP

}  // namespace cuda
}  // namespace mantissa::kernels
