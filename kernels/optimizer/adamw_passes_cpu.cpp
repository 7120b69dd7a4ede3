// One stage of AdamW over a stretch of one tensor: the arithmetic of optimizer_cpu.cpp with every value in between
// written to memory.
#include "kernels/optimizer/adamw_passes_cpu.h"

#include "kernels/simd/vec16.h"

namespace mantissa::kernels::MANTISSA_ISA {
namespace {

void run(const AdamWPass& op, const AdamWScalars& k, int64_t first, int64_t n) {
    float *w = op.masters + first, *m = op.moment1 + first, *v = op.moment2 + first;
    float *a = op.a + first, *b = op.b + first;
    const float* g = op.gradients + first;
    forEach16(
        n, [&](int64_t i, auto part) __attribute__((always_inline)) {
            switch (op.stage) {
                case AdamWStage::Clip:
                    return store(a + i, load(g + i, part) * splat(k.clip), part);
                case AdamWStage::Moment1:
                    return store(m + i,
                                 fma(splat(k.beta1), load(m + i, part), splat(k.oneMinusBeta1) * load(a + i, part)),
                                 part);
                case AdamWStage::Square:
                    return store(b + i, splat(k.oneMinusBeta2) * load(a + i, part) * load(a + i, part), part);
                case AdamWStage::Moment2:
                    return store(v + i, fma(splat(k.beta2), load(v + i, part), load(b + i, part)), part);
                case AdamWStage::Correct2:
                    return store(b + i, load(v + i, part) * splat(k.correction2), part);
                case AdamWStage::Root:
                    return store(b + i, sqrt(load(b + i, part)), part);
                case AdamWStage::Epsilon:
                    return store(b + i, load(b + i, part) + splat(k.epsilon), part);
                case AdamWStage::Divide:
                    return store(a + i, load(m + i, part) * splat(k.correction1) / load(b + i, part), part);
                case AdamWStage::Decay:
                    return store(a + i, fma(splat(k.weightDecay), load(w + i, part), load(a + i, part)), part);
                case AdamWStage::Update:
                    return store(w + i, fma(splat(-k.learningRate), load(a + i, part), load(w + i, part)), part);
            }
        });
}

}  // namespace

const AdamWPassKernels adamWPassKernels = {run};

}  // namespace mantissa::kernels::MANTISSA_ISA
