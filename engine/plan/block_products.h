// Which products of the block recipes the device runs on the codes themselves.
#pragma once

#include <cstdint>

#include "engine/plan/precision_plan.h"
#include "kernels/backend.h"

namespace mantissa::engine {

/// Asks the device for each product of block128 over `rows` tokens whether it multiplies codes with block scales, and
/// has it read them (LinearPlan::blockCodes) or notes why it reads the codes' values instead.
void chooseBlockCodes(PrecisionPlan& plan, int64_t rows, const kernels::Backend& backend);

}  // namespace mantissa::engine
