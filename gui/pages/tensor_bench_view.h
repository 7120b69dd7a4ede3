// Tensor bench: paste values, choose recipe and starting state, see codes, scale, counters and the state after the
// update.
#pragma once

#include <QAbstractTableModel>
#include <QCheckBox>
#include <QComboBox>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QTableView>
#include <QTimer>

#include "experiments/tensor_bench.h"
#include "gui/widgets/card.h"

class QGridLayout;

namespace mantissa::gui {

class RunController;

/// One row a value; up to millions, nothing is copied per cell.
class BenchModel : public QAbstractTableModel {
    Q_OBJECT
  public:
    enum Column { Index, Value, Code, Dequantized, Error, ColumnCount };
    using QAbstractTableModel::QAbstractTableModel;
    void setResult(std::shared_ptr<const experiments::TensorResult> result);
    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

  private:
    std::shared_ptr<const experiments::TensorResult> result_;
};

/// Values of a text separated by commas, semicolons or white space. error: which value is not a number, in words.
std::vector<float> parseValues(const QString& text, QString* error);

class TensorBenchView : public QWidget {
    Q_OBJECT
  public:
    explicit TensorBenchView(RunController& controller, QWidget* parent = nullptr);
    QPlainTextEdit* valuesField() const { return values_; }
    QComboBox* recipeField() const { return recipe_; }
    QLineEdit* historyField() const { return history_; }
    const experiments::TensorResult* result() const { return result_.get(); }
    QString errorText() const { return error_->text(); }

  Q_SIGNALS:
    void resultChanged();

  private:
    QWidget* makeForm();
    QWidget* makeResult();
    bool takeRequest(experiments::TensorRequest& request, QString* error) const;
    void updateFields();
    void run();
    void show(std::shared_ptr<const experiments::TensorResult> result);
    void setFact(const QString& name, const QString& value, const QString& tip, Token token = Token::Text);
    QLineEdit* edit(QGridLayout& grid, int row, const QString& name, const QString& text, const QString& tip);

    RunController& controller_;
    QPlainTextEdit* values_;
    QComboBox *recipe_, *format_, *dtype_, *algorithm_;
    QLineEdit *columns_, *scale_, *history_, *length_, *margin_, *epsilon_;
    QCheckBox* powerOfTwo_;
    TextLabel* error_;
    QGridLayout* facts_;
    QVector<QPair<TextLabel*, TextLabel*>> factRows_;
    int used_ = 0;
    QTableView* table_;
    BenchModel* model_;
    QTimer timer_;
    std::shared_ptr<const experiments::TensorResult> result_;
    QHash<QWidget*, QWidget*> labelOf_;
};

}  // namespace mantissa::gui
