// Checkpoint inspector: the tensors of a safetensors file with shapes, statistics, exponents and what each recipe would
// make of them. A window of its own; the file is read on its own thread.
#pragma once

#include <QAbstractTableModel>
#include <QDialog>
#include <QLineEdit>
#include <QSortFilterProxyModel>
#include <QTableView>
#include <atomic>
#include <memory>
#include <optional>

#include "experiments/report/weight_file.h"
#include "gui/controller/worker.h"
#include "gui/widgets/card.h"
#include "gui/widgets/message_strip.h"
#include "gui/widgets/tensor_views.h"
#include "gui/widgets/what_if_table.h"

namespace mantissa::gui {

/// One row a tensor: name, type, shape, size, and amax, NaN and Inf once they are read.
class WeightModel : public QAbstractTableModel {
    Q_OBJECT
  public:
    enum Column { Name, Type, Shape, Size, Amax, NonFinite, ColumnCount };
    using QAbstractTableModel::QAbstractTableModel;
    void setFile(std::shared_ptr<const experiments::WeightFile> file);
    void setStatistics(int row, const experiments::WeightStatistics& statistics);
    const std::optional<experiments::WeightStatistics>& statistics(int row) const { return read_[size_t(row)]; }
    const std::shared_ptr<const experiments::WeightFile>& file() const { return file_; }
    int readCount() const { return readCount_; }
    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

  private:
    std::shared_ptr<const experiments::WeightFile> file_;
    std::vector<std::optional<experiments::WeightStatistics>> read_;
    int readCount_ = 0;
};

class CheckpointDialog : public QDialog {
    Q_OBJECT
  public:
    explicit CheckpointDialog(const QString& path, QWidget* parent = nullptr);
    ~CheckpointDialog() override;

    const WeightModel& model() const { return *model_; }
    WhatIfTable& whatIf() const { return *whatIf_; }
    QString problem() const { return problem_->headline(); }
    void choose(int row);
    bool ready() const;  ///< every tensor's statistics are there

  protected:
    void paintEvent(QPaintEvent* event) override;

  private:
    struct Reading;
    QWidget* makeList();
    QWidget* makeDetail();
    void open(const QString& path);
    void take(std::shared_ptr<const experiments::WeightFile> file);
    void readNext();
    void askWhatIf(int row);
    void showRow(int row);
    void fillFacts(const experiments::WeightStatistics& statistics);
    void updateProgress();
    int chosenRow() const;

    WeightModel* model_ = nullptr;
    QSortFilterProxyModel* filter_ = nullptr;
    QTableView* table_ = nullptr;
    QLineEdit* search_ = nullptr;
    TextLabel *path_ = nullptr, *progress_ = nullptr, *name_ = nullptr, *exponentHint_ = nullptr,
              *whatIfHint_ = nullptr;
    MessageStrip* problem_ = nullptr;
    ChipRow* chips_ = nullptr;
    ExponentsView* exponents_ = nullptr;
    FactGrid* facts_ = nullptr;
    WhatIfTable* whatIf_ = nullptr;
    QWidget* detail_ = nullptr;
    std::shared_ptr<Reading> reading_;
    std::unique_ptr<Worker> reader_, caster_;
};

}  // namespace mantissa::gui
