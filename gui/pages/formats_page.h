// Formats: a number or code in every format, all linked; and the tensor bench.
#pragma once

#include <QButtonGroup>
#include <QComboBox>
#include <QLineEdit>
#include <QStackedWidget>

#include "gui/pages/page.h"
#include "gui/pages/tensor_bench_view.h"
#include "gui/widgets/card.h"
#include "gui/widgets/format_widgets.h"

namespace mantissa::gui {

class FormatsPage : public Page {
    Q_OBJECT
  public:
    explicit FormatsPage(RunController& controller, QWidget* parent = nullptr);
    void setNumber(double number);
    double number() const { return view_.number; }
    QLineEdit* numberField() const { return number_; }
    QLineEdit* codeField() const { return code_; }
    CodesTable& codes() { return *codes_; }
    TensorBenchView& bench() { return *bench_; }
    void showBench(bool bench);

  protected:
    void refresh() override {}

  private:
    QWidget* makeSelector();
    QWidget* makeNumberView();
    void numberTyped();
    void codeTyped();
    void takeCode(experiments::NumberFormat format, quint32 code);
    void recompute();
    void setError(const QString& text, QLineEdit* field);
    experiments::NumberFormat codeFormat() const;

    FormatView view_;
    QButtonGroup* views_;
    QStackedWidget* stack_;
    QLineEdit *number_, *code_, *scale_;
    QComboBox *format_, *rounding_;
    QWidget* numberTools_;
    TextLabel* error_;
    CodesTable* codes_;
    NumberLines* lines_;
    RangeBars* ranges_;
    Card* linesCard_;
    TensorBenchView* bench_;
};

}  // namespace mantissa::gui
