// Running an op of the CPU backend directly, with the workspace it asks for.
#pragma once

#include <cstdlib>
#include <memory>
#include <vector>

#include "kernels/device/cpu_ops.h"

namespace mantissa::test {

inline std::vector<kernels::Isa> supportedIsas() {
    std::vector<kernels::Isa> isas;
    for (auto isa : {kernels::Isa::Sse, kernels::Isa::Avx2, kernels::Isa::Avx512, kernels::Isa::Avx512Bf16})
        if (kernels::isaSupported(isa)) isas.push_back(isa);
    return isas;
}

/// Runs `op` on `isa` with a fresh workspace of exactly the size that the op asks for.
template <class Op>
void runOnCpu(const Op& op, kernels::Isa isa, kernels::Executor& executor) {
    kernels::CpuContext context{&executor, isa, nullptr, 0};
    context.workspaceBytes = workspaceCpu(op, context);
    const size_t rounded = (context.workspaceBytes + 511) / 256 * 256;
    std::unique_ptr<void, void (*)(void*)> memory(std::aligned_alloc(256, rounded), std::free);
    context.workspace = memory.get();
    runCpu(op, context);
}

template <class Op>
void runOnCpu(const Op& op, kernels::Isa isa) {
    kernels::SerialExecutor executor;
    runOnCpu(op, isa, executor);
}

}  // namespace mantissa::test
