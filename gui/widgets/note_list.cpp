#include "gui/widgets/note_list.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QPainter>
#include <QScrollBar>
#include <QToolTip>
#include <utility>

#include "gui/theme/fonts.h"

namespace mantissa::gui {

namespace {

constexpr int kLine = 15;  ///< a second line of title or detail

/// The text in one line, or broken at the last space that fits; what does not fit into the last line is elided.
std::pair<QString, QString> wrapped(const QString& text, const QFontMetricsF& metrics, double room, bool twoLines) {
    if (!twoLines) {
        return {metrics.elidedText(text, Qt::ElideRight, room), QString()};
    }
    qsizetype cut = text.size();
    while (cut > 0 && metrics.horizontalAdvance(text.left(cut)) > room) {
        const qsizetype space = text.lastIndexOf(QLatin1Char(' '), cut - 1);
        if (space <= 0) {
            return {metrics.elidedText(text, Qt::ElideRight, room), QString()};
        }
        cut = space;
    }
    return {text.left(cut), metrics.elidedText(text.mid(cut + 1), Qt::ElideRight, room)};
}

}  // namespace

NoteList::NoteList(const QString& name, QWidget* parent) : QAbstractScrollArea(parent) {
    setFrameShape(QFrame::NoFrame);
    setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    setFocusPolicy(Qt::StrongFocus);
    viewport()->setMouseTracking(true);
    viewport()->setAutoFillBackground(false);
    setAccessibleName(name);
    connect(&Theme::instance(), &Theme::changed, viewport(), qOverload<>(&QWidget::update));
}

void NoteList::setNotes(std::vector<Note> notes, const QString& emptyText) {
    notes_ = std::move(notes);
    emptyText_ = emptyText;
    current_ = std::min(current_, int(notes_.size()) - 1);
    hovered_ = -1;
    QStringList words;
    for (size_t i = 0; i < notes_.size() && i < 5; ++i) {
        words << QStringLiteral("%1 %2 %3 %4")
                     .arg(notes_[i].lead, notes_[i].title, notes_[i].right, notes_[i].detail)
                     .simplified();
    }
    setAccessibleDescription(notes_.empty() ? emptyText : words.join(QStringLiteral("; ")));
    measure();
    updateBar();
    viewport()->update();
}

int NoteList::contentHeight() const {
    int height = 0;
    for (size_t i = 0; i < notes_.size(); ++i) {
        height += heightOf(i);
    }
    return notes_.empty() ? 22 : height;
}

int NoteList::heightOf(size_t index) const {
    return (notes_[index].detail.isEmpty() ? 22 : 36) + (wraps_[index] ? kLine : 0) + (detailWraps_[index] ? kLine : 0);
}

double NoteList::titleLeft(const Note& note) const {
    return 12 + (note.series >= 0 ? 32 : note.glyph >= 0 ? 22 : 0) + (leadWidth_ > 0 ? leadWidth_ + 10 : 0);
}

void NoteList::measure() {
    const QFontMetricsF small(uiFont(TextSize::Small)), body(uiFont(TextSize::Body));
    leadWidth_ = 0;
    for (const Note& note : notes_) {
        leadWidth_ = std::max(leadWidth_, small.horizontalAdvance(note.lead));
    }
    wraps_.assign(notes_.size(), 0);
    detailWraps_.assign(notes_.size(), 0);
    for (size_t i = 0; i < notes_.size(); ++i) {
        const double room = viewport()->width() - 12 - titleLeft(notes_[i]);
        wraps_[i] = notes_[i].right.isEmpty() && body.horizontalAdvance(notes_[i].title) > room;
        detailWraps_[i] = small.horizontalAdvance(notes_[i].detail) > room;
    }
}

void NoteList::updateBar() {
    verticalScrollBar()->setRange(0, std::max(0, contentHeight() - viewport()->height()));
    verticalScrollBar()->setPageStep(viewport()->height());
    verticalScrollBar()->setSingleStep(18);
}

void NoteList::resizeEvent(QResizeEvent* event) {
    QAbstractScrollArea::resizeEvent(event);
    measure();
    updateBar();
}

int NoteList::noteAt(int y) const {
    int top = -verticalScrollBar()->value();
    for (size_t i = 0; i < notes_.size(); ++i) {
        if (y >= top && y < top + heightOf(i)) {
            return int(i);
        }
        top += heightOf(i);
    }
    return -1;
}

void NoteList::paintEvent(QPaintEvent*) {
    QPainter painter(viewport());
    const QFont small = uiFont(TextSize::Small), body = uiFont(TextSize::Body), strong = uiFont(TextSize::Body, true);
    if (notes_.empty()) {
        painter.setFont(small);
        painter.setPen(color(Token::Text3));
        painter.drawText(QRectF(12, 2, viewport()->width() - 24, 60), Qt::AlignLeft | Qt::AlignTop | Qt::TextWordWrap,
                         emptyText_);
        return;
    }
    int top = -verticalScrollBar()->value();
    for (size_t i = 0; i < notes_.size(); ++i) {
        const Note& note = notes_[i];
        const QRectF row(0, top, viewport()->width(), heightOf(i));
        top += heightOf(i);
        if (row.bottom() < 0 || row.top() > viewport()->height()) {
            continue;
        }
        if (int(i) == hovered_ || (int(i) == current_ && hasFocus())) {
            painter.fillRect(row.adjusted(4, 0, -4, 0), color(Token::Hover));
        }
        const double left = titleLeft(note);
        if (note.series >= 0) {
            paintSample(painter, Theme::instance().series(note.series), QRectF(12, row.top() + 6, 22, 10));
        } else if (note.glyph >= 0) {
            paintGlyph(painter, Glyph(note.glyph), QRectF(12, row.top() + 4, 14, 14), color(note.token));
        }
        if (leadWidth_ > 0) {
            painter.setFont(small);
            painter.setPen(color(Token::Text3));
            painter.drawText(QRectF(left - leadWidth_ - 10, row.top() + 2, leadWidth_, 18),
                             Qt::AlignRight | Qt::AlignVCenter, note.lead);
        }
        double right = row.right() - 12;
        if (!note.right.isEmpty()) {
            painter.setFont(strong);
            painter.setPen(color(note.rightToken));
            const double width = QFontMetricsF(strong).horizontalAdvance(note.right);
            painter.drawText(QRectF(right - width, row.top() + 2, width, 18), Qt::AlignRight | Qt::AlignVCenter,
                             note.right);
            right -= width + 8;
        }
        const QFont& titleFont = note.right.isEmpty() ? body : strong;
        painter.setFont(titleFont);
        painter.setPen(color(Token::Text));
        const auto [first, second] = wrapped(note.title, QFontMetricsF(titleFont), right - left, wraps_[i]);
        painter.drawText(QRectF(left, row.top() + 2, right - left, 18), Qt::AlignLeft | Qt::AlignVCenter, first);
        painter.drawText(QRectF(left, row.top() + 2 + kLine, right - left, 18), Qt::AlignLeft | Qt::AlignVCenter,
                         second);
        painter.setFont(small);
        painter.setPen(color(Token::Text2));
        const double room = row.right() - 12 - left;
        const auto [detail, more] = wrapped(note.detail, QFontMetricsF(small), room, detailWraps_[i]);
        const double below = row.top() + (wraps_[i] ? kLine : 0) + 18;
        painter.drawText(QRectF(left, below, room, 15), Qt::AlignLeft | Qt::AlignVCenter, detail);
        painter.drawText(QRectF(left, below + kLine, room, 15), Qt::AlignLeft | Qt::AlignVCenter, more);
    }
}

void NoteList::mousePressEvent(QMouseEvent* event) {
    const int index = noteAt(int(event->position().y()));
    if (index >= 0) {
        current_ = index;
        viewport()->update();
        const Note note = notes_[size_t(index)];
        Q_EMIT chosen(note);
    }
}

void NoteList::mouseMoveEvent(QMouseEvent* event) {
    const int index = noteAt(int(event->position().y()));
    if (index != hovered_) {
        hovered_ = index;
        viewport()->update();
    }
}

bool NoteList::viewportEvent(QEvent* event) {
    if (event->type() == QEvent::Leave) {
        hovered_ = -1;
        viewport()->update();
    } else if (event->type() == QEvent::ToolTip) {
        auto* help = static_cast<QHelpEvent*>(event);
        const int index = noteAt(help->pos().y());
        if (index >= 0) {
            const Note& note = notes_[size_t(index)];
            QToolTip::showText(help->globalPos(),
                               (note.title + QStringLiteral(" ") + note.right + QStringLiteral("\n") + note.detail)
                                   .toHtmlEscaped()
                                   .replace(QLatin1Char('\n'), QStringLiteral("<br>")),
                               this);
        } else {
            QToolTip::hideText();
        }
        return true;
    }
    return QAbstractScrollArea::viewportEvent(event);
}

void NoteList::keyPressEvent(QKeyEvent* event) {
    const int count = int(notes_.size());
    switch (event->key()) {
        case Qt::Key_Up:
            current_ = std::max(0, current_ - 1);
            break;
        case Qt::Key_Down:
            current_ = std::min(count - 1, current_ + 1);
            break;
        case Qt::Key_Return:
        case Qt::Key_Enter:
            if (current_ >= 0 && current_ < count) {
                const Note note = notes_[size_t(current_)];
                Q_EMIT chosen(note);
            }
            return;
        default:
            QAbstractScrollArea::keyPressEvent(event);
            return;
    }
    viewport()->update();
}

}  // namespace mantissa::gui
