// The application's style sheet: menus, tool buttons, tabs, table heads, fields, scroll bars. Charts, cells and tiles
// paint themselves.
#pragma once

#include <QString>

namespace mantissa::gui {

/// For the theme in force. Buttons: property `kind` = primary | flat | tab | segment; fields: property `wrong` = true
/// for a red edge.
QString applicationStyleSheet();

}  // namespace mantissa::gui
