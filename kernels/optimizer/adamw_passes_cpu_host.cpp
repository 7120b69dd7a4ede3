// Host entry of AdamW written out: blocks of 32768 elements.
#include <algorithm>

#include "kernels/device/cpu_host.h"
#include "kernels/optimizer/adamw_passes_cpu.h"

namespace mantissa::kernels {

size_t workspaceCpu(const AdamWPass&, const CpuContext&) {
    return 0;
}

void runCpu(const AdamWPass& op, const CpuContext& context) {
    require(op.n >= 0 && op.masters && op.moment1 && op.moment2 && op.gradients && op.a && op.b,
            "AdamW pass: an array is missing");
    require(op.state && op.parameters, "AdamW pass: state and parameters are needed");
    if (!op.state->applied) return;
    const AdamWScalars scalars = adamWScalars(op);
    const AdamWPassKernels& kernels = adamWPassKernels(context.isa);
    context.executor->run((op.n + kFlatBlock - 1) / kFlatBlock, [&](int64_t tile, int) {
        const int64_t first = tile * kFlatBlock;
        kernels.run(op, scalars, first, std::min(kFlatBlock, op.n - first));
    });
}

}  // namespace mantissa::kernels
