#include "gui/widgets/card.h"

#include <QHBoxLayout>
#include <QPainter>
#include <QVBoxLayout>

namespace mantissa::gui {

Card::Card(const QString& title, const QString& hint, QWidget* parent) : QFrame(parent) {
    auto* outer = new QVBoxLayout(this);
    outer->setContentsMargins(1, 1, 1, 1);
    outer->setSpacing(0);
    if (!title.isEmpty()) headTools_ = makeHead(title, hint, &title_, &hint_);
    body_ = new QVBoxLayout;
    body_->setContentsMargins(0, 0, 0, 0);
    body_->setSpacing(0);
    outer->addLayout(body_, 1);
    if (!title.isEmpty()) setAccessibleName(title);
    connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
}

QHBoxLayout* Card::makeHead(const QString& title, const QString& hint, QLabel** titleLabel, QLabel** hintLabel) {
    auto* head = new QWidget(this);
    head->setFixedHeight(32);
    auto* row = new QHBoxLayout(head);
    row->setContentsMargins(12, 0, 12, 0);
    row->setSpacing(8);
    auto* name = new TextLabel(title, Token::Text, TextSize::Body, true, head);
    auto* note = new TextLabel(hint, Token::Text3, TextSize::Small, false, head);
    row->addWidget(name);
    row->addWidget(note);
    row->addStretch(1);
    auto* tools = new QHBoxLayout;
    tools->setSpacing(8);
    row->addLayout(tools);
    (body_ ? body_ : static_cast<QVBoxLayout*>(layout()))->addWidget(head);
    if (titleLabel) *titleLabel = name;
    if (hintLabel) *hintLabel = note;
    return tools;
}

void Card::setTitle(const QString& title) {
    if (title_) title_->setText(title);
    setAccessibleName(title);
}

void Card::setHint(const QString& hint) {
    if (hint_) hint_->setText(hint);
}

QString Card::title() const {
    return title_ ? title_->text() : QString();
}

QHBoxLayout* Card::addSection(const QString& title, const QString& hint) {
    body_->addWidget(new Separator(Qt::Horizontal, this));
    return makeHead(title, hint, nullptr, nullptr);
}

void Card::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setPen(color(Token::Line));
    painter.setBrush(color(Token::Panel));
    painter.drawRoundedRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5), 6, 6);
}

Separator::Separator(Qt::Orientation orientation, QWidget* parent) : QWidget(parent) {
    if (orientation == Qt::Horizontal)
        setFixedHeight(1);
    else
        setFixedWidth(1);
    connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
}

void Separator::paintEvent(QPaintEvent*) {
    QPainter(this).fillRect(rect(), color(Token::Line));
}

TextLabel::TextLabel(const QString& text, Token token, TextSize size, bool medium, QWidget* parent)
    : QLabel(text, parent), token_(token) {
    setTextFormat(Qt::PlainText);
    setFont(uiFont(size, medium));
    recolor();
    connect(&Theme::instance(), &Theme::changed, this, &TextLabel::recolor);
}

void TextLabel::setToken(Token token) {
    if (token == token_) return;
    token_ = token;
    recolor();
}

void TextLabel::recolor() {
    QPalette own = palette();
    own.setColor(QPalette::WindowText, color(token_));
    setPalette(own);
}

}  // namespace mantissa::gui
