// Left side of the window: filter, run table, and the card of the selected run.
#pragma once

#include <QLabel>
#include <QLineEdit>
#include <QStringList>
#include <QToolButton>
#include <QWidget>

#include "gui/models/run_list_model.h"
#include "gui/widgets/run_card.h"
#include "gui/widgets/run_table.h"

class QStackedLayout;

namespace mantissa::gui {

class RunController;

class RunListPanel : public QWidget {
    Q_OBJECT
  public:
    explicit RunListPanel(RunController& controller, QWidget* parent = nullptr);

    QStringList selectedIds() const;
    QString currentId() const;
    void select(const QString& id);
    void selectMany(const QStringList& ids);
    /// As selectMany(), as if the user had clicked them: selectionChanged() follows.
    void chooseMany(const QStringList& ids);
    void focusFilter();
    RunListModel& model() { return *model_; }
    RunTable& table() { return *table_; }
    /// Columns shown and grouping, for the settings file.
    QStringList visibleColumns() const;
    void setVisibleColumns(const QStringList& names);

  Q_SIGNALS:
    /// current: "" = none; ids in list order.
    void selectionChanged(const QString& current, const QStringList& ids);
    void showRequested(const QString& id);
    void cloneRequested(const QString& id);  ///< open the launch dialog with this run's spec
    void exportRequested(const QString& id);

  protected:
    void resizeEvent(QResizeEvent* event) override;
    void paintEvent(QPaintEvent* event) override;

  private:
    void rebuildLayout();
    void refreshRuns();
    void applyFilter();
    void emitSelection();
    void sizeColumns();
    bool outgrown(const RunInfo& run) const;
    void showContextMenu(const QPoint& position);
    void showHeadMenu(const QPoint& position);
    void showListMenu();
    void renameRun(const QString& id);
    void deleteRuns(const QStringList& ids);  ///< asks first; none of them while one is going
    void editNote(const QString& id);
    void editTags(const QString& id);
    void copySelection();
    void updateEmptyText();

    RunController& controller_;
    RunListModel* model_;
    RunTable* table_;
    QLineEdit* filter_;
    QLabel *count_, *filterError_, *empty_;
    QToolButton *pin_, *menu_;
    RunCard* card_;
    QStringList kept_;  ///< selection to restore after the model was rebuilt
    QString keptCurrent_;
    bool restoring_ = false;
};

}  // namespace mantissa::gui
