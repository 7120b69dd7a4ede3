// Memory of this process as the system counts it (Linux).
#pragma once

#include <cstdint>

namespace mantissa::experiments {

uint64_t residentMemory();      ///< bytes now; 0 when not known
uint64_t peakResidentMemory();  ///< highest since the start, or since resetPeakMemory(); 0 when not known
void resetPeakMemory();
uint64_t availableMemory();  ///< bytes that can still be taken: MemAvailable, or what a memory cgroup leaves
uint64_t totalMemory();

}  // namespace mantissa::experiments
