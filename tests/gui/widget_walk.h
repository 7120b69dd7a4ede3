// Walks a tree of widgets: names, tooltips and keys of controls; clipped, covered and pale text.
#pragma once

#include <gtest/gtest.h>

#include <QAbstractButton>
#include <QAbstractItemView>
#include <QAbstractSpinBox>
#include <QApplication>
#include <QButtonGroup>
#include <QComboBox>
#include <QHash>
#include <QHeaderView>
#include <QImage>
#include <QLabel>
#include <QLayout>
#include <QLineEdit>
#include <QSet>
#include <QTableView>
#include <QTest>
#include <QToolButton>
#include <algorithm>

#include "gui/theme/theme.h"

namespace mantissa::gui::walk {

inline QString where(const QWidget* widget) {
    QString path;
    for (; widget; widget = widget->parentWidget())
        path.prepend(QLatin1Char('/') + QLatin1String(widget->metaObject()->className()));
    return path;
}

/// Of an exclusive group the Tab key goes to the checked button; arrow keys go from there to the others.
inline bool reachedByArrows(const QWidget* widget) {
    const auto* button = qobject_cast<const QAbstractButton*>(widget);
    if (!button || !button->group() || !button->group()->exclusive()) return false;
    const auto members = button->group()->buttons();
    // The member that had the focus last keeps the Tab key, also when another was checked by a key since.
    return !button->isChecked() || (!(button->focusPolicy() & Qt::TabFocus) &&
                                    std::any_of(members.begin(), members.end(), [](const QAbstractButton* other) {
                                        return other->isVisible() && (other->focusPolicy() & Qt::TabFocus);
                                    }));
}

inline bool isControl(const QWidget* widget) {
    const QString type = QLatin1String(widget->metaObject()->className());
    if (type.startsWith(QLatin1String("Q")) &&
        (widget->objectName().startsWith(QLatin1String("qt_")) || widget->inherits("QScrollBar")))
        return false;
    if (widget->parentWidget() && widget->parentWidget()->inherits("QLineEdit")) return false;  // icons inside a field
    if (widget->parentWidget() && widget->parentWidget()->inherits("QTabBar")) return false;
    if (type == QLatin1String("QTableCornerButton")) return false;
    if (const auto* combo = qobject_cast<const QComboBox*>(widget->parentWidget()); combo && combo->view() == widget)
        return false;
    if (widget->inherits("QLabel")) return false;  // its text is its name
    return widget->inherits("QAbstractButton") || widget->inherits("QLineEdit") || widget->inherits("QComboBox") ||
           widget->inherits("QAbstractSpinBox") || widget->inherits("QPlainTextEdit") ||
           (widget->inherits("QAbstractItemView") && !widget->inherits("QHeaderView")) || widget->inherits("QTabBar") ||
           (widget->focusPolicy() != Qt::NoFocus && type.startsWith(QLatin1String("mantissa")));
}

/// Every control of the window has a name for assistive tools, and every input a tooltip.
inline void expectNamed(QWidget& root) {
    int controls = 0;
    for (const QWidget* widget : root.findChildren<QWidget*>()) {
        if (!isControl(widget) || (widget->window() != &root)) continue;
        ++controls;
        const auto* button = qobject_cast<const QAbstractButton*>(widget);
        if (button && button->isHidden() && button->text().isEmpty() && button->icon().isNull())
            continue;  // waits for a message
        EXPECT_FALSE(widget->accessibleName().isEmpty() && !(button && !button->text().isEmpty()))
            << "no name: " << where(widget).toStdString();
        // Charts and tables explain themselves cell by cell; a tooltip must not cover what it explains.
        const bool input = widget->inherits("QAbstractButton") || widget->inherits("QLineEdit") ||
                           widget->inherits("QComboBox") || widget->inherits("QAbstractSpinBox");
        if (!input) continue;
        EXPECT_FALSE(widget->toolTip().isEmpty())
            << "no tooltip: " << where(widget).toStdString() << " " << widget->accessibleName().toStdString();
    }
    EXPECT_GT(controls, 3);
}

inline void expectCellsFit(const QAbstractItemView* view) {
    if (!view->model()) return;
    const auto* table = qobject_cast<const QTableView*>(view);
    const QFontMetrics metrics(view->font());
    if (table && !table->horizontalHeader()->isHidden()) {
        const QHeaderView* head = table->horizontalHeader();
        const QFontMetrics bold(head->font());
        for (int c = 0; c < head->count(); ++c) {
            const QString text = view->model()->headerData(c, Qt::Horizontal).toString();
            if (head->isSectionHidden(c)) continue;
            EXPECT_LE(bold.horizontalAdvance(text), head->sectionSize(c))
                << view->accessibleName().toStdString() << ": head " << text.toStdString();
        }
    }
    if (!table) return;
    for (int row = 0; row < std::min(20, view->model()->rowCount()); ++row) {
        for (int column = 0; column < view->model()->columnCount(); ++column) {
            const QModelIndex index = view->model()->index(row, column);
            const QRect cell = view->visualRect(index);
            const QString text = index.data().toString();
            const bool told = index.data(Qt::ToolTipRole).toString().contains(text);
            if (cell.isEmpty() || told) continue;
            EXPECT_LE(metrics.horizontalAdvance(text), cell.width())
                << view->accessibleName().toStdString() << ": " << text.toStdString();
        }
    }
}

/// Text of labels, buttons, fields and heads fits into its widget; what is cut in a table stands in a tooltip.
inline void expectUnclipped(QWidget& root) {
    QCoreApplication::sendPostedEvents(nullptr, QEvent::LayoutRequest);
    for (const QLabel* label : root.findChildren<QLabel*>()) {
        if (!label->isVisible() || label->text().isEmpty() ||
            label->sizePolicy().horizontalPolicy() == QSizePolicy::Ignored)
            continue;
        const QFontMetrics metrics(label->font());
        const int room = label->contentsRect().width();
        const std::string which = where(label).toStdString() + ": " + label->text().toStdString();
        if (label->wordWrap()) {
            const QRect needed =
                metrics.boundingRect(QRect(0, 0, std::max(1, room), 10000), Qt::TextWordWrap, label->text());
            EXPECT_LE(needed.height(), label->contentsRect().height() + 2) << which;
        } else {
            EXPECT_LE(metrics.horizontalAdvance(label->text()), room + 1) << which;
            EXPECT_LE(metrics.height(), label->contentsRect().height() + 3) << which;
        }
    }
    for (const QAbstractButton* button : root.findChildren<QAbstractButton*>()) {
        const auto* tool = qobject_cast<const QToolButton*>(button);
        if (!button->isVisible() || button->text().isEmpty() || button->inherits("mantissa::gui::Capsule") ||
            (tool && tool->toolButtonStyle() == Qt::ToolButtonIconOnly))
            continue;
        EXPECT_GE(button->width(), QFontMetrics(button->font()).horizontalAdvance(button->text()) + 4)
            << where(button).toStdString() << ": " << button->text().toStdString();
    }
    for (const QComboBox* combo : root.findChildren<QComboBox*>()) {
        if (!combo->isVisible()) continue;
        EXPECT_GE(combo->width() - 24, QFontMetrics(combo->font()).horizontalAdvance(combo->currentText()))
            << combo->accessibleName().toStdString() << ": " << combo->currentText().toStdString();
    }
    for (const QLineEdit* field : root.findChildren<QLineEdit*>()) {
        if (!field->isVisible() || field->text().isEmpty()) continue;
        const int around = qobject_cast<const QAbstractSpinBox*>(field->parentWidget()) ? 2 : 20;
        EXPECT_GE(field->width() - around, QFontMetrics(field->font()).horizontalAdvance(field->text()))
            << field->accessibleName().toStdString() << ": " << field->text().toStdString();
    }
    for (const QAbstractItemView* view : root.findChildren<QAbstractItemView*>())
        if (view->isVisible()) expectCellsFit(view);
}

/// Widgets that a layout placed do not lie over each other, and none leaves its parent.
inline void expectApart(QWidget& root) {
    for (const QWidget* parent : root.findChildren<QWidget*>()) {
        if (!parent->isVisible() || !parent->layout()) continue;
        QVector<const QWidget*> placed;
        for (int i = 0; i < parent->layout()->count(); ++i)
            if (const QWidget* widget = parent->layout()->itemAt(i)->widget(); widget && widget->isVisible())
                placed << widget;
        for (int i = 0; i < placed.size(); ++i) {
            const QRect frame = placed[i]->geometry();
            EXPECT_TRUE(parent->rect().adjusted(-1, -1, 1, 1).contains(frame) || frame.isEmpty())
                << where(placed[i]).toStdString() << " leaves its parent by "
                << std::max(frame.right() - parent->width(), frame.bottom() - parent->height()) + 1;
            for (int j = 0; j < i && !parent->layout()->inherits("QStackedLayout"); ++j) {
                const QRect both = frame & placed[j]->geometry();
                EXPECT_FALSE(both.width() > 1 && both.height() > 1)
                    << where(placed[i]).toStdString() << " over " << where(placed[j]).toStdString();
            }
        }
    }
}

/// Text of labels and buttons that are on stands out by 4.5 : 1 from what is behind it, as drawn (the tokens' own
/// contrast is exact in theme_test).
inline void expectContrast(QWidget& root) {
    const QImage picture = root.grab().toImage().convertToFormat(QImage::Format_RGB32);
    QVector<const QWidget*> texts;
    for (const QLabel* label : root.findChildren<QLabel*>())
        if (!label->text().trimmed().isEmpty()) texts << label;
    for (const QAbstractButton* button : root.findChildren<QAbstractButton*>())
        if (!button->text().trimmed().isEmpty() && !button->inherits("mantissa::gui::Capsule")) texts << button;
    for (const QWidget* widget : texts) {
        if (!widget->isVisible() || !widget->isEnabled() || widget->visibleRegion().isEmpty()) continue;
        if (widget->visibleRegion().boundingRect() != widget->rect()) continue;  // half scrolled away: parts of letters
        const QRect seen = widget->rect().translated(widget->mapTo(&root, QPoint()));
        const QRect area = seen & picture.rect();
        QHash<QRgb, int> counts;
        for (int y = area.top(); y <= area.bottom(); ++y)
            for (int x = area.left(); x <= area.right(); ++x) ++counts[picture.pixel(x, y)];
        QRgb ground = 0;
        for (auto it = counts.cbegin(); it != counts.cend(); ++it)
            if (it.value() > counts.value(ground)) ground = it.key();
        double best = 1;
        for (auto it = counts.cbegin(); it != counts.cend(); ++it)
            best = std::max(best, contrast(QColor(it.key()), QColor(ground)));
        const auto* label = qobject_cast<const QLabel*>(widget);
        const auto* button = qobject_cast<const QAbstractButton*>(widget);
        // Strokes thinner than a pixel never reach their colour whole.
        EXPECT_GE(best, 4.5 * 0.9) << where(widget).toStdString() << ": "
                                   << (label ? label->text() : button->text()).toStdString();
    }
}

/// Every control that is on can have the focus, and the Tab key comes to it.
inline void expectKeys(QWidget& root) {
    QApplication::setActiveWindow(&root);
    QSet<QWidget*> wanted;
    for (QWidget* widget : root.findChildren<QWidget*>()) {
        if (!widget->isVisible() || !widget->isEnabled() || widget->window() != &root) continue;
        const bool input = isControl(widget) && !widget->focusProxy() && !reachedByArrows(widget);
        EXPECT_FALSE(input && widget->focusPolicy() == Qt::NoFocus)
            << "never has the focus: " << where(widget).toStdString() << " " << widget->accessibleName().toStdString();
        if ((widget->focusPolicy() & Qt::TabFocus) && !widget->focusProxy() && !reachedByArrows(widget))
            wanted.insert(widget);
    }
    root.setFocus();
    const int most = 4 * int(wanted.size()) + 20;
    for (int i = 0; i < most && !wanted.isEmpty(); ++i) {
        QWidget* target = QApplication::focusWidget() ? QApplication::focusWidget() : &root;
        // Tables and editors take Tab for themselves; Ctrl+Tab leaves them, F6 goes to the next panel.
        QTest::keyClick(target, Qt::Key_Tab);
        if (QApplication::focusWidget() == target) QTest::keyClick(target, Qt::Key_Tab, Qt::ControlModifier);
        if (QApplication::focusWidget() == target) QTest::keyClick(target, Qt::Key_F6);
        if (QApplication::focusWidget()) wanted.remove(QApplication::focusWidget());
        const auto* reached = qobject_cast<const QAbstractButton*>(QApplication::focusWidget());
        if (reached && reached->group() && reached->group()->exclusive())
            for (QAbstractButton* member : reached->group()->buttons()) wanted.remove(member);  // by arrow keys
    }
    for (QWidget* widget : wanted)
        ADD_FAILURE() << "the Tab key does not reach " << widget->metaObject()->className() << " "
                      << widget->accessibleName().toStdString();
}

}  // namespace mantissa::gui::walk
