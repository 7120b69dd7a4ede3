// Measures the longest gap of the GUI's event loop (MANTISSA_HEARTBEAT=FILE): nothing may block it for more than 50 ms.
#pragma once

#include <QApplication>
#include <QElapsedTimer>
#include <QFile>
#include <QObject>
#include <QTimer>
#include <utility>

namespace mantissa::gui {

/// A 5 ms timer; a gap is the time between two of its ticks less the interval. Once a second a line goes to the file
/// (none when the path is empty): seconds since the start, longest gap of this second, longest gap so far, and the
/// thread's own CPU time within that longest gap (a long gap with little CPU time was the machine's, not the
/// program's), all in ms.
class Heartbeat : public QObject {
    Q_OBJECT
  public:
    explicit Heartbeat(const QString& path, QObject* parent = nullptr);
    double longestGapMs() const { return longest_; }
    struct Gap {
        double wallMs = 0, cpuMs = 0;
    };
    /// Longest gap since the last call.
    Gap takeGap() { return std::exchange(sinceTaken_, Gap()); }
    /// A comment line in the file.
    void note(const QString& text);
    double seconds() const { return sinceStart_.elapsed() / 1000.0; }

  private:
    void beat();
    QFile file_;
    QTimer timer_;
    QElapsedTimer sinceBeat_, sinceStart_;
    qint64 lastLine_ = 0;
    double cpuAtBeat_ = 0, longest_ = 0, longestCpu_ = 0, thisSecond_ = 0;
    Gap sinceTaken_;
};

/// The application; with a heartbeat it also writes each event whose handling took more than 20 ms: receiver, event,
/// time, indented by how deep it is nested.
class TracedApplication : public QApplication {
  public:
    using QApplication::QApplication;
    void trace(Heartbeat* heartbeat) { heartbeat_ = heartbeat; }
    bool notify(QObject* receiver, QEvent* event) override;

  private:
    Heartbeat* heartbeat_ = nullptr;
    int depth_ = 0;
};

}  // namespace mantissa::gui
