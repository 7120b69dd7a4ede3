// Scale updates on the CPU: a few hundred tensors, done by the calling thread.
#include <algorithm>

#include "kernels/device/cpu_ops.h"
#include "kernels/formats/fp8.h"
#include "kernels/scaling/scaling.h"

namespace mantissa::kernels {
namespace {

void setScale(ScaleEntry& entry, float scale) {
    ++entry.updates;
    if (floatBits(scale) != floatBits(entry.scale)) entry.lastChange = entry.updates;
    entry.scale = scale;
    entry.scaleInv = 1.0f / scale;
}

}  // namespace

void runReference(const DelayedUpdate& op) {
    const bool applied = !op.applied || *op.applied != 0;
    for (int i = 0; i < op.count; ++i) {
        const ScalingTensor& tensor = op.tensors[i];
        if (!tensor.delayed || tensor.historyLength < 1 || (tensor.isWeight && !applied)) continue;
        float* window = op.history + tensor.historyOffset;
        window[0] = std::max(window[0], op.slots[i].amax);
        float scale = op.table[i].scale;
        if (delayedUpdate(window, tensor.historyLength, tensor.algorithm, maxFinite(tensor.format), tensor.margin,
                          scale))
            setScale(op.table[i], scale);
    }
}

void runReference(const CurrentScale& op) {
    setScale(*op.entry, currentScale(op.slot->amax, maxFinite(op.format), op.powerOfTwo, op.epsilon));
}

void runCpu(const DelayedUpdate& op, const CpuContext&) {
    runReference(op);
}
void runCpu(const CurrentScale& op, const CpuContext&) {
    runReference(op);
}
size_t workspaceCpu(const DelayedUpdate&, const CpuContext&) {
    return 0;
}
size_t workspaceCpu(const CurrentScale&, const CpuContext&) {
    return 0;
}

}  // namespace mantissa::kernels
