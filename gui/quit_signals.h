// SIGTERM, SIGINT and SIGHUP as a Qt signal on the GUI thread.
#pragma once

#include <QObject>
#include <array>
#include <csignal>

class QSocketNotifier;

namespace mantissa::gui {

/// Catches the three while it lives; one that was ignored before (nohup, a shell's background job) stays ignored. From
/// the third on they act as they did before, so that a program that hangs can still be ended. One at a time. GUI
/// thread.
class QuitSignals : public QObject {
    Q_OBJECT
  public:
    explicit QuitSignals(QObject* parent = nullptr);
    ~QuitSignals() override;

  Q_SIGNALS:
    /// times: 1 for the first one, 2 for the second.
    void asked(int times);

  private:
    void read();
    void restore();
    static constexpr std::array<int, 3> kCaught = {SIGTERM, SIGINT, SIGHUP};
    std::array<struct sigaction, kCaught.size()> before_{};
    QSocketNotifier* notifier_ = nullptr;
    int times_ = 0;
    bool caught_ = false;
};

}  // namespace mantissa::gui
