// Measures the longest gap of the GUI's event loop (MANTISSA_HEARTBEAT=FILE): nothing may block it for more than 50 ms.
#pragma once

#include <QElapsedTimer>
#include <QFile>
#include <QObject>
#include <QTimer>

namespace mantissa::gui {

/// A 5 ms timer; a gap is the time between two of its ticks less the interval. Once a second a line goes to the file:
/// seconds since the start, longest gap of this second, longest gap so far, and the thread's own CPU time within that
/// longest gap (a long gap with little CPU time was the machine's, not the program's), all in ms.
class Heartbeat : public QObject {
    Q_OBJECT
  public:
    explicit Heartbeat(const QString& path, QObject* parent = nullptr);
    double longestGapMs() const { return longest_; }

  private:
    void beat();
    QFile file_;
    QTimer timer_;
    QElapsedTimer sinceBeat_, sinceStart_;
    qint64 lastLine_ = 0;
    double cpuAtBeat_ = 0, longest_ = 0, longestCpu_ = 0, thisSecond_ = 0;
};

}  // namespace mantissa::gui
