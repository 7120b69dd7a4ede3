// Writes and reads the whole training state of a TrainerCore.
#pragma once

#include <cstdint>
#include <string>

#include "engine/trainer.h"
#include "engine/trainer_core.h"

namespace mantissa::engine::checkpoint {

struct Loaded {
    TrainerCore::Progress progress;
    LoadNote note;
};

/// See Trainer::saveCheckpoint. An existing directory is replaced once the new one is complete. Throws Io.
void save(const TrainerCore& core, const std::string& directory);
/// Checks everything first, then writes masters, moments, scales, windows and step state to the device; the caller
/// makes copies and codes of the weights again. Throws InvalidFile with the device untouched.
Loaded load(TrainerCore& core, const std::string& directory, bool allowOtherClass);
/// Reads all that load() would read, with no trainer and no device. Throws InvalidFile when a file is missing, cut off
/// or damaged, InvalidConfig when the checkpoint is of another model.
CheckpointInfo verify(const std::string& directory, const ModelConfig& model);
/// FNV-1a-64 over masters, moments, scales, windows, step state and progress.
uint64_t hashState(const TrainerCore& core);

}  // namespace mantissa::engine::checkpoint
