// The two scalar ops of a step, shared by the CPU and the reference backend: too small to be cut into tiles.
#pragma once

#include "kernels/optimizer/optimizer.h"

namespace mantissa::kernels {

void stepBegin(const StepBegin& op);
void gradientControl(const GradientControl& op);

}  // namespace mantissa::kernels
