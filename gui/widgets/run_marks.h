// Signs of a run shared by list, capsule and tables: the icon of its state and that icon's colour.
#pragma once

#include "gui/models/run_info.h"
#include "gui/theme/icons.h"

namespace mantissa::gui {

/// Each state has its own shape, so colour never stands alone.
Glyph stateGlyph(RunState state);
Token stateToken(RunState state);

}  // namespace mantissa::gui
