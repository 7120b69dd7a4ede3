#include "gui/heartbeat.h"

#include <time.h>

#include <algorithm>

namespace mantissa::gui {
namespace {

constexpr int kIntervalMs = 5;

double threadCpuMs() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1e3 + now.tv_nsec * 1e-6;
}

}  // namespace

Heartbeat::Heartbeat(const QString& path, QObject* parent) : QObject(parent), file_(path) {
    if (!file_.open(QIODevice::WriteOnly | QIODevice::Truncate)) return;
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
    if (gap > longest_) {
        longest_ = gap;
        longestCpu_ = cpu - cpuAtBeat_;
    }
    if (sinceStart_.elapsed() - lastLine_ >= 1000) {
        lastLine_ = sinceStart_.elapsed();
        file_.write(QByteArray::number(lastLine_ / 1000.0, 'f', 1) + ' ' + QByteArray::number(thisSecond_, 'f', 1) +
                    ' ' + QByteArray::number(longest_, 'f', 1) + ' ' + QByteArray::number(longestCpu_, 'f', 1) + '\n');
        file_.flush();
        thisSecond_ = 0;
    }
    cpuAtBeat_ = threadCpuMs();
    sinceBeat_.restart();
}

}  // namespace mantissa::gui
