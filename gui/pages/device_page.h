// Device: what this machine does natively, what is emulated, what is missing, and why.
#pragma once

#include <QTableWidget>

#include "experiments/report/device_report.h"
#include "gui/pages/page.h"
#include "gui/widgets/card.h"

class QHBoxLayout;
class QToolButton;

namespace mantissa::gui {

class DevicePage : public Page {
    Q_OBJECT
  public:
    explicit DevicePage(RunController& controller, QWidget* parent = nullptr);

    /// Asks driver and processor on a background thread; reportsChanged() follows.
    void ask();
    void setReports(const std::vector<experiments::DeviceReport>& reports);
    /// "CPU · FP8 emulated": the device new runs take.
    QString shortText() const;
    QString asText() const;

  Q_SIGNALS:
    void reportsChanged(const std::vector<mantissa::experiments::DeviceReport>& reports);

  protected:
    void refresh() override;

  private:
    void rebuildCards();
    void rebuildTable();
    Card* makeCard(const experiments::DeviceReport& report, bool used);

    std::vector<experiments::DeviceReport> reports_;
    QHBoxLayout* cards_;
    QTableWidget* table_;
    TextLabel* waiting_;
};

}  // namespace mantissa::gui
