// RunController: starting runs, and what is asked of them and of the store.
#include <nlohmann/json.hpp>

#include "gui/controller/run_controller_parts.h"

namespace mantissa::gui {

void RunController::start(const experiments::RunSpec& spec, experiments::JobOptions options) {
    options.store = store_.path.toStdString();
    ++starting_;
    writer_.post([this, c = connections_, spec, options = std::move(options)]() mutable {
        QString error = c->writerProblem;
        if (c->writer && c->writer->readOnly()) error = QString::fromStdString(c->writer->readOnlyReason());
        if (error.isEmpty()) {
            try {
                auto job = c->queue.start(spec, std::move(options));
                const auto row = c->writer->run(job->runId());
                toGui([this, job, row] { adopt(job, row); });
                return;
            } catch (const std::exception& exception) {
                error = sentence(exception);
            }
        }
        toGui([this, error] {
            --starting_;
            reportProblem(tr("Not started: %1").arg(error));
            if (stopping_) noteEnd();
        });
    });
}

void RunController::adopt(std::shared_ptr<experiments::TrainingJob> job,
                          const std::optional<experiments::RunSummary>& row) {
    auto own = std::make_unique<Job>();
    own->id = QString::fromStdString(job->runId());
    own->job = std::move(job);
    const QString id = own->id;
    --starting_;
    if (stopping_) own->job->stop();
    ownJobs_.push_back(std::move(own));
    if (RunInfo* known = find(id)) {
        known->ownedHere = true;
        if (row) known->state = row->status;
    } else if (row) {
        RunInfo info = makeRunInfo(*row);
        info.ownedHere = true;
        rowOf_.insert(id, static_cast<int>(runs_.size()));
        runs_.push_back(info);
    }
    Q_EMIT runsChanged();
    Q_EMIT runStarted(id);
    drainJobs();
}

void RunController::resumeRun(const QString& id) {
    load(
        this, 1,
        [id](experiments::RunStore& store) {
            return experiments::parseSpec(store.document(id.toStdString()).specJson);
        },
        [this, id](experiments::ParsedSpec parsed) {
            if (!parsed.ok()) return reportProblem(QString::fromStdString(parsed.errors.front().message));
            experiments::JobOptions options;
            options.resumeRun = id.toStdString();
            start(parsed.spec, std::move(options));
        });
}

void RunController::command(const QString& id, const char* name, void (experiments::TrainingJob::*call)()) {
    if (experiments::TrainingJob* job = ownJob(id)) return (job->*call)();
    writeLater([id = id.toStdString(), name](experiments::RunStore& store) { store.sendCommand(id, name); });
}

void RunController::pause(const QString& id) {
    command(id, "pause", &experiments::TrainingJob::pause);
}

void RunController::resume(const QString& id) {
    command(id, "resume", &experiments::TrainingJob::resume);
}

void RunController::stop(const QString& id) {
    command(id, "stop", &experiments::TrainingJob::stop);
}

void RunController::stopNow(const QString& id) {
    command(id, "stop_now", &experiments::TrainingJob::stopNow);
}

void RunController::checkpoint(const QString& id) {
    for (const auto& job : ownJobs_)
        if (job->id == id) job->checkpointAsked = true;
    command(id, "checkpoint", &experiments::TrainingJob::checkpoint);
}

void RunController::change(const QString& id, const std::vector<experiments::SpecDifference>& fields) {
    std::vector<experiments::SpecSet> sets;
    for (const auto& field : fields) sets.push_back({field.path, field.right});
    if (experiments::TrainingJob* job = ownJob(id)) return job->set(std::move(sets));
    writeLater([id = id.toStdString(), sets](experiments::RunStore& store) {
        nlohmann::json argument = nlohmann::json::object();
        for (const auto& set : sets) {
            const auto value = nlohmann::json::parse(set.value, nullptr, false);
            argument[set.path] = value.is_discarded() ? nlohmann::json(set.value) : value;
        }
        store.sendCommand(id, "set", argument.dump());
    });
}

void RunController::capture(const QString& id, const QString& tensor) {
    if (experiments::TrainingJob* job = ownJob(id)) return job->capture(tensor.toStdString());
    writeLater([id = id.toStdString(), tensor](experiments::RunStore& store) {
        store.sendCommand(id, "capture", nlohmann::json(tensor.toStdString()).dump());
    });
}

void RunController::rename(const QString& id, const QString& name) {
    writeLater([id = id.toStdString(), name = name.toStdString()](auto& store) { store.rename(id, name); });
}

void RunController::setNote(const QString& id, const QString& note) {
    writeLater([id = id.toStdString(), note = note.toStdString()](auto& store) { store.setNote(id, note); });
}

void RunController::setTags(const QString& id, const QStringList& tags) {
    std::vector<std::string> list;
    for (const QString& tag : tags) list.push_back(tag.toStdString());
    writeLater([id = id.toStdString(), list](auto& store) { store.setTags(id, list); });
}

void RunController::setBaseline(const QString& id) {
    writeLater([id = id.toStdString()](auto& store) { store.setBaseline(id); });
}

void RunController::deleteRun(const QString& id) {
    const RunInfo* info = run(id);
    const QString name = info ? info->name : id;
    writeLater([id = id.toStdString()](auto& store) { store.deleteRun(id); }, tr("%1 deleted.").arg(name));
}

void RunController::stopAll(bool now) {
    stopping_ = true;
    for (const auto& job : ownJobs_) now ? job->job->stopNow() : job->job->stop();
}

}  // namespace mantissa::gui
