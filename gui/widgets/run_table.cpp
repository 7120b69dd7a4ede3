#include "gui/widgets/run_table.h"

#include <QKeyEvent>
#include <QPainter>
#include <QStyledItemDelegate>

#include "gui/models/run_list_model.h"
#include "gui/theme/fonts.h"
#include "gui/theme/icons.h"
#include "gui/widgets/run_marks.h"

namespace mantissa::gui {
namespace {

constexpr int kRowHeight = 27, kGroupHeight = 24, kSampleWidth = 22;

/// Paints a cell: state icon, line sample and name, or a number. Colours stay on a selected row.
class RunDelegate : public QStyledItemDelegate {
  public:
    using QStyledItemDelegate::QStyledItemDelegate;

    QSize sizeHint(const QStyleOptionViewItem&, const QModelIndex& index) const override {
        return {10, index.data(RunListModel::GroupRole).isValid() || !index.data(RunListModel::IdRole).isValid()
                        ? kGroupHeight
                        : kRowHeight};
    }

    void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
        const QVariant value = index.data(RunListModel::InfoRole);
        if (!value.isValid()) return;  // group rows are painted by the table
        const RunInfo run = value.value<RunInfo>();
        painter->save();
        if (option.state & QStyle::State_Selected)
            painter->fillRect(option.rect, color(Token::Sel));
        else if (option.state & QStyle::State_MouseOver)
            painter->fillRect(option.rect, color(Token::Hover));
        switch (index.column()) {
            case RunListModel::State:
                paintGlyph(*painter, stateGlyph(run.state), centred(option.rect, 16), color(stateToken(run.state)));
                break;
            case RunListModel::Name:
                paintName(*painter, option, index, run);
                break;
            default:
                paintValue(*painter, option, index, run);
        }
        painter->restore();
    }

  private:
    static QRectF centred(const QRect& rect, int size) {
        return QRectF(rect.center().x() - size / 2 + 1, rect.center().y() - size / 2 + 1, size, size);
    }

    static void paintName(QPainter& painter, const QStyleOptionViewItem& option, const QModelIndex& index,
                          const RunInfo& run) {
        QRect rect = option.rect.adjusted(4, 0, -4, 0);
        if (run.state != RunState::Queued && run.state != RunState::Refused)
            paintSample(painter, Theme::instance().series(run.styleIndex),
                        QRectF(rect.left(), rect.top(), kSampleWidth, rect.height()));
        rect.setLeft(rect.left() + kSampleWidth + 6);
        if (run.worstAlert > 0) {
            paintGlyph(painter, Glyph::Warning, QRectF(rect.right() - 13, rect.center().y() - 6, 13, 13),
                       color(run.worstAlert > 1 ? Token::Bad : Token::Warn));
            rect.setRight(rect.right() - 18);
        }
        if (run.baseline) {
            paintGlyph(painter, Glyph::Pin, QRectF(rect.right() - 13, rect.center().y() - 6, 13, 13),
                       color(Token::Text2));
            rect.setRight(rect.right() - 18);
        }
        painter.setFont(uiFont(TextSize::Body));
        painter.setPen(color(Token::Text));
        const QString text = index.data().toString();
        painter.drawText(rect, Qt::AlignVCenter | Qt::AlignLeft,
                         painter.fontMetrics().elidedText(text, Qt::ElideMiddle, rect.width()));
    }

    static void paintValue(QPainter& painter, const QStyleOptionViewItem& option, const QModelIndex& index,
                           const RunInfo& run) {
        const bool loss = index.column() == RunListModel::ValLoss;
        const bool bad = (loss && run.nonFinite()) ||
                         (index.column() == RunListModel::TrainLoss && run.hasLoss && run.loss != run.loss);
        painter.setFont(uiFont(TextSize::Body, loss));
        painter.setPen(color(bad ? Token::Bad : loss ? Token::Text : Token::Text2));
        const auto align = static_cast<Qt::Alignment>(index.data(Qt::TextAlignmentRole).toInt());
        const QRect rect = option.rect.adjusted(8, 0, -10, 0);
        painter.drawText(rect, static_cast<int>(align),
                         painter.fontMetrics().elidedText(index.data().toString(), Qt::ElideRight, rect.width()));
    }
};

}  // namespace

RunTable::RunTable(QWidget* parent) : QTreeView(parent) {
    setItemDelegate(new RunDelegate(this));
    setRootIsDecorated(false);
    setIndentation(0);
    setItemsExpandable(true);
    setExpandsOnDoubleClick(false);
    setUniformRowHeights(false);
    setSelectionMode(ExtendedSelection);
    setSelectionBehavior(SelectRows);
    setAllColumnsShowFocus(true);
    setContextMenuPolicy(Qt::CustomContextMenu);
    setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    setMouseTracking(true);
    setAccessibleName(tr("Runs"));
    setToolTip(tr("Click shows a run, Ctrl or Shift selects several, space pins the baseline"));
    connect(&Theme::instance(), &Theme::changed, viewport(), qOverload<>(&QWidget::update));
}

void RunTable::keyPressEvent(QKeyEvent* event) {
    if (event->key() == Qt::Key_Space && event->modifiers() == Qt::NoModifier) return Q_EMIT pinRequested();
    QTreeView::keyPressEvent(event);
}

void RunTable::drawRow(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const {
    const QVariant group = index.siblingAtColumn(0).data(RunListModel::GroupRole);
    if (!group.isValid()) {
        QTreeView::drawRow(painter, option, index);
        if (hasFocus() && currentIndex().isValid() && currentIndex().siblingAtColumn(0) == index.siblingAtColumn(0)) {
            painter->setPen(color(Token::Accent));
            painter->drawRect(option.rect.adjusted(0, 0, -1, -1));
        }
        return;
    }
    painter->fillRect(option.rect, color(Token::Raised));
    painter->setFont(uiFont(TextSize::Small, true));
    painter->setPen(color(Token::Text2));
    painter->drawText(option.rect.adjusted(8, 0, -8, 0), Qt::AlignVCenter | Qt::AlignLeft, group.toString());
    if (isExpanded(index.siblingAtColumn(0))) return;
    const QString hidden = tr("%1 hidden").arg(model()->rowCount(index.siblingAtColumn(0)));
    painter->setFont(uiFont(TextSize::Small));
    painter->drawText(option.rect.adjusted(8, 0, -10, 0), Qt::AlignVCenter | Qt::AlignRight, hidden);
}

}  // namespace mantissa::gui
