// The runs of the store as a tree of two levels: groups, and runs inside them, filtered and sorted.
#pragma once

#include <QAbstractItemModel>
#include <QVector>

#include "gui/models/run_filter.h"
#include "gui/models/run_info.h"

namespace mantissa::gui {

class RunListModel : public QAbstractItemModel {
    Q_OBJECT
  public:
    enum Column { State, Name, Step, ValLoss, TrainLoss, Rate, Recipe, Seed, Device, Tags, Started, ColumnCount };
    enum Role { InfoRole = Qt::UserRole, GroupRole, IdRole };
    enum class GroupBy { Model, Recipe, Seed, Tag, None };

    explicit RunListModel(QObject* parent = nullptr) : QAbstractItemModel(parent) {}

    /// Takes the whole list. Emits dataChanged when the same runs stand in the same places, else resets.
    void setRuns(const QVector<RunInfo>& runs);
    void updateRun(const RunInfo& run);
    void setFilter(const RunFilter& filter);
    void setGroupBy(GroupBy groupBy);
    GroupBy groupBy() const { return groupBy_; }

    qsizetype totalCount() const { return runs_.size(); }
    int shownCount() const;
    QModelIndex indexOf(const QString& id, int column = Name) const;
    const RunInfo* info(const QModelIndex& index) const;  ///< null for a group
    /// All runs shown, in the order of the list.
    QStringList shownIds() const;

    QModelIndex index(int row, int column, const QModelIndex& parent = {}) const override;
    QModelIndex parent(const QModelIndex& child) const override;
    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
    Qt::ItemFlags flags(const QModelIndex& index) const override;
    /// NaN and "not measured" sort last in both orders.
    void sort(int column, Qt::SortOrder order) override;

    /// Text of a cell as the delegate shows and a copy takes it.
    static QString cellText(const RunInfo& run, int column);
    /// The name without the group's prefix.
    static QString shortName(const RunInfo& run, const QString& group);

  private:
    struct Group {
        QString title;
        QVector<int> rows;  ///< indices into runs_
    };
    QVector<Group> arrange() const;
    QString groupOf(const RunInfo& run) const;
    void rebuild();
    bool lessThan(const RunInfo& a, const RunInfo& b) const;

    QVector<RunInfo> runs_;
    QVector<Group> groups_;
    RunFilter filter_;
    GroupBy groupBy_ = GroupBy::Model;
    int sortColumn_ = -1;
    Qt::SortOrder sortOrder_ = Qt::AscendingOrder;
};

}  // namespace mantissa::gui
