// An icon as a widget of its own: decoration beside a text, so it has no name for assistive tools.
#pragma once

#include <QPainter>
#include <QWidget>

#include "gui/theme/icons.h"

namespace mantissa::gui {

class GlyphLabel : public QWidget {
    Q_OBJECT
  public:
    GlyphLabel(Glyph glyph, Token token, int size, QWidget* parent = nullptr)
        : QWidget(parent), glyph_(glyph), token_(token) {
        setFixedSize(size, size);
        connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
    }
    void set(Glyph glyph, Token token) {
        glyph_ = glyph;
        token_ = token;
        update();
    }

  protected:
    void paintEvent(QPaintEvent*) override {
        QPainter painter(this);
        paintGlyph(painter, glyph_, rect(), color(token_));
    }

  private:
    Glyph glyph_;
    Token token_;
};

}  // namespace mantissa::gui
