// The one font family of the program, chosen for tabular figures by default: Roboto, else Noto Sans, else DejaVu Sans.
#pragma once

#include <QFont>
#include <QString>

namespace mantissa::gui {

enum class TextSize { Small = 11, Body = 12, Title = 15, Figure = 22 };

/// Family in use. `MANTISSA_FONT` names another one (used to try layouts with a wider family).
QString fontFamily();
/// Sizes in pixels; medium: weight 500. Never a style sheet font on a widget that uses this.
QFont uiFont(TextSize size, bool medium = false);
/// 12 px mono, for hex, spec keys and paths only.
QFont codeFont();

}  // namespace mantissa::gui
