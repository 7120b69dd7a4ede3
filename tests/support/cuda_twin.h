// Runs an op on the GPU that is written with host pointers: every registered host buffer has a twin in device memory,
// and pointers in the op that lie in a buffer are exchanged for its twin. So one op is given to the reference and to
// the GPU.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace mantissa::test {

/// The first CUDA device, opened once a process; nullptr with the probe's sentence in `reason`.
inline kernels::Backend* cudaBackend(std::string& reason) {
    static std::string why;
    static const std::unique_ptr<kernels::Backend> backend = []() -> std::unique_ptr<kernels::Backend> {
        try {
            return kernels::createCudaBackend(0);
        } catch (const Error& error) {
            why = error.what();
            return nullptr;
        }
    }();
    reason = why;
    return backend.get();
}

/// A test on the GPU: skipped with the probe's reason where there is none.
class CudaTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string reason;
        gpu_ = cudaBackend(reason);
        if (!gpu_) GTEST_SKIP() << reason;
    }
    kernels::Backend* gpu_ = nullptr;
};

class Twins {
  public:
    explicit Twins(kernels::Backend& gpu) : gpu_(gpu) {}
    ~Twins() {
        for (const Twin& twin : twins_) gpu_.release(twin.device);
        gpu_.release(workspace_);
    }
    Twins(const Twins&) = delete;
    Twins& operator=(const Twins&) = delete;

    /// Registers memory that outlives this object; its content now is what the device starts from.
    void add(const void* host, size_t bytes) {
        if (bytes == 0) return;
        twins_.push_back({static_cast<const char*>(host), bytes, static_cast<char*>(gpu_.allocate(bytes))});
        gpu_.upload(twins_.back().device, host, bytes);
    }
    template <class T>
    void add(const std::vector<T>& buffer) {
        add(buffer.data(), buffer.size() * sizeof(T));
    }
    template <class... Buffers>
    void addAll(const Buffers&... buffers) {
        (add(buffers), ...);
    }
    /// The op with device pointers.
    template <class Op>
    Op translated(Op op) const {
        static_assert(std::is_trivially_copyable_v<Op> && alignof(Op) % 8 == 0);
        char* bytes = reinterpret_cast<char*>(&op);
        for (size_t at = 0; at + 8 <= sizeof(Op); at += 8) {
            uintptr_t value = 0;
            std::memcpy(&value, bytes + at, 8);
            for (const Twin& twin : twins_) {
                const uintptr_t first = reinterpret_cast<uintptr_t>(twin.host);
                if (value < first || value >= first + twin.bytes) continue;
                value = reinterpret_cast<uintptr_t>(twin.device) + (value - first);
                std::memcpy(bytes + at, &value, 8);
                break;
            }
        }
        return op;
    }
    /// Queues the op with exactly the workspace that it asks for.
    template <class Op>
    auto run(const Op& hostOp) {
        const Op op = translated(hostOp);
        const size_t bytes = gpu_.workspace(op);
        if (bytes > workspaceBytes_) {
            gpu_.release(workspace_);
            workspace_ = gpu_.allocate(bytes);
            workspaceBytes_ = bytes;
        }
        gpu_.bindWorkspace(workspace_, bytes);
        return gpu_.run(op);
    }
    /// What the device holds for a registered buffer (or its first part).
    template <class T>
    std::vector<T> get(const std::vector<T>& buffer) const {
        std::vector<T> copy(buffer.size());
        for (const Twin& twin : twins_) {
            if (twin.host == reinterpret_cast<const char*>(buffer.data())) {
                gpu_.download(copy.data(), twin.device, copy.size() * sizeof(T));
                return copy;
            }
        }
        ADD_FAILURE() << "buffer has no twin";
        return copy;
    }
    /// The twin itself.
    template <class T>
    T* deviceOf(const std::vector<T>& buffer) const {
        for (const Twin& twin : twins_)
            if (twin.host == reinterpret_cast<const char*>(buffer.data())) return reinterpret_cast<T*>(twin.device);
        return nullptr;
    }
    template <class T>
    T get(const T& value) const {
        T copy{};
        for (const Twin& twin : twins_) {
            if (twin.host == reinterpret_cast<const char*>(&value)) gpu_.download(&copy, twin.device, sizeof(T));
        }
        return copy;
    }

  private:
    struct Twin {
        const char* host;
        size_t bytes;
        char* device;
    };
    kernels::Backend& gpu_;
    std::vector<Twin> twins_;
    void* workspace_ = nullptr;
    size_t workspaceBytes_ = 0;
};

}  // namespace mantissa::test
