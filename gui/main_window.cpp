#include "gui/main_window.h"

#include <QApplication>
#include <QDragEnterEvent>
#include <QDropEvent>
#include <QHBoxLayout>
#include <QMenuBar>
#include <QMimeData>
#include <QPainter>
#include <QPushButton>
#include <QSplitter>
#include <QStackedWidget>
#include <QTimer>
#include <QToolButton>
#include <QVBoxLayout>

#include "gui/dialogs/launch_dialog.h"
#include "gui/format/numbers.h"
#include "gui/pages/compare_page.h"
#include "gui/pages/device_page.h"
#include "gui/pages/empty_page.h"
#include "gui/pages/formats_page.h"
#include "gui/pages/ladder_page.h"
#include "gui/pages/live_page.h"
#include "gui/pages/numerics_page.h"
#include "gui/pages/refused_page.h"
#include "gui/widgets/run_marks.h"

namespace mantissa::gui {
namespace {

constexpr int kDrawerBelow = 1280, kListBelow = 1100;

/// Panel-coloured bar with a line at its lower edge.
class Bar : public QWidget {
  public:
    using QWidget::QWidget;

  protected:
    void paintEvent(QPaintEvent*) override {
        QPainter p(this);
        p.fillRect(rect(), color(Token::Panel));
        p.fillRect(0, height() - 1, width(), 1, color(Token::Line));
    }
};

}  // namespace

MainWindow::MainWindow(RunController& controller, Settings& settings, QWidget* parent)
    : QMainWindow(parent), controller_(controller), settings_(settings) {
    setWindowTitle(tr("Mantissa"));
    setMinimumSize(1024, 640);
    resize(1440, 900);
    setAcceptDrops(true);
    makeActions();
    setMenuWidget(makeTopBar());

    runList_ = new RunListPanel(controller_, this);
    runList_->setMinimumWidth(220);
    runList_->setMaximumWidth(520);
    auto* right = new QWidget(this);
    auto* column = new QVBoxLayout(right);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(0);
    auto* tabBar = new Bar(right);
    tabBar->setFixedHeight(39);
    auto* tabRow = new QHBoxLayout(tabBar);
    tabRow->setContentsMargins(4, 0, 12, 0);
    tabRow->setSpacing(8);
    tabs_ = new QTabBar(tabBar);
    tabs_->setAccessibleName(tr("Pages"));
    tabs_->setToolTip(tr("Pages (Ctrl+1 to Ctrl+6)"));
    tabs_->setDrawBase(false);
    tabs_->setExpanding(false);
    tabs_->setIconSize(QSize(16, 16));
    tabs_->setUsesScrollButtons(false);
    tabRow->addWidget(tabs_);
    tabRow->addStretch(1);
    toolsHost_ = new QWidget(tabBar);
    auto* tools = new QHBoxLayout(toolsHost_);
    tools->setContentsMargins(0, 0, 0, 0);
    tabRow->addWidget(toolsHost_);
    drawer_ = new QToolButton(tabBar);
    drawer_->setIcon(icon(Glyph::Panel));
    drawer_->setCheckable(true);
    drawer_->setAccessibleName(tr("Side panel"));
    drawer_->setToolTip(tr("Show or hide the panel at the right of this page"));
    connect(drawer_, &QToolButton::toggled, this, &MainWindow::updateDrawer);
    tabRow->addWidget(drawer_);
    column->addWidget(tabBar);
    banners_ = new BannerArea(right);
    column->addWidget(banners_);
    stack_ = new QStackedWidget(right);
    column->addWidget(stack_, 1);

    splitter_ = new QSplitter(Qt::Horizontal, this);
    splitter_->setHandleWidth(1);
    splitter_->setChildrenCollapsible(false);
    splitter_->addWidget(runList_);
    splitter_->addWidget(right);
    splitter_->setStretchFactor(1, 1);
    splitter_->setSizes({304, 1136});
    auto* centre = new QWidget(this);
    auto* rows = new QVBoxLayout(centre);
    rows->setContentsMargins(0, 0, 0, 0);
    rows->setSpacing(0);
    rows->addWidget(splitter_, 1);
    status_ = new StatusStrip(centre);
    rows->addWidget(status_);
    setCentralWidget(centre);
    toasts_ = new Toasts(this);

    makePages();
    connectController();
    restoreLayout();
    updateCapsule();
    updateRunActions();
    updateStatus();
    updateDevice();
    updateAlerts();
    runList_->setFocus();
}

QWidget* MainWindow::makeTopBar() {
    auto* bar = new Bar(this);
    bar->setFixedHeight(45);
    auto* row = new QHBoxLayout(bar);
    row->setContentsMargins(8, 0, 12, 1);
    row->setSpacing(6);
    auto* menus = new QMenuBar(bar);
    menus->setNativeMenuBar(false);
    menus->setAccessibleName(tr("Menus"));
    makeMenus(*menus);
    menus->setSizePolicy(QSizePolicy::Fixed, QSizePolicy::Fixed);
    menus->setMinimumWidth(menus->sizeHint().width());
    row->addWidget(menus);
    row->addSpacing(8);
    newRun_ = new QPushButton(icon(Glyph::Plus, Token::OnFill), tr("New run"), bar);
    newRun_->setProperty("kind", QStringLiteral("primary"));
    newRun_->setToolTip(tr("Choose a preset, check the plan and start (Ctrl+N)"));
    newRun_->setAccessibleName(tr("New run"));
    connect(newRun_, &QPushButton::clicked, this, [this] { openLaunch(); });
    row->addWidget(newRun_);
    for (QAction* action : {pause_, stop_, checkpoint_, fork_}) {
        auto* button = new QToolButton(bar);
        button->setDefaultAction(action);
        button->setFixedSize(32, 28);
        button->setToolButtonStyle(Qt::ToolButtonIconOnly);
        button->setFocusPolicy(Qt::TabFocus);
        button->setAccessibleName(action->text());
        row->addWidget(button);
    }
    row->addStretch(1);
    capsule_ = new Capsule(bar);
    connect(capsule_, &Capsule::clicked, this, [this] {
        if (capsule_->runId().isEmpty()) return;
        runList_->select(capsule_->runId());
        openPage(QStringLiteral("live"));
    });
    row->addWidget(capsule_, 6);
    row->addStretch(1);
    const auto tool = [this, bar, row](Glyph glyph, const QString& name, Qt::ToolButtonStyle style) {
        auto* button = new QToolButton(bar);
        button->setIcon(icon(glyph));
        button->setToolButtonStyle(style);
        button->setAccessibleName(name);
        button->setToolTip(name);
        row->addWidget(button);
        return button;
    };
    device_ = tool(Glyph::Chip, tr("Device of new runs"), Qt::ToolButtonTextBesideIcon);
    connect(device_, &QToolButton::clicked, this, [this] { openPage(QStringLiteral("device")); });
    alerts_ = tool(Glyph::Bell, tr("Alerts"), Qt::ToolButtonTextBesideIcon);
    connect(alerts_, &QToolButton::clicked, this, &MainWindow::showAlerts);
    themeButton_ = tool(Glyph::Moon, tr("Theme: light, dark or as the system"), Qt::ToolButtonIconOnly);
    connect(themeButton_, &QToolButton::clicked, this, &MainWindow::showThemeMenu);
    const auto themeIcon = [this] {
        themeButton_->setIcon(icon(Theme::instance().isDark() ? Glyph::Sun : Glyph::Moon));
    };
    themeIcon();
    connect(&Theme::instance(), &Theme::changed, this, themeIcon);
    return bar;
}

void MainWindow::addPage(const QString& name, const QString& title, Glyph glyph, Page* page) {
    pages_.push_back({name, page});
    stack_->addWidget(page);
    const int tab = tabs_->addTab(icon(glyph, Token::Text2, Token::Accent), title);
    tabs_->updateGeometry();  // Qt 6.4 keeps the size hint of the empty bar when tabs come before the first show
    glyphs_.push_back(glyph);
    tabs_->setTabToolTip(tab, tr("%1 (Ctrl+%2)").arg(title).arg(tab + 1));
    connect(page, &Page::statusTextChanged, this, &MainWindow::updateStatus);
    connect(page, &Page::pageRequested, this, &MainWindow::openPage);
    connect(page, &Page::launchRequested, this, [this](const QString& spec) { openLaunch(spec); });
    connect(page, &Page::forkRequested, this, &MainWindow::openFork);
    connect(page, &Page::changeRequested, this, &MainWindow::changeRun);
    connect(page, &Page::runRequested, this, [this](const QString& id) { runList_->select(id); });
    connect(page, &Page::metricRequested, this, &MainWindow::showMetric);
    connect(page, &Page::tensorRequested, this, [this](const QString& tensor, qint64 step) {
        if (Page* numerics = this->page(QStringLiteral("numerics"))) {
            openPage(QStringLiteral("numerics"));
            numerics->showTensor(tensor, step);
        }
    });
}

void MainWindow::makePages() {
    auto* empty = new EmptyPage(stack_);
    emptyPage_ = empty;
    stack_->addWidget(empty);
    connect(empty, &EmptyPage::startBothRequested, this, &MainWindow::startBoth);
    connect(empty, &EmptyPage::openRequested, this, &MainWindow::chooseFile);
    connect(empty, &EmptyPage::formatsRequested, this, [this] { openPage(QStringLiteral("formats")); });
    refusedPage_ = new RefusedPage(controller_, stack_);
    stack_->addWidget(refusedPage_);
    connect(refusedPage_, &RefusedPage::editRequested, this, [this](const QString& spec) { openLaunch(spec); });
    addPage(QStringLiteral("live"), tr("Live"), Glyph::Pulse, new LivePage(controller_, stack_));
    addPage(QStringLiteral("numerics"), tr("Numerics"), Glyph::Grid, new NumericsPage(controller_, stack_));
    addPage(QStringLiteral("compare"), tr("Compare"), Glyph::Curves, new ComparePage(controller_, stack_));
    auto* ladder = new LadderPage(controller_, stack_);
    connect(ladder, &LadderPage::runRequested, this, [this](const QString& id) {
        runList_->select(id);
        openPage(QStringLiteral("live"));
    });
    connect(ladder, &LadderPage::ended, this, [this] {
        if (closing_ && !quitting_) close();
    });
    addPage(QStringLiteral("ladder"), tr("Ladder"), Glyph::Bars, ladder);
    addPage(QStringLiteral("formats"), tr("Formats"), Glyph::Numbers, new FormatsPage(controller_, stack_));
    auto* device = new DevicePage(controller_, stack_);
    connect(device, &DevicePage::reportsChanged, empty, &EmptyPage::setDevices);
    connect(device, &DevicePage::reportsChanged, this, &MainWindow::updateDevice);
    addPage(QStringLiteral("device"), tr("Device"), Glyph::Chip, device);
    connect(tabs_, &QTabBar::currentChanged, this, &MainWindow::showPage);
    connect(tabs_, &QTabBar::tabBarClicked, this, [this] {  // comes before the page does
        QMetaObject::invokeMethod(
            this, [this] { stack_->currentWidget()->setFocus(Qt::MouseFocusReason); }, Qt::QueuedConnection);
    });
    device->ask();
    showPage(0);
}

Page* MainWindow::page(const QString& name) const {
    for (const auto& [known, page] : pages_)
        if (known == name) return page;
    return nullptr;
}

bool MainWindow::openPage(const QString& name) {
    // Views of the Numerics page have names of their own.
    if (name == QLatin1String("diagnosis") || name == QLatin1String("trouble")) {
        auto* numerics = static_cast<NumericsPage*>(page(QStringLiteral("numerics")));
        if (!numerics || !openPage(QStringLiteral("numerics"))) return false;
        numerics->setMode(name == QLatin1String("diagnosis") ? NumericsPage::Mode::Diagnosis
                                                             : NumericsPage::Mode::Trouble);
        return true;
    }
    for (int i = 0; i < pages_.size(); ++i) {
        if (pages_[i].first != name) continue;
        tabs_->setCurrentIndex(i);
        showPage(i);
        return true;
    }
    return false;
}

QString MainWindow::pageName() const {
    const int index = tabs_->currentIndex();
    return index < 0 ? QString() : pages_[index].first;
}

void MainWindow::showPage(int index) {
    if (index < 0 || index >= pages_.size()) return;
    const QString& name = pages_[index].first;
    const bool needsRun =
        name == QLatin1String("live") || name == QLatin1String("numerics") || name == QLatin1String("compare");
    const bool first = needsRun && controller_.runs().isEmpty();
    const RunInfo* info = controller_.run(selected_);
    const bool refused = info && info->state == RunState::Refused && name == QLatin1String("live");
    if (refused) refusedPage_->setRun(selected_);
    stack_->setCurrentWidget(first ? emptyPage_ : refused ? static_cast<QWidget*>(refusedPage_) : pages_[index].second);
    placeTools();
    updateDrawer();
    updateBanner();
    updateStatus();
}

/// The open page's tools stand at the right end of the tab bar; the others' are hidden. Where the row has not room for
/// both, the tabs are words alone.
void MainWindow::placeTools() {
    for (const auto& [name, page] : pages_) {
        QWidget* tools = page->tools();
        if (!tools) continue;
        if (tools->parentWidget() != toolsHost_) toolsHost_->layout()->addWidget(tools);
        tools->setVisible(stack_->currentWidget() == page);
    }
    QWidget* bar = tabs_->parentWidget();
    toolsHost_->layout()->invalidate();
    const int room = bar->contentsRect().width() - toolsHost_->layout()->sizeHint().width() -
                     (drawer_->isHidden() ? 0 : drawer_->sizeHint().width() + 8) - 32;
    int wide = 0;
    for (int i = 0; i < tabs_->count(); ++i) {
        tabs_->setTabIcon(i, icon(glyphs_[i], Token::Text2, Token::Accent));
        wide += tabs_->tabRect(i).width();
    }
    for (int i = 0; i < tabs_->count() && wide > room; ++i) tabs_->setTabIcon(i, QIcon());
}

void MainWindow::connectController() {
    connect(runList_, &RunListPanel::selectionChanged, this, &MainWindow::selectionChanged);
    connect(runList_, &RunListPanel::showRequested, this, [this] { openPage(QStringLiteral("live")); });
    connect(runList_, &RunListPanel::exportRequested, this, &MainWindow::exportRun);
    connect(runList_, &RunListPanel::cloneRequested, this, [this](const QString& id) {
        controller_.load(
            this, 1,
            [id](experiments::RunStore& store) {
                return QString::fromStdString(store.document(id.toStdString()).specJson);
            },
            [this](const QString& spec) { openLaunch(spec); });
    });
    connect(&controller_, &RunController::runsChanged, this, [this] {
        // The newest run selects itself once; later starts do so through runStarted.
        if (!selectedOnce_ && !controller_.runs().isEmpty()) {
            selectedOnce_ = true;
            const QString kept = settings_.value(QStringLiteral("run")).toString();
            const QString current = controller_.currentRun();
            runList_->select(!current.isEmpty()      ? current
                             : controller_.run(kept) ? kept
                                                     : controller_.runs().last().id);
        }
        if (!selected_.isEmpty() && !controller_.run(selected_)) {  // deleted, here or by another program
            selectionChanged({}, {});
            if (!controller_.runs().isEmpty()) runList_->select(controller_.runs().last().id);
        }
        for (const auto& entry : pages_) entry.second->setBaseline(controller_.baseline());
        showPage(tabs_->currentIndex());
        updateCapsule();
        updateRunActions();
        updateAlerts();
    });
    connect(&controller_, &RunController::runChanged, this, [this](const QString& id) {
        for (const auto& entry : pages_) entry.second->setBaseline(controller_.baseline());
        updateCapsule();
        updateRunActions();
        updateAlerts();
        if (id != selected_) return;
        updateBanner();
        const RunInfo* info = controller_.run(id);
        if (info && info->state == RunState::Refused && stack_->currentWidget() != refusedPage_)
            showPage(tabs_->currentIndex());
    });
    connect(&controller_, &RunController::phaseChanged, this, &MainWindow::updateCapsule);
    connect(&controller_, &RunController::storeStatusChanged, this, &MainWindow::updateStatus);
    connect(&controller_, &RunController::storeOpened, this, [this] {
        selectedOnce_ = false;
        banners_->remove(QStringLiteral("problem"));
        updateStatus();
    });
    connect(&controller_, &RunController::runStarted, this, [this](const QString& id) {
        // A second run that only waits does not take the view away from the one that goes, and the diagnosis that a
        // fork was started from stays: it shows what the change brings.
        const RunInfo* info = controller_.run(id);
        const auto* numerics = qobject_cast<NumericsPage*>(page(pageName()));
        if (info && numerics && info->parent == selected_ && numerics->mode() == NumericsPage::Mode::Diagnosis) return;
        if (controller_.currentRun() == id || selected_.isEmpty()) runList_->select(id);
        if (pageName() != QLatin1String("numerics")) openPage(QStringLiteral("live"));
    });
    connect(&controller_, &RunController::problem, this, [this](const QString& text) {
        banners_->show(QStringLiteral("problem"), MessageKind::Bad, text)->setClosable(tr("Close this message"));
    });
    connect(&controller_, &RunController::storageTrouble, this, [this](const QString& text) {
        if (text.isEmpty())
            banners_->remove(QStringLiteral("storage"));
        else
            banners_->show(QStringLiteral("storage"), MessageKind::Warn, text);
    });
    connect(&controller_, &RunController::endNotStored, this, [this](const QString& id, const QString& text) {
        closing_ = quitting_ != nullptr;  // a window that closes by itself would take the message along
        const RunInfo* info = controller_.run(id);
        banners_
            ->show(QStringLiteral("notStored-") + id, MessageKind::Bad,
                   tr("The end of %1 is not stored: %2").arg(info ? info->name : id, text),
                   tr("It reads \"interrupted\" when the store is opened again. Make room on the disk; it can then be "
                      "resumed from its newest checkpoint."))
            ->setClosable(tr("Close this message"));
    });
    connect(&controller_, &RunController::done, this, [this](const QString& text) { toasts_->show(text); });
    connect(&controller_, &RunController::allEnded, this, [this] {
        if (closing_ && !quitting_) close();
    });
}

void MainWindow::selectionChanged(const QString& current, const QStringList& ids) {
    selected_ = current;
    for (const auto& [name, page] : pages_) {
        page->setVisibleRuns(ids);
        page->setRun(current);
    }
    updateAlerts();
    showPage(tabs_->currentIndex());
}

void MainWindow::resizeEvent(QResizeEvent* event) {
    QMainWindow::resizeEvent(event);
    runList_->setVisible(!userHidList_ && width() >= kListBelow);
    updateDrawer();
    QMetaObject::invokeMethod(this, &MainWindow::placeTools, Qt::QueuedConnection);  // when the row has its width
}

/// Below 1280 px the open page's side panel hides and a button at the right end of the tab bar shows it again.
void MainWindow::updateDrawer() {
    const bool narrow = width() < kDrawerBelow;
    Page* open = qobject_cast<Page*>(stack_->currentWidget());
    drawer_->setVisible(narrow && open && open->sidePanel());
    if (!narrow) drawer_->setChecked(false);
    for (const auto& entry : pages_)
        if (QWidget* panel = entry.second->sidePanel()) panel->setVisible(!narrow || drawer_->isChecked());
}

void MainWindow::toggleRunList() {
    const bool show = !runList_->isVisible();
    userHidList_ = !show;
    runList_->setVisible(show);
}

}  // namespace mantissa::gui
