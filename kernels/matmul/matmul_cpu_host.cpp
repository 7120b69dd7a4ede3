// Matrix product on the CPU: the entry that the CPU backend calls.
#include "kernels/device/cpu_ops.h"

namespace mantissa::kernels {

size_t workspaceCpu(const Matmul&, const CpuContext&) {
    return 0;
}

MatmulReport runCpu(const Matmul& op, const CpuContext& context) {
    checkMatmul(op);
    const int64_t step = 16, tiles = (op.m + step - 1) / step;
    context.executor->run(tiles, [&](int64_t tile, int) {
        Matmul part = op;
        const int64_t row = tile * step;
        part.m = op.m - row < step ? op.m - row : step;
        const int64_t offsetA = op.a.kContiguous ? row * op.a.ld : row;
        part.a.data = static_cast<const char*>(op.a.data) + offsetA * dtypeSize(op.a.type);
        part.out = static_cast<char*>(op.out) + row * op.ldOut * dtypeSize(op.outType);
        runReference(part);
    });
    return {op.a.type, op.b.type, op.outType, false, "plain loops"};
}

}  // namespace mantissa::kernels
