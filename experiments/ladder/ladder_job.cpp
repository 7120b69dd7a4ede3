#include "experiments/ladder/ladder_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "experiments/job/training_job.h"
#include "experiments/report/device_choice.h"
#include "experiments/store/ulid.h"
#include "kernels/error.h"

namespace mantissa::experiments {

/// mutex guards progress and fresh.
struct LadderJob::Impl {
    LadderOptions options;
    LadderDocument document;
    std::vector<RungPlan> rungs;
    std::vector<size_t> wanted;
    mutable std::mutex mutex;
    std::condition_variable arrived;
    bool fresh = false;
    LadderProgress progress;
    std::jthread thread;

    void prepare();
    void choose();
    void run(const std::stop_token& stop);
    void runRung(RunStore& store, size_t index, const std::stop_token& stop);
    void follow(TrainingJob& job, const std::stop_token& stop);
    void take(const JobMessage& message);
    template <class Change>
    void change(Change apply) {
        {
            const std::lock_guard lock(mutex);
            apply(progress);
        }
        if (options.wake) options.wake();
    }
};

namespace {

std::string nameOf(const RungPlan& rung, LadderMode mode) {
    return mode == LadderMode::Widths ? fmt::format("{}@{}", rung.key, rung.width) : rung.key;
}

std::string runName(const RunSpec& base, const RungPlan& rung, LadderMode mode) {
    std::string key = rung.key;
    std::replace(key.begin(), key.end(), '_', '-');
    const std::string model = base.modelName();
    return mode == LadderMode::Widths ? fmt::format("{}-ladder-d{}-{}", model, rung.width, key)
                                      : fmt::format("{}-ladder-{}", model, key);
}

}  // namespace

/// A mistake in the request is found before the store is opened, so that it leaves nothing behind.
void LadderJob::Impl::choose() {
    rungs = ladderRungs(document.request);
    document.runs.resize(rungs.size());
    document.texts.resize(rungs.size());
    std::vector<std::string> unknown = options.only;
    std::string known;
    for (size_t i = 0; i < rungs.size(); ++i) {
        const std::string name = nameOf(rungs[i], document.request.mode);
        known += (known.empty() ? "" : ", ") + name;
        if (options.only.empty() || std::erase(unknown, name) > 0) wanted.push_back(i);
    }
    if (!unknown.empty())
        throw Error(ErrorCode::InvalidConfig,
                    fmt::format("ladder: --rungs: \"{}\" names no rung; allowed: {}", unknown.front(), known));
}

void LadderJob::Impl::prepare() {
    options.device = resolveDevice(options.device);
    if (options.ladder.empty()) {
        document.id = makeUlid();
        document.request = options.request;
        document.createdMs = nowMs();
        choose();
    }
    RunStore store(options.store, RunStore::Mode::ReadWrite);
    if (store.readOnly()) throw Error(ErrorCode::Database, fmt::format("{}: {}", store.path(), store.readOnlyReason()));
    if (!options.ladder.empty()) {
        document = readLadderDocument(store, options.ladder);
        choose();
    }
    document.device = concreteDevice(options.device.device);
    document.threads = options.device.threads;
    writeLadder(store, document);
    progress.ladder = document.id;
    progress.rungs = static_cast<int>(wanted.size());
}

void LadderJob::Impl::run(const std::stop_token& stop) {
    try {
        RunStore store(options.store, RunStore::Mode::ReadWrite);
        for (const size_t index : wanted) {
            if (stop.stop_requested()) break;
            runRung(store, index, stop);
            change([](LadderProgress& p) { ++p.done; });
        }
    } catch (const std::exception& error) {
        change([&](LadderProgress& p) { p.failed = error.what(); });
    }
    change([&](LadderProgress& p) {
        p.stopped = stop.stop_requested();
        p.rung.clear(), p.phase.clear();
        p.ended = true;
    });
}

/// A rung that cannot start says why in the ladder's document, and the next one goes on.
void LadderJob::Impl::runRung(RunStore& store, size_t index, const std::stop_token& stop) {
    const RungPlan& rung = rungs[index];
    change([&](LadderProgress& p) {
        p.rung = rung.title, p.phase = "Starting", p.step = 0, p.steps = rung.spec.trainer.steps;
    });
    document.texts[index].clear();
    try {
        JobOptions job;
        job.store = options.store;
        job.name = runName(document.request.base, rung, document.request.mode);
        job.tags = {"ladder"};
        job.device = options.device;
        job.headless = true;
        job.measureOnly = true;
        job.makeStepper = options.makeStepper;
        job.wake = [this] {
            const std::lock_guard lock(mutex);
            fresh = true;
            arrived.notify_one();
        };
        TrainingJob training(rung.spec, std::move(job));
        document.runs[index] = training.runId();
        writeLadder(store, document);
        follow(training, stop);
    } catch (const Error& error) {
        document.runs[index].clear();
        document.texts[index] = error.what();
        writeLadder(store, document);
    }
}

void LadderJob::Impl::follow(TrainingJob& job, const std::stop_token& stop) {
    bool told = false;
    while (true) {
        const bool over = job.ended();
        for (const JobMessage& message : job.drain()) take(message);
        if (over) break;
        if (stop.stop_requested() && !told) job.stopNow(), told = true;
        std::unique_lock lock(mutex);
        arrived.wait_for(lock, std::chrono::milliseconds(50), [&] { return fresh; });
        fresh = false;
    }
    job.join();
}

void LadderJob::Impl::take(const JobMessage& message) {
    if (const auto* phase = std::get_if<JobPhase>(&message))
        change([&](LadderProgress& p) { p.phase = phase->text; });
    else if (const auto* step = std::get_if<JobStep>(&message))
        change([&](LadderProgress& p) {
            p.step = std::min(step->metrics.step, p.steps);
            p.phase = step->metrics.step > p.steps ? "Measuring energy" : "";
        });
}

LadderJob::LadderJob(LadderOptions options) : impl_(std::make_unique<Impl>()) {
    impl_->options = std::move(options);
    impl_->prepare();
    impl_->thread = std::jthread([impl = impl_.get()](const std::stop_token& stop) { impl->run(stop); });
}

LadderJob::~LadderJob() {
    stop();
    join();
}

const std::string& LadderJob::id() const {
    return impl_->document.id;
}

void LadderJob::stop() {
    impl_->thread.request_stop();
    const std::lock_guard lock(impl_->mutex);
    impl_->fresh = true;
    impl_->arrived.notify_one();
}

LadderProgress LadderJob::progress() const {
    const std::lock_guard lock(impl_->mutex);
    return impl_->progress;
}

bool LadderJob::ended() const {
    return progress().ended;
}

void LadderJob::join() {
    if (impl_->thread.joinable()) impl_->thread.join();
}

}  // namespace mantissa::experiments
