// Which device a run is meant for, before the engine is asked.
#pragma once

#include "engine/trainer.h"

namespace mantissa::experiments {

/// "auto" becomes MANTISSA_DEVICE when that is set. Throws InvalidConfig for a word that names no device.
engine::DeviceChoice resolveDevice(engine::DeviceChoice choice);

}  // namespace mantissa::experiments
