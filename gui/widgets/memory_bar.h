// Stacked bar of memory categories in greys, against a total or a limit.
#pragma once

#include <QVector>
#include <QWidget>

namespace mantissa::gui {

class MemoryBar : public QWidget {
    Q_OBJECT
  public:
    explicit MemoryBar(QWidget* parent = nullptr);
    /// bytes by category (weights, gradients, moments, activations, workspace, host); available: what is free, 0 =
    /// unknown. What lies beyond `available` is hatched in `bad`.
    void setValues(const QVector<double>& bytes, double available);

  protected:
    void paintEvent(QPaintEvent* event) override;

  private:
    QVector<double> bytes_;
    double available_ = 0;
};

}  // namespace mantissa::gui
