// A painted list of short notes: icon, lead, title, value at the right, one or two lines below. Findings, events,
// parting points.
#pragma once

#include <QAbstractScrollArea>
#include <cstdint>
#include <vector>

#include "gui/theme/icons.h"

namespace mantissa::gui {

struct Note {
    int glyph = -1;  ///< Glyph; -1: none
    Token token = Token::Text2;
    int series = -1;  ///< line sample instead of an icon
    QString lead;     ///< right-aligned column before the title: the step
    QString title, right, detail;
    Token rightToken = Token::Text;
    int key = -1;  ///< tensor
    double step = -1;
};

/// Up, down, Return and click choose a note. A title without a value at its right, and a detail, go on in a second
/// line; what still does not fit is elided, and the whole is in the tooltip.
class NoteList : public QAbstractScrollArea {
    Q_OBJECT
  public:
    explicit NoteList(const QString& name, QWidget* parent = nullptr);
    void setNotes(std::vector<Note> notes, const QString& emptyText);
    const std::vector<Note>& notes() const { return notes_; }
    int contentHeight() const;

  signals:
    void chosen(const mantissa::gui::Note& note);

  protected:
    void paintEvent(QPaintEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    bool viewportEvent(QEvent* event) override;

  private:
    void measure();
    int heightOf(size_t index) const;
    double titleLeft(const Note& note) const;
    int noteAt(int y) const;
    void updateBar();
    std::vector<Note> notes_;
    std::vector<uint8_t> wraps_, detailWraps_;  ///< title and detail take two lines
    double leadWidth_ = 0;
    QString emptyText_;
    int current_ = -1, hovered_ = -1;
};

}  // namespace mantissa::gui
