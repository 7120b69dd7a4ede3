#include "gui/widgets/status_strip.h"

#include <QHBoxLayout>
#include <QPainter>

namespace mantissa::gui {

StatusStrip::StatusStrip(QWidget* parent) : QWidget(parent) {
    setFixedHeight(24);
    auto* row = new QHBoxLayout(this);
    row->setContentsMargins(8, 1, 8, 0);
    row->setSpacing(12);
    const auto label = [this] { return new TextLabel(QString(), Token::Text2, TextSize::Small, false, this); };
    name_ = label();
    size_ = label();
    commit_ = label();
    right_ = label();
    right_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    right_->setAlignment(Qt::AlignRight | Qt::AlignVCenter);
    row->addWidget(name_);
    row->addWidget(size_);
    row->addWidget(commit_);
    row->addWidget(right_, 1);
    connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
}

void StatusStrip::setStore(const QString& name, const QString& size, const QString& commit, const QString& tip) {
    name_->setText(name);
    size_->setText(size);
    commit_->setText(commit);
    for (TextLabel* label : {name_, size_, commit_}) label->setToolTip(tip);
}

void StatusStrip::setRight(const QString& text) {
    if (right_->text() != text) right_->setText(text);
}

void StatusStrip::paintEvent(QPaintEvent*) {
    QPainter p(this);
    p.fillRect(rect(), color(Token::Panel));
    p.fillRect(0, 0, width(), 1, color(Token::Line));
}

}  // namespace mantissa::gui
