// The mark of a field whose text cannot be used; the style sheet draws it (property "wrong").
#pragma once

#include <QLineEdit>
#include <QStyle>

namespace mantissa::gui {

/// GUI thread. Does nothing where the field stands so already.
inline void markWrong(QLineEdit* field, bool wrong) {
    if (field->property("wrong").toBool() == wrong) return;
    field->setProperty("wrong", wrong);
    field->style()->unpolish(field);
    field->style()->polish(field);
}

}  // namespace mantissa::gui
