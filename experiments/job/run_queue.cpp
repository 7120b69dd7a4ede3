#include "experiments/job/run_queue.h"

#include "experiments/report/device_choice.h"

namespace mantissa::experiments {

std::shared_ptr<TrainingJob> RunQueue::start(const RunSpec& spec, JobOptions options) {
    const std::string device = concreteDevice(resolveDevice(options.device).device);
    std::weak_ptr<TrainingJob> before;
    for (const Entry& entry : entries_)
        if (entry.device == device && !entry.job->ended()) before = entry.job;
    if (!options.beside && !before.expired())
        // Weak: the queue may be gone before the job, and a job must not keep another one alive.
        options.waitFor = [before, name = before.lock()->name()]() -> std::string {
            const auto job = before.lock();
            return job && !job->ended() ? name : "";
        };
    entries_.push_back({std::make_shared<TrainingJob>(spec, std::move(options)), device});
    return entries_.back().job;
}

std::vector<RunQueue::Item> RunQueue::items() const {
    std::vector<Item> list;
    for (const Entry& entry : entries_) {
        if (entry.job->ended()) continue;
        Item item{entry.job->runId(), entry.job->name(), entry.device, 0, "", entry.job};
        for (const Item& other : list)
            if (other.device == entry.device) item.waitsFor = other.name, ++item.place;
        list.push_back(std::move(item));
    }
    return list;
}

std::shared_ptr<TrainingJob> RunQueue::find(const std::string& runId) const {
    for (const Entry& entry : entries_)
        if (entry.job->runId() == runId) return entry.job;
    return nullptr;
}

void RunQueue::stopAll() {
    for (const Entry& entry : entries_)
        if (!entry.job->ended()) entry.job->stop();
}

bool RunQueue::idle() const {
    for (const Entry& entry : entries_)
        if (!entry.job->ended()) return false;
    return true;
}

}  // namespace mantissa::experiments
