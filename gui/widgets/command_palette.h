// Ctrl+K: every action of the window by name, typed and started without a mouse.
#pragma once

#include <QAction>
#include <QDialog>
#include <QLineEdit>
#include <QListWidget>

namespace mantissa::gui {

class CommandPalette : public QDialog {
    Q_OBJECT
  public:
    /// Actions without text or disabled ones are left out.
    CommandPalette(const QList<QAction*>& actions, QWidget* parent);
    QLineEdit* field() const { return field_; }

  protected:
    bool eventFilter(QObject* watched, QEvent* event) override;

  private:
    void filter(const QString& text);
    void run();
    QLineEdit* field_;
    QListWidget* list_;
    QList<QAction*> actions_;
};

}  // namespace mantissa::gui
