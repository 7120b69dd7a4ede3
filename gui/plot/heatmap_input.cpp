// Mouse, wheel, keys and CSV of the heatmap.
#include <QApplication>
#include <QClipboard>
#include <QContextMenuEvent>
#include <QFileDialog>
#include <QMenu>
#include <QMouseEvent>
#include <QSaveFile>
#include <QScrollBar>
#include <QThreadPool>
#include <algorithm>
#include <cmath>

#include "gui/plot/heatmap_view.h"

namespace mantissa::gui {

QString HeatmapView::csv() const {
    QString text = QStringLiteral("tensor,first_step,last_step,value\n");
    const auto view = link_->view();
    for (int row = 0; row < cells_.rows && row < int(rows_.size()); ++row) {
        for (int c = 0; c < cells_.columns; ++c) {
            const double from = cells_.firstStep + c * cells_.columnWidth(), to = from + cells_.columnWidth();
            const size_t index = size_t(row) * size_t(cells_.columns) + size_t(c);
            if (to <= view.low || from > view.high || (std::isnan(cells_.values[index]) && !cells_.nonFinite[index])) {
                continue;
            }
            const QString value =
                cells_.nonFinite[index] ? QStringLiteral("NaN") : QString::number(double(cells_.values[index]), 'g', 9);
            text += QStringLiteral("%1 %2,%3,%4,%5\n")
                        .arg(rows_[size_t(row)].group, rows_[size_t(row)].label)
                        .arg(qint64(std::ceil(from)))
                        .arg(qint64(std::ceil(to)) - 1)
                        .arg(value);
        }
    }
    return text;
}

void HeatmapView::mousePressEvent(QMouseEvent* event) {
    pressAt_ = dragAt_ = event->position();
    dragging_ = false;
}

void HeatmapView::mouseMoveEvent(QMouseEvent* event) {
    const QPointF at = event->position();
    if (event->buttons() & Qt::LeftButton && std::fabs(at.x() - pressAt_.x()) > 4 && plotRect().contains(pressAt_)) {
        dragging_ = true;
        dragAt_ = at;
        update();
        return;
    }
    const int row = plotRect().contains(at) ? rowAt(at.y()) : -1;
    hovered_ = row;
    if (row < 0) {
        link_->clearCursor();
    } else {
        link_->setCursor(std::clamp(std::floor(stepAt(at.x())), link_->extent().low, link_->extent().high));
    }
    update();
    Q_EMIT hovered(row, link_->cursor());
}

void HeatmapView::mouseReleaseEvent(QMouseEvent* event) {
    if (dragging_) {
        dragging_ = false;
        link_->setView(stepAt(std::min(pressAt_.x(), dragAt_.x())), stepAt(std::max(pressAt_.x(), dragAt_.x())));
    } else if (const int row = rowAt(event->position().y()); row >= 0 && event->button() == Qt::LeftButton) {
        select(row);
    }
    update();
}

void HeatmapView::mouseDoubleClickEvent(QMouseEvent*) {
    link_->showAll();
}

void HeatmapView::leaveEvent(QEvent*) {
    hovered_ = -1;
    link_->clearCursor();
    Q_EMIT hovered(-1, 0);
}

void HeatmapView::wheelEvent(QWheelEvent* event) {
    if (event->position().x() < leftMargin_ || event->position().x() > width() - rightMargin_) {
        scroll_->setValue(scroll_->value() - event->angleDelta().y() / 3);
    } else if (event->angleDelta().y() != 0) {
        link_->zoom(std::pow(0.85, event->angleDelta().y() / 120.0), stepAt(event->position().x()));
    }
    event->accept();
}

void HeatmapView::keyPressEvent(QKeyEvent* event) {
    const auto view = link_->view();
    const double column = std::max(1.0, (view.high - view.low) / plotRect().width());
    const double from = std::isnan(link_->cursor()) ? link_->extent().high : link_->cursor();
    const auto move = [&](double by) {
        link_->setCursor(std::clamp(std::round(from + by), link_->extent().low, link_->extent().high));
    };
    const bool alt = event->modifiers() & Qt::AltModifier;
    switch (event->key()) {
        case Qt::Key_Up:
            select(std::max(0, selected_ - 1));
            return;
        case Qt::Key_Down:
            select(std::min(int(rows_.size()) - 1, selected_ + 1));
            return;
        case Qt::Key_Left:
            alt ? link_->back() : move(event->modifiers() & Qt::ShiftModifier ? -100 : -column);
            return;
        case Qt::Key_Right:
            alt ? link_->forward() : move(event->modifiers() & Qt::ShiftModifier ? 100 : column);
            return;
        case Qt::Key_Plus:
            link_->zoom(0.7, from);
            return;
        case Qt::Key_Minus:
            link_->zoom(1 / 0.7, from);
            return;
        case Qt::Key_0:
            link_->showAll();
            return;
        case Qt::Key_F:
            link_->setFollow(!link_->follows());
            return;
        case Qt::Key_End:
            link_->setFollow(true);
            return;
        case Qt::Key_Home:
            link_->setView(link_->extent().low, link_->extent().low + view.high - view.low);
            return;
        case Qt::Key_Escape:
            link_->clearCursor();
            return;
        case Qt::Key_C:
            if (event->modifiers() & Qt::ControlModifier) {
                QApplication::clipboard()->setText(csv());
                return;
            }
            break;
        default:
            break;
    }
    QWidget::keyPressEvent(event);
}

void HeatmapView::contextMenuEvent(QContextMenuEvent* event) {
    auto* menu = new QMenu(this);
    menu->setAttribute(Qt::WA_DeleteOnClose);
    menu->addAction(QStringLiteral("Show all"), this, [this] { link_->showAll(); });
    menu->addAction(QStringLiteral("Copy as CSV"), this, [this] { QApplication::clipboard()->setText(csv()); });
    menu->addAction(QStringLiteral("Copy as picture"), this,
                    [this] { QApplication::clipboard()->setImage(picture(2)); });
    menu->addSeparator();
    const auto ask = [this](const QString& what, const QString& name, const std::function<void(const QString&)>& save) {
        const QString path = QFileDialog::getSaveFileName(this, what, name);
        if (!path.isEmpty()) {
            save(path);
        }
    };
    menu->addAction(QStringLiteral("Export PNG…"), this, [this, ask] {
        ask(QStringLiteral("Export PNG"), QStringLiteral("heatmap.png"), [this](const QString& path) {
            QThreadPool::globalInstance()->start([image = picture(2), path] { image.save(path, "PNG"); });
        });
    });
    menu->addAction(QStringLiteral("Export CSV…"), this, [this, ask] {
        ask(QStringLiteral("Export CSV"), QStringLiteral("heatmap.csv"), [this](const QString& path) {
            QSaveFile file(path);
            if (file.open(QIODevice::WriteOnly) && file.write(csv().toUtf8()) >= 0) {
                file.commit();
            }
        });
    });
    menu->popup(event->globalPos());
}

}  // namespace mantissa::gui
