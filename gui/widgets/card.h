// A card: panel colour, line edge, radius 6, an optional head of 32 px with title, hint and widgets at its right end.
#pragma once

#include <QFrame>
#include <QLabel>

#include "gui/theme/fonts.h"
#include "gui/theme/theme.h"

class QHBoxLayout;
class QVBoxLayout;

namespace mantissa::gui {

class Card : public QFrame {
    Q_OBJECT
  public:
    /// title "" = no head. hint: unit or explanation in text3 beside the title.
    explicit Card(const QString& title = QString(), const QString& hint = QString(), QWidget* parent = nullptr);

    void setTitle(const QString& title);
    void setHint(const QString& hint);
    QString title() const;
    /// Right end of the head (legends, buttons); null without a head.
    QHBoxLayout* headTools() const { return headTools_; }
    /// Below the head; margins 0.
    QVBoxLayout* body() const { return body_; }
    /// A 1 px line over the full width, then a second head in the same card; returns its tools layout.
    QHBoxLayout* addSection(const QString& title, const QString& hint = QString());

  protected:
    void paintEvent(QPaintEvent* event) override;

  private:
    QHBoxLayout* makeHead(const QString& title, const QString& hint, QLabel** titleLabel, QLabel** hintLabel);
    QLabel *title_ = nullptr, *hint_ = nullptr;
    QHBoxLayout* headTools_ = nullptr;
    QVBoxLayout* body_ = nullptr;
};

/// 1 px separator in the `line` token.
class Separator : public QWidget {
    Q_OBJECT
  public:
    explicit Separator(Qt::Orientation orientation = Qt::Horizontal, QWidget* parent = nullptr);

  protected:
    void paintEvent(QPaintEvent* event) override;
};

/// A label in a token colour and one of the type sizes; follows the theme. Text is plain, never HTML.
class TextLabel : public QLabel {
    Q_OBJECT
  public:
    explicit TextLabel(const QString& text, Token token = Token::Text, TextSize size = TextSize::Body,
                       bool medium = false, QWidget* parent = nullptr);
    void setToken(Token token);

  private:
    void recolor();
    Token token_;
};

}  // namespace mantissa::gui
