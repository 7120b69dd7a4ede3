// Mouse, wheel, keys and context menu of PlotView.
#include <QApplication>
#include <QClipboard>
#include <QFileDialog>
#include <QMenu>
#include <QMimeData>
#include <QMouseEvent>
#include <cmath>

#include "gui/plot/plot_layers.h"
#include "gui/plot/plot_view.h"

namespace mantissa::gui {

const SeriesPyramid* PlotView::snapSeries() const {
    const SeriesPyramid* best = nullptr;
    for (const PlotCurve& curve : content_.curves) {
        if (curve.data && curve.snaps && !curve.data->empty() && (!best || curve.data->size() > best->size())) {
            best = curve.data.get();
        }
    }
    return best;
}

double PlotView::snapped(double x) const {
    const SeriesPyramid* series = snapSeries();
    return series ? series->x(series->nearest(x)) : x;
}

double PlotView::viewX(const QPointF& position) const {
    const QRectF plot = plotRect();
    const auto range = xRange();
    return range.low + (position.x() - plot.left()) / plot.width() * (range.high - range.low);
}

int PlotView::nearestCurve(const QPointF& position) const {
    const double x = viewX(position);
    int best = -1;
    double distance = 12;
    for (size_t c = 0; c < content_.curves.size(); ++c) {
        const PlotCurve& curve = content_.curves[c];
        if (!curve.data || curve.data->empty() || curve.width <= 0 || x < curve.data->firstX() ||
            x > curve.data->lastX()) {
            continue;
        }
        const double y = toScene(x, double(curve.data->y(curve.data->nearest(x)))).y();
        if (std::fabs(y - position.y()) < distance) {
            distance = std::fabs(y - position.y());
            best = int(c);
        }
    }
    return best;
}

void PlotView::mousePressEvent(QMouseEvent* event) {
    pressAt_ = dragAt_ = event->position();
    drag_ = Drag::None;
    event->accept();
}

void PlotView::mouseMoveEvent(QMouseEvent* event) {
    const QPointF at = event->position();
    if (event->buttons() & Qt::LeftButton && (at - pressAt_).manhattanLength() > 4 && plotRect().contains(pressAt_)) {
        drag_ = event->modifiers() & Qt::ShiftModifier ? Drag::Box : Drag::Range;
        dragAt_ = at;
        overlay_->update();
        return;
    }
    if (event->buttons() & Qt::MiddleButton && link_ && options_.sharesView) {
        const auto range = xRange();
        link_->pan((dragAt_.x() - at.x()) / plotRect().width() * (range.high - range.low));
        dragAt_ = at;
        return;
    }
    if (!link_) {
        return;
    }
    if (!plotRect().contains(at)) {
        link_->clearCursor();
        return;
    }
    link_->setCursor(snapped(viewX(at)));
    if (content_.curves.size() > 8) {
        const int nearest = nearestCurve(at);
        if (nearest != highlighted_) {
            highlighted_ = nearest;
            overlay_->highlight = QImage();
            if (nearest >= 0) {
                const double ratio = viewport()->devicePixelRatioF();
                AxisScale x;
                x.low = xRange().low;
                x.high = xRange().high;
                CurveRaster raster(int(plotRect().width() * ratio), int(plotRect().height() * ratio), x, y_);
                raster.drawCurve(*content_.curves[size_t(nearest)].data,
                                 {content_.curves[size_t(nearest)].ink.color(), 2.4 * ratio, {}});
                overlay_->highlight = raster.image();
                overlay_->highlight.setDevicePixelRatio(ratio);
            }
            overlay_->update();
            Q_EMIT highlightChanged(nearest);
        }
    }
}

void PlotView::mouseReleaseEvent(QMouseEvent* event) {
    const Drag drag = drag_;
    drag_ = Drag::None;
    overlay_->update();
    if (drag == Drag::None) {
        if (event->button() == Qt::LeftButton && (event->position() - pressAt_).manhattanLength() <= 4) {
            for (const PlotEvent& mark : content_.events) {
                if (event->position().y() < plotRect().top() &&
                    std::fabs(toScene(mark.x, 0).x() - event->position().x()) < 8) {
                    Q_EMIT eventClicked(mark.x);
                    return;
                }
            }
            if (const int curve = nearestCurve(event->position());
                curve >= 0 && !content_.curves[size_t(curve)].id.isEmpty()) {
                Q_EMIT curveClicked(content_.curves[size_t(curve)].id);
            }
        }
        return;
    }
    const QRectF box = QRectF(pressAt_, dragAt_).normalized().intersected(plotRect());
    if (box.width() < 3) {
        return;
    }
    if (drag == Drag::Box) {
        const QRectF plot = plotRect();
        const double space = y_.high - y_.low;
        setYRange(y_.low + (plot.bottom() - box.bottom()) / plot.height() * space,
                  y_.low + (plot.bottom() - box.top()) / plot.height() * space);
    }
    const double low = viewX(box.topLeft()), high = viewX(box.topRight());
    if (link_ && options_.sharesView) {
        link_->setView(low, high);
    } else {
        setOwnRange(low, high);
    }
}

void PlotView::mouseDoubleClickEvent(QMouseEvent* event) {
    if (event->button() == Qt::LeftButton) {
        fitY();
        if (link_) {
            link_->showAll();
        }
    }
}

void PlotView::leaveEvent(QEvent* event) {
    QChartView::leaveEvent(event);
    if (link_) {
        link_->clearCursor();
    }
    if (highlighted_ >= 0) {
        highlighted_ = -1;
        overlay_->update();
        Q_EMIT highlightChanged(-1);
    }
}

void PlotView::wheelEvent(QWheelEvent* event) {
    const double factor = std::pow(0.85, event->angleDelta().y() / 120.0);
    const QRectF plot = plotRect();
    if (event->modifiers() & Qt::ControlModifier) {
        const double at = y_.low + (plot.bottom() - event->position().y()) / plot.height() * (y_.high - y_.low);
        setYRange(at - (at - y_.low) * factor, at + (y_.high - at) * factor);
    } else if (link_ && options_.sharesView && event->angleDelta().y() != 0) {
        link_->zoom(factor, viewX(event->position()));
    }
    event->accept();
}

void PlotView::moveCursor(int samples) {
    const SeriesPyramid* series = snapSeries();
    if (!series || series->empty() || !link_) {
        return;
    }
    const double from = std::isnan(link_->cursor()) ? series->lastX() : link_->cursor();
    const qint64 index = qint64(series->nearest(from)) + samples;
    link_->setCursor(series->x(size_t(std::clamp<qint64>(index, 0, qint64(series->size()) - 1))));
}

void PlotView::keyPressEvent(QKeyEvent* event) {
    const bool alt = event->modifiers() & Qt::AltModifier, shift = event->modifiers() & Qt::ShiftModifier;
    const bool control = event->modifiers() & Qt::ControlModifier;
    if (control && event->key() == Qt::Key_C) {
        auto* data = new QMimeData;
        const QString text = csv();
        data->setText(text);
        data->setData(QStringLiteral("text/csv"), text.toUtf8());
        QApplication::clipboard()->setMimeData(data);
        return;
    }
    if (!link_ || control) {
        QChartView::keyPressEvent(event);
        return;
    }
    const auto range = link_->view();
    const double middle = std::isnan(link_->cursor()) ? (range.low + range.high) / 2 : link_->cursor();
    switch (event->key()) {
        case Qt::Key_Left:
            alt ? link_->back() : moveCursor(shift ? -100 : -1);
            return;
        case Qt::Key_Right:
            alt ? link_->forward() : moveCursor(shift ? 100 : 1);
            return;
        case Qt::Key_Plus:
            link_->zoom(0.7, middle);
            return;
        case Qt::Key_Minus:
            link_->zoom(1 / 0.7, middle);
            return;
        case Qt::Key_0:
            fitY();
            link_->showAll();
            return;
        case Qt::Key_F:
            link_->setFollow(!link_->follows());
            return;
        case Qt::Key_End:
            link_->setFollow(true);
            return;
        case Qt::Key_Home:
            link_->setView(link_->extent().low, link_->extent().low + range.high - range.low);
            return;
        case Qt::Key_L:
            setScaleKind(options_.yScale == ScaleKind::Linear ? ScaleKind::Log
                         : options_.yScale == ScaleKind::Log  ? ScaleKind::SymLog
                                                              : ScaleKind::Linear);
            return;
        case Qt::Key_Escape:
            link_->clearCursor();
            return;
        default:
            QWidget::keyPressEvent(event);  // not QGraphicsView's: it would scroll
    }
}

void PlotView::focusInEvent(QFocusEvent* event) {
    QChartView::focusInEvent(event);
    overlay_->update();
}

void PlotView::focusOutEvent(QFocusEvent* event) {
    QChartView::focusOutEvent(event);
    overlay_->update();
}

void PlotView::changeEvent(QEvent* event) {
    QChartView::changeEvent(event);
    if (event->type() == QEvent::LocaleChange || event->type() == QEvent::FontChange) {
        renderSoon(0);
    }
}

void PlotView::fillMenu(QMenu& menu) {
    QMenu* scale = menu.addMenu(QStringLiteral("Scale of Y"));
    for (const auto& [name, kind] : {std::pair("Linear", ScaleKind::Linear), std::pair("Logarithmic", ScaleKind::Log),
                                     std::pair("Symmetric log", ScaleKind::SymLog)}) {
        QAction* action = scale->addAction(QLatin1String(name), this, [this, kind = kind] { setScaleKind(kind); });
        action->setCheckable(true);
        action->setChecked(options_.yScale == kind);
    }
    menu.addAction(QStringLiteral("Show all"), this, [this] {
        fitY();
        if (link_) {
            link_->showAll();
        }
    });
    menu.addSeparator();
    menu.addAction(QStringLiteral("Show data"), this, &PlotView::showData);
    menu.addAction(QStringLiteral("Copy as CSV"), this, [this] { QApplication::clipboard()->setText(csv()); });
    menu.addAction(QStringLiteral("Copy as picture"), this,
                   [this] { QApplication::clipboard()->setImage(picture(2)); });
    menu.addSeparator();
    const auto ask = [this](const char* what, const char* suffix, const std::function<void(const QString&)>& save) {
        const QString name =
            options_.title.toLower().replace(QLatin1Char(' '), QLatin1Char('-')) + QLatin1String(suffix);
        const QString path = QFileDialog::getSaveFileName(this, QLatin1String(what), name);
        if (!path.isEmpty()) {
            save(path);
        }
    };
    menu.addAction(QStringLiteral("Export PNG…"), this,
                   [ask, this] { ask("Export PNG", ".png", [this](const QString& path) { exportPng(path); }); });
    menu.addAction(QStringLiteral("Export SVG…"), this,
                   [ask, this] { ask("Export SVG", ".svg", [this](const QString& path) { saveSvg(path); }); });
    menu.addAction(QStringLiteral("Export CSV…"), this,
                   [ask, this] { ask("Export CSV", ".csv", [this](const QString& path) { exportCsv(path); }); });
}

void PlotView::contextMenuEvent(QContextMenuEvent* event) {
    auto* menu = new QMenu(this);
    menu->setAttribute(Qt::WA_DeleteOnClose);
    fillMenu(*menu);
    menu->popup(event->globalPos());
}

}  // namespace mantissa::gui
