// The window: top bar, run list, page tabs, pages, status bar. Only wires; pages and panels hold the logic.
#pragma once

#include <QHash>
#include <QMainWindow>
#include <QPointer>
#include <QTabBar>
#include <QTimer>

#include "gui/controller/run_controller.h"
#include "gui/pages/page.h"
#include "gui/settings.h"
#include "gui/widgets/capsule.h"
#include "gui/widgets/messages.h"
#include "gui/widgets/run_list_panel.h"
#include "gui/widgets/status_strip.h"

class QMenuBar;
class QPushButton;
class QSplitter;
class QStackedWidget;

namespace mantissa::gui {

class LaunchDialog;
class RefusedPage;

class MainWindow : public QMainWindow {
    Q_OBJECT
  public:
    MainWindow(RunController& controller, Settings& settings, QWidget* parent = nullptr);

    /// name: "live", "numerics" (and its views "diagnosis", "trouble"), "compare", "ladder", "formats", "device". False
    /// when there is no such page.
    bool openPage(const QString& name);
    QString pageName() const;
    Page* page(const QString& name) const;
    RunListPanel& runList() { return *runList_; }
    /// Opens the launch dialog; spec "" = the default preset.
    LaunchDialog& openLaunch(const QString& specJson = QString());
    void openLaunchPreset(const QString& preset);
    /// Starts a preset at once (options --preset NAME --start); a wrong name becomes a banner.
    void startPreset(const QString& name);
    /// The default preset and the same run in BF16 after it.
    void startBoth();
    QList<QAction*> allActions() const { return actions_; }
    /// Ends the program without a question: runs and a ladder that go stop first, with a checkpoint when asked once,
    /// without one when asked twice. Returns at once. The exit code is 130 when something had to be stopped, else 0.
    void quit(int times);

  protected:
    void closeEvent(QCloseEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    void dragEnterEvent(QDragEnterEvent* event) override;
    void dragLeaveEvent(QDragLeaveEvent* event) override;
    void dropEvent(QDropEvent* event) override;

  private:
    bool mayStop(bool runs, bool ladder);  ///< asks whether what goes may stop, so that the window can close
    QWidget* makeTopBar();
    void makeActions();
    void makeMenus(QMenuBar& bar);
    void makePages();
    void addPage(const QString& name, const QString& title, Glyph glyph, Page* page);
    QAction* action(const QString& text, const QKeySequence& key, Glyph glyph, std::function<void()> call,
                    const QString& tip = QString());
    void connectController();
    void showPage(int index);
    void placeTools();
    void updateDrawer();
    void updateCapsule();
    void updateRunActions();
    void updateBanner();
    void updateStatus();
    void updateDevice();
    QVector<RunInfo> alertRuns() const;
    void updateAlerts();
    void showAlerts();
    void showThemeMenu();
    void showKeys();
    void askStop();
    void openFile(const QString& path);
    void chooseFile();
    void exportRun(const QString& id);
    void openChange(const QString& id);
    void openFork(const QString& id, qint64 step = -1, const QString& specJson = QString());
    void changeRun(const QString& id, const QString& specJson);
    void showMetric(const QString& metric, qint64 step);
    void toggleRunList();
    void cyclePanel(int direction);
    void restoreLayout();
    void saveLayout();
    void selectionChanged(const QString& current, const QStringList& ids);

    RunController& controller_;
    Settings& settings_;
    RunListPanel* runList_ = nullptr;
    QSplitter* splitter_ = nullptr;
    QTabBar* tabs_ = nullptr;
    QWidget* toolsHost_ = nullptr;
    QToolButton* drawer_ = nullptr;
    QStackedWidget* stack_ = nullptr;
    BannerArea* banners_ = nullptr;
    Toasts* toasts_ = nullptr;
    StatusStrip* status_ = nullptr;
    Capsule* capsule_ = nullptr;
    QPushButton* newRun_ = nullptr;
    QToolButton *device_ = nullptr, *alerts_ = nullptr, *themeButton_ = nullptr;
    QAction *pause_ = nullptr, *stop_ = nullptr, *checkpoint_ = nullptr, *fork_ = nullptr, *change_ = nullptr;
    QList<QAction*> actions_;
    QVector<QPair<QString, Page*>> pages_;
    QVector<Glyph> glyphs_;  ///< of their tabs
    QWidget* emptyPage_ = nullptr;
    RefusedPage* refusedPage_ = nullptr;
    QPointer<LaunchDialog> launch_;
    QString selected_;
    bool userHidList_ = false, closing_ = false, selectedOnce_ = false;
    QTimer* quitting_ = nullptr;  ///< looks whether all has ended
};

}  // namespace mantissa::gui
