// A background thread with a queue, for everything that touches disk or device or takes longer than a few milliseconds.
#pragma once

#include <QHash>
#include <QObject>
#include <QPointer>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace mantissa::gui {

/// Runs jobs one after the other on its own thread. post() may be called from any thread; jobs still queued at
/// destruction are dropped, the one that runs is waited for. mutex_ guards queue_ and stopping_.
class Worker {
  public:
    Worker();
    ~Worker();
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;
    void post(std::function<void()> job);

  private:
    void loop();
    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<std::function<void()>> queue_;
    bool stopping_ = false;
    std::thread thread_;
};

/// Hands out job numbers per (receiver, topic), so that an answer overtaken by a later question is dropped. GUI thread
/// only.
class JobNumbers {
  public:
    quint64 next(const QObject* receiver, int topic) { return latest_[{receiver, topic}] = ++counter_; }
    bool isLatest(const QObject* receiver, int topic, quint64 number) const {
        return latest_.value({receiver, topic}) == number;
    }
    void forget(const QObject* receiver);

  private:
    QHash<QPair<const QObject*, int>, quint64> latest_;
    quint64 counter_ = 0;
};

}  // namespace mantissa::gui
