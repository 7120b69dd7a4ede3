// Right side of the launch dialog: memory by category, time and space, the precision plan. Shows values it is given.
#pragma once

#include <QWidget>

#include "experiments/report/forecast.h"
#include "gui/widgets/card.h"
#include "gui/widgets/memory_bar.h"
#include "gui/widgets/plan_grid.h"

class QGridLayout;

namespace mantissa::gui {

class ForecastPanel : public QWidget {
    Q_OBJECT
  public:
    explicit ForecastPanel(QWidget* parent = nullptr);
    void setForecast(const experiments::Forecast& forecast, const experiments::RunSpec& spec);
    /// While a spec has errors or a forecast is on its way: the numbers stay, in text3, with the sentence beside the
    /// head.
    void setStale(const QString& why);
    PlanGrid& grid() { return *grid_; }
    TextLabel& planHead() { return *planCount_; }
    void setPlan(const std::vector<engine::EffectivePrecision>& plan);

  private:
    void addRow(QGridLayout& grid, int row, const QString& name, const QString& tip, TextLabel** value);
    TextLabel *memoryHead_, *basis_, *planCount_, *note_;
    MemoryBar* bar_;
    TextLabel* memory_[6];
    TextLabel* memoryNote_[6];
    TextLabel *step_, *rate_, *whole_, *tokens_, *store_, *checkpoints_;
    PlanGrid* grid_;
};

}  // namespace mantissa::gui
