// Tensor bench: values, codes or a series of amaxes by hand or from a file; recipe and starting state; what comes out.
#pragma once

#include <QCheckBox>
#include <QComboBox>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QTimer>

#include "experiments/tensor_bench.h"
#include "experiments/tensor_input.h"
#include "gui/pages/bench_result.h"
#include "gui/widgets/card.h"

class QGridLayout;

namespace mantissa::gui {

class RunController;

/// Values of a text separated by commas, semicolons or white space. error: which value is not a number, in words.
std::vector<float> parseValues(const QString& text, QString* error);

class TensorBenchView : public QWidget {
    Q_OBJECT
  public:
    explicit TensorBenchView(RunController& controller, QWidget* parent = nullptr);
    QPlainTextEdit* valuesField() const { return values_; }
    QComboBox* recipeField() const { return recipe_; }
    QComboBox* readField() const { return read_; }
    QComboBox* formatField() const { return format_; }
    QComboBox* dtypeField() const { return dtype_; }
    QComboBox* algorithmField() const { return algorithm_; }
    QComboBox* roundField() const { return round_; }
    QLineEdit* columnsField() const { return columns_; }
    QLineEdit* scaleField() const { return scale_; }
    QLineEdit* historyField() const { return history_; }
    QLineEdit* lengthField() const { return length_; }
    QLineEdit* marginField() const { return margin_; }
    QCheckBox* powerOfTwoField() const { return powerOfTwo_; }
    BenchResultView& results() const { return *results_; }
    const experiments::TensorResult* result() const { return results_->output().result.get(); }
    QString errorText() const { return error_->text(); }
    /// A CSV or safetensors file, read in the background.
    void openFile(const QString& path);
    /// Values N(0, 1), the same ones for the same count.
    void fillNormal(int count);
    static QStringList exampleNames();
    void showExample(int index);

  Q_SIGNALS:
    void resultChanged();

  private:
    enum Read { Values, Codes, Amaxes };
    QWidget* makeForm();
    QWidget* makeSource();
    Read read() const { return Read(read_->currentIndex()); }
    bool takeRequest(experiments::TensorRequest& request, QString* error) const;
    bool takeValues(experiments::TensorRequest& request, QString* error) const;
    void takeNumbers(experiments::TensorRequest& request, QString* error) const;
    void hold(experiments::TensorValues values, const QString& name);
    void letGo();
    void updateFields();
    void run();
    QComboBox* combo(QGridLayout& grid, int row, const QString& name, const QStringList& items, const QString& tip);
    QLineEdit* edit(QGridLayout& grid, int row, const QString& name, const QString& text, const QString& tip);

    RunController& controller_;
    QPlainTextEdit* values_;
    QComboBox *read_, *recipe_, *format_, *dtype_, *algorithm_, *round_;
    QLineEdit *columns_, *scale_, *history_, *length_, *margin_, *epsilon_;
    QCheckBox* powerOfTwo_;
    QPushButton *open_, *examples_, *drop_;
    TextLabel *error_, *held_;
    BenchResultView* results_;
    QTimer timer_;
    std::shared_ptr<const experiments::TensorValues> heldValues_;  ///< more than a text field takes; empty: the field
    QHash<QWidget*, QWidget*> labelOf_;
};

}  // namespace mantissa::gui
