// The tables of the tensor bench: codes of cast values, decoded codes, updates of the delayed rule, scales of blocks.
#pragma once

#include <QAbstractTableModel>
#include <functional>
#include <memory>
#include <vector>

#include "experiments/tensor_bench.h"

namespace mantissa::gui {

/// A column's words. text(row, whole): what stands in the cell, or with full precision in its tooltip.
struct BenchColumn {
    QString head, tip;
    std::function<QString(size_t row, bool whole)> text;
};

/// Up to millions of rows: cells are made when they are asked for.
class BenchModel : public QAbstractTableModel {
    Q_OBJECT
  public:
    using QAbstractTableModel::QAbstractTableModel;
    void setTable(size_t rows, std::vector<BenchColumn> columns);
    QString cell(int row, int column) const { return columns_[size_t(column)].text(size_t(row), false); }
    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

  private:
    size_t rows_ = 0;
    std::vector<BenchColumn> columns_;
};

using SharedTensor = std::shared_ptr<const experiments::TensorResult>;
using SharedTrace = std::shared_ptr<const std::vector<experiments::TraceRow>>;
using SharedDecoded = std::shared_ptr<const std::vector<experiments::DecodedCode>>;

std::vector<BenchColumn> codeColumns(const SharedTensor& result);
std::vector<BenchColumn> decodedColumns(const SharedDecoded& decoded, const std::string& format);
/// The window with the entry that gave the next scale in brackets: "0 0 2 [8]".
std::vector<BenchColumn> traceColumns(const SharedTrace& trace);
std::vector<BenchColumn> blockColumns(const SharedTensor& result);

/// The slots of an amax window, each as text(slot): all where there are no more than `shown` (> 3), else the first two,
/// the one that rules and the newest, "…" for those between, and how many there are. ruling: `size` when none rules.
QString slotsText(size_t size, size_t shown, size_t ruling, const std::function<QString(size_t)>& text,
                  const QString& gap = QStringLiteral(" "));

/// "7E", "0x40490FDB": a code in the digits of its format.
QString hexCode(uint32_t code, const std::string& format);

}  // namespace mantissa::gui
