// The style sheets of controls: menus, buttons, tabs, table heads, fields, scroll bars. Charts, cells and tiles paint
// themselves.
#pragma once

#include <QString>

class QWidget;

namespace mantissa::gui {

/// The rules of a control's class for the theme in force, "" for widgets that need none. Buttons: property `kind` =
/// primary | flat | tab | segment; fields: property `wrong` = true for a red edge.
QString controlSheet(const QWidget& widget);
/// Call after the theme's colours changed: the sheets are made anew when they are asked for.
void clearControlSheets();

}  // namespace mantissa::gui
