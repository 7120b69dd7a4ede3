// Tables of the Compare page: final numbers (sorted with NaN last) and config differences.
#pragma once

#include <QAbstractTableModel>
#include <QSortFilterProxyModel>
#include <vector>

#include "experiments/report/compare.h"
#include "gui/format/numbers.h"
#include "gui/theme/theme.h"

namespace mantissa::gui {

/// One row a run or seed group.
struct FinalRow {
    QString name, id;  ///< id of its first run
    int series = 0;
    int runs = 1, pairs = 0;
    QString state;
    double validation = NAN, sd = NAN, difference = NAN, p = NAN;
    double tokensPerSecond = NAN, ratio = NAN, stepMs = NAN, peakBytes = NAN, alerts = 0;
    bool baseline = false, bad = false;
};

class FinalNumbersModel : public QAbstractTableModel {
    Q_OBJECT
  public:
    enum Column { Name, State, Validation, Sd, Difference, Paired, Speed, Ratio, StepMs, Peak, Alerts, kColumns };
    static constexpr int kSortRole = Qt::UserRole, kSeriesRole = Qt::UserRole + 1, kTokenRole = Qt::UserRole + 2,
                         kIdRole = Qt::UserRole + 3;
    using QAbstractTableModel::QAbstractTableModel;
    void setRows(std::vector<FinalRow> rows);
    const std::vector<FinalRow>& rows() const { return rows_; }
    int rowCount(const QModelIndex& parent = {}) const override { return parent.isValid() ? 0 : int(rows_.size()); }
    int columnCount(const QModelIndex& parent = {}) const override { return parent.isValid() ? 0 : kColumns; }
    QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
    QVariant data(const QModelIndex& index, int role) const override;
    /// TSV with heads; full precision.
    QString text() const;
    /// Whether some row has a value there: with one seed there is no spread, and no test.
    bool hasValues(int column) const;

  private:
    double number(const FinalRow& row, int column) const;
    std::vector<FinalRow> rows_;
    SizeUnit peakUnit_;
};

/// Numbers ascending or descending, NaN last either way; the pinned baseline stays first.
class NanLastProxy : public QSortFilterProxyModel {
    Q_OBJECT
  public:
    using QSortFilterProxyModel::QSortFilterProxyModel;

  protected:
    bool lessThan(const QModelIndex& left, const QModelIndex& right) const override;
};

/// A value of a spec as a person reads it: strings without quotes, rules and planted faults in words, with `separator`
/// between those of a list. "" (the run has no such field) is a dash.
QString configText(const std::string& json, const QString& separator);

class ConfigModel : public QAbstractTableModel {
    Q_OBJECT
  public:
    using QAbstractTableModel::QAbstractTableModel;
    void setRows(std::vector<experiments::ConfigRow> rows, const QStringList& names);
    void setFilter(const QString& text);
    int rowCount(const QModelIndex& parent = {}) const override { return parent.isValid() ? 0 : int(shown_.size()); }
    int columnCount(const QModelIndex& parent = {}) const override {
        return parent.isValid() ? 0 : int(names_.size()) + 1;
    }
    QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
    QVariant data(const QModelIndex& index, int role) const override;

  private:
    std::vector<experiments::ConfigRow> rows_;
    std::vector<size_t> shown_;
    QStringList names_;
    QString filter_;
};

}  // namespace mantissa::gui
