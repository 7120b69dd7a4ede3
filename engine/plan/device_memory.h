// One allocation of a device, freed with its owner.
#pragma once

#include <utility>

#include "kernels/backend.h"

namespace mantissa::engine {

class DeviceMemory {
  public:
    DeviceMemory() = default;
    /// Zeroed. Throws OutOfMemory. The backend must outlive it.
    DeviceMemory(kernels::Backend& backend, size_t bytes)
        : backend_(&backend), data_(bytes ? backend.allocate(bytes) : nullptr), bytes_(bytes) {}
    ~DeviceMemory() {
        if (data_) backend_->release(data_);
    }
    DeviceMemory(DeviceMemory&& other) noexcept
        : backend_(other.backend_), data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
    DeviceMemory& operator=(DeviceMemory&& other) noexcept {
        std::swap(backend_, other.backend_);
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    void* data() const { return data_; }
    size_t bytes() const { return bytes_; }

  private:
    kernels::Backend* backend_ = nullptr;
    void* data_ = nullptr;
    size_t bytes_ = 0;
};

}  // namespace mantissa::engine
