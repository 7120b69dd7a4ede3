// Small training configurations for tests.
#pragma once

#include <memory>

#include "engine/trainer.h"
#include "tests/support/synthetic_tokens.h"

namespace mantissa::test {

/// The preset tiny: L2 d64 h2 T64 B4.
inline engine::TrainerConfig tinyConfig(engine::PrecisionMode mode,
                                        engine::RecipeKind recipe = engine::RecipeKind::Delayed) {
    engine::TrainerConfig config;
    config.model = {96, 64, 2, 2, 256, 64, true};
    config.precision.mode = mode;
    config.precision.recipe = recipe;
    config.precision.historyLength = 16;
    config.batch = 4;
    config.steps = 40;
    config.schedule.warmup = 10;
    config.evalBatches = 2;
    return config;
}

inline std::shared_ptr<const engine::TokenSource> tokensFor(const engine::TrainerConfig& config) {
    return std::make_shared<SyntheticTokens>(config.model.vocabulary, config.model.context);
}

}  // namespace mantissa::test
