// The first trouble of a run as it is stored: what the engine found when a step became non-finite, as JSON.
#pragma once

#include <string>

#include "engine/numerics.h"

namespace mantissa::experiments {

/// {step, text, place ("h.2 mlp.fc1 (backward)"), tensor, row, col, value, micro, backward, reached_loss,
/// chain:[{place, nan, inf}], flight:[step, …]}: every step of `flight` is in the store at full rate.
std::string troubleJson(const engine::TroubleReport& report);

}  // namespace mantissa::experiments
