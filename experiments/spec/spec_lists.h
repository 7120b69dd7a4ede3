// Spec fields that are lists: precision rules, planted faults, shadow globs, the ladder of automatic precision.
#pragma once

#include "experiments/spec/spec_fields.h"

namespace mantissa::experiments {

/// precision.rules: {match, gemm, recipe}, at most 1000.
SpecField precisionRulesField();
/// faults: {kind, step, target, channel, value}, at most 100.
SpecField plantedFaultsField();
/// probes.shadow_match: globs over linears whose products are done again in higher precision.
SpecField shadowMatchField();
/// precision.auto.ladder: recipes that automatic precision tries after a product's own, safest last.
SpecField autoLadderField();

}  // namespace mantissa::experiments
