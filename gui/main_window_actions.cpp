// MainWindow's menus, keys and what they do.
#include <QApplication>
#include <QDesktopServices>
#include <QDragEnterEvent>
#include <QDropEvent>
#include <QFile>
#include <QFileDialog>
#include <QFileInfo>
#include <QHeaderView>
#include <QMenu>
#include <QMenuBar>
#include <QMessageBox>
#include <QMimeData>
#include <QPushButton>
#include <QStackedWidget>
#include <QTableWidget>
#include <QVBoxLayout>

#include "experiments/report/export.h"
#include "gui/dialogs/change_dialog.h"
#include "gui/dialogs/checkpoint_dialog.h"
#include "gui/dialogs/launch_dialog.h"
#include "gui/format/numbers.h"
#include "gui/main_window.h"
#include "gui/widgets/command_palette.h"
#include "gui/widgets/run_marks.h"

namespace mantissa::gui {

QAction* MainWindow::action(const QString& text, const QKeySequence& key, Glyph glyph, std::function<void()> call,
                            const QString& tip) {
    auto* action = new QAction(text, this);
    if (glyph != Glyph::Count) action->setIcon(icon(glyph));
    if (!key.isEmpty()) action->setShortcut(key);
    const QString keyText = key.toString(QKeySequence::NativeText);
    QString plain = tip.isEmpty() ? text : tip;
    plain.remove(QLatin1Char('&'));
    action->setToolTip(keyText.isEmpty() ? plain : QStringLiteral("%1 (%2)").arg(plain, keyText));
    connect(action, &QAction::triggered, this, [call = std::move(call)] { call(); });
    addAction(action);
    actions_ << action;
    return action;
}

void MainWindow::makeActions() {
    pause_ = action(tr("&Pause"), QKeySequence(QStringLiteral("Ctrl+P")), Glyph::Pause, [this] {
        const QString id = controller_.currentRun();
        const RunInfo* info = controller_.run(id);
        if (!info) return;
        if (info->state == RunState::Paused)
            controller_.resume(id);
        else
            controller_.pause(id);
    });
    stop_ = action(tr("&Stop…"), QKeySequence(QStringLiteral("Ctrl+.")), Glyph::Stop, [this] { askStop(); });
    checkpoint_ = action(tr("&Checkpoint now"), QKeySequence(QStringLiteral("Ctrl+S")), Glyph::Flag,
                         [this] { controller_.checkpoint(controller_.currentRun()); });
    fork_ = action(tr("&Fork…"), QKeySequence(QStringLiteral("Ctrl+D")), Glyph::Fork, [this] {
        const QString id = controller_.currentRun();
        openFork(id.isEmpty() ? selected_ : id);
    });
    change_ = action(tr("C&hange while it runs…"), QKeySequence(QStringLiteral("Ctrl+Shift+D")), Glyph::Count,
                     [this] { openChange(controller_.currentRun()); });
}

void MainWindow::makeMenus(QMenuBar& bar) {
    const auto key = [](const char* text) { return QKeySequence(QLatin1String(text)); };
    const auto none = Glyph::Count;
    QMenu* file = bar.addMenu(tr("&File"));
    file->addAction(action(tr("&New run…"), key("Ctrl+N"), Glyph::Plus, [this] { openLaunch(); }));
    file->addAction(action(
        tr("&Open…"), key("Ctrl+O"), Glyph::Folder, [this] { chooseFile(); },
        tr("Open a store, a run spec or the weights of a checkpoint")));
    file->addAction(
        action(tr("&Export the selected run…"), key("Ctrl+E"), Glyph::Export, [this] { exportRun(selected_); }));
    file->addAction(action(tr("&Read the store again"), key("F5"), none,
                           [this] { controller_.openStore(controller_.store().path); }));
    file->addSeparator();
    file->addAction(action(tr("&Quit"), key("Ctrl+Q"), none, [this] { close(); }));

    QMenu* edit = bar.addMenu(tr("&Edit"));
    edit->addAction(action(tr("&Filter runs"), key("Ctrl+F"), Glyph::Funnel, [this] {
        if (!runList_->isVisible()) toggleRunList();
        runList_->focusFilter();
    }));
    edit->addAction(action(tr("&Pin the selected run as baseline"), {}, Glyph::Pin, [this] {
        if (!selected_.isEmpty()) controller_.setBaseline(controller_.baseline() == selected_ ? QString() : selected_);
    }));

    QMenu* view = bar.addMenu(tr("&View"));
    const QStringList names = {QStringLiteral("live"),   QStringLiteral("numerics"), QStringLiteral("compare"),
                               QStringLiteral("ladder"), QStringLiteral("formats"),  QStringLiteral("device")};
    const QStringList titles = {tr("Live"), tr("Numerics"), tr("Compare"), tr("Ladder"), tr("Formats"), tr("Device")};
    for (int i = 0; i < names.size(); ++i)
        view->addAction(
            action(titles[i], QKeySequence(QStringLiteral("Ctrl+%1").arg(i + 1)), none, [this, name = names[i]] {
                openPage(name);
                stack_->currentWidget()->setFocus(Qt::ShortcutFocusReason);  // its keys act at once
            }));
    view->addSeparator();
    view->addAction(action(
        tr("&Run list"), key("Ctrl+B"), Glyph::Panel, [this] { toggleRunList(); }, tr("Show or hide the run list")));
    view->addAction(action(tr("Next panel"), key("F6"), none, [this] { cyclePanel(1); }));
    view->addAction(action(tr("Previous panel"), key("Shift+F6"), none, [this] { cyclePanel(-1); }));
    view->addAction(
        action(tr("&Full screen"), key("F11"), none, [this] { setWindowState(windowState() ^ Qt::WindowFullScreen); }));
    view->addSeparator();
    view->addAction(action(tr("Theme: as the &system"), {}, Glyph::Monitor,
                           [] { Theme::instance().setChoice(ThemeChoice::System); }));
    view->addAction(
        action(tr("Theme: &light"), {}, Glyph::Sun, [] { Theme::instance().setChoice(ThemeChoice::Light); }));
    view->addAction(
        action(tr("Theme: &dark"), {}, Glyph::Moon, [] { Theme::instance().setChoice(ThemeChoice::Dark); }));

    QMenu* run = bar.addMenu(tr("&Run"));
    run->addAction(pause_);
    run->addAction(stop_);
    run->addAction(checkpoint_);
    run->addAction(change_);
    run->addAction(fork_);
    run->addSeparator();
    run->addAction(action(tr("Start nano and its &BF16 twin"), {}, Glyph::Play, [this] { startBoth(); }));

    QMenu* help = bar.addMenu(tr("&Help"));
    QAction* showAll = action(tr("&Keys"), key("?"), none, [this] { showKeys(); });
    showAll->setShortcuts({key("?"), key("F1")});
    help->addAction(showAll);
    help->addAction(action(tr("&Commands…"), key("Ctrl+K"), Glyph::Search, [this] {
        auto* palette = new CommandPalette(actions_, this);
        palette->setAttribute(Qt::WA_DeleteOnClose);
        palette->move(mapToGlobal(QPoint((width() - palette->width()) / 2, 60)));
        palette->show();
        palette->field()->setFocus();
    }));
    for (QMenu* menu : {file, edit, view, run, help}) menu->setToolTipsVisible(true);
}

void MainWindow::updateRunActions() {
    const QString id = controller_.currentRun();
    const RunInfo* info = controller_.run(id);
    const bool going = info && info->going();
    const bool paused = info && info->state == RunState::Paused;
    const QString name = info ? info->name : QString();
    const QString none = tr("No run is going");
    pause_->setIcon(icon(paused ? Glyph::Play : Glyph::Pause));
    pause_->setText(paused ? tr("&Go on") : tr("&Pause"));
    pause_->setToolTip(!going   ? none
                       : paused ? tr("Go on with %1 (Ctrl+P)").arg(name)
                                : tr("Pause %1 (Ctrl+P)").arg(name));
    stop_->setToolTip(info ? tr("Stop %1: with a checkpoint, or now (Ctrl+.)").arg(name) : none);
    checkpoint_->setToolTip(going ? tr("Write a checkpoint of %1 now (Ctrl+S)").arg(name) : none);
    pause_->setEnabled(going);
    stop_->setEnabled(info != nullptr);
    checkpoint_->setEnabled(going);
    // Without a run that goes, the selected one can be forked from its checkpoints.
    const RunInfo* from = info ? info : controller_.run(selected_);
    fork_->setEnabled(from != nullptr);
    fork_->setToolTip(from ? tr("Fork %1: a child run from a checkpoint or from now (Ctrl+D)").arg(from->name)
                           : tr("No run to fork"));
    change_->setEnabled(going);
    change_->setToolTip(going ? tr("Recipe, window, plan, learning rate and probes of %1 (Ctrl+Shift+D)").arg(name)
                              : none);
}

void MainWindow::openFork(const QString& id, qint64 step, const QString& specJson) {
    if (!controller_.run(id)) return;
    auto* dialog = new ChangeDialog(controller_, id, ChangeDialog::Mode::Fork, this);
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    if (!specJson.isEmpty()) dialog->setSpec(specJson);
    if (step >= 0) dialog->setForkStep(step);
    dialog->show();
}

void MainWindow::openChange(const QString& id) {
    if (!controller_.run(id)) return;
    auto* dialog = new ChangeDialog(controller_, id, ChangeDialog::Mode::WhileItRuns, this);
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->show();
}

void MainWindow::changeRun(const QString& id, const QString& specJson) {
    controller_.load(
        this, 4,
        [id = id.toStdString(), specJson](experiments::RunStore& store) {
            const auto now = experiments::parseSpec(store.document(id).specJson),
                       wanted = experiments::parseSpec(specJson.toStdString());
            return now.ok() && wanted.ok() ? experiments::differences(now.spec, wanted.spec)
                                           : std::vector<experiments::SpecDifference>();
        },
        [this, id](const std::vector<experiments::SpecDifference>& fields) {
            if (fields.empty()) return;
            controller_.change(id, fields);
            QStringList words;
            for (const auto& field : fields)
                words << tr("%1: %2 → %3")
                             .arg(QString::fromStdString(field.path), QString::fromStdString(field.left),
                                  QString::fromStdString(field.right));
            toasts_->show(tr("Sent to the job: %1").arg(words.join(QStringLiteral("; "))));
        });
}

void MainWindow::showMetric(const QString& metric, qint64 step) {
    Q_UNUSED(metric);  // the Live page has all scalars on one axis
    openPage(QStringLiteral("live"));
    if (Page* live = page(QStringLiteral("live"))) live->showStep(step);
}

void MainWindow::askStop() {
    const QString id = controller_.currentRun();
    const RunInfo* info = controller_.run(id);
    if (!info) return;
    if (info->state == RunState::Queued) return controller_.stopNow(id);
    auto* ask = new QMessageBox(QMessageBox::NoIcon, tr("Stop run"),
                                tr("Stop %1 at step %2?").arg(info->name, formatCount(info->step)),
                                QMessageBox::NoButton, this);
    ask->setInformativeText(tr("With a checkpoint the run can go on later from this step."));
    ask->setAttribute(Qt::WA_DeleteOnClose);
    QPushButton* withCheckpoint = ask->addButton(tr("Stop with a checkpoint"), QMessageBox::AcceptRole);
    QPushButton* now = ask->addButton(tr("Stop now"), QMessageBox::DestructiveRole);
    ask->addButton(tr("Let it run"), QMessageBox::RejectRole);
    ask->setDefaultButton(withCheckpoint);
    connect(withCheckpoint, &QPushButton::clicked, this, [this, id] { controller_.stop(id); });
    connect(now, &QPushButton::clicked, this, [this, id] { controller_.stopNow(id); });
    ask->open();
}

LaunchDialog& MainWindow::openLaunch(const QString& specJson) {
    if (!launch_) {
        launch_ = new LaunchDialog(controller_, this);
        launch_->setAttribute(Qt::WA_DeleteOnClose);
    }
    if (!specJson.isEmpty()) launch_->setSpec(specJson);
    launch_->show();
    launch_->raise();
    launch_->activateWindow();
    return *launch_;
}

void MainWindow::openLaunchPreset(const QString& preset) {
    try {
        openLaunch(QString::fromStdString(experiments::presetSpec(preset.toStdString()).toJson())).markPreset(preset);
    } catch (const std::exception& exception) {
        banners_->show(QStringLiteral("problem"), MessageKind::Bad, QString::fromStdString(exception.what()))
            ->setClosable(tr("Close this message"));
    }
}

void MainWindow::startPreset(const QString& name) {
    try {
        controller_.start(experiments::presetSpec(name.toStdString()), {});
    } catch (const std::exception& exception) {
        banners_->show(QStringLiteral("problem"), MessageKind::Bad, QString::fromStdString(exception.what()))
            ->setClosable(tr("Close this message"));
    }
}

void MainWindow::startBoth() {
    startPreset(QStringLiteral("nano"));
    startPreset(QStringLiteral("nano-bf16"));
}

/// The runs whose alerts the bell counts and lists.
QVector<RunInfo> MainWindow::alertRuns() const {
    QVector<RunInfo> runs;
    for (const RunInfo& info : controller_.runs())
        if (info.alerts > 0 && (info.going() || info.id == selected_)) runs << info;
    return runs;
}

void MainWindow::updateAlerts() {
    int count = 0, worst = 0;
    for (const RunInfo& info : alertRuns()) {
        count += info.alerts;
        worst = std::max(worst, info.worstAlert);
    }
    alerts_->setText(count > 0 ? formatCount(count) : QString());
    alerts_->setToolButtonStyle(count > 0 ? Qt::ToolButtonTextBesideIcon : Qt::ToolButtonIconOnly);
    alerts_->setIcon(icon(Glyph::Bell, worst > 1 ? Token::Bad : worst > 0 ? Token::Warn : Token::Text2));
    alerts_->setToolTip(count > 0 ? tr("%1 alerts of the runs that go and of the selected one").arg(count)
                                  : tr("No alerts"));
}

void MainWindow::showAlerts() {
    QStringList ids;
    for (const RunInfo& info : alertRuns()) ids << info.id;
    controller_.load(
        this, 2,
        [ids](experiments::RunStore& store) {
            QVector<QPair<QString, experiments::RunEvent>> rows;
            for (const QString& id : ids)
                for (const experiments::RunEvent& event : store.alerts(id.toStdString())) rows.push_back({id, event});
            return rows;
        },
        [this](const QVector<QPair<QString, experiments::RunEvent>>& rows) {
            QMenu menu(this);
            if (rows.isEmpty()) menu.addAction(tr("No alerts"))->setEnabled(false);
            const qsizetype first = std::max<qsizetype>(0, rows.size() - 20);
            for (qsizetype i = rows.size() - 1; i >= first; --i) {
                const auto& [id, event] = rows[i];
                const RunInfo* info = controller_.run(id);
                const QString text =
                    tr("%1, step %2: %3")
                        .arg(info ? info->name : id, formatCount(event.step), QString::fromStdString(event.text));
                const QString tensor = QString::fromStdString(event.layer + "/" + event.tensor);
                menu.addAction(icon(Glyph::Warning, event.severity > 1 ? Token::Bad : Token::Warn), text, this,
                               [this, id = id, tensor, step = event.step] {
                                   runList_->select(id);
                                   if (Page* numerics = page(QStringLiteral("numerics"))) {
                                       openPage(QStringLiteral("numerics"));
                                       numerics->showTensor(tensor, step);
                                   }
                               });
            }
            if (first > 0)
                menu.addAction(tr("%1 more: Events on the Live page of a run has all").arg(formatCount(first)))
                    ->setEnabled(false);
            menu.exec(alerts_->mapToGlobal(QPoint(0, alerts_->height())));
        });
}

void MainWindow::showThemeMenu() {
    QMenu menu(this);
    const QList<QPair<QString, ThemeChoice>> choices = {
        {tr("As the system"), ThemeChoice::System}, {tr("Light"), ThemeChoice::Light}, {tr("Dark"), ThemeChoice::Dark}};
    for (const auto& [name, choice] : choices) {
        QAction* entry = menu.addAction(name, this, [choice = choice] { Theme::instance().setChoice(choice); });
        entry->setCheckable(true);
        entry->setChecked(Theme::instance().choice() == choice);
    }
    menu.exec(themeButton_->mapToGlobal(QPoint(0, themeButton_->height())));
}

void MainWindow::showKeys() {
    static const char* const keys[][2] = {{"Ctrl+N", "New run"},
                                          {"Ctrl+Return", "Start (in the dialog)"},
                                          {"Ctrl+P", "Pause or go on"},
                                          {"Ctrl+.", "Stop: asks for now or with a checkpoint"},
                                          {"Ctrl+S", "Checkpoint now"},
                                          {"Ctrl+1 … 6", "Page"},
                                          {"Ctrl+B", "Run list"},
                                          {"Ctrl+K", "Command palette"},
                                          {"Ctrl+F", "Filter runs"},
                                          {"Delete", "Delete the selected runs (asks)"},
                                          {"Ctrl+D", "Fork"},
                                          {"Ctrl+Shift+D", "Change the run while it goes"},
                                          {"/", "Go to tensor"},
                                          {"G, T", "Diagnosis, first trouble"},
                                          {"↑ ↓", "Run, row, tensor"},
                                          {"← →", "One step (Shift: 100)"},
                                          {"Space", "Pin baseline, toggle a plan cell"},
                                          {"End, Home", "Tail and follow, start"},
                                          {"F", "Follow on or off"},
                                          {"+ − 0", "Zoom in, out, all"},
                                          {"Alt+← →", "Zoom back, forward"},
                                          {"L", "Linear, log, symlog"},
                                          {"[ ]", "Previous, next statistic"},
                                          {"X, W, D", "Role x, w, dy"},
                                          {"Ctrl+C", "Copy what has the focus"},
                                          {"Ctrl+E", "Export"},
                                          {"Ctrl+O", "Open"},
                                          {"F5", "Read the store again"},
                                          {"F6, Shift+F6", "Next, previous panel"},
                                          {"F11, Ctrl+Q", "Full screen, quit"},
                                          {"?, F1", "These keys"},
                                          {"Esc", "Close, clear, stop a drag"}};
    auto* dialog = new QDialog(this);
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->setWindowTitle(tr("Keys"));
    dialog->setAccessibleName(tr("Keys"));
    auto* table = new QTableWidget(static_cast<int>(std::size(keys)), 2, dialog);
    table->setTabKeyNavigation(false);
    table->setHorizontalHeaderLabels({tr("Key"), tr("Does")});
    table->verticalHeader()->hide();
    table->setShowGrid(false);
    table->setEditTriggers(QAbstractItemView::NoEditTriggers);
    table->setAccessibleName(tr("Keys"));
    table->setToolTip(tr("Single letters act only where no text field has the focus"));
    for (int row = 0; row < table->rowCount(); ++row)
        for (int column = 0; column < 2; ++column)
            table->setItem(row, column, new QTableWidgetItem(QString::fromUtf8(keys[row][column])));
    table->resizeColumnToContents(0);
    table->horizontalHeader()->setStretchLastSection(true);
    auto* column = new QVBoxLayout(dialog);
    column->addWidget(table);
    dialog->resize(440, 620);
    dialog->show();
}

void MainWindow::chooseFile() {
    auto* dialog = new QFileDialog(this, tr("Open"), QFileInfo(controller_.store().path).absolutePath(),
                                   tr("Stores, run specs, weights (*.mantissa *.json *.safetensors);;All files (*)"));
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->setFileMode(QFileDialog::ExistingFile);
    connect(dialog, &QFileDialog::fileSelected, this, &MainWindow::openFile);
    dialog->open();
}

void MainWindow::openFile(const QString& path) {
    // A checkpoint's folder stands for its weights.
    const QString weights = QFileInfo(path).isDir() ? path + QStringLiteral("/weights.safetensors") : path;
    if (weights.endsWith(QLatin1String(".safetensors"), Qt::CaseInsensitive)) {
        auto* inspector = new CheckpointDialog(weights, this);
        inspector->setAttribute(Qt::WA_DeleteOnClose);
        inspector->show();
        return;
    }
    if (!path.endsWith(QLatin1String(".json"), Qt::CaseInsensitive)) return controller_.openStore(path);
    controller_.compute(
        this, 1, [path] { return experiments::readSpecFile(path.toStdString()); },
        [this, name = QFileInfo(path).fileName()](const experiments::ParsedSpec& parsed) {
            if (parsed.ok()) {
                openLaunch(QString::fromStdString(parsed.spec.toJson()));
                return;
            }
            const auto& error = parsed.errors.front();
            banners_
                ->show(
                    QStringLiteral("problem"), MessageKind::Bad,
                    name + QStringLiteral(": ") +
                        QString::fromStdString(error.path.empty() ? error.message : error.path + ": " + error.message))
                ->setClosable(tr("Close this message"));
        });
}

void MainWindow::exportRun(const QString& id) {
    const RunInfo* info = controller_.run(id);
    if (!info) return;
    auto* dialog = new QFileDialog(this, tr("Export %1").arg(info->name), info->name + QStringLiteral(".csv"),
                                   tr("CSV (*.csv);;JSON (*.json)"));
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->setAcceptMode(QFileDialog::AcceptSave);
    connect(dialog, &QFileDialog::fileSelected, this, [this, id](const QString& path) {
        const auto format =
            path.endsWith(QLatin1String(".json")) ? experiments::ExportFormat::Json : experiments::ExportFormat::Csv;
        controller_.load(
            this, 3,
            [id = id.toStdString(), path, format](experiments::RunStore& store) {
                const auto names = experiments::matchingSeries(store, id, "*");
                const auto gaps = experiments::exportFile(store, id, names, format, path.toStdString());
                return std::pair(static_cast<qint64>(names.size() - gaps.empty.size()),
                                 static_cast<qint64>(gaps.unreadable));
            },
            [this, path](std::pair<qint64, qint64> written) {
                QString text = tr("%1 series written to %2.").arg(formatCount(written.first), path);
                if (written.second > 0)
                    text +=
                        tr(" %1 records of the run cannot be read and are not in it.").arg(formatCount(written.second));
                toasts_->show(text, tr("Open"), [path] { QDesktopServices::openUrl(QUrl::fromLocalFile(path)); });
            });
    });
    dialog->open();
}

void MainWindow::cyclePanel(int direction) {
    QVector<QWidget*> panels = {newRun_};
    if (runList_->isVisible()) panels << &runList_->table();
    panels << tabs_ << stack_->currentWidget();
    int at = -1;
    for (int i = 0; i < panels.size(); ++i)
        if (QApplication::focusWidget() &&
            (panels[i] == QApplication::focusWidget() || panels[i]->isAncestorOf(QApplication::focusWidget())))
            at = i;
    QWidget* next = panels[static_cast<int>((at + direction + panels.size()) % panels.size())];
    if (next == stack_->currentWidget()) {
        for (QWidget* child : next->findChildren<QWidget*>())
            if (child->isVisible() && child->isEnabled() && (child->focusPolicy() & Qt::TabFocus))
                return child->setFocus(Qt::TabFocusReason);
    }
    next->setFocus(Qt::TabFocusReason);
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
    if (!event->mimeData()->hasUrls()) return;
    event->acceptProposedAction();
    status_->setRight(
        tr("Drop opens the file: a store replaces the one shown, a spec opens the launch dialog, safetensors open in "
           "the checkpoint inspector"));
}

void MainWindow::dragLeaveEvent(QDragLeaveEvent*) {
    updateStatus();
}

void MainWindow::dropEvent(QDropEvent* event) {
    updateStatus();
    for (const QUrl& url : event->mimeData()->urls())
        if (url.isLocalFile()) return openFile(url.toLocalFile());
}

}  // namespace mantissa::gui
