#include "gui/widgets/messages.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QHash>
#include <QPainter>
#include <QPushButton>
#include <QTimer>
#include <QToolButton>
#include <QVBoxLayout>

namespace mantissa::gui {
namespace {

struct Look {
    Glyph glyph;
    Token state, background;
};

Look look(MessageKind kind) {
    switch (kind) {
        case MessageKind::Ok:
            return {Glyph::Check, Token::Ok, Token::OkBg};
        case MessageKind::Warn:
            return {Glyph::Warning, Token::Warn, Token::WarnBg};
        case MessageKind::Bad:
            return {Glyph::Bad, Token::Bad, Token::BadBg};
        case MessageKind::Info:
            break;
    }
    return {Glyph::Info, Token::Accent, Token::InfoBg};
}

void paintBox(QWidget& widget, MessageKind kind, double glyphTop) {
    const Look style = look(kind);
    QPainter p(&widget);
    p.setRenderHint(QPainter::Antialiasing);
    p.setPen(mix(color(style.background), color(style.state), 0.5));
    p.setBrush(color(style.background));
    p.drawRoundedRect(QRectF(widget.rect()).adjusted(.5, .5, -.5, -.5), 6, 6);
    paintGlyph(p, style.glyph, QRectF(14, glyphTop, 16, 16), color(style.state));
}

class Toast : public QWidget {
  public:
    Toast(const QString& text, QWidget* parent) : QWidget(parent) {
        auto* row = new QHBoxLayout(this);
        row->setContentsMargins(40, 10, 12, 10);
        row->setSpacing(12);
        auto* label = new TextLabel(text, Token::Text, TextSize::Body, false, this);
        row->addWidget(label);
        setAccessibleName(text);
    }

  protected:
    void paintEvent(QPaintEvent*) override { paintBox(*this, MessageKind::Ok, height() / 2.0 - 8); }
};

}  // namespace

Banner::Banner(MessageKind kind, const QString& title, const QString& detail, QWidget* parent)
    : QWidget(parent), kind_(kind) {
    auto* row = new QHBoxLayout(this);
    row->setContentsMargins(44, 10, 12, 10);
    row->setSpacing(12);
    auto* lines = new QVBoxLayout;
    lines->setSpacing(3);
    title_ =
        new TextLabel(title, Token::Text, detail.isEmpty() ? TextSize::Body : TextSize::Title, !detail.isEmpty(), this);
    title_->setWordWrap(true);
    detail_ = new TextLabel(detail, Token::Text2, TextSize::Body, false, this);
    detail_->setWordWrap(true);
    detail_->setVisible(!detail.isEmpty());
    lines->addWidget(title_);
    lines->addWidget(detail_);
    row->addLayout(lines, 1);
    buttons_ = new QHBoxLayout;
    buttons_->setSpacing(8);
    row->addLayout(buttons_);
    setAccessibleName(title);
    setAccessibleDescription(detail);
    connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
}

QString Banner::title() const {
    return title_->text();
}

void Banner::addAction(const QString& text, std::function<void()> call) {
    auto* button = new QPushButton(text, this);
    button->setToolTip(text);
    button->setAccessibleName(text);
    connect(button, &QPushButton::clicked, this, [call = std::move(call)] { call(); });
    buttons_->addWidget(button);
}

void Banner::setClosable(const QString& name) {
    auto* close = new QToolButton(this);
    close->setIcon(icon(Glyph::Close));
    close->setAccessibleName(name);
    close->setToolTip(name);
    connect(close, &QToolButton::clicked, this, &Banner::closed);
    buttons_->addWidget(close);
}

void Banner::paintEvent(QPaintEvent*) {
    paintBox(*this, kind_, 12);
}

BannerArea::BannerArea(QWidget* parent) : QWidget(parent) {
    layout_ = new QVBoxLayout(this);
    layout_->setContentsMargins(12, 12, 12, 0);
    layout_->setSpacing(8);
    setVisible(false);
}

Banner* BannerArea::show(const QString& key, MessageKind kind, const QString& title, const QString& detail) {
    remove(key);
    auto* banner = new Banner(kind, title, detail, this);
    layout_->addWidget(banner);
    banners_.insert(key, banner);
    connect(banner, &Banner::closed, this, [this, key] { remove(key); });
    setVisible(true);
    return banner;
}

void BannerArea::remove(const QString& key) {
    Banner* banner = banners_.take(key);
    if (!banner) return;
    layout_->removeWidget(banner);
    banner->hide();
    banner->deleteLater();
    setVisible(!banners_.isEmpty());
}

Toasts::Toasts(QWidget* window) : QObject(window), window_(window) {
    window->installEventFilter(this);
}

void Toasts::show(const QString& text, const QString& action, std::function<void()> call) {
    while (shown_.size() >= 2) shown_.takeFirst()->deleteLater();
    auto* toast = new Toast(text, window_);
    if (call) {
        auto* button = new QPushButton(action, toast);
        button->setAccessibleName(action);
        button->setToolTip(action);
        toast->layout()->addWidget(button);
        connect(button, &QPushButton::clicked, this, [this, toast, call = std::move(call)] {
            call();
            shown_.removeAll(toast);
            toast->deleteLater();
            place();
        });
    }
    shown_ << toast;
    toast->adjustSize();
    toast->show();
    toast->raise();
    place();
    QTimer::singleShot(6000, toast, [this, toast] {
        shown_.removeAll(toast);
        toast->deleteLater();
        place();
    });
}

bool Toasts::eventFilter(QObject* watched, QEvent* event) {
    if (event->type() == QEvent::Resize) place();
    return QObject::eventFilter(watched, event);
}

void Toasts::place() {
    int bottom = window_->height() - 36;
    for (auto it = shown_.rbegin(); it != shown_.rend(); ++it) {
        QWidget* toast = *it;
        toast->move(window_->width() - toast->width() - 16, bottom - toast->height());
        bottom -= toast->height() + 8;
    }
}

}  // namespace mantissa::gui
