// In place of Live for a run that was refused: what its plan needs, what is free, and changes that make it fit.
#pragma once

#include <QTableWidget>

#include "experiments/report/forecast.h"
#include "gui/widgets/card.h"
#include "gui/widgets/memory_bar.h"

class QGridLayout;
class QPushButton;

namespace mantissa::gui {

class RunController;

/// A changed spec with what the same plan says about it.
struct FittingChange {
    QString text, effect;
    std::string device;
    experiments::RunSpec spec;
    experiments::Forecast forecast;
};

class RefusedPage : public QWidget {
    Q_OBJECT
  public:
    explicit RefusedPage(RunController& controller, QWidget* parent = nullptr);
    void setRun(const QString& id);

  Q_SIGNALS:
    void editRequested(const QString& specJson);

  private:
    struct Answer {
        experiments::RunSpec spec;
        experiments::Forecast plan;
        std::vector<FittingChange> changes;
        std::string device;
    };
    void show(Answer answer);
    void showPlan(const experiments::Forecast& plan);
    void showChanges();
    void apply();
    QString planText() const;

    RunController& controller_;
    QString id_;
    Answer answer_;
    Card *planCard_, *nowCard_;
    MemoryBar* bar_;
    TextLabel* limit_;
    TextLabel* values_[7];
    TextLabel *free_, *need_;
    QTableWidget* table_;
    QPushButton *apply_, *edit_, *copy_;
};

}  // namespace mantissa::gui
