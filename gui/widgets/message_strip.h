// A banner inside a page: something that is true until it is dealt with, with what can be done about it.
#pragma once

#include <QFrame>

#include "gui/theme/icons.h"
#include "gui/widgets/message_kind.h"

class QLabel;
class QPushButton;

namespace mantissa::gui {

class MessageStrip : public QFrame {
    Q_OBJECT
  public:
    explicit MessageStrip(QWidget* parent = nullptr);
    /// headline "" hides the strip. action "": no button.
    void showMessage(MessageKind kind, const QString& headline, const QString& detail = QString(),
                     const QString& action = QString());
    QString headline() const;

  signals:
    void actionClicked();

  protected:
    void paintEvent(QPaintEvent* event) override;

  private:
    MessageKind kind_ = MessageKind::Info;
    QLabel *headline_ = nullptr, *detail_ = nullptr;
    QPushButton* action_ = nullptr;
};

}  // namespace mantissa::gui
