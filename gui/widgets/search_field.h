// A one-line field with an icon at its left, for filters and searches.
#pragma once

#include <QLineEdit>
#include <QPainter>

#include "gui/theme/icons.h"

namespace mantissa::gui {

class SearchField : public QLineEdit {
    Q_OBJECT
  public:
    SearchField(Glyph glyph, const QString& placeholder, QWidget* parent) : QLineEdit(parent), glyph_(glyph) {
        setPlaceholderText(placeholder);
        setTextMargins(22, 0, 0, 0);
        connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
    }

  protected:
    void paintEvent(QPaintEvent* event) override {
        QLineEdit::paintEvent(event);
        QPainter painter(this);
        paintGlyph(painter, glyph_, QRectF(9, (height() - 14) / 2.0, 14, 14), color(Token::Text3));
    }

  private:
    Glyph glyph_;
};

}  // namespace mantissa::gui
