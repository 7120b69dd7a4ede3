// MainWindow's capsule, status bar and banners; the layout kept between starts; closing and quitting.
#include <QCloseEvent>
#include <QCoreApplication>
#include <QDateTime>
#include <QFileInfo>
#include <QJsonArray>
#include <QMessageBox>
#include <QPushButton>
#include <QSplitter>
#include <QStackedWidget>
#include <QToolButton>
#include <algorithm>

#include "gui/format/numbers.h"
#include "gui/main_window.h"
#include "gui/pages/device_page.h"
#include "gui/pages/ladder_page.h"

namespace mantissa::gui {
namespace {

constexpr int kQuitEveryMs = 20, kInterrupted = 130;

}  // namespace

void MainWindow::updateCapsule() {
    QString id = controller_.currentRun();
    const RunInfo* info = controller_.run(id);
    if (!info && !controller_.runs().isEmpty()) {
        const RunInfo& last = controller_.runs().last();
        if (last.state == RunState::Refused || last.state == RunState::Failed || last.state == RunState::Diverged)
            info = &last;
    }
    const double left = info ? controller_.secondsLeft(info->id) : -1;
    capsule_->show(info, std::max(0, controller_.goingCount() - 1), info ? controller_.phaseText(info->id) : QString(),
                   left);
}

void MainWindow::updateStatus() {
    const StoreStatus& store = controller_.store();
    const QFileInfo file(store.path);
    QString commit;
    if (store.lastCommitMs > 0) {
        const double age = static_cast<double>(QDateTime::currentMSecsSinceEpoch() - store.lastCommitMs) / 1000;
        commit = controller_.goingCount() > 0
                     ? tr("last commit %1 s ago").arg(formatNumber(std::max(0.0, age), age < 10 ? 1 : 2))
                     : tr("at rest");
    }
    status_->setStore(store.path.isEmpty() ? tr("no store") : file.fileName(),
                      store.bytes ? formatSize(static_cast<double>(store.bytes)) : QString(),
                      store.readOnlyReason.isEmpty() ? commit : tr("read only"), store.path);
    const int index = tabs_->currentIndex();
    QString text =
        index >= 0 && stack_->currentWidget() == pages_[index].second ? pages_[index].second->statusText() : QString();
    if (text.isEmpty() && controller_.goingCount() == 0) text = tr("No run is going");
    status_->setRight(text);
}

void MainWindow::updateDevice() {
    const auto* device = static_cast<DevicePage*>(page(QStringLiteral("device")));
    if (!device) return;
    device_->setText(device->shortText());
    device_->setToolTip(tr("%1. A click opens the Device page").arg(device->shortText()));
}

/// Banner of the selected run on the pages that show it: refused, failed, diverged, interrupted. Numerics says itself
/// how a run diverged, with the first value that was not finite.
void MainWindow::updateBanner() {
    const QString key = QStringLiteral("run");
    const RunInfo* info = controller_.run(selected_);
    const QString name = pageName();
    const bool numerics = name == QLatin1String("numerics");
    const bool shows = name == QLatin1String("live") || (numerics && !(info && info->state == RunState::Diverged));
    const QString state = info && shows ? info->id + runStateName(info->state) + info->message : QString();
    if (banners_->property("run").toString() == state) return;
    banners_->setProperty("run", state);
    banners_->remove(key);
    if (!info || !shows) return;
    const QString id = info->id;
    const auto resume = [this, id] { controller_.resumeRun(id); };
    const auto edit = [this, id] { Q_EMIT runList_->cloneRequested(id); };
    switch (info->state) {
        case RunState::Refused: {
            Banner* banner = banners_->show(key, MessageKind::Bad,
                                            info->message.startsWith(QLatin1String("Not started"))
                                                ? info->message
                                                : tr("Not started: %1").arg(info->message),
                                            tr("Nothing was allocated and nothing was written but this record. Change "
                                               "the run or take another device."));
            banner->addAction(tr("Edit the run…"), edit);
            break;
        }
        case RunState::Failed: {
            Banner* banner = banners_->show(key, MessageKind::Bad,
                                            tr("Failed at step %1: %2").arg(formatCount(info->step), info->message),
                                            tr("All steps up to here are in the store."));
            banner->addAction(tr("Resume"), resume);
            banner->addAction(tr("Edit the run…"), edit);
            break;
        }
        case RunState::Diverged: {
            Banner* banner = banners_->show(key, MessageKind::Bad,
                                            tr("Diverged at step %1: %2").arg(formatCount(info->step), info->message),
                                            tr("Numerics shows the first tensor that was not finite."));
            banner->addAction(tr("First trouble"), [this] { openPage(QStringLiteral("trouble")); });
            banner->addAction(tr("Edit the run…"), edit);
            break;
        }
        case RunState::Interrupted: {
            Banner* banner = banners_->show(
                key, MessageKind::Warn, tr("Interrupted at step %1: its process is gone").arg(formatCount(info->step)),
                tr("All steps up to the last commit are here. The run can go on from its newest checkpoint."));
            banner->addAction(tr("Resume"), resume);
            break;
        }
        default:
            break;
    }
}

void MainWindow::restoreLayout() {
    if (settings_.wasDamaged())
        banners_
            ->show(QStringLiteral("settings"), MessageKind::Info,
                   tr("The file of window settings was damaged; the defaults are used. It is kept as %1.bad.")
                       .arg(settings_.path()))
            ->setClosable(tr("Close this message"));
    const QJsonArray size = settings_.value(QStringLiteral("size")).toArray();
    if (size.size() == 2)
        resize(std::clamp(size[0].toInt(1440), 1024, 8192), std::clamp(size[1].toInt(900), 640, 8192));
    const int list = settings_.value(QStringLiteral("runListWidth")).toInt(304);
    splitter_->setSizes({std::clamp(list, 220, 520), std::max(400, width() - list)});
    userHidList_ = settings_.value(QStringLiteral("runListHidden")).toBool();
    runList_->setVisible(!userHidList_);
    QStringList columns;
    for (const QJsonValue& name : settings_.value(QStringLiteral("columns")).toArray()) columns << name.toString();
    runList_->setVisibleColumns(columns);
    const QString group = settings_.value(QStringLiteral("groupBy")).toString();
    if (!group.isEmpty()) runList_->model().setGroupBy(static_cast<RunListModel::GroupBy>(group.toInt()));
    if (!openPage(settings_.value(QStringLiteral("page")).toString())) openPage(pages_.first().first);
}

void MainWindow::saveLayout() {
    settings_.setValue(QStringLiteral("size"), QJsonArray{width(), height()});
    if (runList_->isVisible()) settings_.setValue(QStringLiteral("runListWidth"), runList_->width());
    settings_.setValue(QStringLiteral("runListHidden"), userHidList_);
    settings_.setValue(QStringLiteral("columns"), QJsonArray::fromStringList(runList_->visibleColumns()));
    settings_.setValue(QStringLiteral("groupBy"), QString::number(static_cast<int>(runList_->model().groupBy())));
    settings_.setValue(QStringLiteral("page"), pageName());
    settings_.setValue(QStringLiteral("run"), selected_);
    static const char* const themes[] = {"system", "light", "dark"};
    settings_.setValue(QStringLiteral("theme"), QLatin1String(themes[static_cast<int>(Theme::instance().choice())]));
    settings_.save();
}

void MainWindow::quit(int times) {
    auto* ladder = static_cast<LadderPage*>(page(QStringLiteral("ladder")));
    controller_.stopAll(times > 1);
    if (quitting_) return;
    closing_ = true;
    quitting_ = new QTimer(this);
    const bool stops = controller_.ownsGoingRuns() || ladder->busy();
    connect(quitting_, &QTimer::timeout, this, [this, ladder, stops] {
        ladder->stop();  // also one that was just being made
        if (controller_.ownsGoingRuns() || ladder->busy()) return;
        quitting_->stop();
        saveLayout();
        QCoreApplication::exit(stops ? kInterrupted : 0);
    });
    quitting_->start(kQuitEveryMs);
    if (stops) toasts_->show(tr("Asked to quit: stopping first, with a checkpoint."));
}

bool MainWindow::mayStop(bool runs, bool ladder) {
    QString text =
        runs ? tr("A run of this program is going. It can stop with a checkpoint and go on later from there.")
             : tr("A ladder is being measured. The rungs that are measured stay; the others can be run later.");
    const int waiting = controller_.ownWaitingCount();
    if (waiting > 0)
        text +=
            waiting == 1
                ? tr(" The run that waits behind it will not start; it stays in the list as stopped.")
                : tr(" The %1 runs that wait behind it will not start; they stay in the list as stopped.").arg(waiting);
    if (runs && ladder) text += tr(" The ladder that is being measured stops too.");
    QMessageBox ask(QMessageBox::NoIcon, runs ? tr("A run is going") : tr("A ladder is going"), text,
                    QMessageBox::NoButton, this);
    QPushButton* stop = ask.addButton(runs ? tr("Stop with a checkpoint and quit") : tr("Stop the ladder and quit"),
                                      QMessageBox::AcceptRole);
    ask.addButton(tr("Stay"), QMessageBox::RejectRole);
    ask.exec();
    return ask.clickedButton() == static_cast<QAbstractButton*>(stop);
}

void MainWindow::closeEvent(QCloseEvent* event) {
    auto* ladder = static_cast<LadderPage*>(page(QStringLiteral("ladder")));
    const bool runs = controller_.ownsGoingRuns();
    if ((runs || ladder->busy()) && !closing_) {
        event->ignore();
        if (!mayStop(runs, ladder->busy())) return;
        closing_ = true;
        ladder->stop();
        controller_.stopAll();
        if (!controller_.ownsGoingRuns() && !ladder->busy())  // all ended while the question stood
            QTimer::singleShot(0, this, &QWidget::close);
        else if (runs)
            toasts_->show(tr("Writing the checkpoint, then the window closes."));
        return;
    }
    if (runs || ladder->busy()) return event->ignore();
    saveLayout();
    QMainWindow::closeEvent(event);
}

}  // namespace mantissa::gui
