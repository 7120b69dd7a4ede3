#include "gui/widgets/block_map.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>

#include "gui/format/numbers.h"
#include "gui/theme/fonts.h"
#include "gui/theme/theme.h"

namespace mantissa::gui {

BlockMapView::BlockMapView(QWidget* parent) : QWidget(parent) {
    setFixedHeight(120);
    setMouseTracking(true);
    setFocusPolicy(Qt::StrongFocus);
    setAccessibleName(tr("Scales of the blocks"));
    setToolTip(tr("One cell a block, coloured by log₂ of its amax; arrow keys move"));
    connect(&Theme::instance(), &Theme::changed, this, [this] {
        image_ = QImage();
        update();
    });
}

void BlockMapView::setMap(BlockMap map) {
    map_ = std::move(map);
    row_ = col_ = 0;
    image_ = QImage();
    double low = INFINITY, high = -INFINITY;
    for (const float value : map_.amax)
        if (value > 0 && std::isfinite(value)) {
            low = std::min(low, std::log2(double(value)));
            high = std::max(high, std::log2(double(value)));
        }
    low_ = std::isfinite(low) ? low : 0;
    high_ = std::isfinite(high) && high > low_ ? high : low_ + 1;
    setAccessibleDescription(tr("%1 × %2 blocks, amax from %3 to %4")
                                 .arg(formatCount(map_.rows), formatCount(map_.cols), formatScale(std::exp2(low_)),
                                      formatScale(std::exp2(high_))));
    update();
}

void BlockMapView::render(double ratio) {
    const int width = std::max(1, int(std::lround(this->width() * ratio))),
              height = std::max(1, int(std::lround((this->height() - 2) * ratio)));
    image_ = QImage(width, height, QImage::Format_RGB32);
    for (int y = 0; y < height; ++y) {
        auto* line = reinterpret_cast<QRgb*>(image_.scanLine(y));
        const int top = y * map_.rows / height, bottom = std::max(top + 1, (y + 1) * map_.rows / height);
        for (int x = 0; x < width; ++x) {
            const int left = x * map_.cols / width, right = std::max(left + 1, (x + 1) * map_.cols / width);
            float most = 0;
            for (int r = top; r < bottom; ++r)
                for (int c = left; c < right; ++c)
                    most = std::max(most, map_.amax[size_t(r) * size_t(map_.cols) + size_t(c)]);
            line[x] = most > 0
                          ? Theme::instance().mapColor(ColorMap::Mag, (std::log2(double(most)) - low_) / (high_ - low_))
                          : color(Token::Raised).rgb();
        }
    }
    image_.setDevicePixelRatio(ratio);
}

void BlockMapView::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    if (map_.empty()) {
        painter.setFont(uiFont(TextSize::Small));
        painter.setPen(color(Token::Text3));
        painter.drawText(rect(), Qt::AlignCenter, tr("One scale for the whole tensor."));
        return;
    }
    if (image_.isNull()) render(devicePixelRatioF());
    painter.drawImage(QPointF(0, 1), image_);
    if (hasFocus()) {
        painter.setPen(color(Token::Accent));
        painter.drawRect(QRectF(double(col_) * width() / map_.cols, 1 + double(row_) * (height() - 2) / map_.rows,
                                std::max(2.0, double(width()) / map_.cols - 1),
                                std::max(2.0, double(height() - 2) / map_.rows - 1)));
        painter.drawRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5));
    }
}

QString BlockMapView::blockText(int row, int col) const {
    const size_t index = size_t(row) * size_t(map_.cols) + size_t(col);
    return tr("block %1, %2: amax %3, scale × %4")
        .arg(formatCount(row), formatCount(col), formatScale(double(map_.amax[index])),
             formatScale(double(map_.scale[index])));
}

void BlockMapView::mouseMoveEvent(QMouseEvent* event) {
    if (map_.empty()) return;
    const int row = std::clamp(int(event->position().y() * map_.rows / std::max(1, height())), 0, map_.rows - 1);
    const int col = std::clamp(int(event->position().x() * map_.cols / std::max(1, width())), 0, map_.cols - 1);
    Q_EMIT hovered(blockText(row, col));
}

void BlockMapView::leaveEvent(QEvent*) {
    Q_EMIT hovered(QString());
}

void BlockMapView::keyPressEvent(QKeyEvent* event) {
    const int key = event->key();
    if (map_.empty() || (key != Qt::Key_Left && key != Qt::Key_Right && key != Qt::Key_Up && key != Qt::Key_Down))
        return QWidget::keyPressEvent(event);
    col_ = std::clamp(col_ + (key == Qt::Key_Right) - (key == Qt::Key_Left), 0, map_.cols - 1);
    row_ = std::clamp(row_ + (key == Qt::Key_Down) - (key == Qt::Key_Up), 0, map_.rows - 1);
    Q_EMIT hovered(blockText(row_, col_));
    update();
}

}  // namespace mantissa::gui
