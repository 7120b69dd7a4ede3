#include "gui/widgets/run_list_panel.h"

#include <QApplication>
#include <QClipboard>
#include <QHeaderView>
#include <QInputDialog>
#include <QKeyEvent>
#include <QMenu>
#include <QMessageBox>
#include <QPainter>
#include <QPushButton>
#include <QShortcut>
#include <QStyledItemDelegate>
#include <QVBoxLayout>

#include "gui/controller/run_controller.h"
#include "gui/format/numbers.h"
#include "gui/theme/icons.h"
#include "gui/widgets/run_marks.h"
#include "gui/widgets/search_field.h"

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

QString firstOf(const QStringList& ids) {
    return ids.isEmpty() ? QString() : ids.first();
}

}  // namespace

RunTable::RunTable(QWidget* parent) : QTreeView(parent) {
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

RunListPanel::RunListPanel(RunController& controller, QWidget* parent) : QWidget(parent), controller_(controller) {
    model_ = new RunListModel(this);
    table_ = new RunTable(this);
    table_->setModel(model_);
    table_->setItemDelegate(new RunDelegate(table_));
    setAccessibleName(tr("Run list"));
    setFocusPolicy(Qt::ClickFocus);
    connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
    rebuildLayout();

    QHeaderView* head = table_->header();
    head->setStretchLastSection(false);
    head->setMinimumSectionSize(24);
    head->setContextMenuPolicy(Qt::CustomContextMenu);
    head->setSectionsClickable(true);
    head->setSortIndicatorShown(false);
    head->setToolTip(tr("Click sorts, right click chooses columns"));
    setVisibleColumns({});
    connect(head, &QHeaderView::customContextMenuRequested, this, &RunListPanel::showHeadMenu);
    connect(head, &QHeaderView::sectionClicked, this, [this, head](int column) {
        const bool again = head->sortIndicatorSection() == column && head->isSortIndicatorShown();
        const auto order =
            again && head->sortIndicatorOrder() == Qt::AscendingOrder ? Qt::DescendingOrder : Qt::AscendingOrder;
        head->setSortIndicatorShown(true);
        head->setSortIndicator(column, order);
        model_->sort(column, order);
    });
    connect(table_, &QTreeView::customContextMenuRequested, this, &RunListPanel::showContextMenu);
    connect(table_, &RunTable::pinRequested, pin_, &QToolButton::click);
    connect(table_, &QTreeView::doubleClicked, this, [this](const QModelIndex& at) {
        if (const RunInfo* info = model_->info(at)) Q_EMIT showRequested(info->id);
    });
    connect(table_, &QTreeView::clicked, this, [this](const QModelIndex& at) {
        if (!model_->info(at)) table_->setExpanded(at.siblingAtColumn(0), !table_->isExpanded(at.siblingAtColumn(0)));
    });
    connect(table_->selectionModel(), &QItemSelectionModel::selectionChanged, this, [this] {
        if (!restoring_) emitSelection();
    });
    connect(model_, &QAbstractItemModel::modelAboutToBeReset, this, [this] { restoring_ = true; });
    connect(model_, &QAbstractItemModel::modelReset, this, [this] {
        table_->expandAll();
        selectMany(kept_);
        restoring_ = false;
        updateEmptyText();
    });
    connect(&controller_, &RunController::runsChanged, this, &RunListPanel::refreshRuns);
    connect(&controller_, &RunController::runChanged, this, [this](const QString& id) {
        if (const RunInfo* info = controller_.run(id)) model_->updateRun(*info);
    });
    updateEmptyText();
}

void RunListPanel::rebuildLayout() {
    auto* outer = new QVBoxLayout(this);
    outer->setContentsMargins(0, 0, 0, 0);
    outer->setSpacing(0);
    auto* head = new QHBoxLayout;
    head->setContentsMargins(12, 8, 8, 4);
    head->setSpacing(6);
    head->addWidget(new TextLabel(tr("Runs"), Token::Text, TextSize::Body, true, this));
    count_ = new TextLabel(QString(), Token::Text2, TextSize::Small, false, this);
    head->addWidget(count_);
    head->addStretch(1);
    const auto tool = [this, head](Glyph glyph, const QString& name, const QString& tip) {
        auto* button = new QToolButton(this);
        button->setIcon(icon(glyph));
        button->setAccessibleName(name);
        button->setToolTip(tip);
        head->addWidget(button);
        return button;
    };
    pin_ = tool(Glyph::Pin, tr("Pin as baseline"),
                tr("Pin the selected run as the baseline of all differences, or unpin it (space)"));
    menu_ = tool(Glyph::Dots, tr("Run list menu"), tr("Group by, columns, copy the list"));
    outer->addLayout(head);

    filter_ = new SearchField(Glyph::Funnel, tr("Filter, e.g. loss < 2 and recipe = delayed"), this);
    filter_->setAccessibleName(tr("Filter runs"));
    filter_->setToolTip(
        tr("Words, or comparisons joined by and, or, not: status = running, val_loss < 2, tag = sweep (Ctrl+F)"));
    auto* filterBox = new QVBoxLayout;
    filterBox->setContentsMargins(12, 4, 12, 8);
    filterBox->setSpacing(4);
    filterBox->addWidget(filter_);
    filterError_ = new TextLabel(QString(), Token::Bad, TextSize::Small, false, this);
    filterError_->setWordWrap(true);
    filterError_->hide();
    filterBox->addWidget(filterError_);
    outer->addLayout(filterBox);

    empty_ = new TextLabel(QString(), Token::Text2, TextSize::Body, false, this);
    empty_->setAlignment(Qt::AlignHCenter | Qt::AlignTop);
    empty_->setWordWrap(true);
    empty_->setContentsMargins(24, 32, 24, 0);
    outer->addWidget(empty_, 1);
    outer->addWidget(table_, 1);
    card_ = new RunCard(controller_, this);
    outer->addWidget(card_);

    auto* escape = new QShortcut(QKeySequence(Qt::Key_Escape), this);
    escape->setContext(Qt::WidgetWithChildrenShortcut);
    connect(escape, &QShortcut::activated, filter_, &QLineEdit::clear);
    connect(filter_, &QLineEdit::textChanged, this, &RunListPanel::applyFilter);
    connect(menu_, &QToolButton::clicked, this, &RunListPanel::showListMenu);
    connect(pin_, &QToolButton::clicked, this, [this] {
        const QString id = currentId();
        if (!id.isEmpty()) controller_.setBaseline(controller_.baseline() == id ? QString() : id);
    });
}

void RunListPanel::paintEvent(QPaintEvent*) {
    QPainter(this).fillRect(rect(), color(Token::Panel));
}

void RunListPanel::refreshRuns() {
    model_->setRuns(controller_.runs());
    sizeColumns();
    updateEmptyText();
}

void RunListPanel::updateEmptyText() {
    const int shown = model_->shownCount();
    const auto total = model_->totalCount();
    count_->setText(total == 0 ? QString()
                    : shown == total
                        ? tr("%n runs", nullptr, static_cast<int>(total))
                              .replace(QStringLiteral("1 runs"), total == 1 ? tr("1 run") : QStringLiteral("1 runs"))
                        : tr("%1 of %2 runs").arg(formatCount(shown), formatCount(total)));
    const QString text = total == 0   ? tr("No runs in this store yet.\nA run appears here the moment it starts,\nalso "
                                             "one that mantissa-run started.")
                         : shown == 0 ? tr("No run matches the filter.\nEsc clears it.")
                                      : QString();
    empty_->setText(text);
    empty_->setVisible(!text.isEmpty());
    table_->setVisible(text.isEmpty());
    pin_->setVisible(total > 0);
    menu_->setVisible(total > 0);
}

void RunListPanel::applyFilter() {
    const RunFilter filter(filter_->text());
    filterError_->setText(filter.error());
    filterError_->setVisible(!filter.ok());
    filter_->setProperty("wrong", !filter.ok());
    filter_->style()->unpolish(filter_);
    filter_->style()->polish(filter_);
    if (filter.ok()) model_->setFilter(filter);
}

void RunListPanel::sizeColumns() {
    QHeaderView* head = table_->header();
    const QFontMetrics body(uiFont(TextSize::Body, true)), small(uiFont(TextSize::Body));
    for (int column = 0; column < RunListModel::ColumnCount; ++column) {
        if (column == RunListModel::Name) {
            head->setSectionResizeMode(column, QHeaderView::Stretch);
            continue;
        }
        head->setSectionResizeMode(column, QHeaderView::Fixed);
        if (column == RunListModel::State) {
            head->resizeSection(column, 26);
            continue;
        }
        int width = small.horizontalAdvance(model_->headerData(column, Qt::Horizontal, Qt::DisplayRole).toString());
        for (const RunInfo& run : controller_.runs())
            width = std::max(width, body.horizontalAdvance(RunListModel::cellText(run, column)));
        head->resizeSection(column, std::min(width + 20, 160));
    }
}

QStringList RunListPanel::visibleColumns() const {
    QStringList names;
    for (int column = RunListModel::TrainLoss; column < RunListModel::ColumnCount; ++column)
        if (!table_->isColumnHidden(column))
            names << model_->headerData(column, Qt::Horizontal, Qt::DisplayRole).toString();
    return names;
}

void RunListPanel::setVisibleColumns(const QStringList& names) {
    for (int column = RunListModel::TrainLoss; column < RunListModel::ColumnCount; ++column)
        table_->setColumnHidden(
            column, !names.contains(model_->headerData(column, Qt::Horizontal, Qt::DisplayRole).toString()));
    table_->setHorizontalScrollBarPolicy(names.isEmpty() ? Qt::ScrollBarAlwaysOff : Qt::ScrollBarAsNeeded);
    sizeColumns();
}

QStringList RunListPanel::selectedIds() const {
    const QModelIndexList rows = table_->selectionModel()->selectedRows(0);
    QStringList chosen, ordered;
    for (const QModelIndex& row : rows)
        if (const RunInfo* info = model_->info(row)) chosen << info->id;
    for (const QString& id : model_->shownIds())
        if (chosen.contains(id)) ordered << id;
    return ordered;
}

QString RunListPanel::currentId() const {
    const QStringList ids = selectedIds();
    const RunInfo* info = model_->info(table_->currentIndex());
    return info && ids.contains(info->id) ? info->id : firstOf(ids);
}

void RunListPanel::emitSelection() {
    kept_ = selectedIds();
    keptCurrent_ = currentId();
    card_->setRuns(kept_);
    QStringList ordered = kept_;
    ordered.removeAll(keptCurrent_);
    if (!keptCurrent_.isEmpty()) ordered.prepend(keptCurrent_);
    Q_EMIT selectionChanged(keptCurrent_, ordered);
}

void RunListPanel::select(const QString& id) {
    if (!model_->indexOf(id).isValid() && !filter_->text().isEmpty()) filter_->clear();
    keptCurrent_ = id;
    selectMany({id});
    emitSelection();
}

void RunListPanel::selectMany(const QStringList& ids) {
    const bool was = std::exchange(restoring_, true);
    QItemSelection selection;
    for (const QString& id : ids) {
        const QModelIndex at = model_->indexOf(id, 0);
        if (at.isValid()) selection.select(at, at.siblingAtColumn(RunListModel::ColumnCount - 1));
    }
    const QModelIndex current = model_->indexOf(keptCurrent_.isEmpty() ? firstOf(ids) : keptCurrent_);
    if (current.isValid()) table_->selectionModel()->setCurrentIndex(current, QItemSelectionModel::NoUpdate);
    table_->selectionModel()->select(selection, QItemSelectionModel::ClearAndSelect);
    restoring_ = was;
}

void RunListPanel::chooseMany(const QStringList& ids) {
    keptCurrent_ = firstOf(ids);
    selectMany(ids);
    emitSelection();
}

void RunListPanel::focusFilter() {
    filter_->setFocus(Qt::ShortcutFocusReason);
    filter_->selectAll();
}

void RunListPanel::copySelection() {
    QString text;
    QStringList line;
    for (int column = 0; column < RunListModel::ColumnCount; ++column)
        if (!table_->isColumnHidden(column))
            line << model_->headerData(column, Qt::Horizontal, Qt::DisplayRole).toString();
    text = line.join(QLatin1Char('\t')) + QLatin1Char('\n');
    for (const QString& id : selectedIds()) {
        const RunInfo* run = controller_.run(id);
        if (!run) continue;
        line.clear();
        for (int column = 0; column < RunListModel::ColumnCount; ++column) {
            if (table_->isColumnHidden(column)) continue;
            line << (column == RunListModel::Step      ? QString::number(run->step)
                     : column == RunListModel::ValLoss ? run->hasValLoss ? exact(run->valLoss) : QString()
                                                       : RunListModel::cellText(*run, column));
        }
        text += line.join(QLatin1Char('\t')) + QLatin1Char('\n');
    }
    QApplication::clipboard()->setText(text);
}

void RunListPanel::showContextMenu(const QPoint& position) {
    const RunInfo* run = model_->info(table_->indexAt(position));
    if (!run) return;
    const QString id = run->id;
    const RunInfo info = *run;
    QMenu menu(this);
    menu.addAction(tr("Show"), this, [this, id] { Q_EMIT showRequested(id); });
    menu.addAction(icon(Glyph::Pin), info.baseline ? tr("Unpin as baseline") : tr("Pin as baseline"), this,
                   [this, id, pinned = info.baseline] { controller_.setBaseline(pinned ? QString() : id); });
    menu.addSeparator();
    if (info.state == RunState::Running)
        menu.addAction(icon(Glyph::Pause), tr("Pause"), this, [this, id] { controller_.pause(id); });
    if (info.state == RunState::Paused)
        menu.addAction(icon(Glyph::Play), tr("Go on"), this, [this, id] { controller_.resume(id); });
    if (info.going())
        menu.addAction(icon(Glyph::Stop), tr("Stop with a checkpoint"), this, [this, id] { controller_.stop(id); });
    if (info.state == RunState::Interrupted || info.state == RunState::Stopped || info.state == RunState::Failed)
        menu.addAction(icon(Glyph::Play), tr("Resume from the newest checkpoint"), this,
                       [this, id] { controller_.resumeRun(id); });
    menu.addAction(icon(Glyph::Plus), tr("New run like this…"), this, [this, id] { Q_EMIT cloneRequested(id); });
    menu.addSeparator();
    menu.addAction(tr("Rename…"), this, [this, id] { renameRun(id); });
    menu.addAction(tr("Note…"), this, [this, id] { editNote(id); });
    menu.addAction(tr("Tags…"), this, [this, id] { editTags(id); });
    menu.addAction(icon(Glyph::Export), tr("Export…"), this, [this, id] { Q_EMIT exportRequested(id); });
    menu.addAction(icon(Glyph::Copy), tr("Copy rows"), this, &RunListPanel::copySelection);
    menu.addSeparator();
    QAction* remove = menu.addAction(tr("Delete…"), this, [this, id, name = info.name] {
        QMessageBox ask(QMessageBox::NoIcon, tr("Delete run"),
                        tr("%1 and its checkpoints are removed from the store. Nothing can bring them back.").arg(name),
                        QMessageBox::NoButton, window());
        QPushButton* yes = ask.addButton(tr("Delete"), QMessageBox::DestructiveRole);
        ask.addButton(QMessageBox::Cancel);
        ask.exec();
        if (ask.clickedButton() == static_cast<QAbstractButton*>(yes)) controller_.deleteRun(id);
    });
    remove->setEnabled(!info.going());
    if (info.going()) remove->setToolTip(tr("A run that is going cannot be deleted. Stop it first."));
    menu.setToolTipsVisible(true);
    menu.exec(table_->viewport()->mapToGlobal(position));
}

void RunListPanel::showHeadMenu(const QPoint& position) {
    QMenu menu(this);
    for (int column = RunListModel::TrainLoss; column < RunListModel::ColumnCount; ++column) {
        const QString name = model_->headerData(column, Qt::Horizontal, Qt::DisplayRole).toString();
        QAction* action = menu.addAction(name);
        action->setCheckable(true);
        action->setChecked(!table_->isColumnHidden(column));
        connect(action, &QAction::toggled, this, [this, name](bool on) {
            QStringList names = visibleColumns();
            names.removeAll(name);
            if (on) names << name;
            setVisibleColumns(names);
        });
    }
    menu.exec(table_->header()->mapToGlobal(position));
}

void RunListPanel::showListMenu() {
    using GroupBy = RunListModel::GroupBy;
    QMenu menu(this);
    const QList<QPair<QString, GroupBy>> ways = {{tr("Group by model"), GroupBy::Model},
                                                 {tr("Group by recipe"), GroupBy::Recipe},
                                                 {tr("Group by seed"), GroupBy::Seed},
                                                 {tr("Group by tag"), GroupBy::Tag},
                                                 {tr("No groups"), GroupBy::None}};
    for (const auto& [name, way] : ways) {
        QAction* action = menu.addAction(name, this, [this, way = way] { model_->setGroupBy(way); });
        action->setCheckable(true);
        action->setChecked(model_->groupBy() == way);
    }
    menu.addSeparator();
    menu.addAction(tr("Select all shown"), this, [this] {
        selectMany(model_->shownIds());
        emitSelection();
    });
    menu.addAction(icon(Glyph::Copy), tr("Copy rows"), this, &RunListPanel::copySelection);
    menu.exec(menu_->mapToGlobal(QPoint(0, menu_->height())));
}

void RunListPanel::renameRun(const QString& id) {
    const RunInfo* info = controller_.run(id);
    if (!info) return;
    bool ok = false;
    const QString name =
        QInputDialog::getText(window(), tr("Rename run"), tr("Name"), QLineEdit::Normal, info->name, &ok).trimmed();
    if (ok && !name.isEmpty()) controller_.rename(id, name);
}

void RunListPanel::editNote(const QString& id) {
    const RunInfo* info = controller_.run(id);
    if (!info) return;
    bool ok = false;
    const QString note = QInputDialog::getMultiLineText(window(), tr("Note"), info->name, info->note, &ok);
    if (ok) controller_.setNote(id, note.trimmed());
}

void RunListPanel::editTags(const QString& id) {
    const RunInfo* info = controller_.run(id);
    if (!info) return;
    bool ok = false;
    const QString text =
        QInputDialog::getText(window(), tr("Tags"), tr("Tags of %1, separated by commas").arg(info->name),
                              QLineEdit::Normal, info->tags.join(QStringLiteral(", ")), &ok);
    if (!ok) return;
    QStringList tags;
    for (const QString& tag : text.split(QLatin1Char(','), Qt::SkipEmptyParts)) tags << tag.trimmed();
    controller_.setTags(id, tags);
}

}  // namespace mantissa::gui
