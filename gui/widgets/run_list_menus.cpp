// Menus of the run list and what they do.
#include <QApplication>
#include <QClipboard>
#include <QHeaderView>
#include <QInputDialog>
#include <QMenu>
#include <QMessageBox>
#include <QPushButton>
#include <algorithm>

#include "gui/controller/run_controller.h"
#include "gui/format/numbers.h"
#include "gui/theme/icons.h"
#include "gui/widgets/run_list_panel.h"

namespace mantissa::gui {

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
    const QStringList chosen = selectedIds().contains(id) ? selectedIds() : QStringList{id};
    QAction* remove = menu.addAction(chosen.size() == 1 ? tr("Delete…") : tr("Delete %1 runs…").arg(chosen.size()),
                                     this, [this, chosen] { deleteRuns(chosen); });
    const bool going = std::any_of(chosen.begin(), chosen.end(), [this](const QString& one) {
        const RunInfo* other = controller_.run(one);
        return other && other->going();
    });
    remove->setEnabled(!going);
    if (going) remove->setToolTip(tr("A run that is going cannot be deleted. Stop it first."));
    menu.setToolTipsVisible(true);
    menu.exec(table_->viewport()->mapToGlobal(position));
}

void RunListPanel::deleteRuns(const QStringList& ids) {
    QStringList ended;
    for (const QString& id : ids)
        if (const RunInfo* info = controller_.run(id); info && !info->going()) ended << id;
    if (ended.isEmpty() || ended.size() < ids.size()) return;  // the menu says why
    const QString what = ended.size() == 1 ? tr("%1 and its checkpoints are").arg(controller_.run(ended.first())->name)
                                           : tr("%1 runs and their checkpoints are").arg(ended.size());
    QMessageBox ask(QMessageBox::NoIcon, ended.size() == 1 ? tr("Delete run") : tr("Delete runs"),
                    tr("%1 removed from the store. Nothing can bring them back.").arg(what), QMessageBox::NoButton,
                    window());
    QPushButton* yes = ask.addButton(tr("Delete"), QMessageBox::DestructiveRole);
    ask.setDefaultButton(ask.addButton(QMessageBox::Cancel));
    ask.exec();
    if (ask.clickedButton() != static_cast<QAbstractButton*>(yes)) return;
    for (const QString& id : ended) controller_.deleteRun(id);
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
    QInputDialog ask(window());
    ask.setWindowTitle(tr("Rename run"));
    ask.setLabelText(tr("Name"));
    ask.setTextValue(info->name);
    ask.resize(480, ask.sizeHint().height());  // names are longer than the field that Qt makes
    if (ask.exec() != QDialog::Accepted) return;
    const QString name = ask.textValue().trimmed();
    if (!name.isEmpty()) controller_.rename(id, name);
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
