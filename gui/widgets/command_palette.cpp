#include "gui/widgets/command_palette.h"

#include <QApplication>
#include <QKeyEvent>
#include <QMenu>
#include <QTimer>
#include <QVBoxLayout>

#include "gui/theme/fonts.h"

namespace mantissa::gui {

CommandPalette::CommandPalette(const QList<QAction*>& actions, QWidget* parent) : QDialog(parent, Qt::Popup) {
    for (QAction* action : actions)
        if (!action->text().isEmpty() && action->isEnabled() && !action->menu()) actions_ << action;
    setWindowTitle(tr("Commands"));
    setAccessibleName(tr("Command palette"));
    field_ = new QLineEdit(this);
    field_->setPlaceholderText(tr("Type a command"));
    field_->setAccessibleName(tr("Command"));
    field_->setToolTip(tr("Words of the command; Return starts the marked one"));
    list_ = new QListWidget(this);
    list_->setAccessibleName(tr("Commands"));
    list_->setToolTip(tr("Return or a click starts the command"));
    list_->setFocusPolicy(Qt::NoFocus);
    auto* column = new QVBoxLayout(this);
    column->setContentsMargins(8, 8, 8, 8);
    column->addWidget(field_);
    column->addWidget(list_);
    resize(460, 340);
    field_->installEventFilter(this);
    connect(field_, &QLineEdit::textChanged, this, &CommandPalette::filter);
    connect(field_, &QLineEdit::returnPressed, this, &CommandPalette::run);
    connect(list_, &QListWidget::itemClicked, this, &CommandPalette::run);
    filter(QString());
}

void CommandPalette::filter(const QString& text) {
    list_->clear();
    const QStringList words = text.split(QLatin1Char(' '), Qt::SkipEmptyParts);
    for (int i = 0; i < actions_.size(); ++i) {
        const QString name = actions_[i]->text().remove(QLatin1Char('&'));
        bool all = true;
        for (const QString& word : words) all &= name.contains(word, Qt::CaseInsensitive);
        if (!all) continue;
        const QString key = actions_[i]->shortcut().toString(QKeySequence::NativeText);
        auto* item = new QListWidgetItem(key.isEmpty() ? name : QStringLiteral("%1    %2").arg(name, key), list_);
        item->setData(Qt::UserRole, i);
    }
    list_->setCurrentRow(0);
}

bool CommandPalette::eventFilter(QObject* watched, QEvent* event) {
    if (event->type() == QEvent::KeyPress) {
        const int key = static_cast<QKeyEvent*>(event)->key();
        if (key == Qt::Key_Up || key == Qt::Key_Down) {
            QApplication::sendEvent(list_, event);
            return true;
        }
    }
    return QDialog::eventFilter(watched, event);
}

void CommandPalette::run() {
    QListWidgetItem* item = list_->currentItem();
    if (!item) return;
    QAction* action = actions_[item->data(Qt::UserRole).toInt()];
    accept();
    QTimer::singleShot(0, action, &QAction::trigger);
}

}  // namespace mantissa::gui
