#include "gui/controller/run_controller.h"

#include <sys/stat.h>

#include <QDateTime>
#include <QElapsedTimer>
#include <QSet>
#include <algorithm>
#include <chrono>

#include "gui/controller/run_controller_parts.h"
#include "gui/format/numbers.h"

namespace mantissa::gui {
namespace {

constexpr int kTickMs = 100;
constexpr size_t kStepTimes = 200;
constexpr auto kListEvery = std::chrono::milliseconds(250);  // the run list is read at most four times a second
constexpr auto kStateEvery = std::chrono::seconds(1);        // a process that went away changes no data version

template <class... Ts>
struct Overloaded : Ts... {
    using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

/// Device and inode of the file at a path; none where there is none.
std::optional<std::pair<uint64_t, uint64_t>> fileAt(const std::string& path) {
    struct stat found {};
    if (::stat(path.c_str(), &found) != 0) return std::nullopt;
    return std::pair<uint64_t, uint64_t>{found.st_dev, found.st_ino};
}

/// What the run list shows is equal (so that quiet polls repaint nothing).
bool sameRow(const RunInfo& a, const RunInfo& b) {
    const auto same = [](double x, double y) { return x == y || (x != x && y != y); };
    return a.name == b.name && a.state == b.state && a.step == b.step && a.steps == b.steps && a.hasLoss == b.hasLoss &&
           a.hasValLoss == b.hasValLoss && same(a.loss, b.loss) && same(a.valLoss, b.valLoss) && a.tags == b.tags &&
           a.note == b.note && a.baseline == b.baseline && a.alerts == b.alerts && a.message == b.message &&
           a.styleIndex == b.styleIndex && a.device == b.device && a.planBytes == b.planBytes &&
           a.peakBytes == b.peakBytes;
}

}  // namespace

RunController::RunController(QObject* parent) : QObject(parent), connections_(std::make_shared<Connections>()) {
    timer_.setInterval(kTickMs);
    connect(&timer_, &QTimer::timeout, this, &RunController::tick);
}

RunController::~RunController() = default;

void RunController::toGui(std::function<void()> call) {
    QMetaObject::invokeMethod(this, std::move(call), Qt::QueuedConnection);
}

void RunController::reportProblem(const QString& text) {
    Q_EMIT problem(text);
}

void RunController::readLater(std::function<void(experiments::RunStore*, const QString&)> job) {
    reader_.post([c = connections_, job = std::move(job)] { job(c->reader.get(), c->readerProblem); });
}

void RunController::writeLater(std::function<void(experiments::RunStore&)> job, const QString& doneText) {
    writer_.post([this, c = connections_, job = std::move(job), doneText] {
        QString error = c->writerProblem;
        if (c->writer) {
            try {
                job(*c->writer);
                error.clear();
            } catch (const std::exception& exception) {
                error = sentence(exception);
            }
        }
        toGui([this, error, doneText] {
            if (!error.isEmpty())
                reportProblem(error);
            else if (!doneText.isEmpty())
                Q_EMIT done(doneText);
            poll();
        });
    });
}

void RunController::openStore(const QString& path) {
    using experiments::RunStore;
    const std::string file = path.toStdString();
    // The writer first: it makes the file when there is none.
    writer_.post([this, c = connections_, file, path, again = path == store_.path] {
        if (again) c->writer.reset();
        StoreStatus status;
        status.path = path;
        try {
            auto opened = std::make_unique<RunStore>(file, RunStore::Mode::ReadWrite);
            c->writer = std::move(opened);
            c->writerProblem.clear();
            status.open = true;
            status.readOnlyReason = QString::fromStdString(c->writer->readOnlyReason());
        } catch (const std::exception& exception) {
            const QString problem = sentence(exception);
            if (c->writer) return toGui([this, problem] { reportProblem(problem); });  // the old store stays open
            c->writerProblem = problem;
        }
        const auto reopen = [c, file](std::unique_ptr<RunStore>& store, QString& problem) {
            store.reset();
            problem.clear();
            try {
                store = std::make_unique<RunStore>(file, RunStore::Mode::ReadOnly);
            } catch (const std::exception& exception) {
                problem = sentence(exception);
            }
        };
        reader_.post([c, reopen] { reopen(c->reader, c->readerProblem); });
        poller_.post([c, reopen, file] {
            QString ignored;
            reopen(c->poller, ignored);
            c->version = -1;
            c->path = file;
            c->file = fileAt(file);
            c->gone = c->other = 0;
        });
        toGui([this, status, error = c->writerProblem] {
            store_ = status;
            runs_.clear();
            rowOf_.clear();
            Q_EMIT runsChanged();
            Q_EMIT storeOpened();
            if (!error.isEmpty()) reportProblem(error);
            if (!status.readOnlyReason.isEmpty()) reportProblem(status.readOnlyReason);
            timer_.start();
            poll();
        });
    });
}

void RunController::tick() {
    drainJobs();
    poll();
}

void RunController::poll() {
    if (polling_) return;
    polling_ = true;
    poller_.post([this, c = connections_] {
        std::vector<experiments::RunSummary> rows;
        StoreStatus status;
        bool changed = false;
        const auto now = std::chrono::steady_clock::now();
        try {
            if (c->poller && now - c->lastList >= kListEvery) {
                const int64_t version = c->poller->dataVersion();
                changed = version != c->version;
                if (changed || now - c->lastList >= kStateEvery) {
                    rows = c->poller->runs();
                    status.bytes = c->poller->sizeBytes();
                    status.lastCommitMs = c->poller->lastCommitMs();
                    status.open = true;
                    c->version = version;
                    c->lastList = now;
                }
            }
        } catch (const std::exception& exception) {
            toGui([this, text = sentence(exception)] { reportProblem(text); });
        }
        lookAtFile(*c);
        toGui([this, rows = std::move(rows), status, changed]() mutable {
            polling_ = false;
            if (status.open) takeRuns(std::move(rows), status, changed);
        });
    });
}

void RunController::lookAtFile(Connections& c) {
    const auto now = std::chrono::steady_clock::now();
    if (!c.poller || now - c.lastFile < kListEvery) return;
    c.lastFile = now;
    const auto found = fileAt(c.path);
    const auto log = fileAt(c.path + "-wal");
    if (found == c.file) c.log = log;
    c.gone = found ? 0 : c.gone + 1;
    c.other = found && found != c.file ? c.other + 1 : 0;
    if (c.gone != 2 && c.other != 2) return;
    // SQLite would play the old file's log into the new one: it goes only when this program lets go of it.
    const bool oldLog = log && log == c.log;
    toGui([this, path = QString::fromStdString(c.path), gone = c.gone == 2, oldLog] {
        if (path != store_.path) return;
        if (gone)
            return reportProblem(
                tr("%1 was moved or deleted. What is shown is still read from it; a new run begins a new file.")
                    .arg(path));
        if (oldLog)
            return reportProblem(tr("%1 was replaced by another file while the log of the old one, %1-wal, was in use. "
                                    "Close this window and open it again before anything else reads it.")
                                     .arg(path));
        openStore(path);
        reportProblem(tr("%1 is another file than the one that was open: it was read anew.").arg(path));
    });
}

void RunController::takeRuns(std::vector<experiments::RunSummary> rows, const StoreStatus& status, bool dataChanged) {
    store_.bytes = status.bytes;
    store_.lastCommitMs = status.lastCommitMs;
    QVector<RunInfo> fresh;
    fresh.reserve(static_cast<qsizetype>(rows.size()));
    QStringList moved, advanced;
    bool setChanged = static_cast<qsizetype>(rows.size()) != runs_.size();
    for (const experiments::RunSummary& row : rows) {
        RunInfo info = makeRunInfo(row);
        info.ownedHere = ownJob(info.id) != nullptr;
        const RunInfo* old = find(info.id);
        if (old && info.ownedHere && old->step > info.step) {  // this process knows newer steps than the last commit
            info.step = old->step;
            info.loss = old->loss;
            info.hasLoss = old->hasLoss;
            info.tokensPerSecond = old->tokensPerSecond;
            if (!old->ended()) info.state = old->state;
        }
        setChanged |= !old;
        const bool different = !old || !sameRow(*old, info);
        if (old && different) moved << info.id;
        if (different || (dataChanged && info.going())) advanced << info.id;
        fresh.push_back(std::move(info));
    }
    runs_ = std::move(fresh);
    rowOf_.clear();
    for (int i = 0; i < runs_.size(); ++i) rowOf_.insert(runs_[i].id, i);
    if (setChanged) Q_EMIT runsChanged();
    for (const QString& id : moved) Q_EMIT runChanged(id);
    for (const QString& id : advanced) Q_EMIT storeAdvanced(id);
    Q_EMIT storeStatusChanged();
}

void RunController::drainJobs() {
    for (size_t i = 0; i < ownJobs_.size(); ++i) {
        Job& job = *ownJobs_[i];
        if (job.ended) continue;
        auto steps = std::make_shared<StepBatch>();
        for (experiments::JobMessage& message : job.job->drain()) handle(job, message, *steps);
        if (!steps->empty()) {
            Q_EMIT stepsArrived(job.id, steps);
            Q_EMIT runChanged(job.id);
        }
        if (job.ended) {
            // The last poll may have been before the job's last commit, and a poll after this finds the row as the
            // messages left it: what the end wrote is read now.
            Q_EMIT storeAdvanced(job.id);
            Q_EMIT runEnded(job.id);
        }
    }
    const auto gone = std::remove_if(ownJobs_.begin(), ownJobs_.end(), [this](const std::unique_ptr<Job>& job) {
        if (!job->ended) return false;
        writer_.post([held = std::move(job->job)]() mutable { held.reset(); });  // its join is not for this thread
        return true;
    });
    if (gone == ownJobs_.end()) return;
    ownJobs_.erase(gone, ownJobs_.end());
    noteEnd();
}

void RunController::noteEnd() {
    if (ownsGoingRuns()) return;
    stopping_ = false;
    Q_EMIT allEnded();
}

void RunController::handle(Job& job, experiments::JobMessage& message, StepBatch& steps) {
    using namespace experiments;
    RunInfo* info = find(job.id);
    const auto setPhase = [&](const QString& text) {
        job.phase = text;
        Q_EMIT phaseChanged(job.id);
    };
    std::visit(
        Overloaded{
            [&](JobPhase& phase) { setPhase(QString::fromStdString(phase.text)); },
            [&](JobStarted& started) {
                if (!info) return;
                info->state = RunState::Running;
                info->device = QString::fromStdString(started.device);
                info->deviceName = QString::fromStdString(started.deviceName);
                info->planBytes = started.planBytes;
                info->steps = started.steps;
                setPhase(tr("First step"));
                Q_EMIT runChanged(job.id);
            },
            [&](JobStep& step) {
                if (!job.stepped) setPhase(QString());
                job.stepped = true;
                if (info) {
                    info->step = step.metrics.step;
                    info->loss = step.metrics.loss;
                    info->hasLoss = true;
                    info->tokens = step.totalTokens;
                    info->tokensPerSecond = step.tokensPerSecond;
                }
                job.stepMs.push_back(step.stepMs);
                if (job.stepMs.size() > kStepTimes) job.stepMs.pop_front();
                steps.push_back(std::move(step));
            },
            [&](JobEval& eval) {
                if (info) {
                    info->valLoss = eval.loss;
                    info->hasValLoss = true;
                    info->valStep = eval.step;
                }
                Q_EMIT evaluationArrived(job.id, eval.step, eval.loss);
            },
            [&](JobCheckpoint& checkpoint) {
                if (!std::exchange(job.checkpointAsked, false)) return;
                Q_EMIT done(tr("Checkpoint of step %1 written, %2 in %3.")
                                .arg(formatCount(checkpoint.step), formatSize(static_cast<double>(checkpoint.bytes)),
                                     formatDuration(checkpoint.seconds)));
            },
            [&](JobEventRow& row) { Q_EMIT eventArrived(job.id, row.event); },
            [&](JobState& state) {
                if (info) info->state = state.status;
                Q_EMIT runChanged(job.id);
            },
            [&](JobPrecision&) { Q_EMIT storeAdvanced(job.id); },
            [&](JobSpec&) { Q_EMIT storeAdvanced(job.id); },
            [&](JobCapture&) { Q_EMIT storeAdvanced(job.id); },
            [&](JobStorage& storage) {
                Q_EMIT storageTrouble(storage.trouble ? QString::fromStdString(storage.text) : QString());
            },
            [&](JobEnded& ended) {
                job.ended = true;
                job.phase.clear();
                if (info) {
                    info->state = ended.status;
                    info->message = QString::fromStdString(ended.reason);
                    info->step = ended.step;
                    info->peakBytes = ended.peakBytes;
                    info->seconds = ended.seconds;
                    info->ownedHere = false;
                }
                Q_EMIT runChanged(job.id);
                if (!ended.notStored.empty()) Q_EMIT endNotStored(job.id, QString::fromStdString(ended.notStored));
            },
        },
        message);
}

RunInfo* RunController::find(const QString& id) {
    const auto it = rowOf_.constFind(id);
    return it == rowOf_.constEnd() ? nullptr : &runs_[*it];
}

const RunInfo* RunController::run(const QString& id) const {
    return const_cast<RunController*>(this)->find(id);
}

QString RunController::baseline() const {
    for (const RunInfo& info : runs_)
        if (info.baseline) return info.id;
    return QString();
}

experiments::TrainingJob* RunController::ownJob(const QString& id) const {
    for (const auto& job : ownJobs_)
        if (job->id == id) return job->job.get();
    return nullptr;
}

QString RunController::currentRun() const {
    QString waiting;
    for (auto it = ownJobs_.rbegin(); it != ownJobs_.rend(); ++it) {
        const RunInfo* info = run((*it)->id);
        if (info && info->going()) return info->id;
        if (info && !(*it)->ended) waiting = info->id;
    }
    if (!waiting.isEmpty()) return waiting;
    for (auto it = runs_.crbegin(); it != runs_.crend(); ++it)
        if (it->going()) return it->id;
    return QString();
}

int RunController::goingCount() const {
    return static_cast<int>(
        std::count_if(runs_.begin(), runs_.end(), [](const RunInfo& info) { return info.going(); }));
}

int RunController::ownWaitingCount() const {
    return static_cast<int>(std::count_if(ownJobs_.begin(), ownJobs_.end(), [this](const auto& job) {
        const RunInfo* info = run(job->id);
        return info && !info->going() && !job->ended;
    }));
}

QString RunController::phaseText(const QString& id) const {
    for (const auto& job : ownJobs_)
        if (job->id == id) return job->phase;
    return QString();
}

bool RunController::ownsGoingRuns() const {
    return !ownJobs_.empty() || starting_ > 0;
}

double RunController::secondsLeft(const QString& id) const {
    const RunInfo* info = run(id);
    if (!info || !info->going() || info->step <= 0) return -1;
    const auto left = static_cast<double>(info->steps - info->step);
    for (const auto& job : ownJobs_) {
        if (job->id != id || job->stepMs.empty()) continue;
        std::vector<double> times(job->stepMs.begin(), job->stepMs.end());
        std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(times.size() / 2), times.end());
        return left * times[times.size() / 2] / 1000;
    }
    if (!(info->tokensPerSecond > 0) || info->tokens <= 0) return -1;
    return left * static_cast<double>(info->tokens) / static_cast<double>(info->step) / info->tokensPerSecond;
}

}  // namespace mantissa::gui
