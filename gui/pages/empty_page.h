// First start, no run in the store yet: what to do first, and what this machine can do.
#pragma once

#include <QWidget>

#include "experiments/report/device_report.h"

class QGridLayout;

namespace mantissa::gui {

class EmptyPage : public QWidget {
    Q_OBJECT
  public:
    explicit EmptyPage(QWidget* parent = nullptr);
    void setDevices(const std::vector<experiments::DeviceReport>& reports);

  Q_SIGNALS:
    void startBothRequested();
    void openRequested();
    void formatsRequested();

  private:
    void machineLine(int row, bool good, const QString& what, const QString& why);
    QGridLayout* machine_;
};

}  // namespace mantissa::gui
