// The line at the bottom, 24 px: store, its size, age of the last commit; right what the page has to say.
#pragma once

#include <QWidget>

#include "gui/widgets/card.h"

namespace mantissa::gui {

class StatusStrip : public QWidget {
    Q_OBJECT
  public:
    explicit StatusStrip(QWidget* parent = nullptr);
    void setStore(const QString& name, const QString& size, const QString& commit, const QString& tip);
    void setRight(const QString& text);

  protected:
    void paintEvent(QPaintEvent* event) override;

  private:
    TextLabel *name_, *size_, *commit_, *right_;
};

}  // namespace mantissa::gui
