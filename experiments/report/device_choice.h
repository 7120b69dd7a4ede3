// Which device a run is meant for, before the engine is asked.
#pragma once

#include "engine/trainer.h"

namespace mantissa::experiments {

/// "auto" becomes MANTISSA_DEVICE when that is set. Throws InvalidConfig for a word that names no device.
engine::DeviceChoice resolveDevice(engine::DeviceChoice choice);

/// Throws InvalidConfig when MANTISSA_ISA, MANTISSA_DEVICE, MANTISSA_MATMUL or MANTISSA_ATTENTION holds a word that is
/// none of the allowed ones, which the sentence names; for the start of a program, before anything is opened.
void checkEnvironment();

/// "cpu" or "cuda:N": what the choice will run on. "auto" is the first usable GPU, else the CPU; the probe is made
/// once.
std::string concreteDevice(const std::string& device);

}  // namespace mantissa::experiments
