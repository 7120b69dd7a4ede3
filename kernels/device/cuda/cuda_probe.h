// Pieces of the probe that the backend uses too.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace mantissa::kernels::cuda {

/// Empty when a driver is installed that is new enough for this build; else one sentence. Makes no runtime call.
std::string missingDriver();
/// Launches one kernel on the current device and waits for it: fails when the build holds no code for the chip.
cudaError_t runTrivialKernel();
std::string architectureName(int major, int minor);  ///< "sm_90a"

}  // namespace mantissa::kernels::cuda
