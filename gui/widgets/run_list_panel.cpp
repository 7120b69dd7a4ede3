#include "gui/widgets/run_list_panel.h"

#include <QHeaderView>
#include <QPainter>
#include <QShortcut>
#include <QVBoxLayout>

#include "gui/controller/run_controller.h"
#include "gui/format/numbers.h"
#include "gui/theme/icons.h"
#include "gui/widgets/search_field.h"

namespace mantissa::gui {
namespace {

constexpr int kCellPadding = 20, kWidestColumn = 160;

/// Width of a cell's text in the wider of its two weights.
int textWidth(const RunInfo& run, int column) {
    static const QFontMetrics bold(uiFont(TextSize::Body, true));
    return bold.horizontalAdvance(RunListModel::cellText(run, column));
}

QString firstOf(const QStringList& ids) {
    return ids.isEmpty() ? QString() : ids.first();
}

}  // namespace

RunListPanel::RunListPanel(RunController& controller, QWidget* parent) : QWidget(parent), controller_(controller) {
    model_ = new RunListModel(this);
    table_ = new RunTable(this);
    table_->setModel(model_);
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
        const RunInfo* info = controller_.run(id);
        if (!info) return;
        model_->updateRun(*info);
        if (outgrown(*info)) sizeColumns();
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

    auto* remove = new QShortcut(QKeySequence(Qt::Key_Delete), table_);
    remove->setContext(Qt::WidgetShortcut);
    connect(remove, &QShortcut::activated, this, [this] { deleteRuns(selectedIds()); });
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
    const QFontMetrics small(uiFont(TextSize::Body));
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
        for (const RunInfo& run : controller_.runs()) width = std::max(width, textWidth(run, column));
        head->resizeSection(column, std::min(width + kCellPadding, kWidestColumn));
    }
}

/// A step or a loss got more digits than its column has room for.
bool RunListPanel::outgrown(const RunInfo& run) const {
    for (int column = RunListModel::Step; column < RunListModel::ColumnCount; ++column)
        if (std::min(textWidth(run, column) + kCellPadding, kWidestColumn) > table_->header()->sectionSize(column) &&
            !table_->isColumnHidden(column))
            return true;
    return false;
}

/// In a narrow list the names need the room of the step, which the card below has too.
void RunListPanel::resizeEvent(QResizeEvent* event) {
    QWidget::resizeEvent(event);
    table_->setColumnHidden(RunListModel::Step, width() < 264);
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

}  // namespace mantissa::gui
