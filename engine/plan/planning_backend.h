// A backend that runs nothing: it asks the real one for the scratch each op would need and keeps the largest answer.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>

#include "kernels/backend.h"

namespace mantissa::engine {

class PlanningBackend final : public kernels::Backend {
  public:
    explicit PlanningBackend(const kernels::Backend& real) : real_(real) {}
    size_t largestWorkspace() const { return largest_; }

    const kernels::DeviceInfo& info() const override { return real_.info(); }
    void* allocate(size_t) override { return nullptr; }
    void release(void*) noexcept override {}
    void upload(void*, const void*, size_t) override {}
    void download(void*, const void*, size_t) override {}
    void synchronize() override {}
    void bindWorkspace(void*, size_t) override {}

    size_t workspace(const kernels::Matmul& op) const override { return real_.workspace(op); }
    kernels::MatmulReport run(const kernels::Matmul& op) override {
        note(real_.workspace(op));
        return {};
    }
#define MANTISSA_PLANNING_OP(Op, phase)                      \
    size_t workspace(const kernels::Op& op) const override { \
        return real_.workspace(op);                          \
    }                                                        \
    void run(const kernels::Op& op) override {               \
        note(real_.workspace(op));                           \
    }
    MANTISSA_OPS(MANTISSA_PLANNING_OP)
#undef MANTISSA_PLANNING_OP

    bool needsTransposedCodes() const override {
        return real_.needsTransposedCodes();
    }
    bool nativeFp8() const override {
        return real_.nativeFp8();
    }
    std::unique_ptr<kernels::Recording> record(std::function<void()> ops) override {
        ops();
        return nullptr;
    }
    void replay(kernels::Recording&) override {}
    kernels::PhaseTimes takePhaseTimes() override {
        return {};
    }

  private:
    void note(size_t bytes) {
        largest_ = std::max(largest_, bytes);
    }
    const kernels::Backend& real_;
    size_t largest_ = 0;
};

}  // namespace mantissa::engine
