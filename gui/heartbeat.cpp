#include "gui/heartbeat.h"

#include <time.h>

#include <algorithm>

namespace mantissa::gui {
namespace {

constexpr int kIntervalMs = 5;
constexpr double kSlowMs = 20;  ///< of an event that is worth a line

double threadCpuMs() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1e3 + now.tv_nsec * 1e-6;
}

}  // namespace

Heartbeat::Heartbeat(const QString& path, QObject* parent) : QObject(parent), file_(path) {
    if (!path.isEmpty() && file_.open(QIODevice::WriteOnly | QIODevice::Truncate))
        file_.write("# seconds gap_of_second_ms longest_gap_ms cpu_in_longest_gap_ms\n");
    timer_.setTimerType(Qt::PreciseTimer);
    timer_.setInterval(kIntervalMs);
    connect(&timer_, &QTimer::timeout, this, &Heartbeat::beat);
    sinceStart_.start();
    sinceBeat_.start();
    cpuAtBeat_ = threadCpuMs();
    timer_.start();
}

void Heartbeat::beat() {
    const double gap = sinceBeat_.nsecsElapsed() * 1e-6 - kIntervalMs;
    const double cpu = threadCpuMs();
    thisSecond_ = std::max(thisSecond_, gap);
    if (gap > sinceTaken_.wallMs) sinceTaken_ = {gap, cpu - cpuAtBeat_};
    if (gap > longest_) {
        longest_ = gap;
        longestCpu_ = cpu - cpuAtBeat_;
    }
    if (sinceStart_.elapsed() - lastLine_ >= 1000) {
        lastLine_ = sinceStart_.elapsed();
        if (file_.isOpen())
            file_.write(QByteArray::number(lastLine_ / 1000.0, 'f', 1) + ' ' + QByteArray::number(thisSecond_, 'f', 1) +
                        ' ' + QByteArray::number(longest_, 'f', 1) + ' ' + QByteArray::number(longestCpu_, 'f', 1) +
                        '\n');
        if (file_.isOpen()) file_.flush();
        thisSecond_ = 0;
    }
    cpuAtBeat_ = threadCpuMs();
    sinceBeat_.restart();
}

void Heartbeat::note(const QString& text) {
    if (file_.isOpen()) file_.write("# " + text.toUtf8() + '\n');
}

bool TracedApplication::notify(QObject* receiver, QEvent* event) {
    if (!heartbeat_) return QApplication::notify(receiver, event);
    const QString what = QStringLiteral("%1 %2, event %3")
                             .arg(QLatin1String(receiver->metaObject()->className()), receiver->objectName())
                             .arg(int(event->type()));
    QElapsedTimer timer;
    timer.start();
    ++depth_;
    const bool result = QApplication::notify(receiver, event);
    --depth_;
    const double milliseconds = timer.nsecsElapsed() * 1e-6;
    if (milliseconds > kSlowMs)
        heartbeat_->note(QStringLiteral("%1 s %2%3 ms %4")
                             .arg(heartbeat_->seconds(), 0, 'f', 2)
                             .arg(QString(2 * depth_, QLatin1Char(' ')))
                             .arg(milliseconds, 0, 'f', 1)
                             .arg(what));
    return result;
}

}  // namespace mantissa::gui
