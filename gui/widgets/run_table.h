// The table of the run list.
#pragma once

#include <QTreeView>

namespace mantissa::gui {

/// The table: space pins, context menu by mouse or key; draws its own cells.
class RunTable : public QTreeView {
    Q_OBJECT
  public:
    explicit RunTable(QWidget* parent = nullptr);

  Q_SIGNALS:
    void pinRequested();

  protected:
    void keyPressEvent(QKeyEvent* event) override;
    void drawRow(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override;
};

}  // namespace mantissa::gui
