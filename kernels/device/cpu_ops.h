// How the CPU backend and the reference backend reach the families: one overload an op, defined beside the op's
// contract.
//
//   runCpu(op, context)        kernels/<family>/<op>_cpu_host.cpp: checks the contract, cuts tiles, calls the per-ISA
//   table, adds partials workspaceCpu(op, context)  scratch bytes that runCpu takes from context.workspace; exact
//   runReference(op)           kernels/<family>/<op>_ref.cpp: plain loops, double sums
//
// The per-ISA code behind runCpu is reached through a table of functions (kernels/simd/dispatch.h).
#pragma once

#include <cstddef>

#include "kernels/backend.h"
#include "kernels/executor.h"
#include "kernels/simd/isa.h"

namespace mantissa::kernels {

/// What an op runs with. workspace: 256-byte aligned scratch of at least workspaceCpu(op, context) bytes, contents
/// undefined.
struct CpuContext {
    Executor* executor = nullptr;
    Isa isa = Isa::Sse;
    void* workspace = nullptr;
    size_t workspaceBytes = 0;
};

MatmulReport runCpu(const Matmul& op, const CpuContext& context);
size_t workspaceCpu(const Matmul& op, const CpuContext& context);
MatmulReport runReference(const Matmul& op);

#define MANTISSA_DECLARE_CPU_OP(Op, phase)                        \
    void runCpu(const Op& op, const CpuContext& context);         \
    size_t workspaceCpu(const Op& op, const CpuContext& context); \
    void runReference(const Op& op);
MANTISSA_OPS(MANTISSA_DECLARE_CPU_OP)
#undef MANTISSA_DECLARE_CPU_OP

}  // namespace mantissa::kernels
