// Gives each control the style sheet of its class, and all of them the new one after a change of theme without holding
// up the event loop.
#pragma once

#include <QList>
#include <QObject>
#include <QPointer>
#include <QTimer>

class QWidget;

namespace mantissa::gui {

/// One sheet for the whole application would have to be matched against every widget in one go: with some 730 widgets
/// that took 400 ms, the palette 1 ms (measured). So buttons, fields, tables and the like carry the few rules of their
/// class, set when they are polished for the first time. restyle() goes through them in slices of some 10 ms, those on
/// screen first; meanwhile the windows do not repaint, so nothing is seen half changed.
class ControlStyler : public QObject {
    Q_OBJECT
  public:
    explicit ControlStyler(QObject* parent);
    /// Call after the theme's colours changed.
    void restyle();
    bool busy() const { return !waiting_.isEmpty(); }

  protected:
    bool eventFilter(QObject* object, QEvent* event) override;

  private:
    void slice();
    void release();
    QList<QPointer<QWidget>> waiting_, held_;
    int visible_ = 0;  ///< so many of waiting_ are on screen
    QTimer next_;
};

}  // namespace mantissa::gui
