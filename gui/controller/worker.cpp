#include "gui/controller/worker.h"

#include <utility>

namespace mantissa::gui {

Worker::Worker() : thread_([this] { loop(); }) {}

Worker::~Worker() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
        queue_.clear();
    }
    wake_.notify_all();
    thread_.join();
}

void Worker::post(std::function<void()> job) {
    {
        const std::lock_guard lock(mutex_);
        if (stopping_) return;
        queue_.push_back(std::move(job));
    }
    wake_.notify_one();
}

void Worker::loop() {
    for (;;) {
        std::function<void()> job;
        {
            std::unique_lock lock(mutex_);
            wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
            if (stopping_) return;
            job = std::move(queue_.front());
            queue_.pop_front();
        }
        job();
    }
}

void JobNumbers::forget(const QObject* receiver) {
    for (auto it = latest_.begin(); it != latest_.end();) {
        it = it.key().first == receiver ? latest_.erase(it) : std::next(it);
    }
}

}  // namespace mantissa::gui
