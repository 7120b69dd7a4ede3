// The scales of a tensor's blocks as a picture: one cell a block, log2 colour.
#pragma once

#include <QImage>
#include <QWidget>

#include "gui/models/captured_tensor.h"

namespace mantissa::gui {

/// Larger maps than there are pixels show the largest amax of a pixel's blocks. The block under the cursor, or the one
/// that the arrow keys chose, is said through hovered().
class BlockMapView : public QWidget {
    Q_OBJECT
  public:
    explicit BlockMapView(QWidget* parent = nullptr);
    void setMap(BlockMap map);
    QSize sizeHint() const override { return {320, 120}; }

  Q_SIGNALS:
    void hovered(const QString& text);

  protected:
    void paintEvent(QPaintEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void leaveEvent(QEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void focusInEvent(QFocusEvent*) override { update(); }
    void focusOutEvent(QFocusEvent*) override { update(); }
    void resizeEvent(QResizeEvent*) override { image_ = QImage(); }

  private:
    void render(double ratio);
    QString blockText(int row, int col) const;
    BlockMap map_;
    QImage image_;
    double low_ = 0, high_ = 1;  ///< log2 of amax at the ends of the map
    int row_ = 0, col_ = 0;
};

}  // namespace mantissa::gui
