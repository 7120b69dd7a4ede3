// Clicks on the precision plan as rules of the spec.
#pragma once

#include <QStringList>
#include <vector>

#include "engine/config.h"

namespace mantissa::gui {

/// `rules` after cells of the plan were switched: those of `layers` ("h.2" …), `linear` ("mlp.fc1", "" = the layer
/// itself, as for lm_head) and gemm (0 fprop, 1 dgrad, 2 wgrad) become BF16, or `recipe` when bf16 is false. Rules
/// that nothing is left of are dropped.
std::vector<engine::PrecisionRule> toggledRules(std::vector<engine::PrecisionRule> rules, const QStringList& layers,
                                                const QString& linear, int gemm, bool bf16, engine::RecipeKind recipe);

}  // namespace mantissa::gui
