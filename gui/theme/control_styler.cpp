#include "gui/theme/control_styler.h"

#include <QApplication>
#include <QElapsedTimer>
#include <QEvent>
#include <QScrollArea>
#include <QStyledItemDelegate>
#include <QTableView>
#include <algorithm>
#include <typeinfo>

#include "gui/theme/style_sheet.h"

namespace mantissa::gui {
namespace {

constexpr double kSliceMs = 10;

/// Cells with the padding of the heads above them: the item padding of a sheet does not move the text.
class PaddedCells : public QStyledItemDelegate {
  public:
    using QStyledItemDelegate::QStyledItemDelegate;
    QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override {
        return QStyledItemDelegate::sizeHint(option, index) + QSize(2 * kMore, 0);
    }
    void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
        QStyleOptionViewItem ground = option;
        initStyleOption(&ground, index);
        option.widget->style()->drawPrimitive(QStyle::PE_PanelItemViewItem, &ground, painter, option.widget);
        QStyleOptionViewItem inner = option;
        inner.rect.adjust(kMore, 0, -kMore, 0);
        QStyledItemDelegate::paint(painter, inner, index);
    }

  private:
    static constexpr int kMore = 5;  // the style has 3 of the 8
};

bool isPlain(const QAbstractItemDelegate* delegate) {
    return delegate && typeid(*delegate) == typeid(QStyledItemDelegate);
}

}  // namespace

ControlStyler::ControlStyler(QObject* parent) : QObject(parent) {
    qApp->installEventFilter(this);
    next_.setSingleShot(true);
    connect(&next_, &QTimer::timeout, this, &ControlStyler::slice);
}

bool ControlStyler::eventFilter(QObject* object, QEvent* event) {
    if (event->type() != QEvent::Polish || !object->isWidgetType()) return false;
    auto* widget = static_cast<QWidget*>(object);
    if (auto* area = qobject_cast<QScrollArea*>(widget)) {  // its content lies on the card behind it
        area->setFrameShape(QFrame::NoFrame);
        area->viewport()->setAutoFillBackground(false);
        if (area->widget()) area->widget()->setAutoFillBackground(false);
    }
    if (auto* table = qobject_cast<QTableView*>(widget); table && isPlain(table->itemDelegate()))
        table->setItemDelegate(new PaddedCells(table));
    if (widget->styleSheet().isEmpty())
        if (const QString sheet = controlSheet(*widget); !sheet.isEmpty()) widget->setStyleSheet(sheet);
    return false;
}

void ControlStyler::restyle() {
    clearControlSheets();
    waiting_.clear();
    for (QWidget* widget : QApplication::allWidgets())
        if (!widget->styleSheet().isEmpty()) waiting_.append(widget);
    const auto shown = std::stable_partition(waiting_.begin(), waiting_.end(),
                                             [](const QPointer<QWidget>& widget) { return widget->isVisible(); });
    visible_ = static_cast<int>(shown - waiting_.begin());
    for (QWidget* window : QApplication::topLevelWidgets()) {
        if (visible_ == 0 || !window->isVisible() || !window->updatesEnabled()) continue;
        window->setUpdatesEnabled(false);
        held_.append(window);
    }
    next_.start(0);
}

void ControlStyler::slice() {
    QElapsedTimer timer;
    timer.start();
    while (!waiting_.isEmpty() && static_cast<double>(timer.nsecsElapsed()) * 1e-6 < kSliceMs) {
        const QPointer<QWidget> widget = waiting_.takeFirst();
        if (widget) widget->setStyleSheet(controlSheet(*widget));
        if (--visible_ == 0) break;
    }
    if (visible_ <= 0) release();
    if (!waiting_.isEmpty()) next_.start(0);
}

void ControlStyler::release() {
    for (const QPointer<QWidget>& window : std::as_const(held_))
        if (window) window->setUpdatesEnabled(true);
    held_.clear();
}

}  // namespace mantissa::gui
