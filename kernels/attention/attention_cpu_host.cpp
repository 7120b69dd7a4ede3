// Causal attention on the CPU: the entries that the CPU backend calls.
#include "kernels/device/cpu_ops.h"

namespace mantissa::kernels {

size_t workspaceCpu(const AttentionForward&, const CpuContext&) {
    return 0;
}
size_t workspaceCpu(const AttentionBackward&, const CpuContext&) {
    return 0;
}

void runCpu(const AttentionForward& op, const CpuContext& context) {
    AttentionForward plain = op;
    plain.cast = {};
    runReference(plain);
    const Quantize cast{op.batch * op.context, op.heads * op.headWidth, op.type, op.out, op.cast};
    if (op.cast.format != DType::None) runCpu(cast, context);
}

void runCpu(const AttentionBackward& op, const CpuContext& context) {
    AttentionBackward plain = op;
    plain.cast = {};
    runReference(plain);
    const Quantize cast{op.batch * op.context, 3 * op.heads * op.headWidth, op.type, op.dQkv, op.cast};
    if (op.cast.format != DType::None) runCpu(cast, context);
}

}  // namespace mantissa::kernels
