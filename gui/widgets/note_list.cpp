#include "gui/widgets/note_list.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QPainter>
#include <QScrollBar>
#include <QToolTip>

#include "gui/theme/fonts.h"

namespace mantissa::gui {

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
    updateBar();
    viewport()->update();
}

int NoteList::contentHeight() const {
    int height = 0;
    for (const Note& note : notes_) {
        height += heightOf(note);
    }
    return notes_.empty() ? 22 : height;
}

void NoteList::updateBar() {
    verticalScrollBar()->setRange(0, std::max(0, contentHeight() - viewport()->height()));
    verticalScrollBar()->setPageStep(viewport()->height());
    verticalScrollBar()->setSingleStep(18);
}

void NoteList::resizeEvent(QResizeEvent* event) {
    QAbstractScrollArea::resizeEvent(event);
    updateBar();
}

int NoteList::noteAt(int y) const {
    int top = -verticalScrollBar()->value();
    for (size_t i = 0; i < notes_.size(); ++i) {
        if (y >= top && y < top + heightOf(notes_[i])) {
            return int(i);
        }
        top += heightOf(notes_[i]);
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
    double leadWidth = 0;
    for (const Note& note : notes_) {
        leadWidth = std::max(leadWidth, QFontMetricsF(small).horizontalAdvance(note.lead));
    }
    int top = -verticalScrollBar()->value();
    for (size_t i = 0; i < notes_.size(); ++i) {
        const Note& note = notes_[i];
        const QRectF row(0, top, viewport()->width(), heightOf(note));
        top += heightOf(note);
        if (row.bottom() < 0 || row.top() > viewport()->height()) {
            continue;
        }
        if (int(i) == hovered_ || (int(i) == current_ && hasFocus())) {
            painter.fillRect(row.adjusted(4, 0, -4, 0), color(Token::Hover));
        }
        double left = 12;
        if (note.series >= 0) {
            paintSample(painter, Theme::instance().series(note.series), QRectF(left, row.top() + 6, 22, 10));
            left += 32;
        } else if (note.glyph >= 0) {
            paintGlyph(painter, Glyph(note.glyph), QRectF(left, row.top() + 4, 14, 14), color(note.token));
            left += 22;
        }
        if (leadWidth > 0) {
            painter.setFont(small);
            painter.setPen(color(Token::Text3));
            painter.drawText(QRectF(left, row.top() + 2, leadWidth, 18), Qt::AlignRight | Qt::AlignVCenter, note.lead);
            left += leadWidth + 10;
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
        painter.drawText(QRectF(left, row.top() + 2, right - left, 18), Qt::AlignLeft | Qt::AlignVCenter,
                         QFontMetricsF(titleFont).elidedText(note.title, Qt::ElideRight, right - left));
        painter.setFont(small);
        painter.setPen(color(Token::Text2));
        const double room = row.right() - 12 - left;
        painter.drawText(QRectF(left, row.top() + 18, room, 15), Qt::AlignLeft | Qt::AlignVCenter,
                         QFontMetricsF(small).elidedText(note.detail, Qt::ElideRight, room));
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
