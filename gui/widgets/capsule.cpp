#include "gui/widgets/capsule.h"

#include <QPainter>

#include "gui/format/numbers.h"
#include "gui/theme/fonts.h"
#include "gui/widgets/run_marks.h"

namespace mantissa::gui {

Capsule::Capsule(QWidget* parent) : QAbstractButton(parent) {
    setFixedHeight(34);
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
    setMaximumWidth(520);
    setFocusPolicy(Qt::TabFocus);
    setAccessibleName(tr("Current run"));
    setToolTip(tr("The run that is going; a click selects it"));
    connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
}

void Capsule::show(const RunInfo* run, int others, const QString& phase, double secondsLeft) {
    any_ = run != nullptr;
    run_ = run ? *run : RunInfo();
    others_ = others;
    phase_ = phase;
    secondsLeft_ = secondsLeft;
    const QString text = any_ ? run_.name + QStringLiteral(", ") + rightText() : tr("No run is going");
    if (text != accessibleDescription()) setAccessibleDescription(text);
    update();
}

QString Capsule::rightText() const {
    if (!phase_.isEmpty()) return phase_;
    if (!run_.going()) return runStateName(run_.state);
    if (run_.state == RunState::Paused) return tr("paused at step %1").arg(formatCount(run_.step));
    return secondsLeft_ >= 0 ? tr("%1 left").arg(formatTimeLeft(secondsLeft_)) : QString();
}

void Capsule::paintEvent(QPaintEvent*) {
    QPainter p(this);
    p.setRenderHint(QPainter::Antialiasing);
    p.setPen(hasFocus() ? color(Token::Accent) : color(Token::Line));
    p.setBrush(color(isDown() || underMouse()     ? Token::Hover
                     : Theme::instance().isDark() ? Token::Window
                                                  : Token::Window));
    p.drawRoundedRect(QRectF(rect()).adjusted(.5, .5, -.5, -.5), 6, 6);
    if (!any_) {
        p.setFont(uiFont(TextSize::Body));
        p.setPen(color(Token::Text2));
        p.drawText(rect(), Qt::AlignCenter, tr("No run is going"));
        return;
    }
    paintGlyph(p, stateGlyph(run_.state), QRectF(10, 9, 16, 16), color(stateToken(run_.state)));
    int right = width() - 12;
    const auto fromRight = [&](const QString& text, bool medium, Token token) {
        if (text.isEmpty()) return;
        p.setFont(uiFont(TextSize::Body, medium));
        p.setPen(color(token));
        const int w = p.fontMetrics().horizontalAdvance(text);
        p.drawText(QRect(right - w, 0, w, height() - 2), Qt::AlignVCenter | Qt::AlignLeft, text);
        right -= w + 14;
    };
    if (others_ > 0) fromRight(tr("+%1").arg(others_), true, Token::Text2);
    fromRight(rightText(), false, Token::Text2);
    const QFontMetrics body(uiFont(TextSize::Body)), medium(uiFont(TextSize::Body, true));
    const int nameWidth = medium.horizontalAdvance(run_.name);
    const bool steps = run_.going() && phase_.isEmpty() && run_.steps > 0;
    if (steps && run_.state == RunState::Running) {
        const QString percent = QString::number(100 * run_.step / run_.steps) + QStringLiteral("\u00a0%");
        const QString step = tr("step\u00a0 %1 / %2").arg(formatCount(run_.step), formatCount(run_.steps));
        if (right - 50 > 40 + std::min(nameWidth, 120)) fromRight(percent, true, Token::Text);
        if (right - body.horizontalAdvance(step) > 46 + std::min(nameWidth, 160)) fromRight(step, false, Token::Text2);
    }
    p.setFont(uiFont(TextSize::Body, true));
    p.setPen(color(Token::Text));
    const int room = right - 34;
    if (room > 20)
        p.drawText(QRect(34, 0, room, height() - 2), Qt::AlignVCenter | Qt::AlignLeft,
                   medium.elidedText(run_.name, Qt::ElideMiddle, room));
    if (steps) {
        const QRectF track(8, height() - 4, width() - 16, 2);
        p.fillRect(track, color(Token::Hover));
        p.fillRect(QRectF(track.left(), track.top(), track.width() * run_.step / run_.steps, 2), color(Token::Accent));
    }
}

}  // namespace mantissa::gui
