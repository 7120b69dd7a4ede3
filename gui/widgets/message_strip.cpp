#include "gui/widgets/message_strip.h"

#include <QHBoxLayout>
#include <QPainter>
#include <QPushButton>
#include <QVBoxLayout>

#include "gui/widgets/card.h"

namespace mantissa::gui {

namespace {

struct Look {
    Token edge, ground;
    Glyph glyph;
};

Look lookOf(MessageKind kind) {
    switch (kind) {
        case MessageKind::Ok:
            return {Token::Ok, Token::OkBg, Glyph::Check};
        case MessageKind::Warn:
            return {Token::Warn, Token::WarnBg, Glyph::Warning};
        case MessageKind::Bad:
            return {Token::Bad, Token::BadBg, Glyph::Bad};
        case MessageKind::Info:
            break;
    }
    return {Token::Accent, Token::InfoBg, Glyph::Info};
}

}  // namespace

MessageStrip::MessageStrip(QWidget* parent) : QFrame(parent) {
    auto* row = new QHBoxLayout(this);
    row->setContentsMargins(36, 8, 12, 8);
    auto* lines = new QVBoxLayout;
    lines->setSpacing(2);
    headline_ = new TextLabel(QString(), Token::Text, TextSize::Body, true, this);
    detail_ = new TextLabel(QString(), Token::Text2, TextSize::Body, false, this);
    headline_->setWordWrap(true);
    detail_->setWordWrap(true);
    lines->addWidget(headline_);
    lines->addWidget(detail_);
    row->addLayout(lines, 1);
    action_ = new QPushButton(this);
    action_->hide();
    row->addWidget(action_);
    connect(action_, &QPushButton::clicked, this, &MessageStrip::actionClicked);
    connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
    hide();
}

void MessageStrip::showMessage(MessageKind kind, const QString& headline, const QString& detail,
                               const QString& action) {
    kind_ = kind;
    headline_->setText(headline);
    detail_->setText(detail);
    detail_->setVisible(!detail.isEmpty());
    action_->setText(action);
    action_->setToolTip(action);
    action_->setAccessibleName(action);
    action_->setVisible(!action.isEmpty());
    setAccessibleName(headline);
    setAccessibleDescription(detail);
    setVisible(!headline.isEmpty());
    update();
}

QString MessageStrip::headline() const {
    return headline_->text();
}

void MessageStrip::paintEvent(QPaintEvent*) {
    const Look look = lookOf(kind_);
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setPen(mix(color(look.ground), color(look.edge), 0.5));
    painter.setBrush(color(look.ground));
    painter.drawRoundedRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5), 6, 6);
    paintGlyph(painter, look.glyph, QRectF(12, 10, 16, 16), color(look.edge));
}

}  // namespace mantissa::gui
