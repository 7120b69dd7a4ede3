// The run going now, in the top bar: state icon, name, step / steps, percent, time left, a 2 px progress line. A click
// selects it.
#pragma once

#include <QAbstractButton>

#include "gui/models/run_info.h"

namespace mantissa::gui {

class Capsule : public QAbstractButton {
    Q_OBJECT
  public:
    explicit Capsule(QWidget* parent = nullptr);
    /// run: null = none going. others: further runs going. phase: "Planning memory" …, shown in place of the steps.
    /// secondsLeft < 0: unknown.
    void show(const RunInfo* run, int others, const QString& phase, double secondsLeft);
    QString runId() const { return run_.id; }
    QSize sizeHint() const override { return {520, 34}; }
    QSize minimumSizeHint() const override { return {200, 34}; }

  protected:
    void paintEvent(QPaintEvent* event) override;

  private:
    QString rightText() const;
    RunInfo run_;
    bool any_ = false;
    int others_ = 0;
    QString phase_;
    double secondsLeft_ = -1;
};

}  // namespace mantissa::gui
