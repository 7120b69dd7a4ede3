// Files of resources/ that are compiled into the program.
#pragma once

#include <string>

namespace mantissa::experiments {

/// name: "presets/nano.json", "store/schema.sql". Empty for a name that is not compiled in.
std::string resourceText(const std::string& name);

}  // namespace mantissa::experiments
