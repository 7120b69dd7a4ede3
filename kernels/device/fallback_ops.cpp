// Plain versions of ops whose families have no file of their own yet; a family's files replace its entries here.
#include "kernels/device/cpu_ops.h"

namespace mantissa::kernels {

#define MANTISSA_PLAIN(Op)                              \
    void runCpu(const Op& op, const CpuContext&) {      \
        runReference(op);                               \
    }                                                   \
    size_t workspaceCpu(const Op&, const CpuContext&) { \
        return 0;                                       \
    }
// Norm, activation, embedding, loss, optimizer.
MANTISSA_PLAIN(NormForward)
MANTISSA_PLAIN(NormBackward)
MANTISSA_PLAIN(ActivationForward)
MANTISSA_PLAIN(ActivationBackward)
MANTISSA_PLAIN(EmbeddingForward)
MANTISSA_PLAIN(EmbeddingBackward)
MANTISSA_PLAIN(CrossEntropy)
MANTISSA_PLAIN(SumLosses)
MANTISSA_PLAIN(StepBegin)
MANTISSA_PLAIN(SumSquares)
MANTISSA_PLAIN(GradientControl)
MANTISSA_PLAIN(AdamW)
MANTISSA_PLAIN(InitNormal)
MANTISSA_PLAIN(Fill)
#undef MANTISSA_PLAIN

}  // namespace mantissa::kernels
