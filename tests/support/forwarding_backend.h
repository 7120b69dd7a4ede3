// A backend that hands every call on to another one; tests override single ops to plant a mistake or to watch.
#pragma once

#include <functional>
#include <memory>

#include "kernels/backend.h"

namespace mantissa::test {

class ForwardingBackend : public kernels::Backend {
  public:
    explicit ForwardingBackend(kernels::Backend& inner) : inner_(inner) {}

    const kernels::DeviceInfo& info() const override { return inner_.info(); }
    void* allocate(size_t bytes) override { return inner_.allocate(bytes); }
    void release(void* memory) noexcept override { inner_.release(memory); }
    void upload(void* device, const void* host, size_t bytes) override { inner_.upload(device, host, bytes); }
    void download(void* host, const void* device, size_t bytes) override { inner_.download(host, device, bytes); }
    void synchronize() override { inner_.synchronize(); }
    size_t workspace(const kernels::Matmul& op) const override { return inner_.workspace(op); }
    kernels::MatmulReport run(const kernels::Matmul& op) override {
        kernels::Matmul changed = op;
        if (onMatmul) onMatmul(changed);
        return inner_.run(changed);
    }
#define MANTISSA_FORWARD_OP(Op, phase)                       \
    size_t workspace(const kernels::Op& op) const override { \
        return inner_.workspace(op);                         \
    }                                                        \
    void run(const kernels::Op& op) override {               \
        kernels::Op changed = op;                            \
        if (on##Op) on##Op(changed);                         \
        inner_.run(changed);                                 \
    }                                                        \
    std::function<void(kernels::Op&)> on##Op;
    MANTISSA_OPS(MANTISSA_FORWARD_OP)
#undef MANTISSA_FORWARD_OP
    void bindWorkspace(void* memory, size_t bytes) override {
        inner_.bindWorkspace(memory, bytes);
    }
    bool needsTransposedCodes() const override {
        return inner_.needsTransposedCodes();
    }
    bool nativeFp8() const override {
        return inner_.nativeFp8();
    }
    std::string whyNoBlockCodes(const kernels::Matmul& op) const override {
        return inner_.whyNoBlockCodes(op);
    }
    std::unique_ptr<kernels::Recording> record(std::function<void()> ops) override {
        return inner_.record(std::move(ops));
    }
    void replay(kernels::Recording& recording) override {
        inner_.replay(recording);
    }
    kernels::PhaseTimes takePhaseTimes() override {
        return inner_.takePhaseTimes();
    }

    /// Called before the op runs; may change it.
    std::function<void(kernels::Matmul&)> onMatmul;

  private:
    kernels::Backend& inner_;
};

}  // namespace mantissa::test
