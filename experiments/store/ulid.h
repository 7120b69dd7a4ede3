// Run ids: ULIDs (26 characters of Crockford's base 32, 48 bits of time in ms, 80 random bits), which sort by time of
// making.
#pragma once

#include <cstdint>
#include <string>

namespace mantissa::experiments {

std::string makeUlid();
int64_t nowMs();       ///< Unix time in ms
std::string bootId();  ///< of this boot of the machine; "" when the system does not tell

}  // namespace mantissa::experiments
